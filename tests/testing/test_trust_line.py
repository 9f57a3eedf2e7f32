"""The line beside a gradient: short and long runs of Lorenz's system, and a wrong gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit

SYSTEM, Y0, _, _ = simkit.odes.Lorenz63.example()


def line(span):
    times = np.linspace(0.0, span, 21)
    loss = lambda system: simkit.simulate(system, Y0, times, step=0.02, solver="rk4", on_failure="mark").final().z
    growth = simkit.testing.perturbation_growth(SYSTEM, Y0, times, step=0.02, solver=simkit.solvers.RK4())
    return simkit.testing.trust_line(loss, SYSTEM, growth=growth)


def test_short_and_long_runs_of_a_chaotic_system():
    short, long = line(2.0), line(60.0)
    assert short.trusted
    assert short.agreement < 1e-5
    assert "gradient trusted: norm" in repr(short)
    assert not long.trusted
    assert "NOT trusted" in repr(long)
    assert "\n" not in repr(long)
    # Displacements grow by exp(0.9 * 58) more, to which 58 units of time bring their scatter.
    assert long.norm > 1e15 * short.norm


def test_a_wrong_gradient_and_one_that_is_missing():
    wrong = jax.custom_vjp(lambda x: jnp.sum(x**2))
    wrong.defvjp(lambda x: (jnp.sum(x**2), x), lambda x, g: (g * x,))  # half of what it is
    found = simkit.testing.trust_line(wrong, jnp.array([1.0, 2.0]))
    assert not found.agrees
    assert abs(found.agreement - 1.0) < 1e-6
    assert "differ" in repr(found)
    found = simkit.testing.trust_line(lambda x: jnp.sqrt(x[0] - x[0]), jnp.array([1.0]))
    assert not found.trusted
    assert np.isnan(found.agreement)
    right = simkit.testing.trust_line(lambda x: jnp.sum(x["a"] ** 2), {"a": jnp.array([3.0, 4.0])})
    assert right.trusted
    assert abs(right.norm - 10.0) < 1e-12
    np.testing.assert_allclose(right.gradient["a"], [6.0, 8.0])


def test_trust_line_refuses():
    with pytest.raises(simkit.ArgumentError, match="one number"):
        simkit.testing.trust_line(lambda x: x, jnp.ones(2))
    with pytest.raises(simkit.ArgumentError, match="holds none"):
        simkit.testing.trust_line(lambda x: 1.0, {})
    with pytest.raises(simkit.ArgumentError, match="perturbation_growth"):
        simkit.testing.trust_line(lambda x: jnp.sum(x), jnp.ones(2), growth=0.9)
    for directions in (0, -1, True):
        with pytest.raises(simkit.ArgumentError, match="`directions` must be a whole number of at least 1"):
            simkit.testing.trust_line(lambda x: jnp.sum(x), jnp.ones(2), directions=directions)
    for wrong, message in ((lambda x: 3, "int"), (lambda x: None, "None"), (lambda x: jnp.sum(x > 0), "int")):
        with pytest.raises(simkit.ArgumentError, match=rf"`loss` must return .*{message}"):
            simkit.testing.trust_line(wrong, jnp.ones(2))
    with pytest.raises(simkit.ArgumentError, match=r"`arguments` must hold float32 or float64.*bfloat16"):
        simkit.testing.trust_line(lambda x: jnp.sum(x), jnp.ones(2, jnp.bfloat16))
    with pytest.raises(simkit.ArgumentError, match=r"`loss` must return a float32.*bfloat16"):
        simkit.testing.trust_line(lambda x: jnp.sum(x).astype(jnp.bfloat16), jnp.ones(2))
    for wrap in (jax.jit, jax.vmap):
        with pytest.raises(simkit.ArgumentError, match="inside `jit`"):
            wrap(lambda x: simkit.testing.trust_line(lambda x: jnp.sum(x), x).gradient)(jnp.ones(2))
