"""Inputs of LAMMPS' tests of force styles: what its tester would say to LAMMPS, as a data file and commands."""

import os
import pathlib
import re
from collections.abc import Callable
from typing import Any

import yaml

VARIABLE = re.compile(r"\$\{(\w+)\}")
KINDS = ("pair", "bond", "angle", "dihedral", "improper")
COULOMB = {"real": 332.06371, "metal": 14.399645, "lj": 1.0}
"""LAMMPS' constants of Coulomb's law; the charges of the file carry what they differ by from those of today."""


class NotMade(Exception):
    """A start that only LAMMPS itself can make."""


def case_of(path: pathlib.Path) -> dict[str, str]:
    """The fields of a file of the suite, all of them text."""
    return yaml.load(path.read_text(), yaml.BaseLoader)


def kind_of(case: dict[str, str]) -> str:
    """What a case is a test of: pairs, bonds and so on."""
    return next(kind for kind in KINDS if f"{kind}_style" in case)


class Input:
    """The commands of a case in their order, with variables replaced, and the data file with what commands do to it.

    **Raises:** `NotMade` where atoms come from LAMMPS' own random numbers.
    """

    def __init__(self, case: dict[str, str], folder: pathlib.Path, potentials: pathlib.Path | None):
        self.folder, self.potentials = folder, potentials
        self.variables = {"newton_pair": "on", "input_dir": str(folder)}
        self.commands: list[str] = []
        self.data: list[str] = []
        self.units = "lj"
        kind = kind_of(case)
        for line in case["pre_commands"].splitlines():
            self.say(line)
        for line in (folder / case["input_file"]).read_text().replace("&\n", " ").splitlines():
            self.say(line)
        self.say(f"{kind}_style {case[f'{kind}_style']}")
        for line in case[f"{kind}_coeff"].splitlines():
            self.say(f"{kind}_coeff {line}")
        for line in case["post_commands"].splitlines():
            self.say(line)

    @property
    def text(self) -> str:
        return "\n".join(self.commands)

    def say(self, line: str) -> None:
        """One command."""
        line = VARIABLE.sub(lambda found: self.variables.get(found[1], found[0]), line.partition("#")[0]).strip()
        name, *words = line.split() or [""]
        does: dict[str, Callable[[list[str], str], None]] = {
            "": lambda words, line: None,
            "variable": self._variable,
            "if": self._if,
            "read_data": self._read_data,
            "read_dump": self._not_made,
            "create_atoms": self._not_made,
            "shell": lambda words, line: None,
            "set": self._set,
            "change_box": self._change_box,
        }
        does.get(name, self._plain)(words, line)

    def _plain(self, words: list[str], line: str) -> None:
        if line.split()[0] == "units":
            self.units = words[0]
        if self.potentials is not None and line.startswith(("pair_coeff", "pair_style")):
            files = {word: str(self.potentials / word) for word in words if (self.potentials / word).is_file()}
            line = " ".join(files.get(word, word) for word in line.split())
        self.commands.append(line)

    def _variable(self, words: list[str], line: str) -> None:
        name, style, *value = words
        if style == "delete":
            self.variables.pop(name, None)
        elif style == "index":
            self.variables.setdefault(name, " ".join(value).strip("'\""))
        else:
            self.commands.append(line)

    def _if(self, words: list[str], line: str) -> None:
        """The branch of a machine without GPU; atoms are as many as the files for 64 have."""
        if "gpu" in line or "is_defined" in line or "is_os" in line:
            return
        self.say(re.findall(r'"([^"]*)"', line)[-1])

    def _not_made(self, words: list[str], line: str) -> None:
        raise NotMade(f"atoms made by `{line.split()[0]}`")

    def _read_data(self, words: list[str], line: str) -> None:
        self.data = pathlib.Path(words[0]).read_text().splitlines()

    def _set(self, words: list[str], line: str) -> None:
        """Charges of types and of atoms; others are left to what reads the commands."""
        which, chosen, what, *value = words
        if what != "charge":
            return self._plain(words, line)
        first, _, last = chosen.partition("*") if chosen != "*" else ("1", "*", "1000000")
        low, high = int(first), int(last or first)

        def charged(row: list[str]) -> list[str]:
            number = int(row[0]) if which == "atom" else int(row[2])
            return [*row[:3], value[0], *row[4:]] if low <= number <= high else row

        self._atoms(charged)

    def _change_box(self, words: list[str], line: str) -> None:
        """Ends and skews of the cell; atoms stay."""
        rest = words[1:]
        while rest:
            if rest[0] == "triclinic":  # a cell without a skew stays what it is
                rest = rest[1:]
            elif rest[0] in ("x", "y", "z") and rest[1] == "final":
                axis, _, low, high, *rest = rest
                self.data = [
                    f"{low} {high} {axis}lo {axis}hi" if text.endswith(f"{axis}hi") else text for text in self.data
                ]
            elif rest[0] in ("xy", "xz", "yz") and rest[1] == "final":
                axis, _, value, *rest = rest
                place = next((k for k, text in enumerate(self.data) if text.endswith("xy xz yz")), None)
                if place is None:
                    place = next(k for k, text in enumerate(self.data) if text.endswith("zhi")) + 1
                    self.data.insert(place, "0 0 0 xy xz yz")
                skew = self.data[place].split()[:3]
                skew[("xy", "xz", "yz").index(axis)] = value
                self.data[place] = f"{' '.join(skew)} xy xz yz"
            else:
                return self._plain(words, line)

    def _atoms(self, change: Callable[[list[str]], list[str]]) -> None:
        inside = False
        for k, line in enumerate(self.data):
            if line and line[0].isalpha():
                inside = line.startswith("Atoms")
            elif inside and line.strip():
                self.data[k] = " ".join(change(line.split()))

    def data_text(self, constant: float) -> str:
        """The data file, with charges for this constant of Coulomb's law in place of LAMMPS' own."""
        factor = (COULOMB.get(self.units, constant) / constant) ** 0.5
        if "Atoms # full" in self.data:
            self._atoms(lambda row: [*row[:3], repr(float(row[3]) * factor), *row[4:]])
        elif "Atoms # charge" in self.data:
            self._atoms(lambda row: [*row[:2], repr(float(row[2]) * factor), *row[3:]])
        return "\n".join(self.data) + "\n"


def numbers_of(text: str) -> list[list[float]]:
    """Rows of numbers."""
    return [[float(word) for word in line.split()] for line in text.splitlines() if line.strip()]


def potentials_folder() -> pathlib.Path | None:
    """The folder of potential files that LAMMPS' own variable names."""
    found: Any = os.environ.get("LAMMPS_POTENTIALS")
    return None if found is None else pathlib.Path(found.split(":")[0])
