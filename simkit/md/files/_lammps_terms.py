"""Styles of LAMMPS for bonds, angles, dihedrals and impropers, as formulas with named numbers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..._errors import ArgumentError, check_known
from ..potentials._formula_terms import FormulaTerms
from ..potentials._potential import Potential


class Style(NamedTuple):
    """A formula, the numbers of a line of coefficients in their order, and those of them that are angles in degrees."""

    formula: str
    names: tuple[str, ...]
    degrees: tuple[str, ...] = ()


_FENE = (
    "-k*R0^2*log(1 - (d/R0)^2)/2 + select(step(2^(1/6)*sigma - d), 4*epsilon*((sigma/d)^12 - (sigma/d)^6) + epsilon, 0)"
)
STYLES: Mapping[str, Mapping[str, Style]] = {
    "bond": {
        "harmonic": Style("k*(r - r0)^2", ("k", "r0")),
        "morse": Style("depth*(1 - exp(-a*(r - r0)))^2", ("depth", "a", "r0")),
        "fene": Style(f"{_FENE}; d = r", ("k", "R0", "epsilon", "sigma")),
        "fene/expand": Style(f"{_FENE}; d = r - delta0", ("k", "R0", "epsilon", "sigma", "delta0")),
        "class2": Style("k2*d^2 + k3*d^3 + k4*d^4; d = r - r0", ("r0", "k2", "k3", "k4")),
        "gromos": Style("k*(r^2 - r0^2)^2", ("k", "r0")),
        "nonlinear": Style("epsilon*(r - r0)^2/(reach^2 - (r - r0)^2)", ("epsilon", "r0", "reach")),
        "harmonic/shift": Style("depth/(r0 - rc)^2*((r - r0)^2 - (rc - r0)^2)", ("depth", "r0", "rc")),
        "harmonic/shift/cut": Style(
            "select(step(rc - r), depth/(r0 - rc)^2*((r - r0)^2 - (rc - r0)^2), 0)", ("depth", "r0", "rc")
        ),
        "mm3": Style("k*d^2*(1 - 2.55*d + 7/12*(2.55*d)^2); d = r - r0", ("k", "r0")),
    },
    "angle": {
        "harmonic": Style("k*(theta - theta0)^2", ("k", "theta0"), ("theta0",)),
        "charmm": Style(
            "k*(theta - theta0)^2 + kub*(distance(p1, p3) - rub)^2", ("k", "theta0", "kub", "rub"), ("theta0",)
        ),
        "cosine": Style("k*(1 + cos(theta))", ("k",)),
        "cosine/squared": Style("k*(cos(theta) - cos(theta0))^2", ("k", "theta0"), ("theta0",)),
        "cosine/squared/restricted": Style("k*(cos(theta) - cos(theta0))^2/sin(theta)^2", ("k", "theta0"), ("theta0",)),
        "cosine/delta": Style("k*(1 - cos(theta - theta0))", ("k", "theta0"), ("theta0",)),
        "cosine/periodic": Style("2*c/n^2*(1 - b*cos(3.141592653589793*n)*cos(n*theta))", ("c", "b", "n")),
        "cosine/shift": Style("-depth/2*(1 + cos(theta - theta0))", ("depth", "theta0"), ("theta0",)),
        "fourier": Style("k*(c0 + c1*cos(theta) + c2*cos(2*theta))", ("k", "c0", "c1", "c2")),
        "fourier/simple": Style("k*(1 + c*cos(n*theta))", ("k", "c", "n")),
        "quartic": Style("k2*d^2 + k3*d^3 + k4*d^4; d = theta - theta0", ("theta0", "k2", "k3", "k4"), ("theta0",)),
    },
    "dihedral": {
        "harmonic": Style("k*(1 + d*cos(n*theta))", ("k", "d", "n")),
        "charmm": Style("k*(1 + cos(n*theta - phase))", ("k", "n", "phase"), ("phase",)),
        "opls": Style(
            "(k1*(1 + cos(theta)) + k2*(1 - cos(2*theta)) + k3*(1 + cos(3*theta)) + k4*(1 - cos(4*theta)))/2",
            ("k1", "k2", "k3", "k4"),
        ),
        "multi/harmonic": Style("a1 + a2*c + a3*c^2 + a4*c^3 + a5*c^4; c = cos(theta)", ("a1", "a2", "a3", "a4", "a5")),
        "helix": Style(
            "a*(1 - cos(theta)) + b*(1 + cos(3*theta)) + c*(1 + cos(theta + 0.7853981633974483))", ("a", "b", "c")
        ),
        "quadratic": Style(
            "k*d^2; d = g - 6.283185307179586*floor((g + 3.141592653589793)/6.283185307179586); g = theta - theta0",
            ("k", "theta0"),
            ("theta0",),
        ),
    },
    "improper": {
        "harmonic": Style("k*(abs(theta) - chi0)^2", ("k", "chi0"), ("chi0",)),
        "cvff": Style("k*(1 + d*cos(n*theta))", ("k", "d", "n")),
    },
}
"""Kind of term -> name of a style -> its formula; angles in radians, a dihedral of 0 being cis."""

SERIES = {
    "dihedral fourier": (3, "k{i}*(1 + cos(n{i}*theta - d{i}))", ("k{i}", "n{i}", "d{i}")),
    "dihedral nharmonic": (1, "a{i}*cos(theta)^{power}", ("a{i}",)),
}
"""Styles of as many terms as their first coefficient says: numbers a term, formula, names."""


def style_of(kind: str, name: str, lines: Sequence[Sequence[str]]) -> Style:
    """The formula of a style; for one with a number of terms that of its longest line."""
    if f"{kind} {name}" in SERIES:
        size, formula, names = SERIES[f"{kind} {name}"]
        count = max(int(float(line[1])) for line in lines)
        parts = [formula.format(i=i + 1, power=i) for i in range(count)]
        named = tuple(one.format(i=i + 1) for i in range(count) for one in names)
        return Style(" + ".join(parts), named, tuple(one for one in named if one[0] == "d" and size == 3))
    check_known(name, STYLES[kind], f"{kind} style of LAMMPS")
    return STYLES[kind][name]


def types_in(word: str, types: int) -> range:
    """The types, from 0, that a word such as "2", "*", "2*" or "1*3" names."""
    first, star, last = word.partition("*")
    if not star:
        return range(int(first) - 1, int(first))
    return range(int(first or 1) - 1, int(last or types))


def numbers_in(kind: str, words: Sequence[str]) -> list[float]:
    """The words of a line of coefficients as numbers."""
    try:
        return [float(word) for word in words]
    except ValueError:
        raise ArgumentError(f"A line of `{kind}_coeff` must hold numbers, but holds `{' '.join(words)}`.") from None


def bonded_terms(
    kind: str, name: str, lines: Sequence[Sequence[str]], terms: np.ndarray
) -> list[tuple[str, Potential]]:
    """The potential of all terms of a kind; none of the style `zero`.

    **Arguments:** `lines`: of coefficients, the type first; `terms`: rows of a type and the atoms, from 0.
    """
    if name in ("zero", "none") or not len(terms):
        return []
    style, series = style_of(kind, name, lines), f"{kind} {name}" in SERIES
    rows = {}
    for line in lines:
        words = numbers_in(kind, line[2 if series else 1 :])
        if kind == "dihedral" and name == "charmm":
            if len(words) > 3 and words[3] != 0:
                raise ArgumentError("The weights of 1-4 pairs in `dihedral_coeff` of `charmm` must be 0, but are not.")
            words = words[:3]
        words += [0.0] * (len(style.names) - len(words)) if series else []
        if len(words) != len(style.names):
            raise ArgumentError(
                f"A line of `{kind}_coeff` of the style {name} must hold {', '.join(style.names)}, but holds {len(words)} numbers."
            )
        rows[int(line[0]) - 1] = words
    used = sorted({int(t) for t in terms[:, 0]})
    for type_ in used:
        if type_ not in rows:
            raise ArgumentError(f"`{kind}_coeff` must give numbers to type {type_ + 1}, but gives none.")
    table = np.array([rows[type_] for type_ in used])
    scale = np.array([np.pi / 180 if one in style.degrees else 1.0 for one in style.names])
    numbers = dict(zip(style.names, (table * scale).T, strict=True))
    place = np.array([used.index(int(t)) for t in terms[:, 0]])
    return [(f"{kind}s", FormulaTerms(style.formula, terms[:, 1:], numbers, place))]
