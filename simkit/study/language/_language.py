"""All tables of a study file with their keys, one line on each."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...problem import SCALES
from ._asked import FIT, PREDICT, SAMPLE
from ._assimilated import ASSIMILATE
from ._field_priors import FIELD_PRIORS
from ._filtered import FILTER
from ._keys import TIMES, Key, Table
from ._names import BUILDERS, DYNAMICS, NOISES, READERS, SOLVERS, SPACES, SYSTEMS
from ._profiled import PROFILE
from ._simulated import AVERAGES, SIMULATE
from ._sweep import SWEEP_METHODS

HEADING = Table(
    "what the study is about",
    {
        "title": Key("text", "the title of the report; the name of the file without it"),
        "question": Key("text", "the question that the study answers"),
        "time": Key("text", 'what time axes are called, such as "year"'),
        "seed": Key("count", "every random number of the study follows from it", 0, least=0),
        "within": Key(
            "text", 'the time that a run may take, such as "2 h" or "30 min"; the same command goes on later'
        ),
    },
)
_TEXTS = Key("text", "a formula")
_QUANTITY = Key(
    "anything",
    "a number, or a table with value, unit, support and doc",
    table=Table(
        "a quantity",
        {
            "value": Key("number", "the value; needed for a parameter"),
            "default": Key("number", "of an input: its value where nothing is given"),
            "unit": Key("text", 'the unit as text, such as "1/day"', "1"),
            "support": Key("anything", '"real", "positive", "unit_interval" or [lower, upper]', "real"),
            "doc": Key("text", "one line"),
        },
    ),
)
_PART = Table("", {"model": Key("text", "the name of the part; `simkit models` lists them")}, Key("anything", ""))
SYSTEM = Table(
    "the model, by its name or by equations",
    {
        "model": Key("a name", "the model; `simkit models` lists the names", choices=lambda: SYSTEMS, what="model"),
        "parameters": Key("a table", "values of what is not free", table=Table("", {}, Key("anything", ""))),
        "name": Key("text", "what a model by equations is called", "Equations"),
        "equations": Key(
            "a table",
            '"d algae" = "growth*algae": a slope, or a quantity that others use',
            table=Table("", {}, Key("anything", "a formula")),
        ),
        "states": Key(
            "a table",
            "units of the states of equations",
            table=Table("", {}, Key("anything", "a unit as text, or a table with unit and doc")),
        ),
        "inputs": Key("a table", "functions of time that equations name", table=Table("", {}, _QUANTITY)),
        "outputs": Key("a table", "what can be measured beside the states, formulas", table=Table("", {}, _TEXTS)),
        "grid": Key(
            "a table",
            "the grid of a field",
            table=Table(
                "",
                {
                    "shape": Key("numbers", "cells along each axis"),
                    "lengths": Key("numbers", "lengths of the axes"),
                    "origin": Key("numbers", "where the axes begin"),
                    "clustering": Key("numbers", "above 0: narrow cells at both ends of the axis"),
                },
            ),
        ),
        "potential": Key("anything", "the potential of particles, or an array of terms: model and its arguments"),
        "dynamics": Key(
            "a table",
            "the dynamics of particles",
            table=dataclasses.replace(_PART, keys={"model": Key("a name", "", choices=lambda: DYNAMICS)}),
        ),
        "space": Key(
            "a table",
            "the box of particles",
            table=dataclasses.replace(_PART, keys={"model": Key("a name", "", choices=lambda: SPACES)}),
        ),
        "units": Key("text", 'the units of particles: "reduced", "metal", "real" or "si"'),
        "force": Key("anything", "a force on a flow: a table with model, or numbers"),
    },
    Key("anything", "what the model itself takes"),
)
_PRIOR = Key(
    "a table",
    "one distribution and its numbers, { normal = [1.0, 0.5] }, or { matern = { scale, length } } for a field",
    table=Table(
        "",
        {name: Key("a table", "a prior of fields", table=table) for name, (_, table, _) in FIELD_PRIORS.items()},
        Key("anything", "its numbers"),
    ),
)
_FREE = {
    "prior": _PRIOR,
    "bounds": Key("numbers", "[lower, upper]; inf is allowed"),
    "transform": Key("a name", "the coordinate of the fit", choices=lambda: ("linear", "log"), what="transform"),
    "start": Key("number", "where the first start begins"),
}
_INDIVIDUAL = Table(
    "a parameter that each individual has for itself",
    {
        "spread": Key("anything", "the standard deviation between individuals, or 0", table=Table("", _FREE)),
        "effects": Key(
            "a table", "effects of covariates by name", table=Table("", {}, Key("a table", "", table=Table("", _FREE)))
        ),
        "correlated": Key("true or false", "whether it correlates with the others", False),
        "transform": Key("a name", "the coordinate in which individuals are normal", choices=lambda: SCALES),
        "occasion_spread": Key("a table", "the standard deviation between occasions", table=Table("", _FREE)),
        "subpopulation": Key(
            "a table",
            "a second kind of individuals",
            table=Table(
                "",
                {
                    "share": Key("a table", "the share of the second kind", table=Table("", _FREE)),
                    "shift": Key(
                        "a table", "how much higher it lies on the scale of individuals", table=Table("", _FREE)
                    ),
                },
            ),
        ),
        "group_spreads": Key(
            "a table",
            "the standard deviations between groups of individuals, by level",
            table=Table("", {}, Key("a table", "", table=Table("", _FREE))),
        ),
    },
)
FREE = Table(
    "what is unknown: path -> what is known about it",
    {**_FREE, "individual": Key("anything", "true, or a table: each individual has its own", table=_INDIVIDUAL)},
    nested=True,
)
INPUTS = Table(
    "inputs by name: a number, or a signal",
    {},
    Key(
        "anything",
        "a number, or { times, values, kind }",
        table=Table(
            "",
            {
                "constant": Key("number", "the same at all times"),
                "kind": Key(
                    "a name",
                    "how values are joined",
                    "linear",
                    lambda: ("linear", "cubic", "monotone", "steps", "pulses"),
                    1,
                    "kind of input",
                ),
                "times": Key("numbers", "times of the values"),
                "values": Key("numbers", "values at the times"),
                "amounts": Key("numbers", "amounts of pulses"),
                "duration": Key("number", "how long a pulse lasts"),
                "periodic": Key("true or false", "whether it repeats", False),
            },
        ),
    ),
)
_STEP = {
    "rtol": Key("number", "the relative tolerance of adaptive steps"),
    "atol": Key("number", "the absolute tolerance; from the sizes of the states without it"),
    "max_steps": Key("count", "most steps of one simulation"),
    "substeps": Key("count", "fixed steps between two times"),
    "courant": Key("number", "the Courant number of fixed steps"),
}
SOLVE = Table(
    "how equations are solved",
    {
        "solver": Key("a name", "chosen from the system without it", choices=lambda: SOLVERS, what="solver"),
        "step": Key(
            "anything",
            "a number: fixed steps, at most this long; or a table such as { rtol = 1e-6 }",
            table=Table("", _STEP),
        ),
        **_STEP,
    },
)
_DOSE = Table(
    "a dose",
    {
        **{key: Key("number", f"the {key} of a dose") for key in ("amount", "time", "rate", "duration", "every")},
        "additional": Key("count", "how many follow", 0, least=0),
        "into": Key("anything", "the compartment, by name or number", 1),
        "steady": Key("anything", 'true, false or "added"', False),
        "resets": Key("true or false", "whether the state is emptied before"),
    },
)
_COLUMN = Key("anything", "a number, numbers, or with `file` the header of a column")
EXPERIMENT = Table(
    "one data set",
    {
        "times": Key("numbers", "times of the data"),
        "data": Key("a table", "output -> numbers; nan where one is missing", table=Table("", {}, Key("numbers", ""))),
        "errors": Key("a table", "output -> standard errors, or with `file` headers", table=Table("", {}, _COLUMN)),
        "file": Key("text", "a CSV file beside the study, in place of times and data"),
        "reader": Key("a name", "the format of the file", "csv", lambda: READERS, 1, "reader"),
        "columns": Key(
            "a table", "time and outputs -> headers of the file", table=Table("", {}, Key("text", "a header"))
        ),
        "cells": Key(
            "an array", 'headers that count cells along each axis, ["i", "j"]: a row for each measured cell of a field'
        ),
        "below": Key("a table", "output -> lower limit of quantification", table=Table("", {}, _COLUMN)),
        "above": Key("a table", "output -> upper limit of quantification", table=Table("", {}, _COLUMN)),
        "censored": Key("a table", "output -> flags 0, 1, -1", table=Table("", {}, _COLUMN)),
        "limits": Key("a table", "output -> other ends of intervals", table=Table("", {}, _COLUMN)),
        "y0": Key("a table", "the state at its start", table=Table("", {}, Key("anything", ""))),
        "set": Key(
            "a table", "path -> a number, or the name of a free parameter", table=Table("", {}, Key("anything", ""))
        ),
        "inputs": Key("a table", INPUTS.doc, table=INPUTS),
        "start": Key("number", "when the state of [y0] holds; the first time without it"),
        "individual": Key("text", "whose data they are"),
        "covariates": Key(
            "a table",
            "name -> a number of the individual, or its distribution where it is missing, { normal = [70.0, 12.0] }",
            table=Table("", {}, Key("anything", "")),
        ),
        "occasions": Key("anything", "the name of the occasion, or a table of name -> time"),
        "groups": Key(
            "a table",
            "level -> the group of the individual, the outermost level first",
            table=Table("", {}, Key("text", "")),
        ),
        "doses": Key("an array", "doses", table=_DOSE),
        "resets": Key("numbers", "times at which the state is emptied"),
    },
)
DOSING = Table(
    "doses and observations of subjects from one table, as NONMEM has them",
    {
        "file": Key("text", "the table; each subject becomes an experiment"),
        "compartments": Key("an array", "their names in the order of their numbers"),
        "outputs": Key("anything", "the output that DV holds, or a table by DVID or CMT", "y"),
        "start": Key("number", "when states start"),
        "occasion": Key("text", "the column of occasions"),
        "groups": Key("an array", "columns of groups of subjects, the outermost level first"),
        "lag": Key("a table", "compartment -> path or number", table=Table("", {}, Key("anything", ""))),
        "bioavailability": Key("a table", "compartment -> path or number", table=Table("", {}, Key("anything", ""))),
        "covariates": Key(
            "a table", 'name -> a formula of columns, "ln(wt / 70)"', table=Table("", {}, Key("anything", ""))
        ),
    },
)
EVENT = Table(
    "an event: where the state changes or a simulation ends",
    {
        "name": Key("text", "a word without dots"),
        "condition": Key("text", "a formula that passes zero, or a comparison that becomes true"),
        "direction": Key(
            "a name", "in which direction it passes zero", choices=lambda: ("up", "down"), what="direction"
        ),
        "change": Key("a table", "state -> a formula of its new value", table=Table("", {}, Key("anything", ""))),
        "ends": Key("true or false", "whether the simulation ends", False),
        "at": Key("number or numbers", "known times"),
        "every": Key("number", "the interval after which it happens again"),
        "additional": Key("count", "how often it happens again", least=0),
        "values": Key("number or numbers", "a number for each time, `value` in formulas"),
    },
)
_SPAN = {
    "from": Key("number", "the lower end"),
    "to": Key("number", "the upper end"),
    "count": Key("count", "how many values", least=2),
    "scale": Key("a name", "how values are spread", "linear", lambda: ("linear", "log"), 1, "scale"),
}
SWEEP = Table(
    "many simulations that differ in some numbers",
    {
        "method": Key("a name", "how members are chosen", "grid", lambda: SWEEP_METHODS, 1, "sweep method"),
        "over": Key("a table", "path -> values, or { from, to }", table=Table("", _SPAN, nested=True)),
        "count": Key("count", "how many members, where they are drawn"),
        "by_rule": Key(
            "true or false", "of grid, latin, sobol, saltelli: make values chunk by chunk, for members beyond memory"
        ),
        "seed": Key("count", "of drawn members; that of the study without it", least=0),
        "chunk": Key("count", "members a file: what an interrupt can cost"),
        "times": TIMES,
    },
)
Y0 = Table(
    "the state at the start",
    {"builder": Key("a name", "how atoms are placed", choices=lambda: BUILDERS, what="builder")},
    Key("anything", "a number, an array, or for a field a table with builder"),
)
SET = Table("path -> a number, or the name of a free parameter", {}, Key("anything", ""))

DEPENDENCE = Table(
    "a correlation between the priors of some unknowns",
    {
        "names": Key("anything", "two or more unknowns with a prior each"),
        "correlation": Key("anything", "one number for all pairs, or a matrix in the order of the names"),
    },
)

LANGUAGE: Mapping[str, Table] = {
    "study": HEADING,
    "system": SYSTEM,
    "y0": Y0,
    "inputs": INPUTS,
    "solve": SOLVE,
    "simulate": SIMULATE,
    "averages": AVERAGES,
    "noise": Table("output -> how data scatter around the model", {}, Key("anything", "")),
    "free": FREE,
    "set": SET,
    "dependence": Table("correlations between priors, by a name of your own", {}, Key("a table", "", table=DEPENDENCE)),
    "experiments": Table("data sets by name", {}, Key("a table", "", table=EXPERIMENT)),
    "dosing": DOSING,
    "events": EVENT,
    "filter": FILTER,
    "assimilate": ASSIMILATE,
    "fit": FIT,
    "profile": PROFILE,
    "sample": SAMPLE,
    "predict": PREDICT,
    "sweep": SWEEP,
}
"""The tables of a study, in the order in which they are best written; [[events]] is an array of tables."""


def noise_table() -> Table:
    """Keys of an entry of [noise]: a model, and the numbers of all known models."""
    keys = {"model": Key("a name", "how data scatter", choices=lambda: NOISES, what="noise model")}
    for name in NOISES.own:
        for field in dataclasses.fields(NOISES[name]):
            told: Any = field.metadata.get("simkit")
            what = "numbers" if isinstance(field.default, tuple) else "number"
            what = what if field.default_factory is dataclasses.MISSING else "a table"
            keys.setdefault(field.name, Key(what, "" if told is None else told.doc))
    return Table("a noise model", keys, nested=True)
