"""Spaces: free, periodic and orthorhombic, periodic with any cell; in two and three dimensions."""

import abc

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..._errors import ArgumentError
from ..._registry import Registry
from ...core import POSITIVE, as_float_array, quantity


class Space(eqx.Module):
    """Simulation cell, repeated in all directions, or open space.

    A position is a row vector, and lattice vectors are the rows of `vectors()`, so that an image of an atom at x stands at
    `x + image @ vectors()` with whole numbers `image`. Everything is differentiable with respect to the cell.
    """

    @property
    @abc.abstractmethod
    def dimensions(self) -> int:
        """Two or three."""

    @property
    @abc.abstractmethod
    def periodic(self) -> bool:
        """Tell whether the cell repeats."""

    @abc.abstractmethod
    def vectors(self) -> Float[Array, "d d"]:
        """The lattice vectors as rows."""

    @abc.abstractmethod
    def volume(self) -> Float[Array, ""]:
        """Volume of the cell (its area in two dimensions); infinite in open space."""

    @abc.abstractmethod
    def plane_distances(self) -> Float[Array, " d"]:
        """Distances between opposite faces of the cell. Not the edge lengths: a skewed cell is thinner than its edges are long."""

    @abc.abstractmethod
    def wrap(self, position: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """The image of each position inside the cell, that is with fractional coordinates in [0, 1)."""

    @abc.abstractmethod
    def displacement(self, a: Float[Array, "*n d"], b: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """The vector a - b from b to the nearest image of a. Right for distances up to half the smallest plane distance:
        beyond that another image may be nearer in a skewed cell, and several may be within reach."""

    @abc.abstractmethod
    def scaled(self, strain: Float[Array, "d d"]) -> "Space":
        r"""The space deformed by $x \to (1 + \epsilon) x$; with positions deformed alike, the stress is
        $\partial U / \partial \epsilon / V$ at $\epsilon = 0$."""


SPACES: Registry[type[Space]] = Registry("space", Space)
"""Spaces by the names that study files give them."""


@SPACES.named("open")
class OpenSpace(Space):
    """No walls and no images.

    ```python
    import simkit

    space = simkit.md.OpenSpace(dimensions=2)
    ```
    """

    axes: int = eqx.field(static=True)

    def __init__(self, dimensions: int = 3):
        self.axes = dimensions

    def __check_init__(self):
        if self.axes not in (2, 3):
            raise ArgumentError(f"Argument `dimensions` must be 2 or 3, but is {self.axes!r}.")

    @property
    def dimensions(self) -> int:
        return self.axes

    @property
    def periodic(self) -> bool:
        return False

    def vectors(self) -> Array:
        """The unit vectors: of no meaning, as no image is ever taken."""
        return jnp.eye(self.dimensions)

    def volume(self) -> Array:
        return jnp.asarray(jnp.inf)

    def plane_distances(self) -> Array:
        return jnp.full(self.dimensions, jnp.inf)

    def wrap(self, position: Array) -> Array:
        return position

    def displacement(self, a: Array, b: Array) -> Array:
        return a - b

    def scaled(self, strain: Array) -> "OpenSpace":
        return self


@SPACES.named("orthorhombic")
class Orthorhombic(Space):
    r"""A periodic box with right angles, $0 \le x_c < L_c$.

    **Arguments:**

    - `lengths`: the edges, of shape (2,) or (3,), positive, in the length unit of the positions.

    ```python
    import simkit

    space = simkit.md.Orthorhombic([8.0, 8.0, 8.0])
    ```
    """

    lengths: Float[Array, " d"] = quantity(unit="length", support=POSITIVE, doc="edges of the box")

    def __check_init__(self):
        _check_shape("lengths", jnp.shape(self.lengths), 1)
        values = _concrete(self.lengths)
        if values is not None and not (np.isfinite(values) & (values > 0)).all():
            raise ArgumentError(
                f"Argument `lengths` must be positive and finite, but is {values.tolist()}. Give the edges of the box."
            )

    @property
    def dimensions(self) -> int:
        return self.lengths.shape[-1]

    @property
    def periodic(self) -> bool:
        return True

    def vectors(self) -> Array:
        return jnp.diag(self.lengths)

    def volume(self) -> Array:
        return jnp.prod(self.lengths)

    def plane_distances(self) -> Array:
        return self.lengths

    def wrap(self, position: Array) -> Array:
        lengths = jnp.broadcast_to(self.lengths, position.shape)
        return position - lax.stop_gradient(jnp.floor(position / lengths)) * lengths

    def displacement(self, a: Array, b: Array) -> Array:
        difference = a - b
        lengths = jnp.broadcast_to(self.lengths, difference.shape)
        return difference - lax.stop_gradient(jnp.round(difference / lengths)) * lengths

    def scaled(self, strain: Array) -> "Triclinic":
        """The deformed cell, whose angles are right no more when the strain shears."""
        return Triclinic(_strained(self.vectors(), strain))


@SPACES.named("triclinic")
class Triclinic(Space):
    """A periodic cell with any angles.

    **Arguments:**

    - `vectors`: the lattice vectors as rows, of shape (2, 2) or (3, 3), linearly independent, in any orientation and either
        handedness.

    ```python
    import simkit

    hexagonal = simkit.md.Triclinic([[1.0, 0.0], [0.5, 0.75**0.5]])
    ```
    """

    lattice: Float[Array, "d d"] = quantity(unit="length", doc="lattice vectors as rows")

    def __init__(self, vectors: object):
        self.lattice = as_float_array(vectors)

    def __check_init__(self):
        shape = jnp.shape(self.lattice)
        _check_shape("vectors", shape, 2)
        values = _concrete(self.lattice)
        if values is None:
            return
        edges = np.linalg.norm(values, axis=-1)
        if not np.isfinite(values).all() or abs(np.linalg.det(values)) <= 1e-6 * np.prod(edges):
            raise ArgumentError(
                f"Argument `vectors` must span a volume, but its rows {values.tolist()} do not. Give linearly independent "
                "lattice vectors, one a row."
            )

    @property
    def dimensions(self) -> int:
        return self.lattice.shape[-1]

    @property
    def periodic(self) -> bool:
        return True

    def vectors(self) -> Array:
        return self.lattice

    def volume(self) -> Array:
        return jnp.abs(determinant(self.lattice))

    def plane_distances(self) -> Array:
        return 1 / jnp.linalg.norm(inverse(self.lattice), axis=0)

    def wrap(self, position: Array) -> Array:
        images = jnp.floor(position @ inverse(self.lattice))
        return position - lax.stop_gradient(images) @ self.lattice

    def displacement(self, a: Array, b: Array) -> Array:
        difference = a - b
        images = jnp.round(difference @ inverse(self.lattice))
        return difference - lax.stop_gradient(images) @ self.lattice

    def scaled(self, strain: Array) -> "Triclinic":
        return Triclinic(_strained(self.lattice, strain))


def _strained(vectors: Array, strain: Array) -> Array:
    return vectors + vectors @ strain.T


def determinant(h: Array) -> Array:
    """Return the determinant in closed form: LAPACK's factorisation is neither vectorised over systems nor twice differentiable
    where pivots tie."""
    if h.shape[-1] == 2:
        return h[0, 0] * h[1, 1] - h[0, 1] * h[1, 0]
    return jnp.vdot(h[0], jnp.cross(h[1], h[2]))


def times(rows: Float[Array, "n d"], matrix: Float[Array, "*n d d"]) -> Float[Array, "n d"]:
    """`rows @ matrix` column by column: part of the loop that reads it, where XLA:CPU would hand a product to a library. With a
    matrix a row, each by its own."""
    matrix = matrix[None] if matrix.ndim == 2 else matrix
    terms = [rows[:, k, None] * matrix[:, k] for k in range(matrix.shape[-1])]
    return sum(terms[1:], terms[0])


def inverse(h: Array) -> Array:
    """Return the inverse of a matrix of two or three rows, in closed form."""
    if h.shape[-1] == 2:
        adjugate = jnp.stack([jnp.stack([h[1, 1], -h[0, 1]]), jnp.stack([-h[1, 0], h[0, 0]])])
    else:
        adjugate = jnp.stack([jnp.cross(h[1], h[2]), jnp.cross(h[2], h[0]), jnp.cross(h[0], h[1])], axis=1)
    return adjugate / determinant(h)


def _check_shape(name: str, shape: tuple[int, ...], rank: int) -> None:
    # Ensembles carry spaces with a leading member axis; only the trailing axes can be checked then.
    if len(shape) < rank or shape[-1] not in (2, 3) or len(set(shape[-rank:])) != 1:
        good = "(2,) or (3,)" if rank == 1 else "(2, 2) or (3, 3)"
        raise ArgumentError(
            f"Argument `{name}` must have shape {good}, but has {shape}. Write one entry for each dimension."
        )


def _concrete(value: Array) -> np.ndarray | None:
    """The numbers of one space, or None where they are traced, stacked or placeholders."""
    usable = isinstance(value, jax.Array | np.ndarray) and not isinstance(value, jax.core.Tracer)
    if not usable or value.ndim > 2 or (value.ndim == 2 and value.shape[0] != value.shape[1]):
        return None
    return np.asarray(value)
