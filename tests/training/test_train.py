"""Training: gradient steps, batches, what is held out, and going on after an interrupt."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simkit

KEY = jax.random.key(5)
X = jax.random.normal(jax.random.key(0), (60, 3))
WEIGHTS = jnp.array([1.0, -2.0, 0.5])
DATA = (X, X @ WEIGHTS)


class Linear(eqx.Module):
    weights: jax.Array
    offset: jax.Array
    name: str = "linear"


START = Linear(jnp.zeros(3), jnp.zeros(()))


def misfit(model, rows):
    return jnp.mean((rows[0] @ model.weights + model.offset - rows[1]) ** 2)


def same(a, b):
    for x, y in zip(
        jax.tree.leaves(eqx.filter(a, eqx.is_array)), jax.tree.leaves(eqx.filter(b, eqx.is_array)), strict=True
    ):
        np.testing.assert_array_equal(x, y)


def test_gradient_descent_by_hand():
    """All rows and plain gradient descent: the iterates of the normal equations."""
    found = simkit.train(START, misfit, DATA, optimiser=optax.sgd(0.1), steps=25, every=10)
    design = np.column_stack([DATA[0], np.ones(60)])
    theta, losses = np.zeros(4), []
    for _ in range(25):
        left = design @ theta - np.asarray(DATA[1])
        losses.append(np.mean(left**2))
        theta -= 0.1 * 2 * design.T @ left / 60
    np.testing.assert_allclose(found.losses, losses, rtol=1e-9)
    np.testing.assert_allclose(np.append(found.model.weights, found.model.offset), theta, rtol=1e-9, atol=1e-12)
    assert found.model.name == "linear"
    assert found.best == 25
    assert found.stopped == ""


def test_each_row_has_its_turn():
    """With the loss linear in the model, an epoch of SGD adds the sum over all rows, whatever their order."""
    tilt = lambda w, rows: jnp.mean(rows * w)
    rows = jnp.arange(12.0)
    found = simkit.train(jnp.zeros(()), tilt, rows, optimiser=optax.sgd(1.0), steps=9, batch=4, key=KEY)
    np.testing.assert_allclose(found.model, -3 * rows.sum() / 4, rtol=1e-12)
    batches = [
        simkit.train(jnp.zeros(()), tilt, rows, optimiser=optax.sgd(1.0), steps=n, batch=4, key=KEY).model
        for n in (1, 4)
    ]
    assert len({float(x) for x in batches}) == 2
    assert not np.allclose(np.diff([0.0, float(batches[0])]), -rows.sum() / 12)


def test_held_out_rows_choose_the_model():
    """Twelve noisy rows and a polynomial of degree 9: the model is the one of the best look, and patience ends the run."""
    x = jnp.linspace(-1, 1, 24)
    y = jnp.sin(3 * x) + 0.4 * jax.random.normal(jax.random.key(2), (24,))
    powers = jnp.vander(x, 10, increasing=True)
    fit = lambda w, rows: jnp.mean((rows[0] @ w - rows[1]) ** 2)
    asked = {"optimiser": optax.adam(0.05), "steps": 3000, "every": 50, "key": KEY, "held_out": 0.4}
    found = simkit.train(jnp.zeros(10), fit, (powers, y), **asked)
    assert len(found.held_out) == 61
    assert found.best == found.looked[np.argmin(found.held_out)] < 3000
    order = jax.random.permutation(jax.random.fold_in(KEY, 2), 24)[: round(24 * 0.4)]
    np.testing.assert_allclose(fit(found.model, (powers[order], y[order])), found.held_out.min(), rtol=1e-9)
    short = simkit.train(jnp.zeros(10), fit, (powers, y), patience=5, **asked)
    assert "last 5 looks" in short.stopped
    assert len(short.losses) < 3000
    same(short.model, simkit.train(jnp.zeros(10), fit, (powers, y), **(asked | {"steps": len(short.losses)})).model)
    other = simkit.train(jnp.zeros(10), fit, (powers, y), **(asked | {"held_out": (powers, y), "steps": 100}))
    np.testing.assert_allclose(other.held_out[0], jnp.mean(y**2), rtol=1e-9)
    assert "held out" in repr(other)


def test_complex_parameters_descend():
    """|w - 2j|^2 by gradient descent: the distance shrinks by 1 - 2 rate in each step."""
    away = lambda w: jnp.abs(w["a"] - 2j) ** 2 + (w["b"] - 1.0) ** 2
    start = {"a": jnp.asarray(1.0 + 0j), "b": jnp.asarray(0.0)}
    found = simkit.train(start, away, optimiser=optax.sgd(0.1), steps=20).model
    np.testing.assert_allclose(found["a"], 2j + 0.8**20 * (1 - 2j), rtol=1e-9)
    np.testing.assert_allclose(found["b"], 1 - 0.8**20, rtol=1e-9)


def test_parts_that_learn():
    found = simkit.train(START, misfit, DATA, steps=20, parts=lambda model: model.weights)
    assert float(found.model.offset) == 0.0
    assert float(jnp.abs(found.model.weights).min()) > 0
    with pytest.raises(simkit.ArgumentError, match="must have float arrays that learn"):
        simkit.train({"n": jnp.arange(3)}, lambda model: 0.0, steps=3)


def test_a_system_learns_through_its_simulation():
    """The rate in dy/dt = -k y by the exact solution, with a schedule, in float32."""
    system, y0, times, _ = simkit.odes.ExponentialDecay.example()
    target = jax.tree.map(lambda y: y * jnp.exp(-0.7 * jnp.asarray(times)), y0)
    loss = lambda system: sum(
        jnp.mean((a - b) ** 2)
        for a, b in zip(jax.tree.leaves(simkit.simulate(system, y0, times).ys), jax.tree.leaves(target), strict=True)
    )
    found = simkit.train(system, loss, optimiser=optax.adam(optax.cosine_decay_schedule(0.05, 200)), steps=200)
    np.testing.assert_allclose(found.model.rate, 0.7, rtol=1e-3)


def test_losses_that_draw():
    noisy = lambda w, rows, key: jnp.mean((w - rows + jax.random.normal(key)) ** 2)
    rows = jnp.zeros(8)
    found = simkit.train(jnp.zeros(()), noisy, rows, optimiser=optax.sgd(0.0), steps=400, key=KEY)
    assert len(set(found.losses.tolist())) == 400
    assert abs(found.losses.mean() - 1.0) < 4 * np.sqrt(2 / 400)


class Stop(Exception):
    pass


def test_an_interrupted_training_goes_on(tmp_path):
    def stop(line):
        if line.startswith("40 of"):
            raise Stop

    asked = {"steps": 70, "every": 20, "batch": 8, "key": KEY, "held_out": 0.2}
    whole = simkit.train(START, misfit, DATA, **asked)
    with pytest.raises(Stop):
        simkit.train(START, misfit, DATA, store=tmp_path / "run", progress=stop, **asked)
    again = simkit.train(START, misfit, DATA, store=tmp_path / "run", **asked)
    same((whole.model, whole.final), (again.model, again.final))
    np.testing.assert_array_equal(whole.losses, again.losses)
    np.testing.assert_array_equal(whole.held_out, again.held_out)
    longer = simkit.train(START, misfit, DATA, store=tmp_path / "run", **(asked | {"steps": 100}))
    same(longer.model, simkit.train(START, misfit, DATA, **(asked | {"steps": 100})).model)
    with pytest.raises(simkit.StoreError, match="batch"):
        simkit.train(START, misfit, DATA, store=tmp_path / "run", **(asked | {"batch": 4}))


def test_a_loss_that_is_no_number_any_more():
    with pytest.raises(simkit.SimulationError, match="stopped being finite at step"):
        simkit.train(START, misfit, DATA, optimiser=optax.sgd(1e3), steps=400)


def test_a_gradient_that_is_no_number():
    """sqrt at 0 has a finite value and no finite slope; the last step tells it, too, and an optimiser may leave it out."""
    rough = lambda w: w["a"] ** 2 + 0.0 * jnp.sqrt(w["b"])
    start = {"a": jnp.asarray(1.0), "b": jnp.asarray(0.0)}
    with pytest.raises(simkit.SimulationError, match=r"gradient stopped being finite at step 0 \(the loss is finite\)"):
        simkit.train(start, rough, steps=1)
    found = simkit.train(start, rough, steps=3, optimiser=optax.chain(optax.zero_nans(), optax.sgd(0.5)))
    np.testing.assert_allclose(found.losses, [1.0, 0.0, 0.0], atol=1e-30)


def test_optimisers_that_look_at_the_loss():
    found = simkit.train(START, misfit, DATA, optimiser=optax.lbfgs(), steps=20)
    np.testing.assert_allclose(found.model.weights, WEIGHTS, atol=1e-6)
    flat = optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau(patience=1, factor=0.5))
    assert simkit.train(START, misfit, DATA, optimiser=flat, steps=5).losses[-1] < 1.0


def test_transformed():
    weight = lambda key: simkit.train(START, misfit, DATA, batch=6, steps=2, key=key).model.weights
    for wrong in (
        lambda: jax.vmap(weight)(jax.random.split(KEY, 2)),
        lambda: jax.grad(lambda x: simkit.train(jnp.ones(()), lambda w: (w - x) ** 2, steps=2).model)(1.0),
    ):
        with pytest.raises(simkit.ArgumentError, match="inside of a transformation such as `jit`"):
            wrong()


def test_refused():
    with pytest.raises(simkit.ArgumentError, match="`held_out` must be a share"):
        simkit.train(START, misfit, DATA, held_out=float("nan"), key=KEY)
    for wrong in (np.array(["a"] * 60), np.array([None] * 60)):
        with pytest.raises(simkit.ArgumentError, match="`data` must hold arrays of numbers"):
            simkit.train(START, misfit, (X, wrong))
    with pytest.raises(simkit.ArgumentError, match="must return one real number, but it returns None"):
        simkit.train(START, lambda model, rows: None, DATA)
    with pytest.raises(simkit.ArgumentError, match="`batch` must be at most"):
        simkit.train(START, misfit, DATA, batch=61, key=KEY)
    with pytest.raises(simkit.ArgumentError, match="`key` must be a random key"):
        simkit.train(START, misfit, DATA, batch=6)
    with pytest.raises(simkit.ArgumentError, match="one leading axis"):
        simkit.train(START, misfit, (X, X[:5]))
    with pytest.raises(simkit.ArgumentError, match="`held_out` must be a share"):
        simkit.train(START, misfit, DATA, held_out=1.5, key=KEY)
    with pytest.raises(simkit.ArgumentError, match="must return one real number"):
        simkit.train(START, lambda model, rows: rows[1], DATA)
    with pytest.raises(simkit.ArgumentError, match="`parts` must return parts"):
        simkit.train(START, misfit, DATA, parts=lambda model: jnp.zeros(3))
    with pytest.raises(simkit.ArgumentError, match="inside of a transformation such as `jit`"):
        jax.jit(lambda x: simkit.train(x, lambda x: x**2, steps=3).losses[0])(jnp.ones(()))
