"""[filter] of a study file: the likelihood of a stochastic system, and the fits that go with it."""

from collections.abc import Mapping
from typing import Any

import jax

from ..._errors import StudyError
from ...filters import PROPOSALS, KalmanFilter, ParticleFilter
from ...problem import AbstractLikelihood
from ._asked import FIELD_METHODS
from ._keys import Key, Table
from ._section import Section, at_place

KALMAN, PARTICLES = "kalman", "particles"
OWN = {KALMAN: ("start", "rtol"), PARTICLES: ("particles", "proposal", "threshold")}
"""Keys of each filter."""

FILTER = Table(
    "the likelihood of a stochastic system",
    {
        "method": Key("a name", "how hidden states are followed", choices=lambda: OWN, what="filter"),
        "start": Key(
            "a table",
            "state -> its standard deviation at the start, for kalman",
            table=Table("", {}, Key("number", "")),
        ),
        "rtol": Key("number", "relative tolerance of moments between data, for kalman"),
        "particles": Key("count", "how many particles; 500 without it", least=2),
        "proposal": Key("a name", "how particles move", "bootstrap", lambda: PROPOSALS, 1, "proposal"),
        "threshold": Key("number", "share of effective particles below which they are resampled", 0.5),
    },
)


_SCATTER = "which needs data that scatter each for itself"
_FIELDS = {"profile": "whose unknowns are fields", "filter": _SCATTER}
APART: Mapping[str, Mapping[str, str]] = {
    "ensemble_inversion": {
        "sample": "whose members are the draws of the posterior",
        "profile": "which has no optimum from which profiles go",
        "filter": _SCATTER,
    },
    **dict.fromkeys(FIELD_METHODS, _FIELDS),
}
"""Method of a fit -> the tables that do not go with it, and why."""


def read_filter(section: Section, asked: bool, seed: int) -> AbstractLikelihood | None:
    """The likelihood of a problem; None where a study has no [filter]."""
    if not asked:
        return None
    section.need("method")
    method = FILTER.keys["method"].read(section, "method")
    for other in OWN:
        for key in OWN[other]:
            if other != method and key in section:
                raise section.error(key, f'goes with `method = "{other}"`, but the method is "{method}".')
    given = FILTER.read(section, "method", "start")
    widths = section.section("start")
    start = {key: widths.number(key) for key in widths.table}
    section.finish()
    with at_place(section.where()):
        if method == KALMAN:
            return KalmanFilter(start or None, rtol=given.get("rtol"))
        # Not the key from which those of the phases are split.
        key = jax.random.fold_in(jax.random.key(seed), 0x66696C74)
        return ParticleFilter(
            given.get("particles", 500), key=key, threshold=given["threshold"], proposal=given["proposal"]
        )


def check_filtered(
    name: str,
    tables: Mapping[str, Any],
    likelihood: AbstractLikelihood | None,
    fit: Mapping[str, Any],
    *,
    stepped: bool,
) -> None:
    """Refuse tables that do not go with the filter or with the method of the fit.

    `stepped`: whether steps are given, or the system has none.

    **Raises:** a `StudyError`.
    """
    particles, method = isinstance(likelihood, ParticleFilter), fit.get("method")
    if method == "iterated_filtering" and not particles:
        raise StudyError(
            f'`method` in [fit] of `{name}` is "iterated_filtering", which is for a likelihood by particles: add [filter] with '
            '`method = "particles"`.'
        )
    if particles and not stepped:
        raise StudyError(
            f"[solve] of `{name}` must give `step` for a likelihood by particles, which is that of the stepped model: such as "
            "`step = 0.01`."
        )
    if particles and method not in (None, "iterated_filtering"):
        raise StudyError(
            f'`method` in [fit] of `{name}` must be "iterated_filtering" for a likelihood by particles, but it is "{method}".'
        )
    for table, why in APART.get(str(method), {}).items():
        if table in tables:
            raise StudyError(
                f'[{table}] of `{name}` does not go with `method = "{method}"` in [fit], {why}: leave it out.'
            )
    if particles and tables.get("profile", {}).get("points", LEAST_POINTS) < LEAST_POINTS:
        raise StudyError(
            f"`points` in [profile] of `{name}` must be at least {LEAST_POINTS} for a likelihood by particles, which is noisy."
        )
    if particles and "sample" in tables and tables["sample"].get("method") not in SAMPLERS:
        raise StudyError(
            f"[sample] of `{name}` must have `method` one of {', '.join(SAMPLERS)} for a likelihood by particles, which is "
            "estimated with random numbers."
        )
    if likelihood is None and tables.get("sample", {}).get("method") in SAMPLERS:
        raise StudyError(
            f'`method` in [sample] of `{name}` is for a likelihood by particles: add [filter] with `method = "particles"`.'
        )


LEAST_POINTS = 5
"""Fewest values of a side of a profile by particles."""
SAMPLERS = ("particle_metropolis", "particle_gibbs")
"""Samplers of likelihoods by particles."""
