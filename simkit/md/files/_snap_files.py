"""Files of spectral neighbour analysis potentials (SNAP): those of LAMMPS' pair styles `snap` and `mliap`."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..._errors import ArgumentError, DataError, close_matches
from ..potentials._bispectrum import components
from ..space._units import METAL, Units
from ._potential_text import PotentialText, shown

NUMBERS: Mapping[str, float | None] = {
    "rcutfac": None,
    "twojmax": None,
    "rfac0": 0.99363,
    "rmin0": 0.0,
    "switchflag": 1.0,
    "bzeroflag": 1.0,
    "quadraticflag": 0.0,
    "chemflag": 0.0,
    "bnormflag": 0.0,
    "wselfallflag": 0.0,
    "switchinnerflag": 0.0,
}
"""Settings of one number with their defaults, None where there is none."""
IGNORED = ("chunksize", "parallelthresh")
LISTS = ("sinner", "dinner", "elems", "radelems", "welems")
LARGEST = 14
"""The largest twice angular momentum: the number of points on the sphere grows with its cube."""


@dataclasses.dataclass(frozen=True)
class SnapTable:
    """The numbers of a spectral neighbour analysis potential; lengths and energies are those of the file.

    - `elements`: names, one a species; `radius`, `weight`: of each its radius and its weight as a neighbour.
    - `constant`, `linear`, `quadratic`: coefficients of each, shape (elements,), (elements, components) and (elements, components,
        components): the last is symmetric and taken by half, and None where the potential is linear.
    - `twice`: twice the largest angular momentum; `factor`: the cutoff over the sum of two radii; `rfac0`, `rmin0`: the share of
        the angle that the cutoff takes, and the distance at which it begins.
    - `flags`: `switch`, `bzero`, `chem`, `bnorm`, `wselfall`, as the files name them.
    - `inner`: middle and half width of the inner switch of each element, shape (2, elements), or None.
    - `units`: the unit system of the numbers.
    """

    elements: tuple[str, ...]
    radius: Float[np.ndarray, " elements"]
    weight: Float[np.ndarray, " elements"]
    constant: Float[np.ndarray, " elements"]
    linear: Float[np.ndarray, "elements components"]
    quadratic: Float[np.ndarray, "elements components components"] | None
    twice: int
    factor: float
    rfac0: float
    rmin0: float
    flags: Mapping[str, bool]
    inner: Float[np.ndarray, "2 elements"] | None
    units: Units

    def __repr__(self) -> str:
        kind = "linear" if self.quadratic is None else "quadratic"
        return (
            f"SnapTable of {', '.join(self.elements)}: {self.linear.shape[1]} components, {kind}, twojmax {self.twice} "
            f"({self.units.name} units)"
        )


def read_snap(coefficients: str | Path, parameters: str | Path, elements: Sequence[str]) -> SnapTable:
    """A spectral neighbour analysis potential from the files of LAMMPS' pair style `snap`.

    **Arguments:**

    - `coefficients`: the file that mostly ends in `.snapcoeff`; `parameters`: that in `.snapparam`.
    - `elements`: which of its elements are wanted, in the order of the species; all of them where `chemflag` is 1.

    **Returns:** a `SnapTable`, for `SNAP.from_table`.

    **Raises:** an `ArgumentError` for elements that the file has not, or one twice; a `DataError` that names file and line: units
    other than metal ones, a setting that is not known or lacks, a radius that is not positive, coefficients that do not fit
    their number, a file that is cut short.

    **Source:** https://docs.lammps.org/pair_snap.html
    """
    return snap_table(coefficients, parameters, elements, metal=True)


def snap_table(
    coefficients: str | Path, parameters: str | Path, elements: Sequence[str], *, metal: bool = False
) -> SnapTable:
    """The table of `read_snap` from files of any unit system, or of metal units alone."""
    wanted = _wanted(elements)
    settings = Settings(parameters)
    text = PotentialText(coefficients)
    names, rows, numbers = _blocks(text, 3)
    radius, weight = np.array(
        [[text.finite(w, "a number of an element", line) for w in row[1:]] for line, row in rows]
    ).T
    for (line, _), name, value in zip(rows, names, radius, strict=True):
        _check_positive(text, f"the radius of `{name}`", value, line)
    return settings.table(text, wanted, names, radius, weight, numbers, metal)


def read_mliap(
    model: str | Path, descriptor: str | Path, elements: Sequence[str], *, quadratic: bool = False
) -> SnapTable:
    """The same potential from the files of LAMMPS' pair style `mliap` with `descriptor sna`.

    **Arguments:**

    - `model`: the coefficients, of `model linear` or, with `quadratic`, of `model quadratic`; `descriptor`: settings and elements.
    - `elements`: as for `read_snap`.

    **Returns:** a `SnapTable`, for `SNAP.from_table`.

    **Raises:** as `read_snap`.

    **Source:** https://docs.lammps.org/pair_mliap.html
    """
    return mliap_table(model, descriptor, elements, quadratic=quadratic, metal=True)


def mliap_table(
    model: str | Path, descriptor: str | Path, elements: Sequence[str], *, quadratic: bool = False, metal: bool = False
) -> SnapTable:
    """The table of `read_mliap` from files of any unit system, or of metal units alone."""
    wanted = _wanted(elements)
    settings = Settings(descriptor)
    settings.numbers["quadraticflag"] = float(quadratic)
    names = settings.lists.get("elems", (0, []))[1]
    text = PotentialText(model)
    _, _, numbers = _blocks(text, 0)
    if len(names) != len(numbers):
        raise DataError(
            f"The potential files `{text.name}` and `{settings.text.name}` must be of as many elements, but they are of "
            f"{len(numbers)} and {len(names)}."
        )
    radius, weight = (settings.listed(name, len(names)) for name in ("radelems", "welems"))
    for name, value in zip(names, radius, strict=True):
        _check_positive(settings.text, f"the radius of `{name}`", value, settings.lists["radelems"][0])
    return settings.table(text, wanted, names, radius, weight, numbers, metal)


def _wanted(elements: Sequence[str]) -> tuple[str, ...]:
    if isinstance(elements, str) or not elements or not all(isinstance(name, str) for name in elements):
        raise ArgumentError(
            f'Argument `elements` must be a list of names, such as ["Ta"], but is {shown(str(elements))}.'
        )
    twice = [name for name in elements if list(elements).count(name) > 1]
    if twice:
        raise ArgumentError(
            f"Argument `elements` must hold each element once, but holds `{twice[0]}` more than once. Give all atoms of an element "
            "the same species."
        )
    return tuple(elements)


def _check_metal(*texts: PotentialText) -> None:
    """Refuse a file that names other than metal units."""
    for text in texts:
        if text.units() != METAL:
            raise text.error(
                f"must name metal units, angstrom and electron volt, but names {text.units().name} units. Convert the coefficients "
                "to electron volt and write `UNITS: metal`, or read it by `md.read_lammps` with the script of a run in its units.",
                1,
            )


def _check_positive(text: PotentialText, what: str, value: float, line: int) -> None:
    if value <= 0:
        raise text.error(f"must hold {what} as a positive number, but it is {value:g}.", line)


def _blocks(text: PotentialText, head: int) -> tuple[list[str], list[tuple[int, list[str]]], np.ndarray]:
    """The first words of each element's block, those `head` words, and its coefficients."""
    words = [(line, word) for line, row in enumerate(text.lines, 1) for word in row.partition("#")[0].split()]
    block = "its name, radius and weight, and all its coefficients" if head else "all its coefficients"
    cut = DataError(
        f"The potential file `{text.name}` must hold two counts, and for each element {block}, but it ends before. Fetch the "
        "file again."
    )
    if len(words) < 2:
        raise cut
    counts = [text.finite(word, "a count", line) for line, word in words[:2]]
    if any(count != int(count) or count < 1 for count in counts):
        raise text.error("must hold the counts of elements and of coefficients.", words[0][0])
    size, count = map(int, counts)
    rest = words[2:]
    if len(rest) != size * (head + count):
        if len(rest) < size * (head + count):
            raise cut
        raise text.error("must be the end, since all coefficients have been read.", rest[size * (head + count)][0])
    names, rows, numbers = [], [], []
    for k in range(size):
        own = rest[k * (head + count) : (k + 1) * (head + count)]
        rows.append((own[0][0], [word for _, word in own[:head]]))
        names.append(own[0][1])
        numbers.append([text.finite(word, "a coefficient", line) for line, word in own[head:]])
    return names, rows, np.array(numbers)


class Settings:
    """The settings of a file of parameters or descriptors."""

    def __init__(self, path: str | Path):
        self.text = PotentialText(path)
        self.numbers: dict[str, float] = {name: value for name, value in NUMBERS.items() if value is not None}
        self.lists: dict[str, tuple[int, list[str]]] = {}
        self.found: dict[str, int] = {}
        for line, row in enumerate(self.text.lines, 1):
            name, *words = row.partition("#")[0].split() or [""]
            if name in LISTS:
                self.lists[name] = line, words
            elif name in NUMBERS and len(words) == 1:
                self.numbers[name] = self.text.finite(words[0], f"`{name}`", line)
                self.found[name] = line
                self._check(name, line)
            elif name in NUMBERS:
                raise self.text.error(f"must hold `{name}` and one number.", line)
            elif name and name not in (*IGNORED, "nelems"):
                known = (*NUMBERS, *LISTS)
                raise self.text.error(
                    f"must hold a setting that is known, but there is `{shown(name)}`. {close_matches(name, known)}",
                    line,
                )
        missing = [name for name in ("rcutfac", "twojmax") if name not in self.numbers]
        if missing:
            raise DataError(f"The potential file `{self.text.name}` must give `{missing[0]}`, but it does not.")
        twice = self.numbers["twojmax"]
        if twice != int(twice) or not 0 <= twice <= LARGEST:
            raise DataError(
                f"The potential file `{self.text.name}` must give `twojmax` as a whole number up to {LARGEST}, but it is {twice:g}."
            )

    def _check(self, name: str, line: int) -> None:
        value = self.numbers[name]
        if name.endswith("flag") and value not in (0, 1):
            raise self.text.error(f"must hold `{name}` as 0 or 1, but it is {value:g}.", line)
        if name == "rcutfac":
            _check_positive(self.text, "`rcutfac`", value, line)

    def listed(self, name: str, count: int) -> np.ndarray:
        """A number for each element."""
        line, words = self.lists.get(name, (len(self.text.lines), []))
        if len(words) != count:
            raise self.text.error(f"must give `{name}` with {count} numbers, but gives {len(words)}.", line)
        return np.array([self.text.finite(word, f"`{name}`", line) for word in words])

    def flag(self, name: str) -> bool:
        return self.numbers[name] != 0

    def table(
        self,
        text: PotentialText,
        wanted: tuple[str, ...],
        names: Sequence[str],
        radius: np.ndarray,
        weight: np.ndarray,
        numbers: np.ndarray,
        metal: bool,
    ) -> SnapTable:
        """The table of the elements that are wanted."""
        for name in wanted:
            if name not in names:
                raise ArgumentError(
                    f"Argument `elements` must hold elements of `{text.name}`, but holds `{name}`. {close_matches(name, names)}"
                )
        chem = self.flag("chemflag")
        if chem and (set(wanted) != set(names) or len(wanted) != len(names)):
            raise ArgumentError(
                f"Argument `elements` must hold each element of `{text.name}` once, since its components are those of triples of "
                f"elements (`chemflag`): {', '.join(names)}, but is {', '.join(wanted)}."
            )
        place = [list(names).index(name) for name in wanted]
        cutoff = 2 * self.numbers["rcutfac"] * radius[place].min()
        if self.numbers["rmin0"] >= cutoff:
            raise self.text.error(
                f"must hold an `rmin0` below each cutoff, `rcutfac` times the sum of two radii of `{text.name}`, but it is "
                f"{self.numbers['rmin0']:g} and the least cutoff {cutoff:g}.",
                self.found["rmin0"],
            )
        twice, channels = int(self.numbers["twojmax"]), len(names) if chem else 1
        count = len(components(twice)) * channels**3
        expected = 1 + count + (count * (count + 1) // 2 if self.flag("quadraticflag") else 0)
        if numbers.shape[1] != expected:
            raise DataError(
                f"The potential file `{text.name}` must have {expected} coefficients an element, by the settings of "
                f"`{self.text.name}`, but it has {numbers.shape[1]}."
            )
        linear = numbers[:, 1 : 1 + count]
        if chem:  # components by the elements of the three densities, in the order of the species
            by_element = linear.reshape(len(names), channels, channels, channels, -1)
            linear = by_element[:, place][:, :, place][:, :, :, place].reshape(linear.shape)
        quadratic = None
        if self.flag("quadraticflag"):
            if chem and place != sorted(place):
                raise ArgumentError(f"Argument `elements` must be in the order of `{text.name}`, {', '.join(names)}.")
            upper = np.zeros((len(names), count, count))
            upper[:, *np.triu_indices(count)] = numbers[:, 1 + count :]
            diagonal = upper * np.eye(count)
            quadratic = (upper + upper.swapaxes(1, 2) - diagonal)[place]
        inner = None
        if self.flag("switchinnerflag"):
            inner = np.stack([self.listed(name, len(wanted)) for name in ("sinner", "dinner")])
        if metal:
            _check_metal(text, self.text)
        flags = {name: self.flag(f"{name}flag") for name in ("switch", "bzero", "chem", "bnorm", "wselfall")}
        return SnapTable(
            wanted, radius[place], weight[place], numbers[place, 0], linear[place], quadratic, twice,
            self.numbers["rcutfac"], self.numbers["rfac0"], self.numbers["rmin0"], flags, inner, text.units(),
        )  # fmt: skip
