"""Tables of a study file that the verbs read: [fit], [sample] and [predict]."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ..._errors import check_known
from ...fitting import (
    LBFGS,
    SAEM,
    EnsembleKalmanInversion,
    FieldLBFGS,
    GaussNewton,
    GaussNewtonCG,
    IteratedFiltering,
    Marginal,
    Sparse,
)
from ...infer import (
    ABCSMC,
    LENGTHS,
    MCLMC,
    NUTS,
    EnsembleSampler,
    LaplaceApproximation,
    NestedSampling,
    NeuralLikelihood,
    NeuralPosterior,
    ParallelTempering,
    ParticleGibbs,
    ParticleMetropolis,
    Pathfinder,
    TemperedSMC,
    Variational,
)
from ...problem import Experiment
from ._keys import TIMES, Key, Table
from ._section import Section, at_place
from ._sweep import read_times

FIT_METHODS: Mapping[str, Any] = {
    "gauss_newton": GaussNewton,
    "lbfgs": LBFGS,
    "marginal": Marginal,
    "saem": SAEM,
    "iterated_filtering": IteratedFiltering,
    "ensemble_inversion": EnsembleKalmanInversion,
    "gauss_newton_cg": GaussNewtonCG,
    "field_lbfgs": FieldLBFGS,
    "sparse": Sparse,
}
FIELD_METHODS = ("gauss_newton_cg", "field_lbfgs")
"""Methods that fit unknown fields."""
METHOD_KEYS: Mapping[str, tuple[str, ...]] = {
    "iterated_filtering": ("iterations", "perturbation", "cooling", "repeats"),
    "ensemble_inversion": ("members", "max_steps"),
    "gauss_newton_cg": ("max_steps", "modes", "max_products"),
    "field_lbfgs": ("max_steps", "modes"),
    "sparse": ("names", "targets", "weights", "by", "l1_ratio", "count", "search", "max_steps"),
}
"""Keys of [fit] that are arguments of one method."""
ALL_AT_ONCE = ("screen", "evolve", "recombine", "horizons", "windows")
"""Keys of [fit] for methods that descend, which those of `METHOD_KEYS` do not take, but for `sparse`, whose first fit descends."""
SAMPLE_METHODS: Mapping[str, Any] = {
    "nuts": NUTS,
    "ensemble": EnsembleSampler,
    "laplace": LaplaceApproximation,
    "svi": Variational,
    "tempered": TemperedSMC,
    "parallel_tempering": ParallelTempering,
    "nested": NestedSampling,
    "mclmc": MCLMC,
    "pathfinder": Pathfinder,
    "abc": ABCSMC,
    "neural_posterior": NeuralPosterior,
    "neural_likelihood": NeuralLikelihood,
    "particle_metropolis": ParticleMetropolis,
    "particle_gibbs": ParticleGibbs,
}
NEURAL = ("neural_posterior", "neural_likelihood")
LEARNING, NETWORK = ("simulations", "rounds"), ("steps", "members")
"""Keys of [sample] that are arguments of methods that learn from simulations, and of their networks."""
KERNELS = ("hmc", "random_walk")
SAMPLER_KEYS: Mapping[str, tuple[str, ...]] = {
    "nuts": ("target_accept", "max_depth"),
    "ensemble": ("walkers", "thin", "stretch"),
    "svi": ("steps", "learning_rate", "particles"),
    "tempered": ("kernel", "moves", "leapfrog", "ess"),
    "parallel_tempering": ("temperatures", "kernel", "moves", "leapfrog"),
    "nested": ("live", "replaced", "moves", "remaining"),
    "mclmc": ("target_accept", "length"),
    "pathfinder": ("paths", "iterations", "lower_bound_draws"),
    "abc": ("simulations", "particles", "quantile", "acceptance", "adjust"),
    "particle_metropolis": ("accept",),
    "particle_gibbs": ("moves",),
    **dict.fromkeys(NEURAL, (*LEARNING, *NETWORK)),
}
"""Keys of [sample] that are arguments of one method."""


FIT = Table(
    "the fit, from many starts",
    {
        "starts": Key("count", "starts in parallel, so that a local optimum is seen for what it is; 16 without it"),
        "screen": Key("count", "points that are tried for each start, of which the best begin"),
        "evolve": Key("count", "generations of an evolution that looks for starts", least=0),
        "recombine": Key(
            "count", "rounds in which new starts begin between and beyond the places where others ended", least=0
        ),
        "method": Key(
            "a name",
            "how the optimum is found; chosen from the problem without it",
            None,
            lambda: FIT_METHODS,
            1,
            "fit method",
        ),
        "windows": Key(
            "count", "parts of each experiment that are simulated on their own at first (multiple shooting)"
        ),
        "horizons": Key("numbers", "fractions of the data that are fitted one after the other; the last is 1.0"),
        "iterations": Key("count", "of iterated_filtering: passes over all data; 100 without it"),
        "perturbation": Key("number", "of iterated_filtering: the standard deviation of a step"),
        "cooling": Key("number", "of iterated_filtering: what is left of it after 50 passes"),
        "repeats": Key("count", "of iterated_filtering: fresh filters at the end", least=2),
        "members": Key("count", "of ensemble_inversion: members of the ensemble; 100 without it", least=3),
        "max_steps": Key("count", "of ensemble_inversion, gauss_newton_cg, field_lbfgs and sparse: the most steps"),
        "modes": Key(
            "count", "of gauss_newton_cg and field_lbfgs: directions of the uncertainty; 0 without it", least=0
        ),
        "max_products": Key("count", "of gauss_newton_cg: the most products of one step"),
        "names": Key("an array", "of sparse: the unknowns that may vanish"),
        "targets": Key("a table", "of sparse: the value of each that counts as nothing; 0 without it"),
        "weights": Key("anything", 'of sparse: "adaptive" (without it), "equal", or a table of numbers by name'),
        "by": Key("anything", 'of sparse: "bic" (without it), "aic", "aicc" or a number of folds'),
        "l1_ratio": Key("number", "of sparse: the part of the penalty that is L1; 1.0 without it"),
        "count": Key("count", "of sparse: strengths of the path; 20 without it", least=2),
        "search": Key(
            "a name",
            'of sparse: "path" (without it), or "all" for all models of up to twelve names',
            None,
            lambda: ("path", "all"),
            1,
            "search",
        ),
    },
)
SAMPLE = Table(
    "the posterior distribution",
    {
        "chains": Key("count", "chains in parallel; 4 without it"),
        "warmup": Key("count", "draws of each chain that adapt the sampler and are dropped"),
        "draws": Key("count", "draws of each chain that are kept"),
        "method": Key("a name", "the sampler; NUTS without it", None, lambda: SAMPLE_METHODS, 1, "sampling method"),
        "target_accept": Key("number", "of nuts and mclmc: the mean acceptance that the warm-up aims at"),
        "max_depth": Key("count", "of nuts: doublings of a trajectory at most; 10 without it"),
        "walkers": Key("count", "of ensemble: walkers of each chain", least=2),
        "thin": Key("count", "of ensemble: moves between two draws that are kept; 10 without it"),
        "stretch": Key("number", "of ensemble: the largest stretch of a move; 2.0 without it"),
        "steps": Key("count", "of svi and neural methods: steps of learning at most"),
        "learning_rate": Key("number", "of svi: the length of its steps; 0.01 without it"),
        "particles": Key(
            "count", "of svi: draws for each gradient, 4 without it; of abc: particles of a round, 1000 without it"
        ),
        "kernel": Key(
            "a name", "of tempered and parallel_tempering: how particles move", None, lambda: KERNELS, 1, "kernel"
        ),
        "moves": Key("count", "of tempered, parallel_tempering, nested and particle_gibbs: moves of a draw"),
        "leapfrog": Key("count", "of tempered and parallel_tempering: steps of one move along gradients; 6 without it"),
        "ess": Key(
            "number", "of tempered: the share of effective particles that tells the next temperature; 0.5 without it"
        ),
        "temperatures": Key("count", "of parallel_tempering: replicas; 12 without it", least=2),
        "live": Key("count", "of nested: points that live; 500 without it", least=20),
        "replaced": Key("count", "of nested: points that die at once"),
        "remaining": Key("number", "of nested: the part of the evidence that may be left at the end; 0.001 without it"),
        "length": Key("number", "of mclmc: mean number of steps between two tosses; 3.0 without it", bounds=LENGTHS),
        "paths": Key("count", "of pathfinder: starts, drawn from the priors; 8 without it"),
        "iterations": Key("count", "of pathfinder: steps of a path at most; 60 without it"),
        "lower_bound_draws": Key("count", "of pathfinder: draws for the lower bound of each step; 30 without it"),
        "simulations": Key(
            "count", "of neural methods and abc: data sets at most; 10000 and 100000 without it", least=100
        ),
        "rounds": Key("count", "of neural methods: rounds of simulations, the later ones near the posterior"),
        "members": Key("count", "of neural methods: networks whose mean density is taken; 1 without it"),
        "quantile": Key("number", "of abc: the share of particles whose distance is the next round's; 0.5 without it"),
        "acceptance": Key("number", "of abc: the share of accepted proposals at which it ends; 0.005 without it"),
        "adjust": Key("true or false", "of abc: whether the last particles are led to the data by regression"),
        "accept": Key("number", "of particle_metropolis: the acceptance that steps are tuned to; 0.15 without it"),
    },
)
PREDICT = Table(
    "predictions of the model and of new data",
    {
        "count": Key("count", "draws of the posterior that are simulated, at most; 400 without it"),
        "times": TIMES,
        "replicates": Key(
            "count", "data sets drawn from a population to check it in the report; 1000 without it", least=100
        ),
        "corrected": Key("true or false", "whether the predictive check brings doses and covariates together first"),
        "bins": Key("count", "time bins of the predictive check; chosen without it"),
        "by": Key(
            "anything",
            "a covariate, by which the predictive check makes groups: its name, or { weight = [40, 60, 120] } with ends of bins",
        ),
    },
)


def read_fit(section: Section) -> dict[str, Any]:
    asked = FIT.read(section, "horizons", "weights", "by")
    # Values of several kinds, which `Sparse` checks.
    asked |= {key: section.table[key] for key in ("weights", "by") if key in section}
    if "horizons" in section:
        horizons = section.numbers("horizons")
        if not horizons or not all(isinstance(h, int | float) and 0 < h <= 1 for h in horizons) or horizons[-1] != 1:
            raise section.error(
                "horizons", f"must be fractions of the data that end with 1.0, but they are `{horizons}`."
            )
        asked["horizons"] = tuple(horizons)
    section.finish("horizons", "weights", "by")
    method = asked.get("method")
    _check_takers(section, asked, METHOD_KEYS, method)
    if method == "sparse" and "names" not in asked:
        raise section.error("names", 'must be given with `method = "sparse"`: the unknowns that may vanish.')
    for key in (*ALL_AT_ONCE, *(() if method == "iterated_filtering" else ("starts",))):
        if key in asked and method in METHOD_KEYS and method != "sparse":
            raise section.error(key, f'does not go with `method = "{method}"`, which takes all data at once.')
    with at_place(section.where()):
        fit_method(asked)
    return asked


def fit_method(asked: Mapping[str, Any]) -> Any:
    """The method of [fit] with its own arguments; None for the default of the problem."""
    name = asked.get("method")
    if name is None:
        return None
    return FIT_METHODS[name](**{key: asked[key] for key in METHOD_KEYS.get(name, ()) if key in asked})


def fit_arguments(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `fit` in [fit] beside its method."""
    own = {"method", *METHOD_KEYS.get(asked.get("method", ""), ())}
    return {key: value for key, value in asked.items() if key not in own}


def read_sample(section: Section) -> dict[str, Any]:
    asked = SAMPLE.read(section)
    section.finish()
    _check_takers(section, asked, SAMPLER_KEYS, asked.get("method", "nuts"))
    with at_place(section.where()):
        sample_method(asked)
    return asked


def sample_method(asked: Mapping[str, Any]) -> Any:
    """The method of [sample] with its own arguments."""
    name = asked.get("method", "nuts")
    kind, own = SAMPLE_METHODS[name], {key: asked[key] for key in SAMPLER_KEYS.get(name, ()) if key in asked}
    if name in NEURAL and (network := {key: own.pop(key) for key in NETWORK if key in own}):
        own["network"] = dataclasses.replace(kind().network, **network)
    return kind(**own)


def sample_arguments(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `sample` in [sample] beside its method."""
    own = {"method", *SAMPLER_KEYS.get(asked.get("method", "nuts"), ())}
    return {key: value for key, value in asked.items() if key not in own}


def _check_takers(
    section: Section, asked: Mapping[str, Any], owned: Mapping[str, tuple[str, ...]], method: str | None
) -> None:
    """Refuse the arguments of another method than the one of the table."""
    for key in dict.fromkeys(key for keys in owned.values() for key in keys):
        takers = [name for name, keys in owned.items() if key in keys]
        if key in asked and method not in takers:
            named = " or ".join(f'`method = "{name}"`' for name in takers)
            raise section.error(key, f"goes with {named}, but the method is another.")


def read_predict(section: Section) -> dict[str, Any]:
    asked = {**PREDICT.read(section, "times", "by"), "times": read_times(section), "by": _groups(section)}
    section.finish("by")
    return {key: value for key, value in asked.items() if value is not None}


def check_groups(asked: Mapping[str, Any], experiments: Sequence[Experiment], section: Section) -> None:
    """Refuse a covariate, `by`, that an experiment does not have."""
    if "by" not in asked:
        return
    name = asked["by"] if isinstance(asked["by"], str) else next(iter(asked["by"]))
    with at_place(section.where("by")):
        for experiment in experiments:
            check_known(name, experiment.covariates, f"covariate (of experiment `{experiment.name}`)")


def _groups(section: Section) -> str | dict[str, list[float]] | None:
    """`by`: the name of a covariate, or one with the ends of its bins."""
    if "by" not in section or isinstance(section.table["by"], str):
        return section.table.get("by")
    given = section.table["by"]
    wrong = (
        f"must be the name of a covariate, or one with the ends of its bins, such as {{ weight = [40, 60, 120] }}, but it "
        f"is `{given}`."
    )
    if not isinstance(given, dict) or len(given) != 1:
        raise section.error("by", wrong)
    ends = section.section("by").numbers(next(iter(given)))
    if len(ends) < 2 or not all(isinstance(x, int | float) for x in ends) or list(ends) != sorted(set(ends)):
        raise section.error("by", wrong)
    return {next(iter(given)): [float(x) for x in ends]}
