"""[simulate] and [averages] of a study file: when to save, and what to average over."""

from typing import Any

import numpy as np

from ..._errors import StudyError
from ...core import System
from ...md import Particles
from ._files import Files, no_files, read_columns, read_reader
from ._keys import TIMES, Key, Table
from ._section import Section, at_place
from ._sweep import read_times

SIMULATE = Table(
    "a simulation at the values in the file",
    {
        "times": TIMES,
        "every": Key(
            "count", "so many times are written to disk at once, with which the same command goes on after an interrupt"
        ),
        "trajectory": Key("true or false", "whether particles leave their frames in trajectory.h5md; true without it"),
    },
)
AVERAGES = Table(
    "averages over particles",
    {
        "after": Key("number", "the time from which on averages are taken"),
        "radial_distribution": Key(
            "a table",
            "g(r), the density around an atom",
            table=Table(
                "g(r)",
                {
                    "cutoff": Key("number", "the largest distance"),
                    "bins": Key("count", "bins of the distance; 100 without it"),
                    "pair": Key("an array", "two species by number, such as [0, 1]; all pairs without it"),
                    "measured": Key(
                        "a table",
                        "a measured g(r), which the report draws beside it",
                        table=Table(
                            "a measured g(r)",
                            {
                                "file": Key("text", "a table; distances are in the unit of length of the study"),
                                "reader": Key("text", "its format; csv without it"),
                                "distance": Key("text", 'the header of distances; "distance" without it'),
                                "g": Key("text", 'the header of g(r); "g" without it'),
                                "label": Key("text", 'what it is called; "measured" without it'),
                            },
                        ),
                    ),
                },
            ),
        ),
        "diffusion": Key(
            "a table",
            "the diffusion coefficient from the mean squared displacement",
            table=Table(
                "diffusion", {"between": Key("numbers", "two times between which the displacement is straight")}
            ),
        ),
    },
)


def read_simulate(section: Section) -> dict[str, Any]:
    """[simulate]: `times`, how many go into a part on disk, and whether particles leave a `trajectory`."""
    asked = {"times": read_times(section), **SIMULATE.read(section, "times")}
    section.finish()
    return {key: value for key, value in asked.items() if value is not None}


def read_averages(section: Section, system: System, files: Files = no_files) -> dict[str, Any]:
    """[averages]: arguments of `simkit.md.averages`, and as `measured` a label with distances and g(r) of a file."""
    if section.table and not isinstance(system, Particles):
        raise StudyError(
            f'{section.where()} goes with model = "particles" only, but the model is another. Leave it out.'
        )
    asked: dict[str, Any] = {"after": section.number("after")}
    radial = section.section("radial_distribution")
    if "radial_distribution" in section:
        radial.need("cutoff")
        asked |= {"cutoff": radial.number("cutoff"), "bins": radial.count("bins"), "pair": _pair(radial)}
        if "measured" in radial:
            asked["measured"] = _measured(radial.section("measured"), files)
        radial.finish("pair", "measured")
        if not asked["cutoff"] > 0:
            raise radial.error("cutoff", f"must be positive, but it is {asked['cutoff']:g}.")
    if "diffusion" in section:
        diffusion = section.section("diffusion")
        diffusion.need("between")
        between = diffusion.numbers("between")
        diffusion.finish()
        if len(between) != 2 or not 0 <= between[0] < between[1]:
            raise diffusion.error("between", f"must be two times, the smaller one first, but it is `{between}`.")
        asked["between"] = tuple(between)
    section.finish("diffusion", "radial_distribution")
    return {key: value for key, value in asked.items() if value is not None}


def _measured(section: Section, files: Files) -> tuple[str, np.ndarray, np.ndarray]:
    """Label, distances and g(r) of a measurement."""
    section.need("file")
    name, reader = str(section.get("file", "text")), read_reader(section, "table", "csv")
    label = str(section.get("label", "text", "measured"))
    wanted = {"distance": str(section.get("distance", "text", "distance")), "g": str(section.get("g", "text", "g"))}
    section.finish()
    with at_place(section.where()):
        table = read_columns(name, files, reader, wanted)
    return label, table["distance"], table["g"]


def _pair(section: Section) -> tuple[int, int] | None:
    if "pair" not in section:
        return None
    pair = section.get("pair", "an array")
    if len(pair) != 2 or not all(isinstance(s, int) and not isinstance(s, bool) and s >= 0 for s in pair):
        raise section.error("pair", f"must be two species, such as [0, 1], but it is `{pair}`.")
    return pair[0], pair[1]
