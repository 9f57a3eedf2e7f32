"""check_gradients finds what it is for."""

import jax
import jax.numpy as jnp
import pytest

import simkit
from simkit import odes
from simkit.study import REGISTRIES
from simkit.testing import check_gradients


def test_smooth_functions_of_pytrees_pass():
    report = check_gradients(lambda p, x: {"a": p["k"] * jnp.sin(x), "b": x**3}, ({"k": 2.0}, jnp.array([0.3, -1.5])))
    assert report.mode_error < 1e-12
    assert report.difference_error < 1e-8
    assert "reverse and forward mode" in str(report)


def test_a_wrong_reverse_rule_is_found():
    @jax.custom_vjp
    def f(x):
        return x**2

    f.defvjp(lambda x: (x**2, x), lambda x, g: (2.001 * x * g,))
    with pytest.raises(AssertionError, match=r"in reverse mode, but .* by finite differences"):
        check_gradients(f, (jnp.array(3.0),), modes=("reverse",))


def test_a_wrong_forward_rule_is_found():
    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda primals, tangents: (jnp.sin(*primals), 0.99 * jnp.cos(*primals) * tangents[0]))
    with pytest.raises(AssertionError, match="by finite differences"):
        check_gradients(f, (jnp.array(3.0),))


def test_a_nan_slope_is_found():
    trap = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0).sum()
    with pytest.raises(AssertionError, match="reverse mode along random direction 0 is not finite"):
        check_gradients(trap, (jnp.array([-1.0, 1.0]),))


def test_a_simulation_cannot_hide_a_nan_slope():
    """The other branch is never taken, and its slope is infinite."""

    def final(k):
        field = lambda t, y, p: -p["k"] * jnp.where(y > 0.5, y, jnp.sqrt(0 * y))
        system = odes.from_function(field, {"k": k})
        return simkit.simulate(system, 1.0, [0.0, 0.3], solver=simkit.solvers.Tsit5(), on_failure="mark").final()

    with pytest.raises(AssertionError, match="reverse mode along random direction 0 is not finite"):
        check_gradients(final, (1.0,))


def test_a_value_that_is_not_finite_is_said():
    with pytest.raises(AssertionError, match="nan at the point itself"):
        check_gradients(jnp.sqrt, (jnp.array(-1.0),))


def test_arguments_are_checked():
    with pytest.raises(simkit.ArgumentError, match="`modes`"):
        check_gradients(jnp.sin, (1.0,), modes=())
    with pytest.raises(simkit.ArgumentError, match="holds none"):
        check_gradients(lambda n: n, (3,))


def test_float32_has_its_own_tolerance():
    report = check_gradients(lambda x: jnp.exp(-x) * x, (jnp.float32(1.5),))
    assert report.difference_error < 1e-2


@pytest.mark.parametrize("name", ["robertson", "hires", "pollu", "oregonator"])
def test_vector_fields_of_stiff_models(name):
    """The short run of check_system leaves slow reactions of a stiff model little time to act; here all of them do."""
    system, y0, times, _ = REGISTRIES["systems"][name].example()
    leaves, treedef = jax.tree.flatten(y0)
    grown = jax.tree.unflatten(treedef, [leaf + 0.1 * (1 + i) for i, leaf in enumerate(leaves)])
    even = jax.tree.map(lambda leaf: leaf / jnp.mean(leaf), system)  # rates of one size, so that each one counts
    check_gradients(lambda system, y: system.vector_field(times[0], y, None), (even, grown), directions=6)
