"""The posteriors of posteriordb as problems: regressions, two differential equations, time series, mixtures, Gaussian processes.

Each function takes a data set and returns a `Posed`. Flat priors on the real line are normal ones a thousand times and more as wide
as any posterior, flat ones on positive numbers reach from 1e-6 to 1e6.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import gammaln, logsumexp

import simkit
from simkit import Experiment, Free, Problem

Draws = Mapping[str, Any]


class Posed(NamedTuple):
    """A problem, and the numbers that posteriordb names as functions of one draw by name."""

    problem: Problem
    named: Callable[[Draws], dict[str, Any]]


FLAT = Free(dist.Normal(0.0, 1e6))
POSITIVE = Free(bounds=(1e-6, 1e6))


def regression(design: Any, y: Any, slopes: Any, scale: Free, intercept: str = "", rename: Any = None) -> Posed:
    """y ~ N(X beta, sigma^2); `slopes`: one `Free` for all, or one for each."""
    design = jnp.asarray(np.asarray(design, float))
    count = design.shape[1]
    free = dict(zip([f"beta.{i}" for i in range(count)], slopes if isinstance(slopes, list) else [slopes] * count))
    system = simkit.from_response(lambda i, p: design[jnp.asarray(i, int)] @ p["beta"], {"beta": jnp.zeros(count)})
    problem = Problem(
        system,
        Experiment("data", np.arange(len(y), dtype=float), {"y": np.asarray(y, float)}),
        free={**free, "noise.y.scale": scale},
        noise={"y": simkit.noise.Normal(1.0)},
    )

    def named(draw: Draws) -> dict[str, Any]:
        found = {f"beta[{i + 1}]": draw[f"beta.{i}"] for i in range(count)} | {"sigma": draw["noise.y.scale"]}
        return found if rename is None else rename(found)

    return Posed(problem, named)


def columns(*parts: Any) -> np.ndarray:
    """A design matrix with a first column of ones."""
    return np.stack([np.ones(len(parts[0])), *(np.asarray(x, float) for x in parts)], axis=1)


class Density(simkit.problem.AbstractLikelihood):
    """A likelihood that is a function of the free parameters by name."""

    function: Callable[[Draws], Any] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def log_prob(self, theta: Any, model: Any, data: Any) -> Any:
        return self.function(dict(zip(self.names, theta, strict=True)))


def by_density(free: dict[str, Free], log_prob: Callable[[Draws], Any], named: Any) -> Posed:
    """A problem whose likelihood is given as it is."""
    system = simkit.from_response(lambda x, p: 0.0 * x, dict.fromkeys(free, 1.0))
    problem = Problem(
        system, Experiment("data", [0.0], {"y": [0.0]}), free=free, likelihood=Density(log_prob, tuple(free))
    )
    return Posed(problem, named)


def normal(x: Any, mean: Any, scale: Any) -> Any:
    """The log density of a normal distribution."""
    return dist.Normal(mean, scale).log_prob(x)


def ark(d: Any) -> Posed:
    y, lags = np.asarray(d["y"]), d["K"]
    design = columns(*(y[lags - k - 1 : len(y) - k - 1] for k in range(lags)))
    prior = Free(dist.Normal(0.0, 10.0))

    def rename(found: dict[str, Any]) -> dict[str, Any]:
        slopes = {f"beta[{k}]": found[f"beta[{k + 1}]"] for k in range(1, lags + 1)}
        return slopes | {"alpha": found["beta[1]"], "sigma": found["sigma"]}

    return regression(design, y[lags:], prior, Free(dist.HalfCauchy(2.5)), rename=rename)


def arma(d: Any) -> Posed:
    y = jnp.asarray(d["y"])

    def log_prob(p: Draws) -> Any:
        def step(carry: Any, now: Any) -> Any:
            before, error = carry
            error = now - (p["mu"] + p["phi"] * before + p["theta"] * error)
            return (now, error), error

        first = y[0] - (p["mu"] + p["phi"] * p["mu"])
        _, errors = jax.lax.scan(step, (y[0], first), y[1:])
        return jnp.sum(normal(jnp.append(errors, first), 0.0, p["sigma"]))

    free = {
        "mu": Free(dist.Normal(0.0, 10.0)),
        "phi": Free(dist.Normal(0.0, 2.0)),
        "theta": Free(dist.Normal(0.0, 2.0)),
    }
    return by_density(free | {"sigma": Free(dist.HalfCauchy(2.5))}, log_prob, dict)


def garch(d: Any) -> Posed:
    y = jnp.asarray(d["y"])

    def log_prob(p: Draws) -> Any:
        beta = p["share"] * (1 - p["alpha1"])
        follow = lambda s, before: (v := p["alpha0"] + p["alpha1"] * (before - p["mu"]) ** 2 + beta * s, v)
        first = jnp.asarray(d["sigma1"] ** 2)
        variances = jnp.append(first, jax.lax.scan(follow, first, y[:-1])[1])
        return jnp.sum(normal(y, p["mu"], jnp.sqrt(variances))) + jnp.log1p(-p["alpha1"])

    free = {"mu": FLAT, "alpha0": POSITIVE, "alpha1": Free(bounds=(0.0, 1.0)), "share": Free(bounds=(0.0, 1.0))}
    return by_density(free, log_prob, lambda p: {**p, "beta1": p["share"] * (1 - p["alpha1"])})


def diamonds(d: Any) -> Posed:
    design = np.asarray(d["X"], float)[:, 1:]
    centred = np.concatenate([np.ones((len(design), 1)), design - design.mean(axis=0)], axis=1)
    slopes = [Free(dist.StudentT(3.0, 8.0, 10.0))] + [Free(dist.Normal(0.0, 1.0))] * design.shape[1]
    scale = Free(dist.LeftTruncatedDistribution(dist.StudentT(3.0, 0.0, 10.0), low=0.0))

    def rename(found: dict[str, Any]) -> dict[str, Any]:
        b = [found[f"beta[{k + 2}]"] for k in range(design.shape[1])]
        own = {f"b[{k + 1}]": x for k, x in enumerate(b)} | {"Intercept": found["beta[1]"], "sigma": found["sigma"]}
        return own | {"b_Intercept": found["beta[1]"] - sum(m * x for m, x in zip(design.mean(axis=0), b, strict=True))}

    return regression(centred, d["Y"], slopes, scale, rename=rename)


def eight_schools(d: Any) -> Posed:
    count = d["J"]
    effects = [f"theta.{j}" for j in range(count)]
    derived = {name: lambda p, j=j: p["mu"] + p["tau"] * p[f"white{j}"] for j, name in enumerate(effects)}
    free = {"mu": Free(dist.Normal(0.0, 5.0)), "tau": Free(dist.HalfCauchy(5.0))}
    system = simkit.from_response(lambda i, p: p["theta"][jnp.asarray(i, int)], {"theta": jnp.zeros(count)})
    problem = Problem(
        system,
        Experiment("schools", np.arange(float(count)), {"y": d["y"]}, errors={"y": d["sigma"]}),
        free=free | {f"white{j}": Free(dist.Normal(0.0, 1.0)) for j in range(count)},
        derived=derived,
        noise={"y": simkit.noise.Normal(1.0)},
    )
    own = lambda p: {f"theta[{j + 1}]": p["mu"] + p["tau"] * p[f"white{j}"] for j in range(count)}
    white = lambda p: {f"theta_trans[{j + 1}]": p[f"white{j}"] for j in range(count)}
    return Posed(problem, lambda p: {**own(p), **white(p), "mu": p["mu"], "tau": p["tau"]})


def covariance(x: Any, alpha: Any, rho: Any) -> Any:
    """The exponentiated quadratic kernel."""
    return alpha**2 * jnp.exp(-0.5 * ((x[:, None] - x[None]) / rho) ** 2)


PROCESS = {"rho": Free(dist.Gamma(25.0, 4.0)), "alpha": Free(dist.HalfNormal(2.0))}


def gp_regr(d: Any) -> Posed:
    x, y = jnp.asarray(d["x"], float), jnp.asarray(d["y"], float)

    def log_prob(p: Draws) -> Any:
        whole = covariance(x, p["alpha"], p["rho"]) + p["sigma"] * jnp.eye(len(x))
        return dist.MultivariateNormal(jnp.zeros(len(x)), whole).log_prob(y)

    return by_density(PROCESS | {"sigma": Free(dist.HalfNormal(1.0))}, log_prob, dict)


def gp_pois_regr(d: Any) -> Posed:
    x, counts = jnp.asarray(d["x"], float), jnp.asarray(d["k"], float)
    white = [f"white{i}" for i in range(len(x))]

    def latent(p: Draws) -> Any:
        whole = covariance(x, p["alpha"], p["rho"]) + 1e-10 * jnp.eye(len(x))
        return jnp.linalg.cholesky(whole) @ jnp.stack([p[name] for name in white])

    def log_prob(p: Draws) -> Any:
        f = latent(p)
        return jnp.sum(counts * f - jnp.exp(f) - gammaln(counts + 1))

    def named(p: Draws) -> dict[str, Any]:
        own = {f"f[{i + 1}]": f for i, f in enumerate(latent(p))}
        tilde = {f"f_tilde[{i + 1}]": p[name] for i, name in enumerate(white)}
        return own | tilde | {"rho": p["rho"], "alpha": p["alpha"]}

    return by_density(PROCESS | dict.fromkeys(white, Free(dist.Normal(0.0, 1.0))), log_prob, named)


def hidden_markov(emissions: Any, stay: Any) -> Any:
    """The log probability of a series with two hidden states: log emissions (times, 2), `stay` the rows of transitions.

    As posteriordb's programs have it, the first state has no probability of its own.
    """
    moves = jnp.log(stay)
    follow = lambda g, e: (logsumexp(g[:, None] + moves, axis=0) + e, None)
    return logsumexp(jax.lax.scan(follow, emissions[0], emissions[1:])[0])


def _rows(p: Draws) -> Any:
    return jnp.array([[p["first"], 1 - p["first"]], [p["second"], 1 - p["second"]]])


def _row_names(p: Draws) -> dict[str, Any]:
    names = {"theta1": p["first"], "theta2": p["second"]}
    return {f"{n}[1]": x for n, x in names.items()} | {f"{n}[2]": 1 - x for n, x in names.items()}


def hmm_example(d: Any) -> Posed:
    y = jnp.asarray(d["y"])[:, None]

    def log_prob(p: Draws) -> Any:
        mu = jnp.stack([p["mu"], p["mu"] + p["gap"]])
        return hidden_markov(normal(y, mu, 1.0), _rows(p)) + normal(mu[1], 10.0, 1.0)

    free = {"first": Free(bounds=(0.0, 1.0)), "second": Free(bounds=(0.0, 1.0))}
    free |= {"mu": Free(dist.TruncatedNormal(3.0, 1.0, low=0.0)), "gap": Free(bounds=(0.0, 50.0))}
    return by_density(free, log_prob, lambda p: {**_row_names(p), "mu[1]": p["mu"], "mu[2]": p["mu"] + p["gap"]})


def hmm_drive(d: Any, exponential: bool) -> Posed:
    u, v = (jnp.asarray(d[name])[:, None] for name in "uv")
    alpha = np.asarray(d["alpha"], float)

    def log_prob(p: Draws) -> Any:
        phi, rate = (jnp.stack([p[name], p[name] + p[f"{name}_gap"]]) for name in ("phi", "lambda"))
        if exponential:
            emissions = jnp.log(phi) - phi * u + jnp.log(rate) - rate * v
        else:
            emissions = normal(u, phi, d["tau"]) + normal(v, rate, d["rho"])
        return hidden_markov(emissions, _rows(p)) + normal(phi[1], 3.0, 1.0) + normal(rate[1], 3.0, 1.0)

    lowest = Free(dist.HalfNormal(1.0)) if exponential else Free(dist.Normal(0.0, 1.0))
    free = {"first": Free(dist.Beta(*alpha[0])), "second": Free(dist.Beta(*alpha[1]))}
    free |= {"phi": lowest, "phi_gap": Free(bounds=(0.0, 50.0))}
    free |= {"lambda": lowest, "lambda_gap": Free(bounds=(0.0, 50.0))}
    pairs = lambda p, n: {f"{n}[1]": p[n], f"{n}[2]": p[n] + p[f"{n}_gap"]}
    return by_density(free, log_prob, lambda p: {**_row_names(p), **pairs(p, "phi"), **pairs(p, "lambda")})


def gauss_mix(d: Any) -> Posed:
    y = jnp.asarray(d["y"])[:, None]

    def log_prob(p: Draws) -> Any:
        mu = jnp.stack([p["mu"], p["mu"] + p["gap"]])
        scale = jnp.stack([p["sigma1"], p["sigma2"]])
        weight = jnp.log(jnp.stack([p["theta"], 1 - p["theta"]]))
        return jnp.sum(logsumexp(weight + normal(y, mu, scale), axis=1)) + normal(mu[1], 0.0, 2.0)

    free = {"mu": Free(dist.Normal(0.0, 2.0)), "gap": Free(bounds=(0.0, 50.0)), "theta": Free(dist.Beta(5.0, 5.0))}
    free |= {"sigma1": Free(dist.HalfNormal(2.0)), "sigma2": Free(dist.HalfNormal(2.0))}
    scales = lambda p: {"sigma[1]": p["sigma1"], "sigma[2]": p["sigma2"], "theta": p["theta"]}
    return by_density(free, log_prob, lambda p: {**scales(p), "mu[1]": p["mu"], "mu[2]": p["mu"] + p["gap"]})


def lynx_hare(d: Any) -> Posed:
    def rates(t: Any, z: Any, p: Any) -> Any:
        u, v = z["u"], z["v"]
        return {"u": (p["alpha"] - p["beta"] * v) * u, "v": (p["delta"] * u - p["gamma"]) * v}

    values = np.concatenate([[d["y_init"]], d["y"]])
    near, small = dist.TruncatedNormal(1.0, 0.5, low=0.0), dist.TruncatedNormal(0.05, 0.05, low=0.0)
    start = Free(dist.LogNormal(np.log(10.0), 1.0))
    free = {"alpha": Free(near), "beta": Free(small), "gamma": Free(near), "delta": Free(small)}
    free |= {"y0.u": start, "y0.v": start}
    free |= {f"noise.{name}.scale": Free(dist.LogNormal(-1.0, 1.0)) for name in "uv"}
    problem = Problem(
        simkit.from_function(rates, {"alpha": 0.5, "beta": 0.03, "gamma": 0.8, "delta": 0.03}),
        Experiment("fur", np.concatenate([[0.0], d["ts"]]), {"u": values[:, 0], "v": values[:, 1]}),
        y0={"u": 30.0, "v": 5.0},
        free=free,
        noise={"u": simkit.noise.LogNormal(0.2), "v": simkit.noise.LogNormal(0.2)},
    )
    order = ("alpha", "beta", "gamma", "delta")
    own = lambda p: {f"theta[{i + 1}]": p[name] for i, name in enumerate(order)}
    pairs = lambda p: {
        f"{n}[{i + 1}]": p[path.format(s)]
        for n, path in (("z_init", "y0.{}"), ("sigma", "noise.{}.scale"))
        for i, s in enumerate("uv")
    }
    return Posed(problem, lambda p: {**own(p), **pairs(p)})


def one_compartment(d: Any) -> Posed:
    dose, volume = float(d["D"]), float(d["V"])

    def rates(t: Any, c: Any, p: Any) -> Any:
        return jnp.exp(-p["ka"] * t) * dose * p["ka"] / volume - p["vm"] / volume * c / (p["km"] + c)

    half = Free(dist.HalfCauchy(1.0))
    problem = Problem(
        simkit.from_function(rates, {"ka": 0.5, "km": 0.5, "vm": 1.0}),
        Experiment("dose", d["times"], {"y": d["C_hat"]}, start=float(d["t0"])),
        y0=0.0,
        free={"ka": half, "km": half, "vm": half, "noise.y.scale": half},
        noise={"y": simkit.noise.LogNormal(0.2)},
    )
    names = {"k_a": "ka", "K_m": "km", "V_m": "vm", "sigma": "noise.y.scale"}
    return Posed(problem, lambda p: {name: p[own] for name, own in names.items()})


def _kid(d: Any, middle: Any, width: Any) -> Posed:
    hs, iq = (
        (np.asarray(d[n], float) - middle(np.asarray(d[n]))) / width(np.asarray(d[n])) for n in ("mom_hs", "mom_iq")
    )
    return regression(columns(hs, iq, hs * iq), d["kid_score"], FLAT, POSITIVE)


def _mesquite(d: Any, *parts: Any) -> Posed:
    return regression(columns(*parts, d["group"]), np.log(d["weight"]), FLAT, POSITIVE)


def _logs(d: Any, *names: str) -> list[np.ndarray]:
    return [np.log(d[name]) for name in names]


CAUCHY = Free(dist.HalfCauchy(2.5))
SIZES = ("diam1", "diam2", "canopy_height", "total_height", "density")
one = lambda x: 1.0
volume = lambda d: np.log(np.prod([d["diam1"], d["diam2"], d["canopy_height"]], axis=0))
area = lambda d: np.log(np.multiply(d["diam1"], d["diam2"]))
shape = lambda d: np.log(np.divide(d["diam1"], d["diam2"]))
product = lambda d, a, b: np.multiply(d[a], d[b])


def nes(d: Any) -> Posed:
    age = np.asarray(d["age_discrete"])
    parts = d["real_ideo"], d["race_adj"], age == 2, age == 3, age == 4, d["educ1"], d["gender"], d["income"]
    return regression(columns(*parts), d["partyid7"], FLAT, POSITIVE)


def kilpisjarvi(d: Any) -> Posed:
    slopes = [Free(dist.Normal(d["pmualpha"], d["psalpha"])), Free(dist.Normal(d["pmubeta"], d["psbeta"]))]
    rename = lambda f: {"alpha": f["beta[1]"], "beta": f["beta[2]"], "sigma": f["sigma"]}
    return regression(columns(d["x"]), d["y"], slopes, POSITIVE, rename=rename)


def _standard(x: Any) -> np.ndarray:
    return (np.asarray(x) - np.mean(x)) / np.std(x, ddof=1)


MODELS: dict[str, Callable[[Any], Posed]] = {
    "arK": ark,
    "arma11": arma,
    "blr": lambda d: regression(d["X"], d["y"], Free(dist.Normal(0.0, 10.0)), Free(dist.HalfNormal(10.0))),
    "diamonds": diamonds,
    "earn_height": lambda d: regression(columns(d["height"]), d["earn"], FLAT, POSITIVE),
    "eight_schools_noncentered": eight_schools,
    "garch11": garch,
    "gp_pois_regr": gp_pois_regr,
    "gp_regr": gp_regr,
    "hmm_drive_0": lambda d: hmm_drive(d, True),
    "hmm_drive_1": lambda d: hmm_drive(d, False),
    "hmm_example": hmm_example,
    "kidscore_interaction": lambda d: regression(
        columns(d["mom_hs"], d["mom_iq"], product(d, "mom_hs", "mom_iq")), d["kid_score"], FLAT, CAUCHY
    ),
    "kidscore_interaction_c": lambda d: _kid(d, np.mean, one),
    "kidscore_interaction_c2": lambda d: _kid(d, lambda x: 0.5 if x.max() <= 1 else 100.0, one),
    "kidscore_interaction_z": lambda d: _kid(d, np.mean, lambda x: 2 * np.std(x, ddof=1)),
    "kidscore_mom_work": lambda d: regression(
        columns(*(np.asarray(d["mom_work"]) == k for k in (2, 3, 4))), d["kid_score"], FLAT, POSITIVE
    ),
    "kidscore_momhs": lambda d: regression(columns(d["mom_hs"]), d["kid_score"], FLAT, CAUCHY),
    "kidscore_momhsiq": lambda d: regression(columns(d["mom_hs"], d["mom_iq"]), d["kid_score"], FLAT, CAUCHY),
    "kidscore_momiq": lambda d: regression(columns(d["mom_iq"]), d["kid_score"], FLAT, CAUCHY),
    "kilpisjarvi": kilpisjarvi,
    "log10earn_height": lambda d: regression(columns(d["height"]), np.log10(d["earn"]), FLAT, POSITIVE),
    "logearn_height": lambda d: regression(columns(d["height"]), np.log(d["earn"]), FLAT, POSITIVE),
    "logearn_height_male": lambda d: regression(columns(d["height"], d["male"]), np.log(d["earn"]), FLAT, POSITIVE),
    "logearn_interaction": lambda d: regression(
        columns(d["height"], d["male"], product(d, "height", "male")), np.log(d["earn"]), FLAT, POSITIVE
    ),
    "logearn_interaction_z": lambda d: regression(
        columns(_standard(d["height"]), d["male"], _standard(d["height"]) * d["male"]),
        np.log(d["earn"]),
        FLAT,
        POSITIVE,
    ),
    "logearn_logheight_male": lambda d: regression(
        columns(np.log(d["height"]), d["male"]), np.log(d["earn"]), FLAT, POSITIVE
    ),
    "logmesquite": lambda d: _mesquite(d, *_logs(d, *SIZES)),
    "logmesquite_logva": lambda d: _mesquite(d, volume(d), area(d)),
    "logmesquite_logvas": lambda d: _mesquite(d, volume(d), area(d), shape(d), *_logs(d, "total_height", "density")),
    "logmesquite_logvash": lambda d: _mesquite(d, volume(d), area(d), shape(d), *_logs(d, "total_height")),
    "logmesquite_logvolume": lambda d: regression(columns(volume(d)), np.log(d["weight"]), FLAT, POSITIVE),
    "lotka_volterra": lynx_hare,
    "low_dim_gauss_mix": gauss_mix,
    "mesquite": lambda d: regression(columns(*(d[n] for n in SIZES), d["group"]), d["weight"], FLAT, POSITIVE),
    "nes": nes,
    "one_comp_mm_elim_abs": one_compartment,
}
