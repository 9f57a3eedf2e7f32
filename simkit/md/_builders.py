"""Start configurations: crystals, and atoms at a density without overlaps."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from .._errors import ArgumentError, check_known
from ..core import as_float_array
from .space._space import Orthorhombic, Space


class _Lattice(NamedTuple):
    """Edges in units of the lattice constant, where atoms stand as fractions of the edges, and their species."""

    edges: tuple[float, ...]
    basis: tuple[tuple[float, ...], ...]
    species: tuple[int, ...]


_CENTRED = ((0.0, 0.0, 0.0), (0.5, 0.5, 0.5))
_FACES = ((0.0, 0.0, 0.0), (0.0, 0.5, 0.5), (0.5, 0.0, 0.5), (0.5, 0.5, 0.0))
_TETRAHEDRA = tuple(tuple(x + 0.25 for x in site) for site in _FACES)
_OCTAHEDRA = tuple(tuple((x + 0.5) % 1.0 for x in site) for site in _FACES)
_HEXAGONAL = ((0.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.5, 5 / 6, 0.5), (0.0, 1 / 3, 0.5))
_CUBE = (1.0, 1.0, 1.0)

LATTICES: Mapping[str, _Lattice] = MappingProxyType(
    {
        "sc": _Lattice(_CUBE, ((0.0, 0.0, 0.0),), (0,)),
        "bcc": _Lattice(_CUBE, _CENTRED, (0, 0)),
        "fcc": _Lattice(_CUBE, _FACES, (0,) * 4),
        "hcp": _Lattice((1.0, math.sqrt(3.0), math.sqrt(8 / 3)), _HEXAGONAL, (0,) * 4),
        "diamond": _Lattice(_CUBE, (*_FACES, *_TETRAHEDRA), (0,) * 8),
        "zincblende": _Lattice(_CUBE, (*_FACES, *_TETRAHEDRA), (0,) * 4 + (1,) * 4),
        "rocksalt": _Lattice(_CUBE, (*_FACES, *_OCTAHEDRA), (0,) * 4 + (1,) * 4),
        "cesium chloride": _Lattice(_CUBE, _CENTRED, (0, 1)),
        "square": _Lattice((1.0, 1.0), ((0.0, 0.0),), (0,)),
        "hexagonal": _Lattice((1.0, math.sqrt(3.0)), ((0.0, 0.0), (0.5, 0.5)), (0, 0)),
    }
)


class Configuration(eqx.Module):
    """Atoms in a space: what a builder gives.

    `space`; `position`, shape (atoms, d), inside the cell; `species`, whole numbers of shape (atoms,).
    """

    space: Space
    position: Float[Array, "atoms d"]
    species: Int[Array, " atoms"]

    def __repr__(self) -> str:
        atoms, dimensions = self.position.shape
        return f"Configuration of {atoms} atoms in {dimensions} dimensions, {self.space}"


def crystal(
    lattice: str, constant: ArrayLike, repeats: int | Sequence[int], *, ratio: float | None = None
) -> Configuration:
    r"""A perfect crystal in a periodic box with right angles.

    **Arguments:**

    - `lattice`: `"sc"`, `"bcc"`, `"fcc"`, `"hcp"`, `"diamond"`; `"zincblende"`, `"rocksalt"`, `"cesium chloride"` with
        species 0 and 1; in two dimensions `"square"`, `"hexagonal"`.
    - `constant`: the lattice constant a, positive; differentiable.
    - `repeats`: how many conventional cells along each axis, one number or one an axis. The cell of hcp has four atoms
        and the edges a, $\sqrt{3} a$ and c, that of the hexagonal lattice two and a, $\sqrt{3} a$.
    - `ratio`: c/a of hcp, by default $\sqrt{8/3}$, that of close packed spheres.

    **Returns:** a `Configuration`. Atom number 0 stands in the origin, those of one cell follow each other.

    **Raises:** an `UnknownNameError` where there is no such lattice; an `ArgumentError` for a constant or a ratio that
    is not positive, wrong repeats, or a ratio where the lattice has none.

    **Good values:** copper `"fcc"` 3.615, silicon `"diamond"` 5.431, magnesium `"hcp"` 3.209 with ratio 1.624, in Angstrom; the
    Lennard-Jones solid `"fcc"` $(4/\rho)^{1/3}$.

    ```python
    from simkit.md import crystal
    print(crystal("fcc", 3.615, 4).position.shape)  # prints (256, 3)
    ```
    """
    check_known(lattice, LATTICES, "lattice")
    edges, basis, species = LATTICES[lattice]
    if ratio is not None:
        if lattice != "hcp":
            raise ArgumentError(
                f"Argument `ratio` must be left out for `{lattice}`, whose shape has none, but it is {ratio}."
            )
        _check_positive("ratio", ratio)
        edges = (*edges[:2], float(ratio))
    _check_positive("constant", constant)
    counts = _repeats(repeats, len(edges))
    cells = np.stack(np.meshgrid(*(np.arange(n) for n in counts), indexing="ij"), axis=-1).reshape(-1, 1, len(edges))
    sites = ((cells + np.array(basis)) * np.array(edges)).reshape(-1, len(edges))
    constant = as_float_array(constant)
    lengths = jnp.asarray(np.array(counts) * np.array(edges), constant.dtype)
    position = jnp.asarray(sites, constant.dtype) * constant
    return Configuration(
        Orthorhombic(lengths * constant), position, jnp.asarray(np.tile(species, len(cells)), jnp.int32)
    )


def liquid(
    key: Array,
    atoms: int,
    density: float,
    *,
    dimensions: int = 3,
    least_distance: float | None = None,
    fractions: Sequence[float] = (1.0,),
) -> Configuration:
    r"""Atoms at a density in a cubic box (a square in two dimensions), none nearer to another than a given distance.

    They stand on randomly chosen sites of the cubic lattice with the widest spacing s that has enough of them, each
    moved in a random
    direction by at most half of what the least distance leaves of s. This is a start, not an equilibrium: it melts
    within some hundred steps where the liquid is stable, and its first steps release potential energy as heat.

    **Arguments:**

    - `key`: a JAX key; the same one gives the same configuration.
    - `atoms`: how many.
    - `density`: atoms per volume.
    - `least_distance`: by default 0.9 s, which is 1.07 sigma for 500 atoms at the density 0.8442.
    - `fractions`: of the atoms, one for each species; they are spread at random.

    **Returns:** a `Configuration` in an `Orthorhombic` space.

    **Raises:** an `ArgumentError` for numbers that are not positive, fractions that do not add up to 1, or a least
    distance above s, which the message gives.

    ```python
    import jax
    from simkit.md import liquid
    print(liquid(jax.random.key(0), 500, 0.8442).space.volume())  # prints 592.3
    ```
    """
    if atoms < 1 or atoms != int(atoms):
        raise ArgumentError(f"Argument `atoms` must be a whole number of at least 1, but it is {atoms}.")
    if dimensions not in (2, 3):
        raise ArgumentError(f"Argument `dimensions` must be 2 or 3, but it is {dimensions}.")
    _check_positive("density", density)
    counts = _counts(atoms, fractions)
    length = (atoms / density) ** (1 / dimensions)
    sites, spacing = _widest(atoms, dimensions)
    spacing *= length
    least = 0.9 * spacing if least_distance is None else float(least_distance)
    if not 0 <= least <= spacing:
        raise ArgumentError(
            f"Argument `least_distance` must be between 0 and {spacing:.4g}, the spacing of {atoms} sites at density "
            f"{density:g}, but it "
            f"is {least:g}. Lower it, or the density."
        )
    choose, move, turn, paint = jax.random.split(key, 4)
    dtype = jax.dtypes.canonicalize_dtype(float)
    chosen = jax.random.permutation(choose, sites.shape[0])[:atoms]
    # A move within a ball of half the room, so that two neighbours that move towards each other keep the least distance.
    direction = jax.random.normal(turn, (atoms, dimensions), dtype)
    direction = direction / jnp.linalg.norm(direction, axis=1, keepdims=True)
    reach = (spacing - least) / 2 * jax.random.uniform(move, (atoms, 1), dtype) ** (1 / dimensions)
    space = Orthorhombic(jnp.full(dimensions, length, dtype))
    position = space.wrap(jnp.asarray(sites, dtype)[chosen] * length + reach * direction)
    species = jax.random.permutation(paint, np.repeat(np.arange(len(counts), dtype=np.int32), counts))
    return Configuration(space, position, species)


def _widest(atoms: int, dimensions: int) -> tuple[np.ndarray, float]:
    """The sites, as fractions of the box, of the cubic lattice with at least so many whose neighbours are farthest apart."""
    names = {"square": 1.0} if dimensions == 2 else {"sc": 1.0, "bcc": math.sqrt(0.75), "fcc": math.sqrt(0.5)}
    found = []
    for name, nearest in names.items():
        basis = np.array(LATTICES[name].basis)
        n = 1
        while len(basis) * n**dimensions < atoms:
            n += 1
        found.append((nearest / n, n, basis))
    spacing, n, basis = max(found, key=lambda entry: entry[0])
    cells = np.stack(np.meshgrid(*(np.arange(n),) * dimensions, indexing="ij"), axis=-1).reshape(-1, 1, dimensions)
    return ((cells + basis) / n).reshape(-1, dimensions), spacing


def _counts(atoms: int, fractions: Sequence[float]) -> np.ndarray:
    """Return the number of atoms of each species: fractions rounded so that they add up."""
    shares = np.asarray(fractions, float)
    if shares.ndim != 1 or not (shares >= 0).all() or abs(shares.sum() - 1.0) > 1e-6:
        raise ArgumentError(f"Argument `fractions` must be at least 0 and add up to 1, but it is {shares.tolist()}.")
    ends = np.rint(np.cumsum(shares) * atoms).astype(int)
    return np.diff(ends, prepend=0)


def _repeats(repeats: int | Sequence[int], dimensions: int) -> tuple[int, ...]:
    counts = np.broadcast_to(np.asarray(repeats), dimensions) if np.ndim(repeats) == 0 else np.asarray(repeats)
    if counts.shape != (dimensions,) or counts.dtype.kind != "i" or (counts < 1).any():
        raise ArgumentError(
            f"Argument `repeats` must be a whole number of at least 1, or {dimensions} of them, but it is {repeats}."
        )
    return tuple(int(n) for n in counts)


def _check_positive(name: str, value: ArrayLike) -> None:
    if isinstance(value, Tracer):
        return
    if np.ndim(value) != 0 or not np.isfinite(value) or np.asarray(value) <= 0:
        raise ArgumentError(f"Argument `{name}` must be a positive number, but it is {value}.")
