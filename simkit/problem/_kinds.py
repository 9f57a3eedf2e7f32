"""The kinds of arguments that a problem is made of."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._doors import check_entries, check_function, check_kind, check_mapping
from ..core import check_system
from ._experiment import Experiment
from ._likelihood import AbstractLikelihood
from ._measurement import AbstractMeasurement
from ._noise import AbstractNoise
from ._protocol import AbstractProtocol


def as_experiments(experiments: Any) -> list[Experiment]:
    """Experiments as a list.

    **Raises:** an `ArgumentError` where one is something else.
    """
    remedy = 'Write `simkit.Experiment("name", times, {"output": values})`.'
    if isinstance(experiments, Experiment):
        return [experiments]
    check_kind("experiments", experiments, list | tuple, "an experiment or a list of them", remedy)
    for i, e in enumerate(experiments):
        check_kind(f"experiments[{i}]", e, Experiment, "an experiment", remedy)
    return list(experiments)


def check_kinds(system: object, experiments: object, named: Mapping[str, Any]) -> None:
    """Refuse arguments of another kind than a problem takes.

    **Raises:** an `ArgumentError`.
    """
    check_system(system, experiments)
    check_mapping("free", named["free"], "unknowns", '{"growth": simkit.Free(bounds=(0.1, 2.0))}')
    check_mapping("noise", named["noise"], "noise models", '{"hare": simkit.noise.Normal(0.1)}')
    number = next((x for x in named["noise"].values() if isinstance(x, int | float | np.number)), 0.1)
    remedy = f"Write a model of its scatter, such as `simkit.noise.Normal({number})`."
    check_entries("noise", named["noise"], AbstractNoise, "a noise model", remedy)
    if named["set"] is not None:
        check_mapping("set", named["set"], "numbers or names", '{"growth": 0.5}')
    if named["observables"] is not None:
        example = '{"total": lambda system, trajectory: trajectory.ys.hare}'
        check_mapping("observables", named["observables"], "functions of (system, trajectory)", example)
        for name, function in named["observables"].items():
            check_function(f"observables[{name!r}]", function, ("system", "trajectory"))
    kinds = {"protocol": AbstractProtocol, "measurement": AbstractMeasurement, "likelihood": AbstractLikelihood}
    for name, kind in kinds.items():
        if (value := named[name]) is not None:
            check_kind(name, value, kind, f"an `{kind.__name__}`", "Leave it out, or give an instance of a subclass.")
