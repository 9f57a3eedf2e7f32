"""Tables of a study file that the verbs read: [fit], [sample] and [predict]."""

from collections.abc import Mapping
from typing import Any

from ...fitting import LBFGS, GaussNewton, Marginal
from ...infer import (
    MCLMC,
    NUTS,
    EnsembleSampler,
    LaplaceApproximation,
    NestedSampling,
    ParallelTempering,
    TemperedSMC,
    Variational,
)
from ._section import Section
from ._sweep import read_times

FIT_METHODS: Mapping[str, Any] = {"gauss_newton": GaussNewton, "lbfgs": LBFGS, "marginal": Marginal}
SAMPLE_METHODS: Mapping[str, Any] = {
    "nuts": NUTS,
    "ensemble": EnsembleSampler,
    "laplace": LaplaceApproximation,
    "svi": Variational,
    "tempered": TemperedSMC,
    "parallel_tempering": ParallelTempering,
    "nested": NestedSampling,
    "mclmc": MCLMC,
}


def read_fit(section: Section) -> dict[str, Any]:
    asked = {
        "starts": section.count("starts"),
        "screen": section.count("screen"),
        "evolve": section.count("evolve"),
        "method": section.name("method", FIT_METHODS, "fit method"),
    }
    if "horizons" in section:
        horizons = section.numbers("horizons")
        if not horizons or not all(isinstance(h, int | float) and 0 < h <= 1 for h in horizons) or horizons[-1] != 1:
            raise section.error(
                "horizons", f"must be fractions of the data that end with 1.0, but they are `{horizons}`."
            )
        asked["horizons"] = tuple(horizons)
    section.finish("horizons")
    return {key: value for key, value in asked.items() if value is not None}


def read_sample(section: Section) -> dict[str, Any]:
    asked: dict[str, Any] = {key: section.count(key) for key in ("chains", "warmup", "draws")}
    asked["method"] = section.name("method", SAMPLE_METHODS, "sampling method")
    section.finish()
    return {key: value for key, value in asked.items() if value is not None}


def read_predict(section: Section) -> dict[str, Any]:
    asked: dict[str, Any] = {"count": section.count("count"), "times": read_times(section)}
    section.finish()
    return {key: value for key, value in asked.items() if value is not None}
