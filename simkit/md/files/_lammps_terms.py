"""Bonds, angles, dihedrals and impropers from the styles of LAMMPS and their coefficients."""

import re
from collections.abc import Sequence

import numpy as np

from ..._errors import ArgumentError, check_known
from ..potentials._formula import Formula
from ..potentials._formula_terms import FormulaTerms
from ..potentials._potential import Potential
from ._lammps_styles import SERIES, STYLES, Style

Found = list[tuple[str, Potential]]


def style_of(kind: str, name: str, lines: Sequence[Sequence[str]]) -> Style:
    """The formula of a style; for one with a number of terms that of its longest line."""
    if f"{kind} {name}" in SERIES:
        size, formula, names = SERIES[f"{kind} {name}"]
        count = max(int(float(line[1])) for line in lines)
        parts = [formula.format(i=i + 1, power=i) for i in range(count)]
        named = tuple(one.format(i=i + 1) for i in range(count) for one in names)
        return Style(" + ".join(parts), named, tuple(one for one in named if one[0] == "d" and size == 3))
    check_known(name, (*STYLES[kind], *LEPTON.get(kind, ())), f"{kind} style of LAMMPS")
    return STYLES[kind][name]


def types_in(word: str, types: int) -> range:
    """The types, from 0, that a word such as "2", "*", "2*" or "1*3" names."""
    first, star, last = word.partition("*")
    if not all(part.isdigit() or (star and not part) for part in (first, last if star else first)):
        raise ArgumentError(f"Types must be numbers or ranges of them, such as 2 or 1*3, but one is `{word}`.")
    if not star:
        return range(int(first) - 1, int(first))
    return range(int(first or 1) - 1, int(last or types))


def numbers_in(command: str, words: Sequence[str]) -> list[float]:
    """The words of a command as numbers."""
    try:
        return [float(word) for word in words]
    except ValueError:
        raise ArgumentError(f"A line of `{command}` must hold numbers, but holds `{' '.join(words)}`.") from None


LEPTON = {"bond": ("lepton",), "angle": ("lepton",), "dihedral": ("lepton",)}


def bonded_terms(kind: str, words: Sequence[str], lines: Sequence[Sequence[str]], terms: np.ndarray) -> Found:
    """The potentials of all terms of a kind; none of the style `zero`.

    **Arguments:** `words`: the style. `lines`: of coefficients, the type first; `terms`: rows of a type and the atoms, from 0.
    """
    name, *settings = words
    if name in ("zero", "none") or not len(terms):
        return []
    if name == "hybrid":
        return _hybrid(kind, settings, lines, terms)
    if name == "lepton" and kind in LEPTON:
        return _lepton(kind, settings, lines, terms)
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
    scale = np.array([np.pi / 180 if one in style.degrees else 1.0 for one in names])
    numbers = dict(zip(names, (table * scale).T, strict=True))
    place = np.array([used.index(int(t)) for t in terms[:, 0]])
    return [(f"{kind}s", FormulaTerms(style.formula, terms[:, 1:], numbers, place))]


def _numbers(kind: str, name: str, style: Style, words: Sequence[str]) -> dict[str, float]:
    """The numbers of a line by name."""
    if words and words[0] in style.more:
        names, values = style.more[words[0]], numbers_in(f"{kind}_coeff", words[1:])
    else:
        series = f"{kind} {name}" in SERIES
        names, values = style.names, numbers_in(f"{kind}_coeff", words[1 if series else 0 :])
        if kind == "dihedral" and name == "charmm":
            if len(values) > 3 and values[3] != 0:
                raise ArgumentError("The weights of 1-4 pairs in `dihedral_coeff` of `charmm` must be 0, but are not.")
            values = values[:3]
        values += [0.0] * (len(names) - len(values)) if series else []
    if len(values) != len(names):
        raise ArgumentError(
            f"A line of `{kind}_coeff` of the style {name} must hold {', '.join(names)}, but holds {len(values)} numbers."
        )
    return dict(zip(names, values, strict=True))


def _hybrid(kind: str, styles: Sequence[str], lines: Sequence[Sequence[str]], terms: np.ndarray) -> Found:
    """The terms of each style of a hybrid one, by the types whose lines name it."""
    for name in styles:
        check_known(name, (*STYLES[kind], *LEPTON.get(kind, ()), "zero", "none"), f"{kind} style of LAMMPS")
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
    return [one for name in said for one in bonded_terms(kind, [name], said[name], own(name))]


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
