"""Shadowing: a limit cycle in closed form, Lorenz's published slope, and the check of the modes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit

CYCLE = simkit.from_equations(
    {"d x": "mu*x - (1 + mu)*y - x*(x^2 + y^2)", "d y": "(1 + mu)*x + mu*y - y*(x^2 + y^2)"}, parameters={"mu": 1.0}
)


def test_slope_of_a_limit_cycle_is_that_of_its_closed_form():
    span = 20.0
    found = simkit.shadow(
        CYCLE, {"x": 1.0, "y": 0.0}, np.linspace(0.0, span, 401), lambda system, y: y["x"] ** 2 + y["y"] ** 2,
        by=["mu"], runs=2, segments=10, step=0.01, solver="rk4",
    )  # fmt: skip
    # On the cycle r^2 = mu. Displacements across it are dr/dmu + a exp(-2 mu t), and the least of them has a = -2 dr/dmu: the
    # end effect of a finite run is -1 / (mu T). Trapezoids of length 0.05 add (2 * 0.05)^2 / 12 of that.
    assert found.complete
    assert found.enough
    assert found.unstable == 0
    np.testing.assert_allclose(found.value, [1 - 1 / span], atol=2e-3 / span)
    np.testing.assert_allclose(found.average, 1.0, rtol=1e-8)
    np.testing.assert_allclose(found.exponents, [-2.0], rtol=1e-6)


def test_slope_of_lorenz_s_climate():
    system, y0, _, _ = simkit.odes.Lorenz63.example()
    times = np.linspace(0.0, 20.0, 801)
    one = simkit.shadow(
        system, y0, times, lambda system, y: y.z, by=["rayleigh"], modes=1, runs=8, step=0.0125, solver="rk4"
    )
    # Published: 1.01 (Wang, Hu and Blonigan 2014) with a scatter of some 0.04 between runs of length 20; exponent 0.906.
    assert 0.97 < one.value[0] < 1.06
    assert one.error[0] < 0.02
    assert abs(one.exponents[0] - 0.906) < 4 * one.exponent_errors[0] + 0.01
    assert not one.enough
    assert "modes=2" in repr(one)


def test_the_check_of_the_modes_takes_as_many_as_grow():
    system, y0, _, _ = simkit.odes.Lorenz96.example()
    found = simkit.shadow(
        system, y0, np.linspace(0.0, 5.0, 101), lambda system, y: jnp.mean(y.x),
        by=["forcing"], runs=2, segments=5, step=0.05, solver="rk4",
    )  # fmt: skip
    assert found.modes > found.unstable > 2


def test_shadow_refuses():
    average = lambda system, y: y["x"]
    y0, times = {"x": 1.0, "y": 0.0}, np.linspace(0.0, 1.0, 21)
    with pytest.raises(simkit.ArgumentError, match="divide"):
        simkit.shadow(CYCLE, y0, times, average, by=["mu"], segments=3)
    with pytest.raises(simkit.ArgumentError, match="equal steps"):
        simkit.shadow(CYCLE, y0, times**2, average, by=["mu"])
    with pytest.raises(simkit.ArgumentError, match="each path once"):
        simkit.shadow(CYCLE, y0, times, average, by=["mu", "mu"])
    with pytest.raises(simkit.ArgumentError, match="`modes` must be a whole number"):
        simkit.shadow(CYCLE, y0, times, average, by=["mu"], modes=0)
    for wrong in (lambda system, y: 3, lambda system, y: jnp.stack([y["x"], y["y"]]), lambda system, y: y["x"][None]):
        with pytest.raises(simkit.ArgumentError, match="`quantity` must return one float"):
            simkit.shadow(CYCLE, y0, times, wrong, by=["mu"])
    with pytest.raises(simkit.ArgumentError, match="inside `jit`"):
        jax.jit(lambda x: simkit.shadow(CYCLE, {"x": x, "y": 0.0}, times, average, by=["mu"]).value)(1.0)
    single = simkit.from_equations({"d x": "-mu * x"}, parameters={"mu": 1.0})
    with pytest.raises(simkit.ArgumentError, match="at least two numbers"):
        simkit.shadow(single, {"x": 1.0}, times, average, by=["mu"])
    with pytest.raises(simkit.ArgumentError, match="from 1 to 1"):
        simkit.shadow(CYCLE, y0, times, average, by=["mu"], modes=2)
    with pytest.raises(simkit.ArgumentError, match="at least 2"):
        simkit.shadow(CYCLE, y0, times, average, by=["mu"], runs=1)
    with pytest.raises(simkit.ArgumentError, match="list paths"):
        simkit.shadow(CYCLE, y0, times, average, by="mu")
    with pytest.raises(simkit.UnknownNameError, match="mu"):
        simkit.shadow(CYCLE, y0, times, average, by=["my"])
    with pytest.raises(simkit.ArgumentError, match="settle"):
        simkit.shadow(CYCLE, y0, times, average, by=["mu"], settle=-1.0)


def test_shadow_refuses_systems_whose_slope_is_not_that_of_the_state():
    noisy, start, _, _ = simkit.odes.OrnsteinUhlenbeck.example()
    times = np.linspace(0.0, 1.0, 21)
    with pytest.raises(simkit.ArgumentError, match=r"has noise.*same `key`"):
        simkit.shadow(noisy, start, times, lambda system, y: y.x, by=["mean"], key=jax.random.key(0))
    body = simkit.fluids.MovingBody.example()
    with pytest.raises(simkit.ArgumentError, match="steps of a length of its own"):
        simkit.shadow(body.system, body.y0, times, lambda system, y: y.velocity[1], by=["density"])
    forced = simkit.from_function(lambda t, y, p: {"x": p["g"] * jnp.cos(t) - y["x"], "v": -y["v"]}, {"g": 2.0})
    with pytest.raises(simkit.ArgumentError, match="does not depend on time"):
        simkit.shadow(forced, {"x": 1.0, "v": 0.0}, times, lambda system, y: y["x"] ** 2, by=["g"], step=0.05)


@pytest.mark.parametrize("span", [1.0, 40.0])  # on the way to the stable point, and at it but for rounding
def test_shadow_refuses_a_run_that_comes_to_rest(span):
    settling = simkit.from_equations({"d x": "a - x", "d v": "-2 * v"}, parameters={"a": 1.3})
    with pytest.raises(simkit.SimulationError, match="comes to rest"):
        simkit.shadow(
            settling, {"x": 1.0, "v": 0.3}, np.linspace(0.0, span, 41), lambda system, y: y["x"],
            by=["a"], step=span / 400, runs=6, segments=5, solver="rk4",
        )  # fmt: skip


def test_shadow_does_not_trust_an_average_that_depends_on_the_start():
    # <x^2> is half the square of the amplitude, of any frequency: the slope at a fixed start is 0, at a fixed energy -2 / w.
    spring = simkit.from_equations({"d x": "v", "d v": "-w^2 * x"}, parameters={"w": 1.3})
    found = simkit.shadow(
        spring, {"x": 1.0, "v": 0.0}, np.linspace(0.0, 20.0, 201), lambda system, y: y["x"] ** 2,
        by=["w"], step=0.05, runs=3, segments=5, solver="rk4",
    )  # fmt: skip
    assert found.complete
    assert found.neutral == 1
    assert not found.enough
    assert "NOT trusted" in repr(found)
    assert "depend on the start" in repr(found)
