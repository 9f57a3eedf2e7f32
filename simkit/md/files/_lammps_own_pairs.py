"""Pairs of LAMMPS that are no entries of a table: formulas in lines, and atoms at the ends of CHARMM's dihedrals."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from ..._errors import ArgumentError
from ..potentials._potential import PairPotential
from ._lammps_pair_styles import LJ, SCREENS, SIZES, TWELVE_SIX, PairStyle
from ._lammps_pairs import PairPart, PairTable, formula_potential, mixed, pair_table
from ._lammps_words import numbers_in, types_in

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
NUCLEI = re.compile(r"\bzbl\(([^(),]+),([^(),]+),([^(),]+)\)")


def lepton_pairs(
    words: Sequence[str],
    lines: Sequence[Sequence[str]],
    types: int,
    modify: Mapping[str, str],
    coulomb: float,
    some: np.ndarray,
) -> list[PairPotential]:
    """The potentials of the pair style lepton, whose formulas stand in the lines themselves.

    Formulas that differ by the numbers of their definitions alone are one, with tables of these numbers.
    """
    usual = numbers_in("pair_style", words[1:])
    if len(usual) != 1:
        raise ArgumentError(
            f"`pair_style` of the style lepton must be followed by a cutoff, but is `{' '.join(words)}`."
        )
    chosen: dict[tuple[int, int], tuple[str, dict[str, float], float]] = {}
    for first, second, *rest in lines:
        if len(rest) not in (1, 2):
            raise ArgumentError(
                f"A line of `pair_coeff` of the style lepton must hold a formula, but is `{first} {second}`."
            )
        text, numbers = _parted_formula(rest[0])
        reach = numbers_in("pair_coeff", rest[1:])[0] if len(rest) == 2 else usual[0]
        for i in types_in(first, types):
            for j in types_in(second, types):
                chosen[min(i, j), max(i, j)] = text, numbers, reach
    lone = [(i + 1, j + 1) for i, j in np.argwhere(some) if i <= j and (i, j) not in chosen]
    if lone:
        raise ArgumentError(f"`pair_coeff` of the style lepton must give a formula to types {lone[0]}, but gives none.")
    found = []
    for text in dict.fromkeys(text for text, _, _ in chosen.values()):
        own = {pair: value for pair, value in chosen.items() if value[0] == text and some[pair]}
        if not own:
            continue
        names = tuple(next(iter(own.values()))[1])
        table = {name: np.ones((types, types)) for name in names}
        reach, given = np.zeros((types, types)), np.zeros((types, types), bool)
        for (i, j), (_, numbers, end) in own.items():
            for name in names:
                table[name][i, j] = table[name][j, i] = numbers[name]
            reach[i, j] = reach[j, i] = end
            given[i, j] = given[j, i] = True
        style = PairStyle(text, names)
        found.append(formula_potential("lepton", style, PairTable(table, reach, given), reach, {}, modify, coulomb))
    return found


def _parted_formula(text: str) -> tuple[str, dict[str, float]]:
    """A formula without the definitions that are plain numbers, and these; repulsion of screened nuclei is written out."""
    head, *definitions = [re.sub(r"\s+", "", part) for part in text.split(";") if part.strip()]
    numbers, kept = {}, []
    for part in definitions:
        name, _, value = part.partition("=")
        if NUMBER.fullmatch(value):
            numbers[name] = float(value)
        else:
            kept.append(part)
    whole = ";".join([head, *kept])
    for count, found in enumerate(list(NUCLEI.finditer(whole))):
        first, second, r = found.groups()
        names = f"zi{count}_", f"zj{count}_"
        plain = all(NUMBER.fullmatch(word) for word in (first, second))
        if plain:
            numbers |= dict(zip(names, (float(first), float(second)), strict=True))
            first, second = names
        screened = " + ".join(f"{weight}*exp(-{length}*u{count}_)" for weight, length in SCREENS)
        whole = whole.replace(found[0], f"(COULOMB*{first}*{second}/{r}*({screened}))", 1)
        whole += f"; u{count}_ = {r}*(({first})^0.23 + ({second})^0.23)/0.46850"
    return whole, numbers


def at_ends(
    part: PairPart,
    lines: Sequence[Sequence[str]],
    types: int,
    modify: Mapping[str, str],
    constant: float,
    some: np.ndarray,
) -> list[tuple[str, PairPotential]]:
    """The potentials of atoms at the ends of CHARMM's dihedrals, without a cutoff, before their weight."""
    own = [[*line[:2], *(line[4:] or line[2:])] for line in lines]
    shift, charges = "0", "COULOMB/r"
    if part.own == "lj/charmmfsw":
        shift = "4*epsilon*sigma^6*(1/(inner*outer)^3 - sigma^6/(inner*outer)^6)"
    if part.charged == "coul/charmmfsh":
        charges = "COULOMB/r*(1 - r/last)^2"
    elif part.charged == "coul/charmm/implicit":
        charges = "COULOMB/r^2"
    style = PairStyle(f"{TWELVE_SIX} + {shift}", LJ, SIZES, usual="arithmetic")
    table = mixed(str(part.own), style, pair_table("lj/cut", style, own, types, np.inf), modify, some)
    numbers = {"inner": part.numbers["ri"], "outer": part.numbers["rc"], "last": part.charge_numbers["rc"]}
    reach, plain = np.full((types, types), np.inf), PairTable({}, np.full((types, types), np.inf), some)
    build = lambda style, table, charged: formula_potential(
        "", style, table, reach, numbers, {}, constant, charged=charged
    )
    return [("pairs_14", build(style, table, False)), ("coulomb_14", build(PairStyle(charges, ()), plain, True))]
