"""Several scalars in incompressible flow: exact reactions, walls, buoyancy, gradients, bad input."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import simkit
from simkit.fluids import Dirichlet, FlowScalar, Grid, IncompressibleFlow, Neumann, NoSlip, Periodic
from simkit.testing import check_gradients

RATES = np.array([[-3.0, 0.0, 0.0], [3.0, -1.0, 0.5], [0.0, 1.0, -0.5]])
"""A goes to B, and B and C to each other."""


def chain(n, flux="central", diffusion="explicit"):
    """A, B and C in a uniform stream, each with a diffusivity of its own: the system, its state, and the exact fields at 0.3."""
    grid, k, speed, time = Grid((n, 4), (1.0, 1.0)), 2 * np.pi, 0.7, 0.3
    diffusivities, size = np.array([0.01, 0.02, 0.05]), np.array([1.0, 0.3, -0.2])

    def reaction(t, x, scalars):
        a, b, c = (scalars[name] for name in "abc")
        return {"a": -3.0 * a, "b": 3.0 * a - b + 0.5 * c, "c": b - 0.5 * c}

    system = IncompressibleFlow(
        grid,
        scalars={name: FlowScalar(d) for name, d in zip("abc", diffusivities, strict=True)},
        reaction=reaction,
        viscosity=0.01,
        flux=flux,
        diffusion=diffusion,
    )
    start = system.start(
        lambda x: (speed + 0 * x[0], 0 * x[0]),
        scalars={name: (lambda x, c=c: 1 + c * jnp.cos(k * x[0])) for name, c in zip("abc", size, strict=True)},
    )
    mean, wave = expm(RATES * time) @ np.ones(3), expm((RATES - k**2 * np.diag(diffusivities)) * time) @ size
    exact = mean[:, None] + wave[:, None] * np.cos(k * (grid.centres(0) - speed * time))
    return system, start, time, exact


@pytest.mark.parametrize(("flux", "diffusion"), [("central", "explicit"), ("upwind", "implicit")])
def test_a_chain_of_reactions_in_a_stream(flux, diffusion):
    """Advection, diffusion and linear reactions of three scalars, exact by the exponential of a matrix; of order 2."""
    errors = []
    for n in (32, 64):
        system, start, time, exact = chain(n, flux, diffusion)
        end = simkit.simulate(system, start, [0.0, time], step=simkit.Fixed(256)).final()
        errors.append(
            max(np.abs(np.asarray(end.scalars[name])[:, 0] - f).max() for name, f in zip("abc", exact, strict=True))
        )
    assert errors[1] < (5e-3 if flux == "upwind" else 2e-3)
    assert np.log2(errors[0] / errors[1]) > (1.5 if flux == "upwind" else 1.9)


def test_walls_of_its_own():
    """Two scalars between walls that react away, steady: cosh((1 - y) s) / cosh(s) and exp(-y s), s^2 = rate / diffusivity."""
    grid = Grid((4, 48), (1.0, 1.0))
    sealed = FlowScalar(0.1, boundaries=[Periodic(), (Dirichlet(1.0), Neumann(0.0))])
    held = FlowScalar(0.2, boundaries=[Periodic(), (Dirichlet(1.0), Dirichlet(np.exp(-np.sqrt(5.0))))])
    system = IncompressibleFlow(
        grid,
        viscosity=0.1,
        boundaries=[Periodic(), NoSlip()],
        scalars={"sealed": sealed, "held": held},
        reaction=lambda t, x, scalars: {name: -field for name, field in scalars.items()},
        diffusion="implicit",
    )
    out = simkit.simulate(system, system.start(), [0.0, 8.0], step=simkit.Fixed(400)).final()
    # Values at walls cost h^2 / 8 times the curvature, 5e-4.
    y, s, r = grid.centres(1), np.sqrt(10.0), np.sqrt(5.0)
    np.testing.assert_allclose(
        out.scalars["sealed"][0], np.cosh((1 - y) * s) / np.cosh(s), atol=6e-4
    )  # h^2 / 8 times the curvature at a wall
    np.testing.assert_allclose(out.scalars["held"][0], np.exp(-y * r), atol=6e-4)


def test_buoyancy_of_several():
    """Two scalars that lift half as much each are one; where they pull against each other nothing moves."""
    grid, lift = Grid((12, 12), (1.0, 1.0)), np.array([0.0, 10.0])
    walls, heated = [Periodic(), NoSlip()], [Periodic(), (Dirichlet(1.0), Dirichlet(0.0))]
    field = lambda x: 1 - x[1] + 0.1 * jnp.sin(2 * jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])
    run = lambda system, start: simkit.simulate(system, start, [0.0, 0.5], step=simkit.Fixed(40)).final()
    one = IncompressibleFlow(
        grid, viscosity=0.01, boundaries=walls, diffusivity=0.01, scalar_boundaries=heated, buoyancy=lift
    )
    single = run(one, one.start(scalar=field))
    for share in ((0.5, 0.5), (1.0, -1.0)):
        scalars = {
            name: FlowScalar(0.01, buoyancy=part * lift, boundaries=heated)
            for name, part in zip(("heat", "salt"), share, strict=True)
        }
        system = IncompressibleFlow(grid, viscosity=0.01, boundaries=walls, scalars=scalars)
        found = run(system, system.start(scalars={"heat": field, "salt": field}))
        if sum(share):
            np.testing.assert_allclose(found.velocity[1], single.velocity[1], atol=1e-12)
            np.testing.assert_allclose(found.scalars["salt"], single.scalar, atol=1e-12)
            assert set(system.outputs(0.0, found, None)) >= {"heat", "salt"}
        else:
            assert max(float(jnp.abs(u).max()) for u in found.velocity) < 1e-13


def test_gradients():
    system, start, time, _ = chain(8)

    def loss(numbers):
        where = lambda s: (s.scalars["a"].diffusivity, s.scalars["c"].diffusivity)
        changed = eqx.tree_at(where, system, (numbers[0], numbers[1]))
        end = simkit.simulate(changed, start, [0.0, time], step=simkit.Fixed(8)).final()
        return jnp.sum(end.scalars["c"] ** 2) + jnp.sum(end.scalars["b"][:4])

    check_gradients(loss, (jnp.array([0.01, 0.05]),))


def test_bad_input():
    grid = Grid((8, 8))
    salt = FlowScalar(0.1)
    with pytest.raises(simkit.ArgumentError, match="No scalar may be called 'pressure'"):
        IncompressibleFlow(grid, scalars={"pressure": salt})
    with pytest.raises(simkit.ArgumentError, match="`diffusivity` is given"):
        IncompressibleFlow(grid, scalars={"salt": salt}, diffusivity=0.1)
    with pytest.raises(simkit.ArgumentError, match="`diffusivity` must be positive"):
        FlowScalar(-1.0)
    system = IncompressibleFlow(grid, scalars={"salt": salt}, reaction=lambda t, x, scalars: {"heat": 0.0})
    with pytest.raises(simkit.ArgumentError, match="must hold fields of the system's scalars, salt"):
        system.start(scalars={"heat": 1.0})
    with pytest.raises(simkit.ArgumentError, match="`reaction` must give a rate for some of the scalars salt"):
        simkit.simulate(system, system.start(), [0.0, 0.1])
    with pytest.raises(simkit.ArgumentError, match="`reaction` is of the scalars in `scalars`, but there are none"):
        IncompressibleFlow(grid, diffusivity=0.1, reaction=lambda t, x, scalars: {})
    wide = IncompressibleFlow(grid, scalars={"salt": salt}, reaction=lambda t, x, scalars: {"salt": jnp.ones(3)})
    with pytest.raises(simkit.ArgumentError, match=r"`reaction` must give `salt` a rate of the shape \(8, 8\)"):
        simkit.simulate(wide, wide.start(), [0.0, 0.1])
    bare = IncompressibleFlow(grid)
    with pytest.raises(simkit.ArgumentError, match="has the scalars none, but the system has salt"):
        simkit.simulate(system, bare.start(), [0.0, 0.1])
