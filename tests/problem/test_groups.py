"""Groups of individuals on several levels: closed forms, public data, derivatives, new groups, and what is refused."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import ArgumentError, DataError, Experiment, Free, Individual, Problem
from simkit.fitting._marginal import marginal
from simkit.noise import Normal
from simkit.odes import from_response

ROOT = pathlib.Path(__file__).parents[2]
X = np.array([0.0, 1.0, 2.0])
# Country, hospital, patient, visit: unequal numbers on each level.
ROWS = [
    *(("nl", "n", "a", 0), ("nl", "n", "a", 1), ("nl", "n", "b", 0), ("nl", "s", "c", 0), ("nl", "s", "d", 0)),
    *(("nl", "s", "d", 1), ("be", "e", "f", 0), ("be", "e", "g", 0), ("be", "w", "h", 0)),
]


def patients(rows=ROWS, **more):
    rng = np.random.default_rng(0)
    return [
        Experiment(
            f"{patient}{visit}",
            X,
            {"y": rng.normal(size=3) + 1.0 + 2.0 * X},
            individual=patient,
            occasions=f"visit {visit}",
            groups={"country": country, "hospital": hospital},
            **more,
        )
        for country, hospital, patient, visit in rows
    ]


def level(*levels, **more):
    return Individual(
        Free(start=1.0), Free(start=0.4), group_spreads={name: Free(start=0.4) for name in levels}, **more
    )


def line():
    return from_response(lambda x, p: p["level"] + p["slope"] * x, {"level": 1.0, "slope": 2.0})


def lines(experiments):
    free = {
        "level": level("hospital", "country", occasion_spread=Free(start=0.4)),
        "slope": level("country"),
        "noise.y.scale": Free(start=0.4),
    }
    return Problem(line(), experiments, free=free, noise={"y": Normal(0.4)})


def closed_form(theta, experiments):
    """The negative log likelihood of all data, which are normal with a known covariance."""
    mean, slope, noise, between, slopes, visit, hospital, country, country_slope = theta
    x = np.tile(X, len(experiments))
    same = lambda own: np.equal.outer(*[np.repeat([own(e) for e in experiments], X.size)] * 2)
    covariance = same(lambda e: e.individual) * (between**2 + slopes**2 * np.outer(x, x))
    covariance = covariance + same(lambda e: e.name) * visit**2 + same(lambda e: e.groups["hospital"]) * hospital**2
    covariance = covariance + same(lambda e: e.groups["country"]) * (country**2 + country_slope**2 * np.outer(x, x))
    covariance = covariance + noise**2 * np.eye(x.size)
    left = np.concatenate([e.data["y"] for e in experiments]) - mean - slope * x
    return 0.5 * (left @ np.linalg.solve(covariance, left) + np.linalg.slogdet(2 * np.pi * covariance)[1])


@pytest.mark.parametrize("bits", [64, 32])
def test_the_marginal_likelihood_of_four_levels_is_the_closed_form(bits):
    """Countries, hospitals, patients and visits: for models linear in normal deviations Laplace's approximation is exact."""
    experiments = patients()
    theta = np.array([1.1, 1.8, 0.45, 0.5, 0.3, 0.7, 0.6, 0.5, 0.25])
    with jax.enable_x64(bits == 64):
        problem = lines(experiments)
        names = problem.names
        population, lean = problem.population, problem.lean()
        deviations = np.random.default_rng(1).normal(size=population.total - population.shared)
        full = jnp.asarray(np.concatenate([theta, deviations]), problem.bounds.dtype)
        np.testing.assert_array_equal(population.with_deviations(0 * full, population.deviations(full))[9:], full[9:])
        at = jax.jit(lambda z: marginal(lean, z))(problem.coordinates(full))
        value, gradient = float(at.value - at.penalty), np.asarray(at.gradient)
        assert at.gradient.dtype == (jnp.float64 if bits == 64 else jnp.float32)
    assert names[5:9] == (
        "level.occasion_spread",
        "level.hospital_spread",
        "level.country_spread",
        "slope.country_spread",
    )
    assert names[-8:-3] == (*(f"zeta.level.hospital.{own}" for own in "nsew"), "zeta.level.country.nl")
    # Modes are found to the root of the rounding error, which enters squared; numbers near 40 of 50 sums in float32.
    np.testing.assert_allclose(value, closed_form(theta, experiments), rtol=1e-12 if bits == 64 else 3e-6)
    for i in range(9):
        ahead, behind = theta.copy(), theta.copy()
        ahead[i], behind[i] = theta[i] + 1e-5, theta[i] - 1e-5
        slope = (closed_form(ahead, experiments) - closed_form(behind, experiments)) / 2e-5
        scale = theta[i] if problem.log[i] else 1.0
        # Central differences are good to 1e-9 / 1e-5; the gradient in float32 to the root of its rounding error.
        np.testing.assert_allclose(gradient[i], scale * slope, rtol=1e-6, atol=1e-6 if bits == 64 else 4e-3)


def test_the_gradient_of_curved_models_is_that_of_the_objective():
    """Log-normal rates of patients in hospitals: the terms of the determinants and of the modes count."""
    decay = from_response(lambda t, p: {"left": 5.0 * jnp.exp(-p["rate"] * t)}, {"rate": 1.0})
    rng, runs = np.random.default_rng(3), []
    for i in range(5):
        left = 5.0 * np.exp(-(0.5 + 0.2 * i) * X) + 0.3 * rng.normal(size=3)
        runs.append(Experiment(f"p{i}", X, {"left": left}, groups={"hospital": f"h{i // 2}"}))
    free = {"rate": level("hospital"), "noise.left.scale": Free(start=0.3)}
    problem = Problem(decay, runs, free=free, noise={"left": Normal(0.3)})
    lean, z = problem.lean(), problem.coordinates(jnp.array([0.8, 0.4, 0.5, 0.6, *([0.0] * 8)]))
    found = jax.jit(lambda z: (lambda at: (at.value, at.gradient))(marginal(lean, z)))
    gradient = found(z)[1]
    for i in range(4):
        ahead, behind = (found(z.at[i].add(step))[0] for step in (1e-4, -1e-4))
        # Differences of a number near 10, known to 1e-15 times that.
        np.testing.assert_allclose(gradient[i], (ahead - behind) / 2e-4, rtol=1e-6, atol=1e-7)


def test_a_parameter_that_differs_between_groups_alone_has_no_deviations_of_individuals():
    """A gain of plates and a slope of replicates; closed form as above."""
    runs = [e for e in patients() if e.occasions == {"visit 0": -np.inf}]
    gain = Individual(Free(start=1.0), 0, group_spreads={"hospital": Free(start=0.4)})
    free = {"level": gain, "slope": Individual(Free(start=2.0), Free(start=0.4))}
    problem = Problem(line(), runs, free=free, noise={"y": Normal(0.4)})
    assert problem.names[:5] == ("level", "slope", "slope.spread", "level.hospital_spread", "eta.slope.a")
    assert len(problem.names) == 4 + 7 + 4
    theta = np.array([1.1, 1.8, 0.3, 0.6])
    full = jnp.concatenate([jnp.asarray(theta), jnp.linspace(-1.0, 1.0, 11)])
    values = problem.population.values(full)
    np.testing.assert_allclose(values[0], 1.1 + 0.6 * np.asarray(full)[[11, 11, 12, 12, 13, 13, 14]], rtol=1e-12)
    np.testing.assert_allclose(values[1], 1.8 + 0.3 * np.asarray(full)[4:11], rtol=1e-12)
    lean = problem.lean()
    value = jax.jit(lambda z: (lambda at: at.value - at.penalty)(marginal(lean, z)))(lean.coordinates(full))
    same = (1.1, 1.8, 0.4, 1e-9, 0.3, 1e-9, 0.6, 1e-9, 1e-9)
    np.testing.assert_allclose(value, closed_form(same, runs), rtol=1e-9)
    for wrong, words in ((0.3, "must be a `Free` or 0"), (True, "must be a `Free` or 0")):
        with pytest.raises(ArgumentError, match=words):
            Problem(line(), runs, free={"level": gain._replace(spread=wrong)}, noise={"y": Normal(0.4)})
    with pytest.raises(ArgumentError, match="must have `group_spreads` or an `occasion_spread`"):
        Problem(line(), runs, free={"level": Individual(spread=0)}, noise={"y": Normal(0.4)})


@pytest.mark.slow
def test_batches_of_casks_have_the_estimates_of_lme4():
    """Maximum likelihood of `strength ~ 1 + (1 | sample) + (1 | batch)`, Bates (2010), lme4: Mixed-effects modeling with R, 2.2."""
    table = np.genfromtxt(ROOT / "data/pastes/pastes.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    casks = [
        Experiment(
            str(rows[0]),
            X[:2],
            {"y": rows["strength"]},
            individual=f"{rows['batch'][0]}{rows['cask'][0]}",
            groups={"batch": rows["batch"][0]},
        )
        for rows in table.reshape(30, 2)
    ]
    above = Free(bounds=(0.01, 20.0), start=1.0)
    strength = Individual(Free(start=60.0), above, group_spreads={"batch": above})
    response = from_response(lambda x, p: p["level"] + 0 * x, {"level": 60.0})
    free = {"level": strength, "noise.y.scale": above}
    problem = Problem(response, casks, free=free, noise={"y": Normal(1.0)})
    fit = simkit.fit(problem, starts=1)
    assert -2 * float(fit.log_likelihood) == pytest.approx(247.99, abs=0.01)
    found = [float(fit[name]) for name in ("level", "level.batch_spread", "level.spread", "noise.y.scale")]
    np.testing.assert_allclose(found, [60.0533, 1.0951, 2.9041, 0.8234], atol=6e-5)
    assert fit.standard_error[0] == pytest.approx(0.6421, abs=1e-4)
    assert np.isfinite(fit.standard_error).all()
    assert len(problem.names) - problem.population.shared == 10 + 30
    with pytest.raises(ArgumentError, match="groups of the level `batch` have a spread"):
        simkit.fit(problem, method=simkit.SAEM(), starts=1)


@pytest.mark.slow
def test_draws_have_the_posterior_of_the_closed_form_and_predict_new_groups():
    rng, runs = np.random.default_rng(4), []
    flat = from_response(lambda x, p: p["level"] + 0.0 * x, {"level": 0.0})
    for hospital in range(6):
        own = 0.8 * rng.normal()
        for patient in range(3):
            y = own + 0.5 * rng.normal() + 0.3 * rng.normal(size=3)
            runs.append(Experiment(f"{hospital}.{patient}", X, {"y": y}, groups={"hospital": f"h{hospital}"}))
    half, known = Free(dist.HalfNormal(1.0)), {"y": Normal(0.3)}
    free = {
        "level": Individual(Free(dist.Normal(0.0, 1.0)), half, group_spreads={"hospital": half}, transform="linear")
    }
    problem = Problem(flat, runs, free=free, noise=known)
    posterior = simkit.sample(problem, key=jax.random.key(5), chains=4, draws=500, warmup=500)
    # The same by a grid of both spreads: the mean adds its prior's variance to all covariances.
    y = np.concatenate([e.data["y"] for e in runs])
    patient, hospital = (np.kron(np.eye(n), np.ones((54 // n, 54 // n))) for n in (18, 6))
    grid = np.linspace(0.01, 3.0, 90)
    logs = np.zeros((90, 90))
    for i, between in enumerate(grid):
        for j, above in enumerate(grid):
            root = np.linalg.cholesky(between**2 * patient + above**2 * hospital + 1.0 + 0.09 * np.eye(54))
            logs[i, j] = -0.5 * np.sum(np.linalg.solve(root, y) ** 2) - np.log(np.diag(root)).sum()
    weights = np.exp(logs - logs.max() - 0.5 * (grid[:, None] ** 2 + grid[None] ** 2))
    weights = weights / weights.sum()
    for name, mean in (("level.spread", grid @ weights.sum(1)), ("level.hospital_spread", grid @ weights.sum(0))):
        row = next(row for row in posterior.table() if row["name"] == name)
        # Four Monte Carlo errors, and a percent of the deviation for the grid.
        assert abs(row["mean"] - mean) < row["sd"] * (4 / np.sqrt(row["ess"]) + 0.01)
    new = [Experiment(f"new {i}", X, {"y": X}, groups={"hospital": f"new {i // 2}"}) for i in range(4)]
    curves = simkit.predict(Problem(flat, new, free=free, noise=known), posterior, count=2000).curves["y"][:, :, 0]
    centre, between, above = np.asarray(posterior.flat())[:, :3].T
    found = np.cov(np.asarray(curves).T)
    # 2000 draws tell variances of mixtures of normal numbers to some 6 %, four times which is allowed.
    np.testing.assert_allclose(np.diag(found).mean(), np.var(centre) + np.mean(between**2 + above**2), rtol=0.25)
    np.testing.assert_allclose((found[0, 1] + found[2, 3]) / 2, np.var(centre) + np.mean(above**2), rtol=0.25)


def test_groups_that_do_not_nest_are_refused_with_their_experiments():
    rows = [*ROWS, ("nl", "s", "a", 2)]
    with pytest.raises(ArgumentError, match=r"`a` lies in several: experiments `a0` \(n\), `a1` \(n\), `a2` \(s\)"):
        lines(patients(rows))
    rows = [*ROWS, ("be", "n", "z", 0)]
    with pytest.raises(
        ArgumentError, match=r"`n` of the level `hospital` must lie within one .*`b0` \(nl\), `z0` \(be\)"
    ):
        lines(patients(rows))
    other = Experiment("z", X, {"y": X}, occasions="visit 0", groups={"hospital": "n", "country": "nl"})
    with pytest.raises(ArgumentError, match="in one order, the outermost first"):
        lines([*patients(), other])
    bare = Experiment("z", X, {"y": X}, occasions="visit 0", groups={"country": "nl"})
    with pytest.raises(simkit.UnknownNameError, match=r"level of groups .of experiment `z`."):
        lines([*patients(), bare])
    none = Experiment("z", X, {"y": X}, occasions="visit 0")
    with pytest.raises(ArgumentError, match="Experiment `z` must name its group of the level"):
        lines([*patients(), none])
    with pytest.raises(ArgumentError, match=r"`hospital` needs several groups .* is only one group"):
        lines(patients([row for row in ROWS if row[1] == "n"]))
    alone = [row for row in ROWS if row[2:] in (("a", 0), ("a", 1), ("c", 0), ("f", 0))]
    with pytest.raises(ArgumentError, match="has no group with more than one member"):
        lines(patients(alone))
    with pytest.raises(DataError, match="must be names by level"):
        Experiment("z", X, {"y": X}, groups={"occasion": "n"})
    with pytest.raises(ArgumentError, match="group_spreads"):
        Problem(line(), patients(), free={"level": Individual(group_spreads=Free())}, noise={"y": Normal(0.4)})
