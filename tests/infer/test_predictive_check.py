"""Predictive checks and prediction errors of populations: a linear population with exact answers, and coverage."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import simkit
from simkit import viz

TIMES = np.array([0.0, 1.0, 2.0, 4.0])
LEVEL, SPREAD, SLOPE, SCALE = 5.0, 1.5, -0.5, 0.4
PEOPLE = 40


def line(people=PEOPLE, seed=1, spread=SPREAD, limit=None, doses=None):
    """Lines with a level for each person, which are normal: y = level_i + slope t + noise. The numbers of the model are known."""
    random = np.random.default_rng(seed)
    system = simkit.odes.from_response(
        lambda t, p: {"y": p["level"] + p["slope"] * t}, {"level": LEVEL, "slope": SLOPE}
    )
    runs = []
    for i in range(people):
        own = LEVEL + spread * random.normal()
        y = own + SLOPE * TIMES + SCALE * random.normal(size=TIMES.size)
        data = y if limit is None else simkit.Censored(np.maximum(y, limit), below=limit)
        known = {"sex": float(i % 2), "weight": 50.0 + i}
        runs.append(simkit.Experiment(f"p{i:02d}", TIMES, {"y": data}, covariates=known))
    free = {
        "level": simkit.Individual(simkit.Free(dist.Normal(5.0, 5.0)), transform="linear"),
        "slope": simkit.Free(dist.Normal(0.0, 1.0)),
    }
    return simkit.Problem(system, runs, free=free, noise={"y": simkit.noise.Normal(SCALE)})


def known(problem, **other):
    """A posterior of one point: the numbers from which data were drawn."""
    numbers = {"level": LEVEL, "slope": SLOPE, "level.spread": SPREAD} | other
    theta = jnp.array([numbers.get(name, 0.0) for name in problem.names])[None, None]
    one = jnp.zeros((1, 1))
    flags = jnp.zeros((1, 1), bool)
    return simkit.Posterior(theta, one, flags, one.astype(int), one, problem.names, problem.units, "known")


def scattered(problem, **other):
    """A posterior of many points close to the known numbers, for tables which need a scatter."""
    theta = known(problem, **other).draws + 0.01 * jax.random.normal(jax.random.key(0), (2, 50, len(problem.names)))
    zero = jnp.zeros((2, 50))
    return simkit.Posterior(theta, zero, zero > 1, zero.astype(int), zero, problem.names, problem.units, "near")


def exact(problem):
    """The normalised errors by the covariance of the normal model: spread^2 for all pairs, and the noise on the diagonal."""
    covariance = SPREAD**2 + SCALE**2 * np.eye(TIMES.size)
    centred = np.asarray(problem.data["y"]) - LEVEL - SLOPE * TIMES
    return np.linalg.solve(np.linalg.cholesky(covariance), centred.T).T


def test_prediction_errors_are_the_exact_ones_of_a_normal_population():
    problem = line()
    found = simkit.npde(problem, known(problem), replicates=4000)
    # A score z from K ranks has the error sqrt(p (1 - p) / K) / density(z), 0.03 at 1.6; that of covariances as much. Five each.
    inner = np.abs(exact(problem)).ravel() < 1.6
    error = (found.npde - exact(problem).ravel())[inner]
    assert inner.sum() > 100
    assert np.abs(error).max() < 5 * 2 * 0.03
    assert np.sqrt(np.mean(error**2)) < 2 * 0.03
    # The wrong order of data, or none, would be far off: without decorrelation all data of a person move together.
    assert np.sqrt(np.mean((found.discrepancies - exact(problem).ravel())[inner] ** 2)) > 0.3
    np.testing.assert_allclose(
        found.predicted.reshape(PEOPLE, -1).mean(axis=0), LEVEL + SLOPE * TIMES, atol=5 * 1.6 / 4000**0.5
    )


def test_prediction_errors_are_standard_normal_where_the_model_holds_and_not_elsewhere():
    # 160 data: each of three tests fails by chance once in 10,000 at this level, so 3e-4 altogether; the seed is fixed.
    problem = line(seed=3)
    found = simkit.npde(problem, known(problem))
    assert [finding.test for finding in found.findings] == ["mean", "variance", "normality"]
    assert min(finding.p for finding in found.findings) > 1e-4
    assert stats.kstest(found.npde, "norm").pvalue > 1e-4
    # A spread of half: the first error of a person has the variance 2.41 / 0.72 = 3.3, the others stay; 160 errors have 1.6.
    narrow = simkit.npde(problem, known(problem, **{"level.spread": SPREAD / 2}))
    assert narrow.findings[1].p < 1e-4
    # A level that is off by two spreads moves the first error of a person by 1.93 standard deviations, the mean of all by 0.5 or
    # more, whose standard error is 0.08.
    moved = simkit.npde(problem, known(problem, level=LEVEL + 2 * SPREAD))
    assert moved.findings[0].p < 1e-4
    assert "fails" in repr(moved)


def test_bands_hold_what_they_say():
    """Of percentiles of data drawn from the model nine of ten lie within bands of 90 %."""
    sets = 60
    problem = line()
    shares = []
    for k in range(sets):
        own = problem.with_data(problem.simulate_data(_fresh(problem, k), jax.random.key(1000 + k)))
        found = simkit.visual_predictive_check(own, known(problem), replicates=199, bins=[0.0, 0.5, 1.5, 3.0, 5.0])
        shares.append(1 - found.outside.mean())
    # The mean over data sets, whose own shares scatter (percentiles of one set depend on each other), within four standard errors.
    error = np.std(shares, ddof=1) / np.sqrt(sets)
    assert error < 0.03
    assert abs(np.mean(shares) - 0.9) < 4 * error


def _fresh(problem, k):
    theta = jnp.asarray(known(problem).draws[0, 0])
    return problem.population.with_deviations(theta, jax.random.normal(jax.random.key(k), (PEOPLE, 1), theta.dtype))


def test_medians_and_bands_of_a_normal_population():
    problem = line()
    found = simkit.visual_predictive_check(problem, known(problem), replicates=2000)
    assert found.counts.tolist() == [PEOPLE] * 4
    np.testing.assert_array_equal(found.times, TIMES)
    np.testing.assert_allclose(found.observed[1], np.median(np.asarray(problem.data["y"]), axis=0))
    np.testing.assert_allclose(found.observed[0], np.quantile(np.asarray(problem.data["y"]), 0.05, axis=0))
    # The median of n normal numbers has the standard deviation s sqrt(pi / 2 n): its band is 2 * 1.645 of these wide (1/n apart).
    sd = np.hypot(SPREAD, SCALE) * np.sqrt(np.pi / 2 / PEOPLE)
    np.testing.assert_allclose(found.upper[1] - found.lower[1], 2 * 1.645 * sd, rtol=0.1)
    np.testing.assert_allclose(found.median[1], LEVEL + SLOPE * TIMES, atol=5 * sd / 2000**0.5)
    frame = found.to_frame()
    assert list(frame.columns) == ["start", "end", "time", "count", "statistic", "observed", "lower", "median", "upper"]
    assert len(frame) == 12
    again = viz.plot_predictive_check(found).to_frame()
    assert again.equals(frame)


def test_a_correction_brings_doses_together():
    """With doses of 1 and 10 at random the corrected check is that of one dose: corrected data do not know the dose."""
    random = np.random.default_rng(0)
    system = simkit.odes.from_response(
        lambda t, p: {"y": p["dose"] * p["gain"] * jnp.exp(-t)}, {"gain": 1.0, "dose": 1.0}
    )
    doses, runs = random.choice([1.0, 10.0], PEOPLE), []
    gains = np.exp(0.3 * random.normal(size=PEOPLE))
    for i, (dose, gain) in enumerate(zip(doses, gains, strict=True)):
        y = dose * gain * np.exp(-TIMES) * np.exp(0.1 * random.normal(size=TIMES.size))
        runs.append(simkit.Experiment(f"p{i}", TIMES, {"y": y}, set={"dose": dose}))
    free = {"gain": simkit.Individual(simkit.Free(dist.LogNormal(0.0, 1.0)))}
    problem = simkit.Problem(system, runs, free=free, noise={"y": simkit.noise.LogNormal(0.1)})
    result = known(problem, gain=1.0, **{"gain.spread": 0.3})
    plain = simkit.visual_predictive_check(problem, result)
    found = simkit.visual_predictive_check(problem, result, corrected=True)
    middle = np.median(doses) * np.exp(-TIMES)
    np.testing.assert_allclose(found.median[1], middle, rtol=0.05)
    values = np.asarray(problem.data["y"]) / (doses[:, None] * np.exp(-TIMES)) * middle
    np.testing.assert_allclose(found.observed[1], np.median(values, axis=0), rtol=1e-6)
    # 5th and 95th percentiles of gain and noise alone are 2 * 1.645 standard deviations of the logarithm apart; 40 people.
    np.testing.assert_allclose(np.log(found.median[2] / found.median[0]), 2 * 1.645 * np.hypot(0.3, 0.1), rtol=0.15)
    assert np.all(plain.median[2] > 8 * plain.median[0])


def test_data_below_a_limit_count_on_both_sides():
    limit = 3.5
    problem = line(limit=limit, seed=5)
    found = simkit.visual_predictive_check(problem, known(problem), replicates=500)
    exact_share = stats.norm.cdf(limit, LEVEL + SLOPE * TIMES, np.hypot(SPREAD, SCALE))
    assert np.isnan(found.observed[0]).all()  # more than 5 % lie below at all times
    np.testing.assert_array_equal(found.lower[0], limit)
    seen, lower, median, upper = found.hidden
    np.testing.assert_allclose(median, exact_share, atol=1 / PEOPLE)
    assert np.all((lower < exact_share) & (exact_share < upper))
    np.testing.assert_allclose(seen, np.mean(np.asarray(problem.data["y"]) <= limit, axis=0))
    assert "beyond a limit" in repr(found)
    assert len(viz.plot_predictive_check(found).axes) == 2
    errors = simkit.npde(problem, known(problem))
    assert errors.censored.sum() > 20
    assert min(finding.p for finding in errors.findings) > 1e-4


def test_a_problem_without_a_population_and_what_is_refused():
    system = simkit.odes.from_response(lambda t, p: p["slope"] * t, {"slope": 1.0})
    data = simkit.Experiment("line", np.arange(1.0, 41.0), {"y": np.arange(1.0, 41.0) + 0.1})
    problem = simkit.Problem(
        system, data, free={"slope": simkit.Free(bounds=(0.0, 9.0))}, noise={"y": simkit.noise.Normal(1.0)}
    )
    fit = simkit.fit(problem, starts=1)
    found = simkit.visual_predictive_check(problem, fit, bins=4, replicates=50)
    assert found.counts.tolist() == [10] * 4
    assert not found.outside[1].all()
    part = simkit.visual_predictive_check(problem, fit, bins=[0.0, 10.0, 30.5], replicates=50)
    assert part.left_out == 10
    assert "10 data lie outside of the bins and are left out." in repr(part)
    for arguments, words in (
        ({"bins": 0}, "at least 1"),
        ({"bins": [3.0, 1.0]}, "increase"),
        ({"bins": [100.0, 101.0]}, "must hold data"),
        ({"quantiles": (5.0, 50.0, 95.0)}, "between 0 and 1"),
        ({"level": 90.0}, "Write 0.9"),
        ({"replicates": 1}, "at least 2"),
    ):
        with pytest.raises(simkit.ArgumentError, match=words):
            simkit.visual_predictive_check(problem, fit, **arguments)
    with pytest.raises(simkit.UnknownNameError, match="output with data"):
        simkit.visual_predictive_check(problem, fit, output="z")
    with pytest.raises(simkit.ArgumentError, match="more than twice the 40 data"):
        simkit.npde(problem, fit, replicates=80)
    figure = viz.plot_individuals(problem, fit, time="day")
    assert list(figure.to_frame().columns) == ["experiment", "time", "individual", "typical"]


def test_groups_are_checks_of_their_own_individuals():
    """Each group equals a check of the problem that holds these individuals alone, up to the draws; medians are exact."""
    problem = line()
    result = known(problem)
    asked = {"replicates": 200, "bins": [0.0, 0.5, 1.5, 3.0, 4.0]}
    check = simkit.visual_predictive_check(problem, result, by="sex", **asked)
    assert list(check.groups) == ["sex 0", "sex 1"]
    y = np.asarray(problem.data["y"])
    for place, group in enumerate(check.groups.values()):
        np.testing.assert_allclose(group.observed[1], np.median(y[place::2], axis=0), rtol=1e-6)
        assert group.counts.tolist() == [20] * 4
        # Standard error of the median of 200 medians of 20 people, five of them: 1.25 * 1.25 * 1.55 / sqrt(20 * 200).
        np.testing.assert_allclose(group.median[1], LEVEL + SLOPE * TIMES, atol=5 * 1.57 * 1.56 / np.sqrt(4000))
    frame = check.to_frame()
    assert frame.groupby("group").size().tolist() == [12, 12]
    split = simkit.visual_predictive_check(problem, result, by={"weight": [50, 60, 89]}, **asked)
    assert list(split.groups) == ["weight 50 to 60", "weight 60 to 89"]
    assert [group.counts[0] for group in split.groups.values()] == [10, 30]
    assert "weight 50 to 60: " in split.notes()[0]
    figure = viz.plot_predictive_check(split, time="day")
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim()
    assert (left.get_title(loc="left"), right.get_title(loc="left")) == ("weight 50 to 60", "weight 60 to 89")
    dashes = {line.get_label(): line.get_linestyle() for line in left.lines if "%" in str(line.get_label())}
    assert len(set(dashes.values())) == len(dashes) == 3
    for by, words in (
        ("weight", "has 40 values"),
        ({"weight": [60, 89]}, "must hold all individuals"),
        ({"weight": [89, 50]}, "must be two or more and increase"),
        ({"sex": [0, 1], "weight": [50, 89]}, "must name a covariate"),
    ):
        with pytest.raises(simkit.ArgumentError, match=words):
            simkit.visual_predictive_check(problem, result, by=by, **asked)
    with pytest.raises(simkit.UnknownNameError, match="`sex`"):
        simkit.visual_predictive_check(problem, result, by="se", **asked)


def test_figures_of_individuals():
    problem = line(people=6)
    result = known(problem, **{"eta.level.p02": 1.0})
    figure = viz.plot_individuals(problem, result, experiments=["p02", "p03"], columns=1)
    frame = figure.to_frame()
    first = frame[frame.experiment == "p02"]
    np.testing.assert_allclose(first.individual - first.typical, SPREAD, rtol=1e-5)
    np.testing.assert_allclose(
        frame[frame.experiment == "p03"].individual, LEVEL + SLOPE * first.time.to_numpy(), rtol=1e-5
    )
    with pytest.raises(simkit.UnknownNameError, match="p02"):
        viz.plot_individuals(problem, result, experiments=["p2"])
    for wrong, words in (("p02", "a list of names"), ([], "must name some")):
        with pytest.raises(simkit.ArgumentError, match=words):
            viz.plot_individuals(problem, result, experiments=wrong)
    threads = viz.plot_spaghetti(problem)
    assert len(threads.to_frame()) == 24
    errors = simkit.npde(problem, result, replicates=100)
    with pytest.raises(simkit.ArgumentError, match="`columns` must be"):
        viz.plot_forest({"one": result}, columns=0)
    assert viz.plot_npde(errors).to_frame().npde.tolist() == errors.to_frame().npde.tolist()
    forest = viz.plot_forest({"one": scattered(problem), "other": scattered(problem, level=6.0)})
    np.testing.assert_allclose(forest.to_frame().value[:2], [LEVEL, 6.0], atol=5 * 0.01 / 10)
    assert not forest.to_frame().parameter.str.startswith("eta").any()
