"""Common parts of the systems on periodic grids that are stepped as Fourier series."""

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, State
from ...core import Noted, Reviewed, SplitSystem, quantity
from ..grids._grid import Grid
from ..grids._parts import shardings_of, spectral_layout
from ._review import note_spectral, review_spectral
from ._waves import Waves

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar

    AbstractVar = Any
else:
    from equinox import AbstractClassVar, AbstractVar


class Field(eqx.Module):
    """One field `u` on a grid: shape `grid.shape`, of a vector `(dimensions, *grid.shape)`."""

    u: Array = quantity()


class SpectralSystem(SplitSystem, Reviewed, Noted):
    r"""Fields on a periodic grid that solvers step as truncated Fourier series: $\hat u_t = L_k \hat u_k + \hat N_k(u)$.

    Users see real fields at the centres of cells; a solver steps one complex array `(fields, *waves.shape)`. A new equation
    subclasses this and writes

    - `grid`, and `source` (None, or a callable that adds to the right side, below): fields of the module;
    - `degree`: the largest number of factors in its products, after which modes are cut off, and `real`: whether fields are;
    - `linear()`: the rates of the modes, real or complex, `(fields, *waves.shape)`;
    - `rest(t, modes, inputs)`: the modes of everything else;
    - `encode`, `decode`, `outputs`, `invariants`, `example` as every system;
    - `speeds(y)`: the fastest transport along each axis of known fields, in NumPy, from which a step that cannot be
    stable is told;
        None where nothing is transported.
    - `unheard(y)`: what of known fields `encode` leaves out for other reasons than their wavelength, in words and as a
    share; None
        where there is nothing.

    **`source`** is any callable `source(t, y, inputs)` of time, the fields as users see them and the inputs, such as a
    module of
    `equinox.nn` in a small wrapper. It returns what it adds to the time derivatives of the fields: a state like `y`, or
    the array where there is one field. Its numbers are parameters of the system and have gradients.
    """

    grid: AbstractVar[Grid]
    source: AbstractVar[Any]
    degree: AbstractClassVar[int]
    real: AbstractClassVar[bool]

    @abc.abstractmethod
    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        """The modes of the time derivatives without the linear part and without the source."""

    def speeds(self, y: State) -> Any:
        """Return the fastest transport along each axis, a number each; by default None: nothing is transported."""
        return None

    def unheard(self, y: State) -> tuple[str, float] | None:
        """Describe the part of a start that is truncated, with its share of the whole; by default None."""
        return None

    @property
    def waves(self) -> Waves:
        """The Fourier series of the fields."""
        return Waves(self.grid, self.degree, self.real)

    def shardings(self, state: Array) -> Any:
        return shardings_of(self.grid, state, spectral_layout)

    def nonlinear(self, t: ArrayLike, state: Array, inputs: Inputs) -> Array:
        slope = self.rest(t, state, inputs)
        return slope if self.source is None else slope + self.encode(self._added(t, self.decode(state), inputs))

    def review(self, y0: State, step: float | None, solver: object) -> None:
        review_spectral(self, y0, step, solver)

    def note(self, t: ArrayLike, y: State) -> str:
        return note_spectral(self, t, y)

    def _added(self, t: ArrayLike, y: State, inputs: Inputs) -> State:
        found = self.source(t, y, inputs)
        structure = jax.tree.structure(y)
        return structure.unflatten([found]) if structure.num_leaves == 1 and eqx.is_array(found) else found


def left_out(what: str, part: ArrayLike, whole: ArrayLike) -> tuple[str, float]:
    """Return the truncated part of a known field, and its share of the mean square."""
    total = float(np.mean(np.asarray(whole) ** 2))
    return what, float(np.mean(np.asarray(part) ** 2)) / total if total else 0.0


def without_mean(modes: Array, grid: Grid) -> Array:
    """Modes `(fields, *shape)` without those of the mean."""
    return modes.at[(slice(None), *[0] * grid.dimensions)].set(0)


def fastest(velocity: Array | np.ndarray) -> np.ndarray:
    """The largest size of every component of a known velocity `(dimensions, *shape)`."""
    return np.abs(np.asarray(velocity)).reshape(len(velocity), -1).max(axis=1)
