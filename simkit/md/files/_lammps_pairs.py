"""Pair styles of LAMMPS, with the rules by which numbers of two types are mixed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._errors import ArgumentError, check_known
from ..potentials._buckingham import Buckingham
from ..potentials._coulomb import CoulombCut, CoulombDSF
from ..potentials._gaussian import GaussianCore
from ..potentials._lennard_jones import LennardJones
from ..potentials._morse import Morse
from ..potentials._potential import PairPotential
from ..potentials._truncation import ForceShifted, Shifted, Truncated, Truncation
from ..potentials._yukawa import Yukawa
from ._lammps_terms import numbers_in, types_in

MIXED: Mapping[str, Callable[..., tuple[Any, Any]]] = {
    "geometric": lambda e, f, s, t: (np.sqrt(e * f), np.sqrt(s * t)),
    "arithmetic": lambda e, f, s, t: (np.sqrt(e * f), (s + t) / 2),
    "sixthpower": lambda e, f, s, t: (
        2 * np.sqrt(e * f) * s**3 * t**3 / (s**6 + t**6),
        ((s**6 + t**6) / 2) ** (1 / 6),
    ),
}
"""Depth and diameter of two types from those of each."""

OWN_RULES = {"geometric": "geometric", "arithmetic": "lorentz-berthelot", "sixthpower": "sixth-power"}
"""Mixing rules of LAMMPS -> those of `LennardJones`."""

WIDTHS = {"lj/cut": 2, "lj/smooth/linear": 2, "morse": 3, "buck": 3, "yukawa": 1, "gauss": 2}
"""Numbers in a line of `pair_coeff` that are no cutoff."""

COULOMB = {"coul/cut", "coul/dsf", "coul/long"}

PARTS: Mapping[str, tuple[str | None, str | None]] = {
    **{name: (name, None) for name in WIDTHS},
    **{name: (None, name) for name in COULOMB},
    **{f"{name}/{other}": (name, other) for name in ("lj/cut", "buck") for other in ("coul/cut", "coul/long")},
}
"""Pair style -> its part without charges and its part of charges."""


def parts_of(words: Sequence[str]) -> tuple[str | None, str | None, dict[str, float]]:
    """The two parts of a pair style and its numbers: `cutoff`, `coulomb_cutoff`, `damping`, `screening`."""
    name, *values = words
    check_known(name, PARTS, "pair style of LAMMPS")
    first, second = PARTS[name]
    numbers = [float(v) for v in values]
    if name == "yukawa":
        return first, second, {"screening": numbers[0], "cutoff": numbers[1]}
    if name == "coul/dsf":
        return first, second, {"damping": numbers[0], "coulomb_cutoff": numbers[1]}
    if first is None:
        return first, second, {"coulomb_cutoff": numbers[0]}
    return first, second, {"cutoff": numbers[0], "coulomb_cutoff": numbers[-1]}


def pair_table(name: str, lines: Sequence[Sequence[str]], types: int, cutoff: float) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of all pairs of types that `pair_coeff` gives, (numbers, types, types), and which are given."""
    width = WIDTHS[name]
    table, given = np.zeros((width, types, types)), np.zeros((types, types), bool)
    for line in lines:
        values = numbers_in("pair", line[2:])
        if len(values) < width or any(v != cutoff for v in values[width:]):
            raise ArgumentError(
                f"A line of `pair_coeff` of the style {name} must hold {width} numbers and no cutoff but that of the style, "
                f"{cutoff:g}, but is `{' '.join(line)}`."
            )
        for i in types_in(line[0], types):
            for j in types_in(line[1], types):
                if line[0] != line[1] and i > j and "*" not in line[0] + line[1]:
                    raise ArgumentError(
                        f"A line of `pair_coeff` must name the smaller type first, but is `{' '.join(line)}`."
                    )
                table[:, i, j] = table[:, j, i] = values[:width]
                given[i, j] = given[j, i] = True
    return table, given


def pair_potential(
    name: str, lines: Sequence[Sequence[str]], types: int, numbers: Mapping[str, float], modify: Mapping[str, str]
) -> PairPotential:
    """The potential of a pair style without charges."""
    cutoff = numbers["cutoff"]
    table, given = pair_table(name, lines, types, cutoff)
    lone = [i + 1 for i in range(types) if not given[i, i]]
    if lone:
        raise ArgumentError(
            f"`pair_coeff` must give numbers to all types, but gives none to type {lone[0]} and itself."
        )
    truncation = _truncation(name, modify)
    if name in ("lj/cut", "lj/smooth/linear"):
        rule = modify.get("mix", "geometric")
        check_known(rule, MIXED, "mixing rule of LAMMPS")
        epsilon, sigma = table
        if not (given & ~np.eye(types, dtype=bool)).any() and types > 1:
            own = np.diagonal(sigma).copy(), np.diagonal(epsilon).copy()
            return LennardJones(*own, cutoff=cutoff, truncation=truncation, mixing=OWN_RULES[rule])  # pyright: ignore
        depth, size = np.diagonal(epsilon), np.diagonal(sigma)
        mixed = MIXED[rule](depth[:, None], depth[None], size[:, None], size[None])
        epsilon, sigma = (np.where(given, own, other) for own, other in zip((epsilon, sigma), mixed, strict=True))
        return LennardJones(sigma, epsilon, cutoff=cutoff, truncation=truncation)  # pyright: ignore
    if not given.all():
        i, j = np.argwhere(~given)[0] + 1
        raise ArgumentError(f"`pair_coeff` of the style {name} must give numbers to types {i} and {j}, but gives none.")
    ends: Any = {"cutoff": cutoff, "truncation": truncation}
    rows: Any = tuple(table)
    if name == "morse":
        return Morse(*rows, **ends)
    if name == "buck":
        return Buckingham(*rows, **ends)
    if name == "yukawa":
        return Yukawa(*rows, numbers["screening"], **ends)  # pyright: ignore
    return GaussianCore(-rows[0], 1 / np.sqrt(rows[1]), **ends)  # pyright: ignore


def _truncation(name: str, modify: Mapping[str, str]) -> Truncation:
    shift, tail = modify.get("shift", "no") == "yes", modify.get("tail", "no") == "yes"
    if name == "lj/smooth/linear":
        return ForceShifted()
    if shift and tail:
        raise ArgumentError("`pair_modify` must not both shift and add a tail, but does.")
    return Shifted() if shift else Truncated(tail=tail)


def coulomb_potential(name: str, numbers: Mapping[str, float], constant: float) -> PairPotential:
    """The potential of the charges of a pair style, but for `coul/long`."""
    cutoff: Any = numbers["coulomb_cutoff"]
    if name == "coul/dsf":
        damping: Any = numbers["damping"]
        return CoulombDSF(constant=constant, damping=damping, cutoff=cutoff)  # pyright: ignore
    return CoulombCut(constant=constant, cutoff=cutoff)  # pyright: ignore
