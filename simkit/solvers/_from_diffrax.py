"""Solvers of Diffrax as steppers."""

import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .._errors import ArgumentError
from .._types import State, Time
from ..core import System, SystemTerm
from ._explicit import combine
from ._stepper import Step, Stepper

# Dense output is read off at these places: enough for polynomials of degree 6, which is more than Diffrax's methods have,
# but for `Dopri8`, which simkit has itself.
PLACES = np.arange(1, 7) / 6


class FromDiffrax(Stepper):
    """An explicit solver of Diffrax for ordinary differential equations, in simkit's loops: lanes, save times, events, derivatives.

    `simulate(..., solver=diffrax.Dopri5())` wraps by itself; a method that simkit has under the same name is replaced by simkit's,
    which is the same method and faster.

    **Raises:** an `ArgumentError` for a solver whose terms are several, as for noise and for implicit-explicit methods, and for an
    implicit one.
    """

    family: ClassVar[type[System]] = System
    stiff: ClassVar[bool] = False
    solver: Any

    def __check_init__(self) -> None:
        import diffrax

        name = type(self.solver).__name__
        structure = self.solver.term_structure
        if structure is not diffrax.AbstractTerm and structure is not diffrax.ODETerm:
            raise ArgumentError(
                f"A solver of Diffrax must step one term, but `{name}` of Diffrax needs several. Leave `solver` out, and one of "
                "simkit that fits is chosen."
            )
        if isinstance(self.solver, diffrax.AbstractImplicitSolver):
            raise ArgumentError(
                f"A solver of Diffrax must be explicit, but `{name}` is implicit. Take `simkit.solvers.Rodas5P()`, which serves "
                "stiff problems and needs no root finder."
            )

    @property
    def adaptive(self) -> bool:  # pyright: ignore
        """Tell whether the solver estimates its error."""
        import diffrax

        return isinstance(self.solver, diffrax.AbstractAdaptiveSolver)

    @property
    def evaluations(self) -> int:  # pyright: ignore
        """Stages of a step; without a tableau, 1."""
        tableau = getattr(self.solver, "tableau", None)
        return 1 if tableau is None else int(tableau.num_stages)

    @property
    def order(self) -> int:  # pyright: ignore
        """Order of the method."""
        return int(self.solver.order(None))

    def init(self, term: SystemTerm, t: Time, y: State) -> Any:
        memory = self.solver.init(_term(term), t, t, y, None)
        return jax.tree.map(jnp.asarray, memory)

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        y1, error, info, memory, _ = self.solver.step(_term(term), t0, t1, y0, None, memory, False)
        zero, one = jnp.zeros_like(t0), jnp.ones_like(t0)  # the information holds increments, whatever the length is
        curve = self.solver.interpolation_cls(t0=zero, t1=one, **info)
        risen = [jax.tree.map(jnp.subtract, curve.evaluate(zero + x), y0) for x in PLACES]
        increments = tuple(combine(None, 1.0, row, risen) for row in _increments())
        return Step(y1, error, {"q": increments}, jax.tree.map(jnp.asarray, memory))

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return dense["q"]


@functools.cache
def _increments() -> np.ndarray:
    """Return the matrix from values at the places to the coefficients of the powers of theta."""
    return np.linalg.inv(PLACES[:, None] ** np.arange(1, 7))


def _term(term: SystemTerm) -> Any:
    import diffrax

    return diffrax.ODETerm(lambda t, y, args: term.vf(jnp.asarray(t), y))
