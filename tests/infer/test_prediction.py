"""The scatter of predicted data belongs to an experiment and an output, whichever others there are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import Experiment, Free, Individual, Posterior, Problem, StoreError, UnknownNameError, predict
from simkit.infer import _prediction
from simkit.noise import Normal, Poisson
from simkit.odes import from_function, from_response

SYSTEM = from_function(lambda t, y, p: {"a": -p["k"] * y["a"], "b": p["k"] * y["a"]}, {"k": 0.5})
NOISE = {"a": Normal(0.1), "b": Poisson()}
DRAWS = np.array([[0.4], [0.5], [0.6]])


def problem(names, outputs=("a", "b"), count=3):
    times = np.arange(1.0, count + 1)
    data = {output: np.ones(count) for output in outputs}
    experiments = [Experiment(name, times, data, start=0.0) for name in names]
    noise = {output: NOISE[output] for output in outputs}
    return Problem(SYSTEM, experiments, y0={"a": 9.0, "b": 0.5}, free={"k": Free()}, noise=noise, step=0.1)


def scatter(names, outputs=("a", "b"), count=3):
    found = predict(problem(names, outputs, count), DRAWS, key=jax.random.key(5))
    return {output: dict(zip(names, np.moveaxis(found.samples[output], 1, 0), strict=True)) for output in outputs}


@pytest.mark.slow
def test_the_scatter_of_an_experiment_follows_its_name_and_that_of_the_output():
    both = scatter(("first", "second"))
    other = scatter(("third", "second", "first"))
    alone = scatter(("second",), ("a",), count=2)
    for output in ("a", "b"):
        for name in ("first", "second"):
            np.testing.assert_array_equal(both[output][name], other[output][name])
        assert not np.array_equal(both[output]["first"], both[output]["second"])
    # Fewer times and fewer outputs; the curves are those of another program, which rounds elsewhere.
    np.testing.assert_allclose(alone["a"]["second"], both["a"]["second"][:, :2], rtol=1e-12)
    assert len(np.unique(both["a"]["first"].round(9))) == 9  # every draw and every time has its own


def test_the_same_key_gives_the_same_scatter_and_another_key_another():
    asked = problem(("first", "second"))
    times = jnp.array([0.5, 4.0])
    once, again, other = (predict(asked, DRAWS, times, key=jax.random.key(key)).samples["a"] for key in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)


def test_individuals_that_the_posterior_does_not_know_are_drawn_from_the_population():
    line = from_response(lambda t, p: {"left": 10.0 * jnp.exp(-p["rate"] * t)}, {"rate": 1.0})

    def of(labels):
        experiments = [Experiment(name, [1.0, 2.0], {"left": [5.0, 3.0]}) for name in labels]
        free = {"rate": Individual(Free(bounds=(0.1, 2.0)), transform="log")}
        return Problem(line, experiments, free=free, noise={"left": Normal(0.1)})

    known, count = of(["a", "b"]), 2000
    theta = np.broadcast_to([0.5, 0.3, 1.0, -1.0], (2, count // 2, 4))  # median, spread, deviations of a and b
    none = np.zeros((2, count // 2))
    posterior = Posterior(
        *map(jnp.asarray, (theta, none, none.astype(bool), none.astype(int), none)),
        names=known.names,
        units=("1",) * 4,
        method="given",
    )
    found = np.asarray(predict(of(["new", "b"]), posterior, count=count).curves["left"])[:, :, 0]
    np.testing.assert_allclose(found[:, 1], 10 * np.exp(-0.5 * np.exp(-0.3)), rtol=1e-12)
    deviations = np.log(-np.log(found[:, 0] / 10) / 0.5) / 0.3
    # Mean and standard deviation of 2,000 standard normal numbers, to four standard errors.
    assert abs(deviations.mean()) < 4 / count**0.5
    assert abs(deviations.std() - 1) < 4 / (2 * count) ** 0.5
    other = of(["c", "d"])
    with pytest.raises(UnknownNameError, match="no parameter of these draws `rate`"):
        predict(other, dataclasses.replace(posterior, names=("speed", *known.names[1:])))


def test_it_goes_on_from_a_store_and_ends_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(_prediction, "BLOCK", 4)
    asked, draws = problem(("first",)), np.linspace(0.3, 0.7, 10)[:, None]
    key = jax.random.key(5)
    plain = predict(asked, draws, key=key)
    whole = predict(asked, draws, key=key, store=tmp_path / "whole")
    np.testing.assert_allclose(whole.curves["a"], plain.curves["a"], rtol=1e-12)
    np.testing.assert_array_equal(whole.samples["b"], plain.samples["b"])
    short = predict(asked, draws, key=key, store=tmp_path / "cut", within=1e-9)
    np.testing.assert_array_equal(short.curves["a"], whole.curves["a"][::3])  # spread over all draws
    again = predict(asked, draws, key=key, store=tmp_path / "cut")
    for found, expected in zip(jax.tree.leaves(again), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(StoreError, match="draws"):
        predict(asked, draws[::2], key=key, store=tmp_path / "cut")
