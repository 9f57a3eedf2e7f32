"""Questions that averages of particles raise, and how they were simulated in words."""

from typing import Any, NamedTuple

import numpy as np
import scipy.special

from ..md import NVE, Averages, BlockAverage, Particles, block_average
from ..study import Study
from ._answer import Answer, graded

ENOUGH = 16
"""Independent numbers that a test needs, as many as averages need blocks."""

LONGER = 2
"""Levels of blocks above the first that passes as independent."""

TOO_SHORT = "The run is too short to tell its temperature: that takes 32 correlation times, and averages cover"

CHANCE = 0.01
"""Probability that a run without fault is doubted by one question."""


def particle_answers(system: Any, averages: Averages) -> list[Answer]:
    """The questions on rest, energy and temperature, each where it can be asked."""
    found = [settled(averages)]
    dynamics = getattr(system, "dynamics", None)
    if isinstance(dynamics, NVE):
        found += energy(averages)
    elif dynamics is not None and hasattr(dynamics, "temperature") and "temperature" in averages.series:
        wanted = float(system.units.outside(dynamics.temperature, "temperature"))
        found.append(temperature(averages, wanted, _freedoms(system, averages)))
    return found


def particle_method(study: Study, averages: Averages | None) -> str:
    """A sentence on the atoms, their dynamics, the steps and the times."""
    system, step = study.system, study.solve.get("step")
    if not isinstance(system, Particles) or not isinstance(step, int | float):
        return ""
    atoms = f"{len(study.y0.position)} atoms" if study.y0 is not None else "Atoms"
    text = f"{atoms} are moved by {type(system.dynamics).__name__} in steps of {step:g}"
    if averages is None:
        return f"{text}."
    times = np.asarray(averages.times, float)
    return f"{text} from {times[0]:g} to {times[-1]:g}, and saved at {len(times)} times."


def energy(averages: Averages) -> list[Answer]:
    """The drift of the total energy over the run, over the mean kinetic energy."""
    if not {"kinetic_energy", "potential_energy"} <= set(averages.series):
        return []
    kinetic, potential = (np.asarray(averages.series[f"{name}_energy"], float) for name in ("kinetic", "potential"))
    times = np.asarray(averages.times, float)
    slope = np.polyfit(times - times[0], kinetic + potential, 1)[0]
    drift = float(abs(slope) * (times[-1] - times[0]) / kinetic.mean())
    text = f"The total energy drifted by {drift:.2g} of the kinetic energy over {times[-1] - times[0]:g}."
    grade = graded(drift)
    advice = ("Energy is not conserved as well as it should be. Shorten the step, or take a smoother truncation.",)
    return [Answer("Is energy conserved?", grade, text, () if grade == "yes" else advice)]


def temperature(averages: Averages, wanted: float, freedoms: float | None = None) -> Answer:
    """A t-test of the mean temperature against that of the thermostat, with blocks as its sample.

    A run of fewer than 16 independent numbers, 32 correlation times, decides nothing. A difference that is significant is a "no"
    where it is larger than the temperature of one frame fluctuates, T sqrt(2 / f) with f degrees of freedom: the run then is of
    another ensemble. Where f is not known, the fluctuation is that of the series.
    """
    question, found = "Is the temperature that of the thermostat?", averages.average("temperature")
    mean, blocks = float(found.mean), LongerBlocks.of(found, int(averages.kept.sum()))
    unit = "" if averages.unit("temperature") == "1" else f" {averages.unit('temperature')}"
    text = f"Mean {mean:.5g} with standard error {blocks.error:.2g} by {blocks.number} blocks; asked for {wanted:.5g}{unit}."
    if not (blocks.enough and bool(found.converged)):
        return Answer(question, "untested", text, (f"{TOO_SHORT} {2 * blocks.independent:.2g}. Simulate longer.",))
    off, rounding = abs(mean - wanted), float(np.finfo(averages.series["temperature"].dtype).eps) * wanted
    if off <= max(quantile(CHANCE, blocks.number - 1) * blocks.error, rounding):
        return Answer(question, "yes", text)
    spread = float(np.std(np.asarray(averages.series["temperature"], float)[averages.kept]))
    if freedoms is not None:
        spread = wanted * float(np.sqrt(2 / freedoms))
    beside = "more" if off > spread else "less"
    advice = (
        f"The mean temperature is {off / wanted:.2g} of it off, significantly, and {beside} than one frame fluctuates "
        f"({spread / wanted:.2g}). Shorten the step, or begin the averages later."
    )
    return Answer(question, "no" if off > spread else "care", text, (advice,))


def settled(averages: Averages) -> Answer:
    """Welch's t-test between the first and the second half of the averages, of each output, with blocks as samples."""
    question, kept = "Had the run settled before averages began?", np.flatnonzero(averages.kept)
    if len(kept) < 32:
        return Answer(question, "untested", f"{len(kept)} saved times are too few to compare two halves.")
    halves, ratios, short = np.array_split(kept, 2), {}, []
    for name, values in averages.series.items():
        found = [block_average(values[half]) for half in halves]
        blocks = [LongerBlocks.of(one, len(half)) for one, half in zip(found, halves, strict=True)]
        parts, free = (
            np.array(column, float) for column in ([b.error**2 for b in blocks], [b.number - 1 for b in blocks])
        )
        if parts.sum() > 0:
            limit = quantile(CHANCE / len(averages.series), parts.sum() ** 2 / (parts**2 / free).sum())
            ratios[name] = abs(float(found[0].mean - found[1].mean)) / np.sqrt(parts.sum()), limit
            short += [] if sum(b.independent for b in blocks) >= ENOUGH else [name]
    if not ratios:
        return Answer(question, "yes", "Nothing changes.")
    worst, (score, limit) = max(ratios.items(), key=lambda item: item[1][0] / item[1][1])
    text = f"Means of both halves differ by {score:.2g} standard errors in {worst}; {limit:.2g} would be doubtful."
    if score > limit:
        advice = f"`{worst}` still changes while averages are taken. Begin later, or run longer."
        return Answer(question, "care", text, (advice,))
    if short:
        return Answer(question, "untested", f"{text} The run is too short for a test of {', '.join(short)}.")
    return Answer(question, "yes", text)


class LongerBlocks(NamedTuple):
    """The standard error of a mean by so many blocks four times as long as the shortest that pass as independent, and how many
    independent numbers have the same error.

    Blocks that just pass are still correlated by some percent, and a test with their error doubts several times too often; the
    t-distribution pays for the fewer ones.
    """

    error: float
    number: int
    independent: float

    @classmethod
    def of(cls, found: BlockAverage, count: int) -> "LongerBlocks":
        """Make them of an average of so many numbers."""
        level = min(int(found.level) + LONGER, len(found.errors) - 1)
        first, error = float(found.errors[0]), float(found.errors[level])
        return cls(error, count >> level, count * (first / error) ** 2 if error > 0 else float(count))

    @property
    def enough(self) -> bool:
        """Tell whether a test may rest on them: 16 independent numbers, which are 32 correlation times."""
        return self.independent >= ENOUGH and self.number > 2


def quantile(chance: float, freedoms: float | int) -> float:
    """The number that the size of a t-distributed one exceeds with a chance."""
    return float(scipy.special.stdtrit(freedoms, 1 - chance / 2))


def _freedoms(system: Particles, averages: Averages) -> float | None:
    """Degrees of freedom, 2 K / (k_B T)."""
    if "kinetic_energy" not in averages.series:
        return None
    kinetic = system.units.inside(float(averages.average("kinetic_energy").mean), "energy")
    held = system.units.inside(float(averages.average("temperature").mean), "temperature")
    return float(2 * kinetic / (system.units.boltzmann * held)) if held > 0 else None
