"""Stiff problems against published values and SciPy's Radau."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
from solvers.problems import HIRES_START, ROBERTSON, Field, hires, robertson, van_der_pol_fast

import simkit
from simkit import Adaptive
from simkit.solvers import Rodas5P

# Mazzia and Magherini, Test Set for Initial Value Problem Solvers, release 2.4 (2008), part II: ROBER, HIRES and VDPOL.
PUBLISHED = {
    "Robertson": (
        (robertson, ROBERTSON, (1.0, 0.0, 0.0), 1e11),
        (0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050),
    ),
    "HIRES": (
        (hires, (280.0,), HIRES_START, 321.8122),
        (
            *(0.7371312573325668e-3, 0.1442485726316185e-3, 0.5888729740967575e-4, 0.1175651343283149e-2),
            *(0.2386356198831331e-2, 0.6238968252742796e-2, 0.2849998395185769e-2, 0.2850001604814231e-2),
        ),
    ),
    "van der Pol": ((van_der_pol_fast, (1e-6,), (2.0, 0.0), 2.0), (0.1706167732170469e1, -0.8928097010248125)),
}


def solve(case, tolerance, atol):
    rates, parameters, start, end = case
    system = Field(jnp.asarray(parameters), rates)
    return simkit.simulate(
        system,
        jnp.asarray(start),
        jnp.asarray([0.0, end]),
        solver=Rodas5P(),
        step=Adaptive(tolerance, atol),
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_end_values(name):
    case, published = PUBLISHED[name]
    # Components of Robertson reach 1e-13, so its absolute tolerance lies below; the global error is some ten tolerances, and a
    # relaxation oscillator multiplies an error of phase by its speed.
    result = solve(case, 1e-9, 1e-22 if name == "Robertson" else 1e-13)
    np.testing.assert_allclose(result.ys[-1], published, rtol=1e-6)


@pytest.mark.parametrize("name", ["Robertson", "HIRES"])
def test_radau_agrees_over_time(name):
    (rates, parameters, start, end), _ = PUBLISHED[name]
    end = 4e4 if name == "Robertson" else end
    times = np.concatenate([[0.0], np.geomspace(1e-3 * end, end, 12)])
    jacobian = jax.jit(jax.jacfwd(lambda y, t: jnp.stack(rates(t, y, parameters))))
    truth = scipy.integrate.solve_ivp(
        lambda t, y: rates(t, y, parameters),
        (0.0, end),
        start,
        "Radau",
        times,
        rtol=1e-11,
        atol=1e-16,
        jac=lambda t, y: np.asarray(jacobian(y, t)),
    ).y.T
    system = Field(jnp.asarray(parameters), rates)
    result = simkit.simulate(
        system, jnp.asarray(start), jnp.asarray(times), solver=Rodas5P(), step=Adaptive(1e-8, 1e-14)
    )
    # Ten tolerances for the solve, and the dense output of order 4 between steps adds as much.
    np.testing.assert_allclose(result.ys, truth, rtol=1e-6, atol=1e-12)
