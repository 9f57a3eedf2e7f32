"""Shadowing: a limit cycle in closed form, Lorenz's published slope, and the check of the modes."""

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
