"""Commands of an input of LAMMPS that say what energies are."""

import shlex
from collections.abc import Mapping, Sequence

from ..._errors import ArgumentError, check_known
from ..space._units import METAL, REAL, REDUCED, Units
from ._lammps_data import MEMBERS

UNITS: Mapping[str, Units] = {"real": REAL, "metal": METAL, "lj": REDUCED}

SPECIAL = {
    "amber": ((0.0, 0.0, 0.5), (0.0, 0.0, 5 / 6)),
    "charmm": ((0.0,) * 3,) * 2,
    "dreiding": ((0.0, 0.0, 1.0),) * 2,
}
"""Weights of pairs one, two and three bonds apart: of Lennard-Jones, of Coulomb."""

SILENT = frozenset(
    [
        "atom_modify",
        "atom_style",
        "balance",
        "clear",
        "comm_modify",
        "comm_style",
        "compute",
        "dump",
        "dump_modify",
        "echo",
        "group",
        "log",
        "minimize",
        "min_style",
        "neigh_modify",
        "neighbor",
        "newton",
        "print",
        "processors",
        "read_data",
        "reset_timestep",
        "restart",
        "run",
        "thermo",
        "thermo_modify",
        "thermo_style",
        "timestep",
        "velocity",
        "write_data",
    ]
)
"""Commands that say nothing about energies."""

KEYS = {"mix", "shift", "tail", "compute"}
"""Settings of `pair_modify` that change energies of the styles that simkit has."""

TABLES = {"table", "table/disp", "tabinner", "tabinner/disp"}
"""Settings of `pair_modify` about tables that LAMMPS makes for speed."""

WAVES = {"gewald", "gewald/disp", "compute", "slab"}
"""Settings of `kspace_modify` that change energies."""

ACCURACY = {
    "collective", "cutoff/adjust", "diff", "eigtol", "force", "force/disp/kspace", "force/disp/real", "mesh", "mesh/disp",
    "minorder", "order", "order/disp", "overlap", "pressure/scalar", "splittol",
}  # fmt: skip
"""Settings of `kspace_modify` about how well and how fast waves are summed."""


class Commands:
    """The commands of an input of LAMMPS that say what energies are."""

    def __init__(self, text: str):
        self.units = "lj"
        self.pair: list[str] = []
        self.kspace: list[str] = []
        self.styles: dict[str, list[str]] = {}
        self.lines: dict[str, list[list[str]]] = {}
        self.modify: dict[str, str] = {}
        self.waves: dict[str, str] = {}
        self.open = False
        self.special: tuple[Sequence[float], Sequence[float]] = ((0.0,) * 3, (0.0,) * 3)
        for line in text.replace("&\n", " ").splitlines():
            words = _words(line)
            if words and words[0] not in SILENT:
                self._read(words, line)
        if "slab" in self.waves and not self.open:
            raise ArgumentError(
                "Argument `commands` gives `kspace_modify slab`, which is for a cell that is open along z. Write `boundary p p f` "
                "too."
            )
        if self.open and not self.slab > 1:
            raise ArgumentError(
                "Argument `commands` must give `kspace_modify slab` with a number above 1 where `boundary` leaves z open, but does "
                "not."
            )

    @property
    def slab(self) -> float:
        """Height of the cell of a slab over that of its box; 0 where there is no slab."""
        word = self.waves.get("slab", "0")
        return float(word) if word.replace(".", "", 1).isdigit() else 0.0

    def _read(self, words: list[str], line: str) -> None:
        name, *rest = words
        kind, _, what = name.partition("_")
        if name == "units":
            check_known(rest[0], UNITS, "unit system of LAMMPS that simkit reads")
            self.units = rest[0]
        elif name == "pair_style":
            self.pair = rest
        elif name == "pair_modify":
            self.modify |= _settings(rest, KEYS, TABLES, line)
        elif name == "kspace_modify":
            self.waves |= _settings(rest, WAVES, ACCURACY, line)
        elif name == "kspace_style":
            self.kspace = [] if rest[0] == "none" else rest
        elif name == "special_bonds":
            self.special = _weights(rest)
        elif what == "style" and kind in MEMBERS:
            self.styles[kind] = rest
        elif what == "coeff" and kind in (*MEMBERS, "pair"):
            self.lines.setdefault(kind, []).append(rest)
        elif name == "boundary" and rest[:2] == ["p"] * 2 and rest[2:] in (["f"], ["s"], ["p"]):
            self.open = rest[2] != "p"
        elif name == "dielectric" and float(rest[0]) == 1:
            return
        else:
            raise _unread(line)


def _weights(words: Sequence[str]) -> tuple[Sequence[float], Sequence[float]]:
    """The weights of `special_bonds`, of Lennard-Jones and of Coulomb."""
    if words and words[0] in SPECIAL:
        return SPECIAL[words[0]]
    lj, coulomb = (0.0,) * 3, (0.0,) * 3
    for i in range(0, len(words), 4):
        values = tuple(float(v) for v in words[i + 1 : i + 4])
        if words[i] not in ("lj", "coul", "lj/coul") or len(values) != 3:
            raise ArgumentError(
                f"`special_bonds` must be followed by lj, coul or lj/coul and three weights, but is "
                f"`{' '.join(words)}`."
            )
        lj = values if words[i] != "coul" else lj
        coulomb = values if words[i] != "lj" else coulomb
    return lj, coulomb


def _words(line: str) -> list[str]:
    """The words of a line; those in quotes are one."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        raise _unread(line) from None


def _settings(words: Sequence[str], kept: set[str], passed: set[str], line: str) -> dict[str, str]:
    """Settings by name, without those that change no energy."""
    found, place = {}, 0
    while place < len(words):
        name = words[place]
        if name == "nofdotr":
            place += 1
            continue
        if place + 1 == len(words) or name not in kept | passed:
            raise _unread(line)
        if name in kept:
            found[name] = words[place + 1]
        place += 4 if name in ("mesh", "mesh/disp") else 2
    return found


def _unread(line: str) -> ArgumentError:
    return ArgumentError(
        f"Argument `commands` must hold only commands of LAMMPS that simkit reads, but holds `{line.strip()}`. Leave it out where "
        "it changes no energy."
    )
