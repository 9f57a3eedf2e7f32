"""Grades, categories and counts with many zeros: densities, information, draws, and the estimates of statsmodels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as stats

import simkit
from simkit import ArgumentError, Experiment, Free, Problem
from simkit.fitting._residuals import quantile_residuals
from simkit.noise import Categorical, Ordered, ZeroInflatedNegativeBinomial, ZeroInflatedPoisson
from simkit.study.language._parts import read_noise
from simkit.study.language._section import Section

CUTS = np.array([-1.0, 0.5, 2.0])
PAIN = Ordered.at(CUTS)
GRADES = np.arange(4.0)
PREY = Categorical(intercepts=[1.6, 4.2], slopes=[-0.1, -2.4])
PLACES = np.array([-30.0, -2.0, 0.3, 4.0, 30.0])

# Drawn once: 60 places, grades of a latent 1.3 x with logistic scatter, and counts of which 30 % and 25 % are zeros. The peers'
# estimates are those of statsmodels 0.15.0: OrderedModel(distr="logit"), ZeroInflatedPoisson, ZeroInflatedNegativeBinomialP(p=2).
X = np.round(np.linspace(-2, 2, 60), 3)
SEEN = "010001011000000031130010011311110021103113233313332313223333"
ZEROS = "100000002402210020010322012241136506104410000026506040504497"
SPREAD = [3, 0, 0, 0, 1, 1, 0, 2, 0, 0, 3, 1, 1, 2, 3, 2, 3, 0, 8, 1, 0, 0, 1, 0, 5, 0, 0, 6, 2, 2]
SPREAD += [2, 3, 2, 5, 3, 0, 8, 3, 0, 0, 0, 1, 6, 0, 6, 0, 16, 4, 0, 0, 8, 11, 5, 12, 0, 14, 6, 7, 0, 14]
LINE = simkit.odes.from_response(lambda x, p: p["slope"] * x, {"slope": 1.0})
CURVE = simkit.odes.from_response(lambda x, p: jnp.exp(p["level"] + p["slope"] * x), {"level": 0.5, "slope": 0.5})
WIDE = Free(bounds=(-10.0, 10.0))


def graded(data=tuple(map(float, SEEN)), noise=Ordered.at([-1.0, 0.0, 1.0]), **more):
    free = {"slope": Free(bounds=(-10.0, 10.0), start=1.0), "noise.y.first": Free(bounds=(-20.0, 20.0), start=-1.0)}
    free |= {f"noise.y.gaps.{i}": Free(bounds=(1e-3, 20.0), start=1.0) for i in range(2)}
    return Problem(LINE, Experiment("x", X, {"y": np.array(data)}), free=free | more, noise={"y": noise})


def test_probabilities_are_those_of_a_logistic_latent_number():
    edges = np.concatenate([[-np.inf], CUTS, [np.inf]])
    for place in PLACES:
        found = np.asarray(PAIN.log_prob(jnp.asarray(GRADES), jnp.asarray(place)))
        # Where the distribution function rounds to 1 its complement is taken.
        upper, lower = stats.logistic.cdf(edges - place), stats.logistic.sf(edges - place)
        mass = np.where(upper[1:] < 0.5, np.diff(upper), -np.diff(lower))
        np.testing.assert_allclose(np.exp(found), mass, rtol=1e-12)
    np.testing.assert_allclose(PAIN.probabilities(jnp.asarray(PLACES)).sum(axis=1), 1.0, rtol=1e-14)
    assert np.all(np.asarray(PAIN.log_prob(jnp.array([-1.0, 4.0, 0.5]), jnp.zeros(3))) == -np.inf)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), PAIN)
    near = single.log_prob(jnp.asarray(GRADES, jnp.float32), jnp.float32(0.3))
    assert near.dtype == jnp.float32
    np.testing.assert_allclose(near, PAIN.log_prob(jnp.asarray(GRADES), jnp.asarray(0.3)), rtol=1e-5)


def test_a_narrow_grade_keeps_its_digits():
    """Between cutpoints 1e-9 apart the probability is density times width; a difference of two functions has 7 digits left."""
    narrow = Ordered(1.0, (1e-9,))
    found = float(narrow.log_prob(jnp.asarray(1.0), jnp.asarray(0.2)))
    assert found == pytest.approx(np.log(1e-9) + stats.logistic.logpdf(0.8), rel=1e-10)


def test_two_grades_are_a_logistic_regression():
    found = Ordered(0.5, ()).log_prob(jnp.array([0.0, 1.0]), jnp.array([1.2, 1.2]))
    np.testing.assert_allclose(found, [stats.logistic.logsf(0.7), stats.logistic.logcdf(0.7)], rtol=1e-12)
    assert Ordered(0.5, ()).information(jnp.array([1.2])).size == 2


@pytest.mark.parametrize("noise", [PAIN, PREY], ids=["ordered", "categorical"])
@pytest.mark.parametrize("place", PLACES[1:4])
def test_information_is_the_sum_over_all_grades(place, noise):
    scores = jax.vmap(
        lambda y: jnp.stack(jax.tree.leaves(jax.grad(lambda f, n: n.log_prob(y, f), (0, 1))(place, noise)))
    )
    each = np.asarray(scores(jnp.arange(noise.largest() + 1)))
    exact = np.einsum("k,ki,kj->ij", np.asarray(noise.probabilities(jnp.asarray(place))), each, each)
    np.testing.assert_allclose(noise.information(jnp.asarray(place)).matrix(), exact, atol=1e-14)


def test_tails_and_distribution_function():
    value, location = (x.ravel() for x in np.meshgrid(GRADES, PLACES))
    below, above = jax.tree.map(np.asarray, PAIN).log_tails(value, location)
    mass = np.asarray(PAIN.probabilities(jnp.asarray(PLACES)))
    np.testing.assert_allclose(np.exp(below), np.cumsum(mass, axis=1).ravel(), rtol=1e-12)
    np.testing.assert_allclose(np.exp(above), np.cumsum(mass[:, ::-1], axis=1)[:, ::-1].ravel(), rtol=1e-12)
    upper, over = PAIN.log_cumulative(jnp.asarray(value), jnp.asarray(location))
    np.testing.assert_allclose(upper, below, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(np.exp(over) + np.exp(upper), 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    "noise",
    [PAIN, PREY, ZeroInflatedPoisson(0.35), ZeroInflatedNegativeBinomial(0.35, 2.0)],
    ids=["ordered", "categorical", "poisson", "negative_binomial"],
)
def test_draws_and_quantile_residuals(noise):
    """p < 1e-4 of a right sampler is met once in 10,000 keys, and this key is fixed."""
    size, place = 40_000, 1.7
    draws = np.asarray(noise.sample(jax.random.key(3), jnp.full(size, place)))
    values = np.arange((noise.largest() or 60.0) + 1)
    expected = size * np.exp(np.asarray(noise.log_prob(jnp.asarray(values), jnp.asarray(place))))
    assert expected.sum() == pytest.approx(size, rel=1e-9)
    seen = np.bincount(draws.astype(int), minlength=len(values))
    many = expected > 5
    scale = seen[many].sum() / expected[many].sum()
    assert stats.chisquare(seen[many], expected[many] * scale).pvalue > 1e-4
    z = quantile_residuals(jax.tree.map(np.asarray, noise), draws, np.full(size, place))
    assert z is not None
    assert stats.kstest(z, "norm").pvalue > 1e-4
    assert np.isnan(noise.sample(jax.random.key(0), jnp.array([jnp.nan]))[0])


def test_grades_are_fitted_as_statsmodels_fits_them():
    fit = simkit.fit(graded(), starts=1)
    assert float(fit.log_likelihood) == pytest.approx(-59.44039941633805, abs=1e-6)
    np.testing.assert_allclose(fit["slope"], 1.4873237318957349, rtol=1e-4)
    gaps = np.exp([0.8083650042632474, -0.47973261433080494])
    estimate = [float(fit[name]) for name in ("noise.y.first", "noise.y.gaps.0", "noise.y.gaps.1")]
    np.testing.assert_allclose(estimate, [-1.2620426443407793, *gaps], rtol=1e-4)
    # Its errors, of logarithms of gaps, come from the observed information and ours from the expected one: 1 / sqrt(60) apart.
    errors = np.sqrt(np.diag(fit.covariance))
    peer = [0.2902233345863521, 0.3631583909459865, 0.21489264680613526, 0.4246909749091184]
    np.testing.assert_allclose(errors, peer, rtol=0.13)


def test_grades_by_which_level_and_first_cutpoint_shift_alike():
    """One of the two is told as not determined, and nothing becomes NaN."""
    level = simkit.odes.from_response(lambda x, p: p["level"] + p["slope"] * x, {"level": 0.0, "slope": 1.0})
    free = {"level": WIDE, "slope": WIDE, "noise.y.first": WIDE}
    data = Experiment("x", X, {"y": np.array([float(s) for s in SEEN])})
    problem = Problem(level, data, free=free, noise={"y": Ordered.at([-1.0, 1.0, 1.6])})
    fit = simkit.fit(problem, starts=2)
    assert np.all(np.isfinite(np.asarray(fit.estimate)))
    assert any("level" in sentence and "noise.y.first" in sentence for sentence in fit.identifiability())


@pytest.mark.parametrize(
    ("noise", "data", "place", "value", "best", "errors", "likelihood"),
    [
        (
            ZeroInflatedPoisson(0.3),
            [float(s) for s in ZEROS],
            [0.7, 0.5, 1 / (1 + np.exp(0.5))],
            -101.35026747611214,
            [0.8950797635716649, 0.4803688183878045, 1 / (1 + np.exp(0.7220400866364898))],
            [0.11776139530468141, 0.09298064125893857],
            -99.22401216639629,
        ),
        (
            ZeroInflatedNegativeBinomial(0.3, 2.0),
            [float(x) for x in SPREAD],
            [1.1, 0.5, 1 / (1 + np.exp(0.8)), 1 / 0.4],
            -122.42069164105155,
            [1.272926063172064, 0.5787979168059961, 1 / (1 + np.exp(0.8268474008027634)), 1 / 0.12377179011739309],
            [0.11510713848882892, 0.09201253110403583],
            -119.47558271510167,
        ),
    ],
    ids=["poisson", "negative_binomial"],
)
def test_counts_with_many_zeros_as_statsmodels_fits_them(noise, data, place, value, best, errors, likelihood):
    free = {"level": WIDE, "slope": WIDE, "noise.y.share": Free(bounds=(1e-3, 0.99), transform="linear", start=0.3)}
    if isinstance(noise, ZeroInflatedNegativeBinomial):
        free["noise.y.concentration"] = Free(bounds=(0.1, 1000.0))
    problem = Problem(CURVE, Experiment("x", X, {"y": np.array(data)}), free=free, noise={"y": noise})
    assert float(problem.log_likelihood(jnp.array(place))[0]) == pytest.approx(value, abs=1e-8)
    fit = simkit.fit(problem, starts=np.array([place]))
    assert float(fit.log_likelihood) == pytest.approx(likelihood, abs=1e-5)
    np.testing.assert_allclose(fit.estimate, best, rtol=2e-3)  # it stops 1e-5 below the maximum
    np.testing.assert_allclose(fit.standard_error[:2], errors, rtol=0.13)  # as above


def test_a_limit_of_grades_is_the_sum_over_those_beyond():
    data = np.array([float(s) for s in SEEN])
    high = graded(simkit.Censored(data, above=2.0).values)
    censored = Problem(
        LINE,
        Experiment("x", X, {"y": simkit.Censored(data, above=2.0)}),
        free={"slope": WIDE},
        noise={"y": PAIN},
    )
    mass = np.asarray(PAIN.probabilities(jnp.asarray(1.2 * X)))
    each = np.where(data >= 2, mass[:, 2:].sum(axis=1), mass[np.arange(60), data.astype(int)])
    found, slope = jax.value_and_grad(lambda t: censored.log_likelihood(t)[0])(jnp.array([1.2]))
    assert float(found) == pytest.approx(np.log(each).sum(), rel=1e-12)
    assert np.isfinite(slope).all()
    assert high.data_count == 60


def test_wrong_grades_and_cutpoints_are_sentences():
    with pytest.raises(ArgumentError, match="largest datum is 3, but experiment `x` holds 4"):
        graded([4.0] + [0.0] * 59)
    with pytest.raises(ArgumentError, match="counts 0, 1, 2"):
        graded([0.5] + [0.0] * 59)
    for wrong in ([1.0, 0.0], [], [[1.0]], ["a"], [np.nan]):
        with pytest.raises(ArgumentError, match="cutpoints"):
            Ordered.at(wrong)
    with pytest.raises(ArgumentError, match="must be positive"):
        Ordered(0.0, (1.0, -1.0))
    with pytest.raises(ArgumentError, match="`gaps` must be an array"):
        Ordered(0.0, 1.0)


def test_gaps_in_a_study_file():
    read = lambda gaps: read_noise(Section({"y": {"model": "ordered", "first": -1.0, "gaps": gaps}}, "noise", "a.toml"))
    found = read([1.5, 1.5])["y"]
    assert isinstance(found, Ordered)
    np.testing.assert_allclose(found.cutpoints, [-1.0, 0.5, 2.0])
    with pytest.raises(simkit.StudyError, match="gaps"):
        read([1.5, -1.0])
    with pytest.raises(simkit.StudyError, match="gaps"):
        read("wide")


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform():
    """Simulation-based calibration of a graded response: uniform ranks, a chi-square test at p > 1e-3 with a fixed key."""
    import numpyro.distributions as dist

    free = {"slope": Free(dist.Normal(1.0, 0.7)), "noise.y.first": Free(dist.Normal(-1.0, 0.7))}
    free |= {f"noise.y.gaps.{i}": Free(dist.LogNormal(0.0, 0.5)) for i in range(2)}
    problem = Problem(
        LINE, Experiment("x", X, {"y": np.zeros(60)}), free=free, noise={"y": Ordered.at([-1.0, 0.0, 1.0])}
    )
    found = simkit.calibrate(problem, key=jax.random.key(2), simulations=100, starts=4)
    assert found.used.sum() >= 95
    assert min(found.p_values().values()) > 1e-3
