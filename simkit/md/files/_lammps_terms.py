"""Bonds, angles, dihedrals and impropers from the styles of LAMMPS and their coefficients."""

import functools
import re
from collections.abc import Sequence

import numpy as np

from ..._errors import ArgumentError, check_known
from ..potentials._formula import Formula
from ..potentials._formula_terms import FormulaTerms
from ..potentials._potential import Potential
from ._lammps_styles import SERIES, STYLES, Style
from ._lammps_tables import TABLES, table_terms
from ._lammps_words import numbers_in

Found = list[tuple[str, Potential]]


def style_of(kind: str, name: str, lines: Sequence[Sequence[str]]) -> Style:
    """The formula of a style; for one with a number of terms that of its longest line."""
    series = SERIES.get(f"{kind} {name}")
    if series is None:
        check_known(
            name,
            (*STYLES[kind], *LEPTON.get(kind, ()), *TABLES.get(kind, ()), *_series(kind)),
            f"{kind} style of LAMMPS",
        )
        return STYLES[kind][name]
    ends = [line[1 + len(series.head)] for line in lines if len(line) > 1 + len(series.head)]
    count = max((int(number) for number in numbers_in(f"{kind}_coeff", ends)), default=1)
    numbers = range(1, count + 1)
    least = functools.reduce(lambda text, i: f"min({text}, e{i})", numbers[1:], "e1")
    total = " + ".join(series.term.format(i=i, power=i - 1) for i in numbers)
    formula = series.whole.format(sum=total, least=least) + "".join(series.definitions.format(i=i) for i in numbers)
    named = tuple(one.format(i=i) for i in numbers for one in series.names)
    return Style(formula, (*series.head, *named), tuple(one for one in named if one[0] in series.degrees))


def _series(kind: str) -> list[str]:
    return [name.partition(" ")[2] for name in SERIES if name.startswith(kind)]


CHARMM = ("charmm", "charmmfsw")
"""Dihedral styles whose lines end in the weight of the pair of atoms at their ends."""


def weighted_ends(
    words: Sequence[str], lines: Sequence[Sequence[str]], terms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs at the ends of CHARMM's dihedrals, and the weight of each; none where all weights are 0."""
    weights: dict[int, float] = {}
    for first, *rest in lines:
        if words[0] == "hybrid":
            name, *rest = rest
        else:
            name = words[0]
        if name in CHARMM and len(rest) > 3:
            weights[int(first) - 1] = numbers_in("dihedral_coeff", rest[3:4])[0]
    found = np.array([weights.get(int(row[0]), 0.0) for row in terms])
    some = found != 0
    return terms[some][:, [1, -1]] if some.any() else np.zeros((0, 2), int), found[some]


LEPTON = {"bond": ("lepton",), "angle": ("lepton",), "dihedral": ("lepton",)}


def bonded_terms(
    kind: str,
    words: Sequence[str],
    lines: Sequence[Sequence[str]],
    terms: np.ndarray,
    boltzmann: float = 1.0,
    units: str = "lj",
) -> Found:
    """The potentials of all terms of a kind; none of the style `zero`.

    **Arguments:** `words`: the style. `lines`: of coefficients, the type first; `terms`: rows of a type and the atoms, from 0;
    `boltzmann`: Boltzmann's constant; `units`: the unit system of the commands, which files of tables must share.
    """
    name, *settings = words
    if name in ("zero", "none") or not len(terms):
        return []
    if name == "hybrid":
        return _hybrid(kind, settings, lines, terms, boltzmann)
    if name == "lepton" and kind in LEPTON:
        return _lepton(kind, settings, lines, terms)
    if name in TABLES.get(kind, ()):
        return table_terms(kind, words, lines, terms, units)
    style = style_of(kind, name, lines)
    if settings:
        raise ArgumentError(f"The {kind} style {name} must stand without settings, but is followed by {settings[0]}.")
    rows: dict[int, dict[str, float]] = {}
    for first, *rest in lines:
        rows.setdefault(int(first) - 1, {}).update(_numbers(kind, name, style, rest))
    used = sorted({int(t) for t in terms[:, 0]})
    names = (*style.names, *(one for more in style.more.values() for one in more))
    for type_ in used:
        lacking = [one for one in names if one not in rows.get(type_, {})]
        if lacking:
            raise ArgumentError(
                f"`{kind}_coeff` must give numbers to type {type_ + 1}, but gives none for {lacking[0]}."
            )
    table = np.array([[rows[type_][one] for one in names] for type_ in used])
    scale = np.array([np.pi / 180 if one in style.degrees else boltzmann if one == "T" else 1.0 for one in names])
    numbers = dict(zip(names, (table * scale).T, strict=True))
    place = np.array([used.index(int(t)) for t in terms[:, 0]])
    return [(f"{kind}s", FormulaTerms(style.formula, terms[:, 1:], numbers, place))]


def _numbers(kind: str, name: str, style: Style, words: Sequence[str]) -> dict[str, float]:
    """The numbers of a line by name."""
    if words and words[0] in style.more:
        names, values = style.more[words[0]], numbers_in(f"{kind}_coeff", words[1:])
    else:
        series, names, values = SERIES.get(f"{kind} {name}"), style.names, numbers_in(f"{kind}_coeff", words)
        if series is not None:
            values = _as_many(values, len(series.head), len(series.names), len(names))
        if kind == "dihedral" and name in CHARMM:  # the weight of the ends is that of a pair
            values = values[:3]
    if len(values) != len(names):
        raise ArgumentError(
            f"A line of `{kind}_coeff` of the style {name} must hold {', '.join(names)}, but holds {len(values)} numbers."
        )
    return dict(zip(names, values, strict=True))


def _as_many(values: list[float], head: int, size: int, wanted: int) -> list[float]:
    """The numbers of a line of terms without their count, with as many terms as the longest has; those added are 0."""
    given = [*values[:head], *values[head + 1 :]]
    if len(values) <= head + size or len(given) != head + size * int(values[head]):
        return []
    added = (wanted - len(given)) // size
    return [*given, *([0.0, *given[head + 1 : head + size]] * added)]


def _hybrid(
    kind: str, styles: Sequence[str], lines: Sequence[Sequence[str]], terms: np.ndarray, boltzmann: float
) -> Found:
    """The terms of each style of a hybrid one, by the types whose lines name it."""
    for name in styles:
        check_known(
            name, (*STYLES[kind], *LEPTON.get(kind, ()), *_series(kind), "zero", "none"), f"{kind} style of LAMMPS"
        )
    chosen: dict[int, str] = {}
    said: dict[str, list[Sequence[str]]] = {name: [] for name in styles}
    for first, name, *rest in lines:
        if name not in said:
            raise ArgumentError(
                f"A line of `{kind}_coeff` must name one of the styles {list(styles)}, but names {name}."
            )
        if chosen.setdefault(int(first) - 1, name) != name:
            raise ArgumentError(f"`{kind}_coeff` must give type {first} one style, but gives several.")
        said[name].append([first, *rest])
    lone = [int(t) + 1 for t in terms[:, 0] if int(t) not in chosen]
    if lone:
        raise ArgumentError(f"`{kind}_coeff` must give a style to type {lone[0]}, but gives none.")
    own = lambda name: terms[[chosen[int(t)] == name for t in terms[:, 0]]]
    return [one for name in said for one in bonded_terms(kind, [name], said[name], own(name), boltzmann)]


def _lepton(kind: str, settings: Sequence[str], lines: Sequence[Sequence[str]], terms: np.ndarray) -> Found:
    """Terms whose energy stands in the line itself, in the distance or angle from that of rest; 0 there but for `no_offset`."""
    variable = {"bond": "r", "angle": "theta", "dihedral": "phi"}[kind]
    found: Found = []
    for first, *words in lines:
        own = terms[terms[:, 0] == int(first) - 1, 1:]
        *rest, text = words
        if len(rest) != (kind != "dihedral"):
            raise ArgumentError(
                f"A line of `{kind}_coeff` of the style lepton must end in a formula, but is `{words}`."
            )
        if not len(own):
            continue
        numbers, moved = {}, "theta"
        if rest:
            numbers = {"rest_": numbers_in(f"{kind}_coeff", rest)[0] * (np.pi / 180 if kind == "angle" else 1.0)}
            moved = f"{'r' if kind == 'bond' else 'theta'} - rest_"
        text = re.sub(rf"\b{variable}\b", "apart_", text)
        least = Formula(text)({"apart_": 0.0}) if rest and "no_offset" not in settings else 0.0
        head, *definitions = [part for part in text.split(";") if part.strip()]
        whole = "; ".join([f"({head}) - ({float(least)!r})", *definitions, f"apart_ = {moved}"])
        found.append((f"{kind}s", FormulaTerms(whole, own, numbers)))
    return found
