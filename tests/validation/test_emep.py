"""Ozone chemistry of 66 species over four days, the EMEP problem of the Test Set for IVP Solvers, against its reference solution.

Sunlight and the mixing of the air are switched on at 4 and off at 20 hours of each day: an input that jumps.
"""

import csv
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

import simkit

FOLDER = pathlib.Path(__file__).parents[2] / "data" / "emep"
HOUR = 3600.0
LATITUDE, DECLINATION = np.radians(50.0), np.radians(23.5)
WATER = 6.1078 * np.exp((597.3 - 0.57 * 24.84) * 18 / 1.986 * (1 / 273.16 - 1 / 298)) * 10 / (1.38e-16 * 298)
"""Molecules of water in a cubic centimetre of air at 298 K, for each per cent of humidity."""

with open(FOLDER / "species.csv", encoding="utf-8") as file:
    SPECIES = list(csv.DictReader(file))
with open(FOLDER / "reactions.csv", encoding="utf-8") as file:
    REACTIONS = list(csv.DictReader(file))
PLACE = {row["name"]: i for i, row in enumerate(SPECIES)}


def columns() -> tuple[np.ndarray, np.ndarray]:
    """Places of the two reactants of each reaction, one past the species for none, and the changes of the species by it."""
    pairs = np.full((len(REACTIONS), 2), len(SPECIES))
    changes = np.zeros((len(SPECIES), len(REACTIONS)))
    for j, row in enumerate(REACTIONS):
        for i, name in enumerate(row["reactants"].split()):
            pairs[j, i] = PLACE[name]
        words = row["changes"].split()
        for count, name in zip(words[::2], words[1::2], strict=True):
            changes[PLACE[name], j] += float(count)
    return pairs, changes


PAIRS, CHANGES = columns()
KINDS = {kind: np.array([row["kind"] == kind for row in REACTIONS]) for kind in {row["kind"] for row in REACTIONS}}
RATES = np.array([float(row["rate"]) for row in REACTIONS])
SLOPES = np.array([float(row["slope"] or 0.0) for row in REACTIONS])


class Ozone(simkit.PlainSystem):
    """Concentrations in molecules per cubic centimetre, time in seconds from midnight."""

    one: simkit.Scalar = simkit.quantity(1.0)

    def vector_field(self, t, y, inputs):
        day, clock = inputs["day"], t % (24 * HOUR)
        angle = (1 + clock / (12 * HOUR)) * jnp.pi
        height = jnp.cos(angle) * np.cos(LATITUDE) * np.cos(DECLINATION) + np.sin(LATITUDE) * np.sin(DECLINATION)
        water = WATER * (23 * jnp.sin(2.43 - 7.93e-5 * clock) + 66.5)
        dark = day < 0.5
        factor = jnp.where(KINDS["sunlight"], jnp.exp(-SLOPES / jnp.where(dark, 1.0, height)) * day, 1.0)
        factor = jnp.where(KINDS["deposition"], jnp.where(dark, 0.25, 1.0), factor)
        factor = jnp.where(KINDS["water"], water, jnp.where(KINDS["moist"], 1 + SLOPES * water, factor))
        padded = jnp.concatenate([y, jnp.ones(1)])
        return CHANGES @ (RATES * factor * padded[PAIRS[:, 0]] * padded[PAIRS[:, 1]])

    @classmethod
    def example(cls):
        raise NotImplementedError


def emep():
    """The system, its start, the times and its inputs."""
    y0 = jnp.array([float(row["start"]) for row in SPECIES])
    turns = jnp.array([4.0, 20, 28, 44, 52, 68, 76, 92, 100]) * HOUR
    day = simkit.PiecewiseConstant(turns, jnp.array([1.0, 0, 1, 0, 1, 0, 1, 0, 1]))
    return Ozone(), y0, jnp.array([4.0, 116.0]) * HOUR, {"day": day}


def emep_error(end) -> np.ndarray:
    """The errors of an end, relative to the size of each species."""
    expected = np.array([float(row["end"]) for row in SPECIES])
    # Four oxygen atoms a cubic centimetre are left, and go within microseconds in the dark that begins at the end: the reference
    # has 1.5e-5 less of them than both methods at tighter tolerances. All other species count from one molecule on.
    floor = np.where(np.arange(expected.size) == PLACE["OP"], 10.0, 1.0)
    return np.abs(np.asarray(end) - expected) / np.maximum(expected, floor)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["rodas5p", "bdf"])
def test_published_end_values(solver):
    system, y0, times, inputs = emep()
    # Less than a molecule in a cubic centimetre need not be resolved: most species have millions.
    step = simkit.Adaptive(1e-6, 1e-6, max_steps=100_000)
    found = simkit.simulate(system, y0, times, inputs=inputs, solver=solver, step=step)
    # The rule of the set: as many digits as the tolerance asks for, less one.
    assert emep_error(found.ys[-1]).max() < 1e-5
