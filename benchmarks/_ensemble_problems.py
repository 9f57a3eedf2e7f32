"""The ensembles of `ensembles.py`: the same members for simkit and for every peer, and what their answers should be."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate

import simkit
from simkit import odes
from simkit.solvers import Rodas5P, Tsit5

SAVED = 100  # save times of the rows that save more than the final state
CHECKED = 24  # members whose answers are compared with the truth


class Case(NamedTuple):
    """One ensemble: as simkit has it, and as arrays with a vector field of one array, for the peers."""

    name: str
    system: simkit.System
    start: Any
    over: dict[str, np.ndarray]  # path -> (members,)
    field: Callable[[Any, Any, Any], list[Any]]  # t, y, p -> rates
    end: float
    rtol: float
    atol: float
    solver: Any
    floor: float  # an error is a fraction of floor + |y|

    @property
    def members(self) -> int:
        return len(next(iter(self.over.values())))

    @property
    def y0(self) -> np.ndarray:
        """Shape (member, state)."""
        return np.tile(np.array(jax.tree.leaves(self.start), float), (self.members, 1))

    @property
    def p(self) -> np.ndarray:
        """Shape (member, parameter)."""
        return np.stack(list(self.over.values()), axis=-1)

    def times(self, count: int) -> np.ndarray:
        return np.linspace(0.0, self.end, count)

    @property
    def checked(self) -> np.ndarray:
        """The members whose answers are checked: spread evenly, the first and the last too."""
        return np.linspace(0, self.members - 1, CHECKED).round().astype(int)

    def error(self, found: Any, exact: np.ndarray) -> tuple[float, float]:
        """Largest and median error."""
        errors = np.abs(np.asarray(found) - exact) / (self.floor + np.abs(exact))
        return float(np.max(errors)), float(np.median(errors))


def lorenz() -> Case:
    """Utkarsh et al. (2024), doi:10.1016/j.cma.2023.116591: from rest to the edge of chaos."""

    def field(t, y, p):
        return [10.0 * (y[1] - y[0]), y[0] * (p[0] - y[2]) - y[1], y[0] * y[1] - 8.0 / 3.0 * y[2]]

    over = {"rayleigh": np.linspace(0.0, 21.0, 10_000)}
    start = odes.Lorenz63.example().y0.__class__(x=1.0, y=0.0, z=0.0)
    return Case("lorenz", odes.Lorenz63(), start, over, field, 1.0, 1e-6, 1e-6, Tsit5(), 1.0)


def _predator_prey(name: str, scale: np.ndarray, rates: Sequence[Any], tolerance: float) -> Case:
    def field(t, y, p):
        return [(p[0] - p[1] * y[1]) * y[0], (p[2] * y[0] - p[3]) * y[1]]

    names = ("growth", "predation", "conversion", "death")
    over = {path: np.broadcast_to(rate, scale.shape).copy() for path, rate in zip(names, rates, strict=True)}
    start = odes.LotkaVolterra.example().y0.__class__(hare=1.0, lynx=1.0)
    return Case(name, odes.LotkaVolterra(), start, over, field, 10.0, tolerance, tolerance, Tsit5(), 1.0)


def lotka_volterra() -> Case:
    """Growth and death rates from half to one and a half of their usual values."""
    scale = np.linspace(0.5, 1.5, 10_000)
    return _predator_prey("lotka_volterra", scale, (1.5 * scale, 1.0, 1.0, 3.0 * scale), 1e-6)


def gradient() -> Case:
    """All four rates from 0.6 to 1.4 of their usual values."""
    scale = np.linspace(0.6, 1.4, 256)
    return _predator_prey("gradient_adaptive", scale, (1.5 * scale, scale, scale, 3.0 * scale), 1e-7)


def van_der_pol() -> Case:
    """Members that need from 70 to 15,000 steps, shuffled."""

    def field(t, y, p):
        return [y[1], p[0] * (1.0 - y[0] * y[0]) * y[1] - y[0]]

    over = {"damping": 10 ** (3.0 * ((np.arange(2000) * 7919) % 2000) / 1999)}
    start = odes.VanDerPol.example().y0.__class__(position=2.0, velocity=0.0)
    return Case("van_der_pol", odes.VanDerPol(), start, over, field, 20.0, 1e-6, 1e-6, Tsit5(), 1.0)


def robertson() -> Case:
    """Each rate constant log-uniform over a decade around its usual value."""

    def field(t, y, p):
        a, b, c = p[0] * y[0], p[1] * y[1] * y[1], p[2] * y[1] * y[2]
        return [c - a, a - b - c, b]

    factors = 10 ** np.random.default_rng(0).uniform(-0.5, 0.5, (3, 1000))
    names = ("decay", "dimerisation", "catalysis")
    over = {path: rate * f for path, rate, f in zip(names, (0.04, 3e7, 1e4), factors, strict=True)}
    start = odes.Robertson.example().y0.__class__(a=1.0, b=0.0, c=0.0)
    return Case("robertson", odes.Robertson(), start, over, field, 1e4, 1e-6, 1e-10, Rodas5P(), 0.0)


def truth(case: Case, count: int) -> np.ndarray:
    """SciPy at 1e-10, shape (checked member, time, state): Radau with the exact Jacobian where it is stiff, else DOP853."""
    jacobian = jax.jit(jax.jacfwd(lambda y, p: jnp.stack(case.field(0.0, y, p))))
    stiff = case.name in ("robertson", "van_der_pol")
    found = []
    for y0, p in zip(case.y0[case.checked], case.p[case.checked], strict=True):
        numerics = {"jac": lambda t, y, p=p: np.asarray(jacobian(y, p))} if stiff else {}
        solution = scipy.integrate.solve_ivp(
            lambda t, y, p=p: np.array(case.field(t, y, p)),
            (0.0, case.end),
            y0,
            "Radau" if stiff else "DOP853",
            case.times(count),
            rtol=1e-10,
            atol=1e-4 * case.atol,
            **numerics,
        )
        found.append(solution.y.T)
    return np.stack(found)
