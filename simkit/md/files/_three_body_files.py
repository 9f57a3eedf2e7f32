"""Parameter files of the three-body potentials of Stillinger and Weber and of Tersoff."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..._errors import ArgumentError, DataError, close_matches
from ..space._units import Units
from ._potential_text import PotentialText

STILLINGER_WEBER = ("epsilon", "sigma", "a", "lambda", "gamma", "cos_theta0", "A", "B", "p", "q", "tolerance")
TERSOFF = ("m", "gamma", "lambda3", "c", "d", "cos_theta0", "n", "beta", "lambda2", "B", "R", "D", "lambda1", "A")

TERSOFF_MOD = (
    *("beta", "alpha", "h", "eta", "lambda2", "B", "R", "D", "lambda1", "A", "n", "c1", "c2", "c3", "c4", "c5", "c0"),
)
TERSOFF_ZBL = (*TERSOFF, "charge1", "charge2", "middle", "steepness")
NB3B = ("stiffness", "theta0", "cutoff")
VASHISHTA = ("H", "eta", "Zi", "Zj", "lambda1", "D", "lambda4", "W", "rc", "B", "gamma", "r0", "C", "cos_theta0")


@dataclasses.dataclass(frozen=True)
class ThreeBodyTable:
    """The numbers of a three-body potential by triple of species.

    - `elements`: names, one a species.
    - `values`: name of a parameter -> numbers of shape (species, species, species), the first the atom in the middle. Entries
      (i, j, j) hold the numbers of the pair i, j as well.
    - `units`: the unit system of the numbers.
    """

    elements: tuple[str, ...]
    values: dict[str, Float[np.ndarray, "species species species"]]
    units: Units

    def __getitem__(self, name: str) -> Float[np.ndarray, "species species species"]:
        return self.values[name]

    def __repr__(self) -> str:
        return f"ThreeBodyTable of {', '.join(self.elements)}: {', '.join(self.values)} ({self.units.name} units)"


def read_stillinger_weber(path: str | Path, elements: Sequence[str]) -> ThreeBodyTable:
    r"""Parameters of the Stillinger-Weber potential from a file of LAMMPS' pair style `sw`.

    **Arguments:**

    - `path`: the file.
    - `elements`: which of its elements are wanted, in the order of the species.

    **Returns:** a `ThreeBodyTable` with `epsilon`, `sigma`, `a`, `lambda`, `gamma`, `cos_theta0`, `A`, `B`, `p`, `q` and
    `tolerance`.

    **Raises:** a `DataError` that names the line: an entry that is cut short, a word where a number belongs, an entry given twice,
    a triple of the elements that is missing, a negative length or energy, a file of another style.

    **Good values:** for silicon epsilon 2.1683 eV, sigma 2.0951 Angstrom, a 1.8, lambda 21, gamma 1.2, cos theta_0 -1/3,
    A 7.049556277, B 0.6022245584, p 4, q 0.

    **Source:** https://docs.lammps.org/pair_sw.html; Stillinger and Weber (1985), Phys. Rev. B 31:5262,
    doi:10.1103/PhysRevB.31.5262.
    """
    positive = ("epsilon", "sigma", "a", "gamma", "p", "q", "A", "B", "lambda", "tolerance")
    return _read(path, elements, STILLINGER_WEBER, positive, "Stillinger-Weber")


def read_tersoff(path: str | Path, elements: Sequence[str]) -> ThreeBodyTable:
    r"""Parameters of the Tersoff potential from a file of LAMMPS' pair style `tersoff`.

    **Arguments:**

    - `path`: the file.
    - `elements`: which of its elements are wanted, in the order of the species.

    **Returns:** a `ThreeBodyTable` with `m`, `gamma`, `lambda3`, `c`, `d`, `cos_theta0`, `n`, `beta`, `lambda2`, `B`, `R`, `D`,
    `lambda1` and `A`.

    **Raises:** a `DataError`, as `read_stillinger_weber`; also where m is neither 1 nor 3, or D is larger than R.

    **Source:** https://docs.lammps.org/pair_tersoff.html; Tersoff (1988), Phys. Rev. B 37:6991, doi:10.1103/PhysRevB.37.6991.
    """
    positive = ("c", "d", "n", "beta", "lambda2", "B", "R", "D", "lambda1", "A", "gamma")
    return _checked(path, _read(path, elements, TERSOFF, positive, "Tersoff"))


def _checked(path: str | Path, table: ThreeBodyTable) -> ThreeBodyTable:
    """The table of a Tersoff potential, whose powers and ends are in order."""
    name = Path(path).name
    if not np.isin(table["m"], (1.0, 3.0)).all():
        raise DataError(
            f"The potential file `{name}` must give m as 1 or 3, but it gives {np.unique(table['m']).tolist()}."
        )
    if (table["D"] > table["R"]).any():
        raise DataError(f"The potential file `{name}` must give D up to R, but somewhere D is larger.")
    return table


def read_tersoff_mod(path: str | Path, elements: Sequence[str], *, constant: bool = False) -> ThreeBodyTable:
    r"""Parameters of the modified Tersoff potential from a file of LAMMPS' pair style `tersoff/mod`.

    **Arguments:** as for `read_tersoff`; with `constant` of the style `tersoff/mod/c`, whose entries end in an energy c0.

    **Returns:** a `ThreeBodyTable` with `beta`, `alpha`, `h`, `eta`, `lambda2`, `B`, `R`, `D`, `lambda1`, `A`, `n`, `c1` to `c5`
    and `c0`, which is 0 where the file has none. The number that LAMMPS calls a dummy is passed over.

    **Raises:** a `DataError`, as `read_tersoff`; also where beta is neither 1 nor 3.

    **Source:** https://docs.lammps.org/pair_tersoff_mod.html; Kumagai et al. (2007), Comput. Mater. Sci. 39:457,
    doi:10.1016/j.commatsci.2006.07.013.
    """
    names = (*TERSOFF_MOD[:4], "dummy", *TERSOFF_MOD[4 : None if constant else -1])
    positive = ("eta", "lambda2", "B", "R", "D", "lambda1", "A", "n")
    table = _read(path, elements, names, positive, "modified Tersoff")
    if not np.isin(table["beta"], (1.0, 3.0)).all():
        raise DataError(
            f"The potential file `{Path(path).name}` must give beta as 1 or 3, but it gives {np.unique(table['beta']).tolist()}."
        )
    zero = {} if constant else {"c0": np.zeros_like(table["beta"])}
    values = {**table.values, **zero}
    return dataclasses.replace(table, values={name: values[name] for name in TERSOFF_MOD})


def read_tersoff_zbl(path: str | Path, elements: Sequence[str]) -> ThreeBodyTable:
    r"""Parameters of Tersoff's potential with screened nuclei from a file of LAMMPS' pair style `tersoff/zbl`.

    **Arguments:** as for `read_tersoff`.

    **Returns:** a `ThreeBodyTable` with the numbers of `read_tersoff` and `charge1`, `charge2`, `middle` and `steepness`.

    **Raises:** a `DataError`, as `read_tersoff`.

    **Source:** https://docs.lammps.org/pair_tersoff_zbl.html.
    """
    positive = ("c", "d", "n", "beta", "lambda2", "B", "R", "D", "lambda1", "A", "gamma", *TERSOFF_ZBL[len(TERSOFF) :])
    return _checked(path, _read(path, elements, TERSOFF_ZBL, positive, "Tersoff with ZBL"))


def read_vashishta(path: str | Path, elements: Sequence[str]) -> ThreeBodyTable:
    r"""Parameters of Vashishta's potential from a file of LAMMPS' pair style `vashishta`.

    **Arguments:** as for `read_tersoff`.

    **Returns:** a `ThreeBodyTable` with `H`, `eta`, `Zi`, `Zj`, `lambda1`, `D`, `lambda4`, `W`, `rc`, `B`, `gamma`, `r0`, `C` and
    `cos_theta0`.

    **Raises:** a `DataError`, as `read_stillinger_weber`.

    **Source:** https://docs.lammps.org/pair_vashishta.html; Vashishta, Kalia, Rino & Ebbsjo (1990), Phys. Rev. B 41:12197,
    doi:10.1103/PhysRevB.41.12197.
    """
    positive = ("H", "eta", "lambda1", "D", "lambda4", "W", "rc", "B", "gamma", "r0", "C")
    return _read(path, elements, VASHISHTA, positive, "Vashishta")


def read_nb3b(path: str | Path, elements: Sequence[str]) -> ThreeBodyTable:
    r"""Parameters of harmonic angles of neighbours from a file of LAMMPS' pair style `nb3b/harmonic`.

    **Arguments:** as for `read_tersoff`.

    **Returns:** a `ThreeBodyTable` with `stiffness`, `theta0` in degrees, and `cutoff`.

    **Raises:** a `DataError`, as `read_stillinger_weber`.

    **Source:** https://docs.lammps.org/pair_nb3b.html.
    """
    return _read(path, elements, NB3B, NB3B, "nb3b/harmonic")


def _read(
    path: str | Path, elements: Sequence[str], names: tuple[str, ...], positive: tuple[str, ...], style: str
) -> ThreeBodyTable:
    wanted = (elements,) if isinstance(elements, str) else tuple(elements)
    if not wanted:
        raise ArgumentError("Argument `elements` must name at least one element, but it is empty.")
    text = PotentialText(path)
    found: dict[tuple[str, ...], tuple[int, list[float]]] = {}
    for line, words in text.entries(3 + len(names)):
        triple = tuple(words[:3])
        _check_triple(text, triple, line, style, len(names))
        numbers = [text.finite(word, f"`{name}`", line) for word, name in zip(words[3:], names, strict=True)]
        if not set(triple) <= set(wanted):
            continue
        if triple in found:
            raise text.error(
                f"gives {' '.join(triple)} for the second time, after line {found[triple][0]}. Keep one.", line
            )
        for name, number in zip(names, numbers, strict=True):
            if name in positive and number < 0:
                raise text.error(f"must give `{name}` of {' '.join(triple)} as at least 0, but it is {number:g}.", line)
        found[triple] = (line, numbers)
    size = len(wanted)
    values = np.zeros((len(names), size, size, size))
    for i, a in enumerate(wanted):
        for j, b in enumerate(wanted):
            for k, c in enumerate(wanted):
                values[:, i, j, k] = _entry(text, found, (a, b, c))
    return ThreeBodyTable(wanted, dict(zip(names, values, strict=True)), text.units())


def _check_triple(text: PotentialText, triple: tuple[str, ...], line: int, style: str, count: int) -> None:
    for word in triple:
        if not word[:1].isalpha():
            raise text.error(
                f"must begin an entry of the {style} style with three elements and then {count} numbers, but `{word}` is no "
                "element. Is an entry before it cut short, or the file of another style?",
                line,
            )


def _entry(text: PotentialText, found: dict, triple: tuple[str, ...]) -> list[float]:
    if triple in found:
        return found[triple][1]
    known = {element for entry in found for element in entry}
    hint = close_matches(" ".join(triple), [" ".join(entry) for entry in found]) if known else "It has none of them."
    raise DataError(
        f"The potential file `{text.name}` must have an entry {' '.join(triple)}, but up to its last line, {len(text.lines)}, "
        f"there is none. {hint}"
    )
