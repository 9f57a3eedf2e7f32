"""Problems of the Test Set for IVP Solvers for simkit and for its peers: M y' = f(t, y), with published end values.

Mazzia and Magherini (2008), release 2.4, part II. Fields take the array module: NumPy, JAX, or one of SymPy's expressions, from
which peers get compiled fields and Jacobians. Those that the tests solve as well are taken from `tests/validation`.
"""

import csv
import math
import pathlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from _constrained_problems import PROBLEMS as ALGEBRAIC  # noqa: E402
from validation.stiff_problems import TEST_SET  # noqa: E402


class Work(NamedTuple):
    """One problem.

    `field(xp, t, y, day)` returns a list or an array; `mass` is M, None for the identity. `floor` is the size below which a number
    need not be resolved: it makes the absolute tolerance, and the error is the largest of |y - published| / max(|published|,
    floor) among the numbers `kept`. `turns` are the times at which `day` changes from 1 to 0 or back; it begins with 1.
    """

    field: Callable[[Any, Any, Any, Any], Any]
    y0: np.ndarray
    times: tuple[float, float]
    floor: float
    published: np.ndarray
    kept: Any = slice(None)
    mass: np.ndarray | None = None
    turns: tuple[float, ...] = ()

    def error(self, end: np.ndarray) -> float:
        """The error of an end."""
        wrong = np.abs(np.asarray(end)[self.kept] - self.published)
        return float(np.max(wrong / np.maximum(np.abs(self.published), self.floor)))


def _of_test_set(name: str) -> Work:
    posed = TEST_SET[name]
    kept = slice(None) if posed.kept is None else np.array(posed.kept)
    field = lambda xp, t, y, day: posed.field(xp, t, y)
    start = np.array(posed.start, float)
    return Work(field, start, (0.0, posed.end), posed.floor, np.array(posed.reference), kept)


def _algebraic(name: str) -> Work:
    posed = ALGEBRAIC[name]()
    field = lambda xp, t, y, day: posed.right(xp, t, y)
    return Work(field, posed.y0, (0.0, posed.end), 1e-6, posed.published, mass=posed.mass)


# Reactants and changes by the numbers of the species, and rate constants: table in Verwer (1994), SIAM J. Sci. Comput. 15:1243.
POLLU = (
    ("1", "-1 2 3", 0.35), ("2 4", "-2 -4 1", 26.6), ("5 2", "-5 -2 1 6", 1.23e4), ("7", "-7 5 5 8", 8.6e-4),
    ("7", "-7 8", 8.2e-4), ("7 6", "-7 -6 5 8", 1.5e4), ("9", "-9 10 5 8", 1.3e-4), ("9 6", "-9 -6 11", 2.4e4),
    ("11 2", "-11 -2 1 10 12", 1.65e4), ("11 1", "-11 -1 13", 9e3), ("13", "-13 11 1", 2.2e-2),
    ("10 2", "-10 -2 14 1", 1.2e4), ("14", "-14 7 5", 1.88), ("1 6", "-1 -6 15", 1.63e4), ("3", "-3 4", 4.8e6),
    ("4", "-4 16", 3.5e-4), ("4", "-4 3", 1.75e-2), ("16", "-16 6 6", 1e8), ("16", "-16 3", 4.44e11),
    ("17 6", "-17 -6 18 5", 1.24e3), ("19", "-19 2", 2.1), ("19", "-19 1 3", 5.78), ("1 4", "-1 -4 19", 4.74e-2),
    ("19 1", "-19 -1 20", 1.78e3), ("20", "-20 19 1", 3.12),
)  # fmt: skip
POLLU_END = (
    0.5646255480022769e-1, 0.1342484130422339, 0.4139734331099427e-8, 0.5523140207484359e-2, 0.2018977262302196e-6,
    0.1464541863493966e-6, 0.7784249118997964e-1, 0.3245075353396018, 0.7494013383880406e-2, 0.1622293157301561e-7,
    0.1135863833257075e-7, 0.2230505975721359e-2, 0.2087162882798630e-3, 0.1396921016840158e-4, 0.8964884856898295e-2,
    0.4352846369330103e-17, 0.6899219696263405e-2, 0.1007803037365946e-3, 0.1772146513969984e-5, 0.5682943292316392e-4,
)  # fmt: skip


def pollu() -> Work:
    """Twenty-five reactions of polluted air. Its least concentrations need an absolute tolerance far below 1."""

    def field(xp, t, y, day):
        slopes = [0.0] * 20
        for reactants, changes, rate in POLLU:
            for word in reactants.split():
                rate = rate * y[int(word) - 1]
            for word in changes.split():
                change = int(word)
                slopes[abs(change) - 1] = slopes[abs(change) - 1] + (rate if change > 0 else -rate)
        return slopes

    y0 = np.zeros(20)
    y0[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007
    return Work(field, y0, (0.0, 60.0), 1e-8, np.array(POLLU_END))


HOUR = 3600.0
LATITUDE, DECLINATION = math.radians(50.0), math.radians(23.5)
WATER = 6.1078 * math.exp((597.3 - 0.57 * 24.84) * 18 / 1.986 * (1 / 273.16 - 1 / 298)) * 10 / (1.38e-16 * 298)


def emep() -> Work:
    """Ozone chemistry of 66 species over four days of sun and dark; `tests/validation/test_emep.py` describes it."""
    tables = []
    for name in ("species", "reactions"):
        with open(ROOT / "data" / "emep" / f"{name}.csv", encoding="utf-8") as file:
            tables.append(list(csv.DictReader(file)))
    species, reactions = tables
    place = {row["name"]: i for i, row in enumerate(species)}
    pairs = np.full((len(reactions), 2), len(species))
    changes = np.zeros((len(species), len(reactions)))
    for j, row in enumerate(reactions):
        for i, name in enumerate(row["reactants"].split()):
            pairs[j, i] = place[name]
        words = row["changes"].split()
        for count, name in zip(words[::2], words[1::2], strict=True):
            changes[place[name], j] += float(count)
    kinds = {kind: np.array([row["kind"] == kind for row in reactions]) for kind in {row["kind"] for row in reactions}}
    rates = np.array([float(row["rate"]) for row in reactions])
    slopes = np.array([float(row["slope"] or 0.0) for row in reactions])

    def field(xp, t, y, day):
        clock = t % (24 * HOUR)
        height = xp.cos((1 + clock / (12 * HOUR)) * math.pi) * math.cos(LATITUDE) * math.cos(DECLINATION)
        height = height + math.sin(LATITUDE) * math.sin(DECLINATION)
        water = WATER * (23 * xp.sin(2.43 - 7.93e-5 * clock) + 66.5)
        dark = day < 0.5
        factor = xp.where(kinds["sunlight"], xp.exp(-slopes / xp.where(dark, 1.0, height)) * day, 1.0)
        factor = xp.where(kinds["deposition"], xp.where(dark, 0.25, 1.0), factor)
        factor = xp.where(kinds["water"], water, xp.where(kinds["moist"], 1 + slopes * water, factor))
        padded = xp.concatenate([y, xp.ones(1)])
        return changes @ (rates * factor * padded[pairs[:, 0]] * padded[pairs[:, 1]])

    start, end = (np.array([float(row[name]) for row in species]) for name in ("start", "end"))
    # Four oxygen atoms a cubic centimetre are left at the end, where the dark begins, and the reference has lost 1.5e-5 of them.
    kept = np.array([i for name, i in place.items() if name != "OP"])
    turns = tuple(HOUR * x for x in (20.0, 28, 44, 52, 68, 76, 92, 100))
    return Work(field, start, (4 * HOUR, 116 * HOUR), 1.0, end[kept], kept, turns=turns)


PROBLEMS: dict[str, Callable[[], Work]] = {
    "HIRES": lambda: _of_test_set("HIRES"),
    "Oregonator": lambda: _of_test_set("OREGO"),
    "Robertson": lambda: _of_test_set("ROBER"),
    "E5": lambda: _of_test_set("E5"),
    "POLLU": pollu,
    "EMEP": emep,
    "medical Akzo Nobel": lambda: _of_test_set("MEDAKZO"),
    "ring modulator": lambda: _of_test_set("RING"),
    "chemical Akzo Nobel (DAE)": lambda: _algebraic("akzo"),
    "Robertson (DAE)": lambda: _algebraic("robertson"),
    "transistor amplifier (DAE)": lambda: _algebraic("amplifier"),
}
