"""The stiff test problems against the Test Set for IVP Solvers, and beside SciPy's Radau."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

import simkit
from simkit.study import REGISTRIES

# Mazzia & Magherini (2008), Test Set for Initial Value Problem Solvers, release 2.4: the reference solutions at the end of
# HIRES (t = 321.8122), POLLU (t = 60) and ROBER (t = 1e11).
HIRES = (0.7371312573325668e-3, 0.1442485726316185e-3, 0.5888729740967575e-4, 0.1175651343283149e-2,
         0.2386356198831331e-2, 0.6238968252742796e-2, 0.2849998395185769e-2, 0.2850001604814231e-2)  # fmt: skip
POLLU = (0.5646255480022769e-1, 0.1342484130422339, 0.4139734331099427e-8, 0.5523140207484359e-2, 0.2018977262302196e-6,
         0.1464541863493966e-6, 0.7784249118997964e-1, 0.3245075353396018, 0.7494013383880406e-2, 0.1622293157301561e-7,
         0.1135863833257075e-7, 0.2230505975721359e-2, 0.2087162882798630e-3, 0.1396921016840158e-4, 0.8964884856898295e-2,
         0.4352846369330103e-17, 0.6899219696263405e-2, 0.1007803037365946e-3, 0.1772146513969984e-5,
         0.5682943292316392e-4)  # fmt: skip
ROBERTSON = (0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050)
CASES = {"hires": (321.8122, HIRES), "pollu": (60.0, POLLU), "robertson": (1e11, ROBERTSON)}


def radau(system, y0, end):
    """The final state by SciPy's Radau, with our vector field and its exact Jacobian."""
    flat, restore = ravel_pytree(y0)
    field = jax.jit(lambda t, y: ravel_pytree(system.vector_field(t, restore(y), None))[0])
    jacobian = jax.jit(jax.jacfwd(field, argnums=1))
    wrap = lambda f: lambda t, y: np.asarray(f(jnp.asarray(t, float), jnp.asarray(y)))
    options = {"method": "Radau", "rtol": 1e-9, "atol": 1e-22, "jac": wrap(jacobian)}
    return solve_ivp(wrap(field), (0.0, end), np.asarray(flat), **options).y[:, -1]


@pytest.mark.parametrize("name", CASES)
def test_vector_field_by_radau(name):
    """An outside solver reaches the published solution with our vector field: the equations are those of the test set."""
    end, expected = CASES[name]
    system, y0, _, _ = REGISTRIES["systems"][name].example()
    # Radau's local error of 1e-9 a step, over some hundred steps that damp it.
    np.testing.assert_allclose(radau(system, y0, end), expected, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_our_solver(name):
    end, expected = CASES[name]
    system, y0, _, _ = REGISTRIES["systems"][name].example()
    step = simkit.Adaptive(1e-8, 1e-22, max_steps=200_000)
    solver = simkit.solvers.Rodas5P()
    final = simkit.simulate(system, y0, [0.0, end], solver=solver, step=step).final()
    # A relative tolerance of 1e-8 a step; ours adds up to some 1e-6 in the worst component.
    np.testing.assert_allclose(ravel_pytree(final)[0], expected, rtol=1e-5)
