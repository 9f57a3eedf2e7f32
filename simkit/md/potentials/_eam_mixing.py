"""One embedded-atom potential of several elements that have files of their own."""

import math
from collections.abc import Sequence

import numpy as np

from ..._errors import ArgumentError
from ..files._eam_files import EAMTables


def mixed_tables(tables: Sequence[EAMTables]) -> EAMTables:
    r"""The tables of several elements as those of one potential: what the pair style `eam` of LAMMPS makes of funcfl files.

    The pair energy of two elements is $Z_i Z_j / r$, the geometric mean of theirs at each distance; an atom adds the same density
    at atoms of all species. Tables on different grids are put on the coarsest by cubic interpolation.

    **Arguments:**

    - `tables`: of one element each, as `read_funcfl` gives them; species are numbered in their order.

    **Raises:** an `ArgumentError` for tables of several elements, of different unit systems, or with a pair energy below 0, which
    is no square of an effective charge.

    **Source:** https://docs.lammps.org/pair_eam.html.
    """
    tables = tuple(tables)
    if (
        not tables
        or any(len(table.elements) != 1 for table in tables)
        or any(t.units != tables[0].units for t in tables)
    ):
        raise ArgumentError(
            "Argument `tables` must be tables of one element each in one unit system, but is "
            f"{', '.join(map(repr, tables)) or 'empty'}. A file of several elements is a potential by itself: "
            "`EAM.from_tables(tables)`."
        )
    for table in tables:
        if (table.pair < 0).any():
            raise ArgumentError(
                f"Argument `tables` must have pair energies of at least 0, but those of {table.elements[0]} fall below."
            )
    distance_step, distances = _grid([(table.distance_step, table.pair.shape[2]) for table in tables])
    density_step, densities = _grid([(table.density_step, table.embedding.shape[1]) for table in tables])
    embedding = [_moved(t.embedding[0], t.density_step, density_step, densities) for t in tables]
    density = [_moved(t.density[0, 0], t.distance_step, distance_step, distances) for t in tables]
    charge = np.stack([_moved(np.sqrt(t.pair[0, 0]), t.distance_step, distance_step, distances) for t in tables])
    joined = lambda name: sum((getattr(table, name) for table in tables), ())
    return EAMTables(
        joined("elements"),
        joined("atomic_numbers"),
        joined("masses"),
        joined("lattice_constants"),
        joined("lattices"),
        np.stack(embedding),
        np.repeat(np.stack(density)[:, None], len(tables), axis=1),
        charge[:, None] * charge[None],
        density_step,
        distance_step,
        max(table.cutoff for table in tables),
        tables[0].units,
    )


def _grid(grids: list[tuple[float, int]]) -> tuple[float, int]:
    """The largest step, and as many knots as reach the end of the longest table, without the last."""
    step = max(step for step, _ in grids)
    end = max(step * (knots - 1) for step, knots in grids)
    return step, math.floor(end / step + 0.5)


def _moved(values: np.ndarray, step: float, new_step: float, count: int) -> np.ndarray:
    """The values on another grid, by the cubic through four knots."""
    place = np.arange(count) * new_step / step
    knot = np.clip(place.astype(int), 1, len(values) - 3)
    p = np.minimum(place - knot, 2.0)
    weights = (
        -p * (p - 1) * (p - 2) / 6,
        (p * p - 1) * (p - 2) / 2,
        -p * (p + 1) * (p - 2) / 2,
        p * (p * p - 1) / 6,
    )
    return np.sum([weight * values[knot + k] for k, weight in zip((-1, 0, 1, 2), weights, strict=True)], axis=0)
