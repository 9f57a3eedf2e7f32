"""The `table` styles of LAMMPS: sections of table files, and the potentials that its interpolations make of them."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._errors import ArgumentError, DataError
from ..potentials._potential import Potential
from ..potentials._tabulated_tables import TabulatedPairs, TabulatedTerms
from ._lammps_words import numbers_in, types_in
from ._potential_text import LAMMPS_NAMES, PotentialText

WORDS = {
    "pair": {"R": 2, "RSQ": 2, "FPRIME": 2},
    "bond": {"FP": 2, "EQ": 1},
    "angle": {"FP": 2, "EQ": 1},
    "dihedral": {"NOF": 0, "DEGREES": 0, "RADIANS": 0, "degrees": 0, "radians": 0, "CHECKU": 1, "CHECKF": 1},
}
"""Words of the line of settings of a section, beside N, and how many words follow each."""

WAYS = ("linear", "spline")
KSPACE_WORDS = ("ewald", "pppm", "msm", "dispersion", "tip4p")
"""Words behind `pair_style table` that say which sums of waves it stands with; they change no number."""
TABLE_WORDS = (*WAYS, "lookup", "bitmap", *KSPACE_WORDS)
TABLES = {"bond": ("table",), "angle": ("table",), "dihedral": ("table", "table/cut")}

NOT_JOINED = {
    "lookup": "as its energy goes in steps, which have no force",
    "bitmap": "as its knots are those of the bits of a single number",
}


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of a table file: places, energies and forces (minus the derivative; None with `NOF`), and its settings."""

    x: np.ndarray
    energy: np.ndarray
    force: np.ndarray | None
    settings: dict[str, list[float]]


def read_section(path: str, keyword: str, kind: str, units: str) -> Section:
    """The section of a table file that a keyword names.

    **Raises:** a `DataError` for a file without it, for settings that are not known, and for numbers that are cut short or in
    another unit system.
    """
    text = PotentialText(Path(path))
    if text.lines and "UNITS:" in text.lines[0]:
        given = text.units()
        if given.name != LAMMPS_NAMES.get(units, units):
            raise text.error(f"must name the unit system of the commands, {units}, but names {given.name}.", 1)
    _find(text, keyword)
    count, settings = _settings(text, kind)
    forces = "NOF" not in settings
    rows: list[list[float]] = []
    while len(rows) < count:
        line = text.take(f"row {len(rows) + 1} of {count} of section {keyword}").partition("#")[0]
        if not line.split() and not rows:
            continue
        words = line.split()
        if len(words) < 3 + forces:
            raise text.error(
                f"must hold a number, a place, an energy{' and a force' * forces}, but is `{line.strip()}`."
            )
        rows.append([text.number(word, "a value of the table") for word in words[1 : 3 + forces]])
    values = np.array(rows).T
    x = values[0]
    if "R" in settings:
        x = np.linspace(settings["R"][0], settings["R"][1], count)
    elif "RSQ" in settings:
        low, high = (value * value for value in settings["RSQ"])
        x = np.sqrt(np.linspace(low, high, count))
    if len(x) < 2 or not (np.diff(x) > 0).all():
        raise DataError(f"Section {keyword} of `{text.name}` must hold two places or more that increase, but does not.")
    return Section(x, values[1], values[2] if forces else None, settings)


def _find(text: PotentialText, keyword: str) -> None:
    """Go to the line behind a keyword, which stands first in its line outside of tables."""
    for number, line in enumerate(text.lines, 1):
        if line.split()[:1] == [keyword]:
            text.line = number
            return
    raise DataError(f"The table file `{text.name}` must hold the section {keyword}, but does not.")


def _settings(text: PotentialText, kind: str) -> tuple[int, dict[str, list[float]]]:
    words, found, count = text.words("the number of rows as N and a number", 2), {}, 0
    known = WORDS[kind]
    while words:
        name, *words = words
        if name == "N" and words:
            count, words = text.whole(words[0], "the number of rows", 2), words[1:]
        elif name in known and len(words) >= known[name]:
            plain = name.startswith("CHECK")
            found[name] = [] if plain else [text.number(word, f"numbers of {name}") for word in words[: known[name]]]
            words = words[known[name] :]
        else:
            raise text.error(f"must hold settings of a {kind} table, N and {', '.join(known)}, but holds `{name}`.")
    if not count:
        raise text.error("must give the number of rows as N and a number, but does not.")
    return count, found


def _spline(x: np.ndarray, y: np.ndarray, first: float, last: float) -> Callable[[np.ndarray], np.ndarray]:
    """A cubic spline with these slopes at its ends."""
    from scipy.interpolate import CubicSpline

    ends: Any = ((1, first), (1, last))
    return CubicSpline(x, y, bc_type=ends)


def _around(x: np.ndarray, y: np.ndarray, spline: bool) -> Callable[[np.ndarray], np.ndarray]:
    """A periodic curve through values at angles in radians."""
    from scipy.interpolate import CubicSpline

    turned = x % (2 * np.pi)
    order = np.argsort(turned)
    knots, values = np.append(turned[order], turned[order[0]] + 2 * np.pi), np.append(y[order], y[order[0]])
    moved = lambda angle: knots[0] + (angle - knots[0]) % (2 * np.pi)
    if not spline:
        return lambda angle: np.interp(moved(angle), knots, values)
    curve = CubicSpline(knots, values, bc_type="periodic")
    return lambda angle: curve(moved(angle))


def _ends_of_force(x: np.ndarray, force: np.ndarray, given: Sequence[float] | None) -> tuple[float, float]:
    if given is not None:
        return given[0], given[1]
    return (force[1] - force[0]) / (x[1] - x[0]), (force[-1] - force[-2]) / (x[-1] - x[-2])


def way_of(kind: str, words: Sequence[str]) -> tuple[bool, int]:
    """Tell whether tables are joined by splines, and how many knots they have: what stands behind the style.

    **Raises:** an `ArgumentError` for ways that are not known, or refused.
    """
    name, *settings = words
    settings = [word for word in settings if kind != "pair" or word not in KSPACE_WORDS]
    way = settings[0] if settings else ""
    if way in NOT_JOINED:
        raise ArgumentError(
            f"The {kind} style {name} must not be joined by {way}, {NOT_JOINED[way]}. Write linear or spline."
        )
    if len(settings) != 2 or way not in WAYS or not settings[1].isdigit() or int(settings[1]) < 3:
        raise ArgumentError(
            f"The {kind} style {name} must be followed by linear or spline and by a number of knots, but is by "
            f"`{' '.join(settings)}`."
        )
    return way == "spline", int(settings[1])


def table_pairs(words: Sequence[str], lines: Sequence[Sequence[str]], some: np.ndarray, units: str) -> TabulatedPairs:
    """The potential of the pair style `table` between the pairs of types `some`."""
    (spline, knots), types = way_of("pair", words), len(some)
    rows: list[tuple[float, float, np.ndarray, np.ndarray, list[float]]] = []
    table, made = np.full((types, types), -1), {}
    for first, second, *rest in lines:
        if len(rest) not in (2, 3):
            raise ArgumentError(
                f"A line of `pair_coeff` of the style table must hold a file and a section, "
                f"but is `{' '.join([first, second, *rest])}`."
            )
        key = tuple(rest)
        if key not in made:
            made[key] = len(rows)
            rows.append(_pair_columns(rest, spline, knots, units))
        for i in types_in(first, types):
            for j in types_in(second, types):
                if i <= j:
                    table[i, j] = table[j, i] = made[key]
    lacking = np.argwhere(some & (table < 0))
    if len(lacking):
        i, j = lacking[0] + 1
        raise ArgumentError(
            f"`pair_coeff` of the style table must give a section to types {i} and {j}, but gives none."
        )
    starts, ends, energies, slopes, bent = zip(*rows, strict=True)
    return TabulatedPairs(
        np.stack(energies),
        np.stack(slopes),
        starts,
        ends,
        table=np.where(some, table, -1),
        end_slopes=np.array(bent) if spline else None,
    )


def _pair_columns(
    rest: Sequence[str], spline: bool, knots: int, units: str
) -> tuple[float, float, np.ndarray, np.ndarray, list[float]]:
    """First and last distance, energies and slopes by r^2 at even r^2, and slopes of these slopes at the ends."""
    path, keyword, *cut = rest
    section = read_section(path, keyword, "pair", units)
    x, force = section.x, section.force
    assert force is not None, "tables of pairs have forces"
    start, end = float(x[0]), numbers_in("pair_coeff", cut)[0] if cut else float(x[-1])
    if not (0 < start < end <= x[-1]):
        raise ArgumentError(
            f"A line of `pair_coeff` of the style table must have a cutoff within the table, from {start} to {x[-1]}, but "
            f"has {end}."
        )
    given = section.settings.get("FPRIME")
    first, last = _ends_of_force(x, force, given)
    r = np.sqrt(np.linspace(start * start, end * end, knots))
    r[0], r[-1] = start, end
    if not spline and "RSQ" in section.settings and len(x) == knots and end == x[-1]:
        return start, end, section.energy, -force / r / 2, [0.0, 0.0]
    energy, curve = _spline(x, section.energy, -force[0], -force[-1]), _spline(x, force, first, last)
    slope: Callable[[Any], Any] = lambda r: -curve(r) / r / 2
    # The slopes at the ends are those over a tenth of an interval where the file gives none.
    step = 0.1 * (end * end - start * start) / (knots - 1)
    near, far = np.sqrt(start * start + step), np.sqrt(end * end - step)
    bent = [(slope(near) - slope(start)) / step, (slope(end) - slope(far)) / step]
    if given is not None:
        bent[0] = -(first / start - force[0] / start**2) / (4 * start)
    if given is not None and end == x[-1]:
        bent[1] = -(last / end - force[-1] / end**2) / (4 * end)
    return start, end, energy(r), slope(r), [float(value) for value in bent]


def table_terms(
    kind: str, words: Sequence[str], lines: Sequence[Sequence[str]], terms: np.ndarray, units: str
) -> list[tuple[str, Potential]]:
    """The potential of all terms of a `table` style."""
    spline, knots = way_of(kind, words)
    head = 5 if words[0] == "table/cut" else 1
    said: dict[int, Sequence[str]] = {int(first) - 1: rest for first, *rest in lines}
    used = sorted({int(t) for t in terms[:, 0]})
    columns, fading = [], []
    for type_ in used:
        rest = said.get(type_, [])
        if len(rest) != head + 1 or (head == 5 and rest[0] != "aat"):
            raise ArgumentError(
                f"`{kind}_coeff` of the style {words[0]} must give type {type_ + 1} {'aat, K, two angles, ' * (head == 5)}a file "
                f"and a section, but gives `{' '.join(rest)}`."
            )
        section, weight = read_section(rest[-2], rest[-1], kind, units), 1.0
        if head == 5:
            factor, *angles = numbers_in("dihedral_coeff", rest[1:4])
            weight = factor * factor
            fading.append(np.radians(angles))
        made = _around_columns(section, spline, knots) if kind == "dihedral" else _columns(kind, section, knots)
        columns.append([made[0], made[1], *(None if part is None else weight * part for part in made[2:])])
    starts, ends, energies, slopes, bent = zip(*columns, strict=True)
    if len({slope is None for slope in slopes}) > 1:
        raise ArgumentError("Sections of `dihedral_style table` must all give forces, or all say `NOF`, but do not.")
    ranges: dict[str, Any] = {"starts": starts, "ends": ends} if kind == "bond" else {}
    potential = TabulatedTerms(
        terms[:, 1:],
        np.stack(energies),
        None if slopes[0] is None else np.stack(slopes),
        np.array([used.index(int(t)) for t in terms[:, 0]]),
        spline=spline,
        end_slopes=np.stack(bent) if spline and kind != "dihedral" else None,
        fading=np.stack(fading) if fading else None,
        **ranges,
    )
    return [(f"{kind}s", potential)]


def _columns(kind: str, section: Section, knots: int) -> tuple[Any, ...]:
    """First and last place, energies, slopes, and slopes of slopes at both ends, of a bond or an angle."""
    x, force, given = section.x, section.force, section.settings.get("FP")
    assert force is not None, "these tables have forces"
    if kind == "angle":
        if not np.allclose(x[[0, -1]], [0, 180]):
            raise ArgumentError(f"Tables of angles must go from 0 to 180 degrees, but one goes from {x[0]} to {x[-1]}.")
        x, force = np.radians(x), np.degrees(force)
        given = None if given is None else [float(np.degrees(np.degrees(value))) for value in given]
    first, last = _ends_of_force(x, force, given)
    energy, curve = _spline(x, section.energy, -force[0], -force[-1]), _spline(x, force, first, last)
    places = np.linspace(x[0], x[-1], knots)
    return float(x[0]), float(x[-1]), energy(places), -curve(places), np.array([-first, -last])


def _around_columns(section: Section, spline: bool, knots: int) -> tuple[Any, ...]:
    """The same of a dihedral, on a circle."""
    degrees = not {"RADIANS", "radians"} & set(section.settings)
    x = np.radians(section.x) if degrees else section.x
    if x[-1] - x[0] >= 2 * np.pi:
        raise ArgumentError("Tables of dihedrals must go less than once around, but one does not.")
    places = 2 * np.pi * np.arange(knots) / knots
    energy = _around(x, section.energy, spline)(places)
    if section.force is not None:
        slope = -_around(x, np.degrees(section.force) if degrees else section.force, spline)(places)
    elif spline:
        slope = None
    else:
        slope = (np.roll(energy, -1) - np.roll(energy, 1)) / (4 * np.pi / knots)
    return 0.0, 2 * np.pi, energy, slope, None
