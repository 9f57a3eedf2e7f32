"""BDF with GMRES beside an explicit method in short steps: states, derivatives, batches, units, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import Adaptive
from simkit.solvers import BDF, Krylov, Rodas5P, Tsit5

SIDE = 6
WAY = np.arange(1, SIDE + 1) / (SIDE + 1)
X, Y = (x.ravel() for x in np.meshgrid(WAY, WAY, indexing="ij"))
END = 1.0
TIMES = np.array([0.0, END])
BY_PRODUCTS = BDF(krylov=Krylov())
# Its steps are as long as stability lets them, some 1/200; their error is far below 1e-9. It compiles faster than factors do.
EXPLICIT = Tsit5()


def spread(u):
    """The five-point Laplacian with walls at 0."""
    u = jnp.pad(u.reshape(SIDE, SIDE), 1)
    sums = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    return (sums * (SIDE + 1) ** 2).ravel()


def brusselator(t, y, p):
    """With states in units of `unit`."""
    u, v, unit = y["u"], y["v"], p["unit"]
    made = u * (u / unit) * (v / unit)
    return {
        "u": unit + made - 4.4 * u + p["diffusion"] * spread(u),
        "v": 3.4 * u - made + p["diffusion"] * spread(v),
    }


def start(unit=1.0):
    return {"u": unit * 22 * jnp.asarray(Y * (1 - Y) ** 1.5), "v": unit * 27 * jnp.asarray(X * (1 - X) ** 1.5)}


def final(diffusion, solver, unit=1.0, rtol=1e-8):
    system = simkit.from_function(brusselator, {"diffusion": diffusion, "unit": unit})
    run = simkit.simulate(system, start(unit), TIMES, solver=solver, step=Adaptive(rtol))
    return run.final()["u"] / unit


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
def test_states_are_those_of_an_explicit_method_in_all_units(unit):
    """Errors of the method are some ten times its tolerance."""
    np.testing.assert_allclose(final(0.02, BY_PRODUCTS, unit), final(0.02, EXPLICIT), rtol=1e-6)


def test_derivatives_agree_in_both_modes_and_with_differences():
    total = jax.jit(lambda d: jnp.sum(final(d, BY_PRODUCTS, rtol=1e-10) ** 2))
    forward = jax.jvp(total, (0.02,), (1.0,))[1]
    backward = jax.grad(total)(0.02)
    np.testing.assert_allclose(forward, backward, rtol=1e-9)
    h = 1e-4
    difference = (total(0.02 + h) - total(0.02 - h)) / (2 * h)
    # The difference's own error: h^2 of the third derivative, some 1e-7, and 1e-10 of the values over h.
    np.testing.assert_allclose(backward, difference, rtol=1e-5)


def by_sines():
    """BDF with the inverse of 1 - c d Laplacian by its eigenvectors; a handful of vectors is then enough."""
    k = np.arange(1, SIDE + 1)
    vectors = jnp.asarray(np.sqrt(2 / (SIDE + 1)) * np.sin(np.pi * np.outer(WAY, k)))
    one = 4 * (SIDE + 1) ** 2 * np.sin(np.pi * k / (2 * (SIDE + 1))) ** 2
    values = jnp.asarray(one[:, None] + one[None])

    def inverse(system, t, y, inputs, c, b):
        def of(x):
            waves = vectors.T @ x.reshape(SIDE, SIDE) @ vectors
            return (vectors @ (waves / (1 + c * system.parameters["diffusion"] * values)) @ vectors.T).ravel()

        return {name: of(x) for name, x in b.items()}

    return BDF(krylov=Krylov(preconditioner=inverse, vectors=8))


def test_a_preconditioner_by_sines_leaves_few_products():
    np.testing.assert_allclose(final(0.5, by_sines()), final(0.5, EXPLICIT), rtol=1e-6)


@pytest.mark.slow
def test_gradients_with_an_own_preconditioner():
    total = lambda solver: lambda d: jnp.sum(final(d, solver))
    own = by_sines()
    np.testing.assert_allclose(jax.grad(total(own))(0.5), jax.jvp(total(EXPLICIT), (0.5,), (1.0,))[1], rtol=1e-5)


def test_members_of_an_ensemble_are_solved_side_by_side():
    values = jnp.array([0.005, 0.02, 0.1])
    system = simkit.from_function(brusselator, {"diffusion": 0.02, "unit": 1.0})
    many = simkit.ensemble(system, start(), TIMES, over={"diffusion": values}, solver=BY_PRODUCTS, step=Adaptive(1e-8))
    for d, found in zip(values, many.ys["u"][:, -1], strict=True):
        np.testing.assert_allclose(found, final(d, BY_PRODUCTS), rtol=1e-9)


def test_single_precision():
    system = simkit.from_function(brusselator, {"diffusion": np.float32(0.02), "unit": np.float32(1.0)})
    y0 = jax.tree.map(lambda x: x.astype(jnp.float32), start())
    run = simkit.simulate(system, y0, TIMES.astype(np.float32), solver=BY_PRODUCTS, step=Adaptive(1e-4))
    assert run.ys["u"].dtype == jnp.float32
    np.testing.assert_allclose(run.final()["u"], final(0.02, EXPLICIT), rtol=5e-3)


class Balanced(simkit.ConstrainedSystem):
    """A field that diffuses, and one that is in balance with it at each place."""

    rate: simkit.Scalar = simkit.quantity(2.0, doc="of the balance")
    full: bool = False

    def vector_field(self, t, y, inputs):
        return {"u": 0.02 * spread(y["u"]) - y["v"], "v": self.rate * y["v"] + y["v"] ** 3 - y["u"]}

    def mass(self, t):
        diagonal = {"u": jnp.ones(SIDE**2), "v": jnp.zeros(SIDE**2)}
        return jnp.diag(jnp.concatenate([diagonal["u"], diagonal["v"]])) if self.full else diagonal

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"u": start()["u"], "v": 0 * start()["u"]}, jnp.asarray(TIMES))


def test_algebraic_equations():
    system, y0, times, _ = Balanced.example()
    runs = [simkit.simulate(system, y0, times, solver=s, step=Adaptive(1e-8)) for s in (Rodas5P(), BY_PRODUCTS)]
    for name in ("u", "v"):
        np.testing.assert_allclose(runs[1].final()[name], runs[0].final()[name], rtol=1e-6)
    with pytest.raises(simkit.ArgumentError, match="diagonal mass matrix"):
        simkit.simulate(Balanced(full=True), y0, times, solver=BY_PRODUCTS)


def test_explain_names_the_preconditioner():
    system = simkit.from_function(brusselator, {"diffusion": 0.02, "unit": 1.0})
    found = simkit.explain(system, start(), TIMES, gradient=False, solver=BY_PRODUCTS)
    assert f"GMRES preconditioned by {SIDE**2} blocks of 2 states" in found.to_json()


def test_what_is_refused():
    with pytest.raises(simkit.ArgumentError, match=r"`vectors` must be .* at least 1"):
        Krylov(vectors=0)
    wrong = BDF(krylov=Krylov(preconditioner=lambda system, t, y, inputs, c, b: b["u"]))
    with pytest.raises(simkit.ArgumentError, match="must return a state like b"):
        final(0.02, wrong)
