"""Ends with a given pressure: pressures solved for, exact flows, order, energy, gradients, other units, bad input."""

import itertools
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.fluids import (
    Disk,
    FixedPressure,
    FreeSlip,
    Grid,
    IncompressibleFlow,
    Inflow,
    InputValue,
    LatticeBoltzmann,
    NoSlip,
    Obstacle,
    Outflow,
    Periodic,
    stretched_faces,
)
from simkit.fluids.staggered._pressure import FastPoisson
from simkit.fluids.staggered._staggered import Staggered

ENDS = {"around": (False, (False, False)), "walls": (True, (False, False)), "open": (True, (True, True))}
ENDS |= {"lower": (True, (True, False)), "upper": (True, (False, True))}


@pytest.mark.parametrize("shape", [(9,), (8, 7)])
def test_poisson_between_open_ends(shape):
    """Any mixture of ends, equal and stretched: the difference equation holds to rounding, with values of 0 at open ends."""
    rng = np.random.default_rng(0)
    for kinds in itertools.product(ENDS, repeat=len(shape)):
        walls, fixed = zip(*(ENDS[kind] for kind in kinds), strict=True)
        for stretched in {None, walls.index(True) if any(walls) else None}:
            faces = [stretched_faces(n, 1.3, clustering=1.5) if i == stretched else None for i, n in enumerate(shape)]
            grid = Grid(shape, tuple(1.0 + 0.3 * i for i in range(len(shape))), faces=faces)
            right, volumes = rng.normal(size=shape), grid.volumes()
            if not any(map(any, fixed)):
                right -= (right * volumes).sum() / volumes.sum()
            at = Staggered(grid, walls, fixed)
            pressure = FastPoisson(grid, walls, fixed)(jnp.asarray(right))
            np.testing.assert_allclose(at.divergence(at.gradient(pressure)), right, atol=1e-11)


def channel(n, lower, upper=FixedPressure(), **options):
    """A channel of length 2 and height 1 between two ends."""
    return IncompressibleFlow(Grid((4, n), (2.0, 1.0)), viscosity=0.1, boundaries=[(lower, upper), NoSlip()], **options)


def started(y, t):
    """The start of the flow between plates, pressure gradient 1/2, viscosity 0.1, by its series."""
    k = np.arange(1, 199, 2)[:, None] * np.pi
    return 2.5 * y * (1 - y) - (2 / (0.1 * k**3) * np.sin(k * y) * np.exp(-0.1 * k**2 * t)).sum(0)


def test_channel_between_two_pressures():
    """The start of a channel follows its series with order 2, its pressure is a line, and all that enters leaves."""
    errors = []
    for n in (8, 16):
        system = channel(n, FixedPressure(1.0))
        run = simkit.simulate(system, system.start(), [0.0, 0.5], step=simkit.Courant(0.8))
        u = np.asarray(run.final().velocity[0])
        errors.append(np.abs(u - started(system.grid.centres(1), 0.5)).max())
        outputs = system.outputs(0.5, run.final(), None)
        np.testing.assert_allclose(outputs["pressure"], 1 - system.grid.mesh()[0] / 2, atol=1e-12)
        np.testing.assert_allclose(u.sum(1), u.sum(1)[0], rtol=1e-12)
    assert 3.4 < errors[0] / errors[1] < 4.2
    assert errors[1] < 3e-3


class Beat(eqx.Module):
    """A pressure that swings, with a size that can be fitted."""

    size: jax.Array

    def __call__(self, t, x):
        return self.size * jnp.cos(2 * jnp.pi * t)


def swung(y, t):
    """Womersley's flow between plates: a gradient cos(2 pi t) / 2, viscosity 0.1."""
    k = np.sqrt(2j * np.pi / 0.1)
    return np.real(np.exp(2j * np.pi * t) / (4j * np.pi) * (1 - np.cosh(k * (y - 0.5)) / np.cosh(0.5 * k)))


def test_womersley_between_swinging_pressures():
    """Order 2 to the exact flow, the same by a function and by an input."""
    errors, ends = [], []
    for n, pressure in ((16, Beat(jnp.asarray(1.0))), (32, Beat(jnp.asarray(1.0))), (16, InputValue("heart"))):
        system = channel(n, FixedPressure(pressure))
        start = jnp.broadcast_to(swung(system.grid.centres(1), 0.0), (4, n))
        y0 = system.start(jnp.stack([start, jnp.zeros_like(start)]))
        beat = {"heart": lambda t: jnp.cos(2 * jnp.pi * t)} if "heart" in system.reads() else None
        run = simkit.simulate(system, y0, [0.0, 0.3], step=simkit.Courant(0.8), inputs=beat)
        ends.append(np.asarray(run.final().velocity[0]))
        errors.append(np.abs(ends[-1] - swung(system.grid.centres(1), 0.3)).max())
    assert 3.5 < errors[0] / errors[1] < 4.5
    assert errors[1] < 1e-3
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-14)
    names = simkit.core.named_leaves(channel(8, FixedPressure(Beat(jnp.asarray(1.0)))))
    assert "boundaries.0.0.pressure.size" in names


NU, PI = 0.05, np.pi


def made(x, y):
    """A flow without divergence that enters and leaves through both ends of x, where v has no normal derivative."""
    along = -(2 + jnp.sin(PI * x)) * jnp.cos(2 * PI * y)
    return along, PI * jnp.cos(PI * x) * jnp.sin(2 * PI * y) / (2 * PI)


def held(x, y):
    return jnp.cos(PI * x) + 0.3 * x * jnp.sin(2 * PI * y)


def made_force(t, places):
    """The force that holds `made` and `held` still."""

    def at(x, y):
        found, u = [], made(x, y)
        for i in (0, 1):
            w = lambda x, y, i=i: made(x, y)[i]
            dx, dy = jax.grad(w, (0, 1))(x, y)
            (xx, _), (_, yy) = jax.hessian(w, (0, 1))(x, y)
            found.append(u[0] * dx + u[1] * dy + jax.grad(held, i)(x, y) - NU * (xx + yy))
        return tuple(found)

    return jnp.vectorize(at)(*places)


def made_pressure(t, places):
    return jnp.vectorize(lambda x, y: held(x, y) - NU * jax.grad(lambda x, y: made(x, y)[0])(x, y))(*places)


@pytest.mark.parametrize("diffusion", ["explicit", "implicit"])
def test_order_where_fluid_enters_and_leaves(diffusion):
    """A steady flow with a force that holds it: velocity and pressure are of order 2."""
    errors = []
    for n in (12, 24):
        system = IncompressibleFlow(
            Grid((n, 2 * n), 1.0),
            viscosity=NU,
            boundaries=[FixedPressure(made_pressure), Periodic()],
            force=made_force,
            diffusion=diffusion,
        )
        y0 = system.start(lambda x: made(*x))
        end = simkit.simulate(system, y0, [0.0, 0.2], step=simkit.Courant(0.5)).final()
        exact = [made(*system.at.mesh(i, float))[i] for i in (0, 1)]
        pressure = system.outputs(0.2, end, None)["pressure"] - held(*map(jnp.asarray, system.grid.mesh()))
        differences = [*(a - b for a, b in zip(end.velocity, exact, strict=True)), pressure]
        errors.append([float(jnp.sqrt(jnp.mean(d**2))) for d in differences])
    ratios = np.array(errors[0]) / np.array(errors[1])
    assert ratios.min() > 3.4
    assert errors[1][0] < 5e-3


@pytest.mark.parametrize(
    ("shape", "boundaries"),
    [
        ((9, 8), [FixedPressure(0.7, total=True), FixedPressure(-0.3, total=True)]),
        ((9, 8), [(FixedPressure(0.7, total=True), FreeSlip()), Periodic()]),
        ((6, 7, 5), [(FreeSlip(), FixedPressure(0.7, total=True)), NoSlip(), Periodic()]),
    ],
)
def test_energy_that_passes_open_ends(shape, boundaries):
    """Without viscosity the energy of any flow changes by what passes: total pressure in, pressure and kinetic energy out."""
    d = len(shape)
    faces = [stretched_faces(shape[0], 1.0), *[None] * (d - 1)]
    system = IncompressibleFlow(Grid(shape, 1.0, faces=faces), boundaries=boundaries)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the start is noise, whose divergence is taken out
        y = system.start(np.random.default_rng(1).normal(size=(d, *shape)))
    slope = eqx.filter_jit(system.vector_field)(0.0, y, None)
    rate = jax.jvp(system.energy, (y,), (slope,))[1]
    work = 0.0
    for axis, side in itertools.product(range(d), (0, 1)):
        end = system.boundaries[axis][side]
        if not isinstance(end, FixedPressure):
            continue
        u = np.take(y.velocity[axis], [-side], axis)
        area, square = np.ones_like(u), u**2
        for other in set(range(d)) - {axis}:
            w, n = np.take(y.velocity[other], [-side], axis) ** 2, shape[other]
            w = w if system.at.walls[other] else np.concatenate([w, np.take(w, [0], other)], other)
            square = square + 0.5 * (np.take(w, range(n), other) + np.take(w, range(1, n + 1), other))
            area = area * system.grid.widths(other).reshape([-1 if i == other else 1 for i in range(d)])
        entering = u * (-1 if side else 1)
        given = float(end.pressure) + np.where(entering > 0, 0, 0.5 * square)
        work += (entering * given * area).sum()
    assert abs(work) > 0.01
    assert abs(rate - work) < 1e-12


def flow_between(pressure, *, length=1.0, time=1.0, dtype=jnp.float64):
    """The mean flow around a disk, driven by a total pressure."""
    number = lambda x: jnp.asarray(x, dtype)
    system = IncompressibleFlow(
        Grid((10, 8), (1.25 * length, length)),
        viscosity=number(0.05 * length**2 / time),
        boundaries=[(FixedPressure(pressure, total=True), FixedPressure(number(0.0))), NoSlip()],
        obstacle=Obstacle(Disk(number([0.6 * length, 0.5 * length]), number(0.2 * length))),
    )
    run = simkit.simulate(system, system.start(), number([0.0, 0.3 * time]), step=simkit.Fixed(20))
    return run.final().velocity[0].mean() * (time / length)


def test_gradient_by_the_pressure():
    value = jax.jit(flow_between)
    slope = float(jax.grad(flow_between)(1.3))
    assert abs((float(value(1.3 + 1e-5)) - float(value(1.3 - 1e-5))) / 2e-5 / slope - 1) < 1e-7


def test_other_units_and_single_precision():
    """Lengths of 1e-12 and times of 1e-9 give the numbers of lengths and times of 1; in float32, too."""
    known = float(flow_between(jnp.asarray(1.0)))
    assert abs(float(flow_between(jnp.asarray(1e-24), length=1e-12)) / known - 1) < 1e-12
    small = flow_between(jnp.asarray(1e-6, jnp.float32), length=1e-12, time=1e-9, dtype=jnp.float32)
    assert small.dtype == jnp.float32
    assert abs(float(small) / known - 1) < 1e-4


def test_plug_flow_is_pushed_by_its_pressure():
    """An inflow sin(3 t) between slipping walls moves all fluid alike; the pressure falls by its acceleration."""
    ends = (Inflow(lambda t, x: (jnp.sin(3 * t), 0.0)), FixedPressure(0.25))
    system = IncompressibleFlow(Grid((6, 5), (2.0, 1.0)), viscosity=0.1, boundaries=[ends, FreeSlip()])
    end = simkit.simulate(system, system.start(), [0.0, 0.7], step=simkit.Fixed(40)).final()
    outputs = system.outputs(0.7, end, None)
    np.testing.assert_allclose(end.velocity[0], np.sin(2.1), atol=1e-6)
    np.testing.assert_allclose(outputs["pressure"], 0.25 + 3 * np.cos(2.1) * (2 - system.grid.mesh()[0]), atol=1e-12)
    later = system.start(lambda x: (jnp.sin(2.1), 0.0), time=0.7)
    np.testing.assert_allclose(later.velocity[0], np.sin(2.1), atol=1e-14)


def test_what_does_not_fit_is_refused():
    grid = Grid((8, 8), 1.0)
    flow = lambda *ends, **options: IncompressibleFlow(grid, viscosity=0.1, boundaries=[ends, NoSlip()], **options)
    with pytest.raises(simkit.ArgumentError, match="`Outflow` or a `FixedPressure`"):
        flow(Inflow(1.0), NoSlip())
    with pytest.raises(simkit.ArgumentError, match="total"):
        LatticeBoltzmann(
            grid, viscosity=0.1, step=0.01, boundaries=[(Inflow(0.1), FixedPressure(total=True)), NoSlip()]
        )
    with pytest.raises(simkit.ArgumentError, match="Functions of time and inputs"):
        LatticeBoltzmann(
            grid, viscosity=0.1, step=0.01, boundaries=[(Inflow(0.1), FixedPressure(InputValue("p"))), NoSlip()]
        )
    with pytest.raises(simkit.ArgumentError, match="shape"):
        flow(FixedPressure(jnp.zeros(7)), FixedPressure())
    with pytest.raises(simkit.ArgumentError, match="is a signal"):
        flow(FixedPressure(simkit.Interpolated([0.0, 1.0], [0.0, 1.0])), FixedPressure())
    with pytest.raises(simkit.ArgumentError, match="InputValue"):
        flow(Inflow(InputValue("u")), Outflow())
    with pytest.raises(simkit.ArgumentError, match=r"function of \(t, x\)"):
        flow(FixedPressure(lambda t: t), FixedPressure())
    odd = flow(FixedPressure(lambda t, x: jnp.zeros(3)), FixedPressure())
    with pytest.raises(simkit.ArgumentError, match=r"one number, or have the shape \(8,\)"):
        simkit.simulate(odd, odd.start(), [0.0, 0.1], step=simkit.Courant(0.5))
    asks = flow(FixedPressure(InputValue("p")), FixedPressure())
    with pytest.raises(simkit.ArgumentError, match="`p`"):
        simkit.simulate(asks, asks.start(), [0.0, 0.1], step=simkit.Courant(0.5))
