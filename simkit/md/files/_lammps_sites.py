"""Pair styles of LAMMPS for water with four sites, whose charge of oxygen sits on the bisector of the angle."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..._errors import ArgumentError
from ..potentials._potential import Potential
from ..potentials._sites import ChargesOnSites
from ._lammps_commands import Commands
from ._lammps_data import LammpsData
from ._lammps_styles import STYLES
from ._lammps_words import numbers_in, types_in

TIP4P: Mapping[str, tuple[str, ...]] = {
    "tip4p/cut": ("coul/cut/global",),
    "tip4p/long": ("coul/long",),
    "lj/cut/tip4p/cut": ("lj/cut/coul/cut",),
    "lj/cut/tip4p/long": ("lj/cut/coul/long",),
    "lj/long/tip4p/long": ("lj/long/coul/long",),
}
"""Styles with sites -> those without."""


class Sites:
    """The sites of a style, and the words of the style without them; none where the style has none.

    **Arguments:** `words`: the style, with the types of oxygen, hydrogen, their bond and angle, and the distance of the site.
    """

    def __init__(self, words: Sequence[str], data: LammpsData, said: Commands):
        self.words, self.frames, self.hydrogen = list(words), np.zeros((0, 3), int), -1
        if words[0] not in TIP4P:
            return
        flags = words[1:3] if words[0].startswith("lj/long") else []  # how far each part reaches
        words = [words[0], *words[1 + len(flags) :]]
        numbers = numbers_in("pair_style", words[1:])
        if len(numbers) < 6 or any(number != int(number) for number in numbers[:4]):
            raise ArgumentError(
                f"`pair_style` of the style {words[0]} must be followed by types of oxygen, hydrogen, bond and angle, a distance "
                f"and cutoffs, but is `{' '.join(words)}`."
            )
        self.words = [*TIP4P[words[0]], *flags, *words[6:]]
        oxygen, hydrogen, bond, angle = (int(number) for number in numbers[:4])
        self.hydrogen = hydrogen - 1
        first = np.flatnonzero(data.kind == oxygen - 1)
        self.frames = first[:, None] + np.arange(3)[None]
        if (self.frames.size and self.frames.max() >= len(data.kind)) or (
            data.kind[self.frames[:, 1:]] != hydrogen - 1
        ).any():
            raise ArgumentError(
                f"The pair style {words[0]} needs two atoms of type {hydrogen} behind each atom of type {oxygen}, but the file has "
                "others there."
            )
        length, theta = _rest("bond", bond, data, said), np.radians(_rest("angle", angle, data, said))
        self.distance = numbers[4]
        self.weight = self.distance / (2 * length * np.cos(theta / 2))

    def with_pairs(self, types: int) -> np.ndarray:
        """Pairs of types that the part without charges acts between: those without hydrogens of water."""
        some = np.ones((types, types), bool)
        if self.hydrogen >= 0:
            some[self.hydrogen] = some[:, self.hydrogen] = False
        return some

    def moved(self, name: str, potential: Potential) -> Potential:
        """A term of charges with its charges on the sites; others as they are."""
        if not len(self.frames) or not name.startswith("coulomb"):
            return potential
        # Bonds may stretch: the list of neighbours reaches half as far again.
        return ChargesOnSites(potential, self.frames, self.weight, 1.5 * self.distance)  # pyright: ignore


def _rest(kind: str, type_: int, data: LammpsData, said: Commands) -> float:
    """The length or the angle of rest of a type."""
    name = said.styles.get(kind, ["none"])[0]
    lines = [
        *data.coefficients.get(kind, []),
        *(data.rests.get(kind, []) if name == "zero" else []),
        *said.lines.get(kind, []),
    ]
    names = ("r0",) if name == "zero" else STYLES[kind][name].names if name in STYLES[kind] else ()
    wanted = "r0" if kind == "bond" or name == "zero" else "theta0"
    for first, *rest in reversed(lines):
        if wanted in names and len(rest) > names.index(wanted) and type_ - 1 in types_in(first, type_):
            return numbers_in(f"{kind}_coeff", [rest[names.index(wanted)]])[0]
    raise ArgumentError(
        f"`{kind}_coeff` must give type {type_} a value of rest, which TIP4P water needs, but gives none."
    )
