"""Inference without a likelihood, beside exact posteriors."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as stats

import simkit
from simkit import ABCSMC, Free, NeuralLikelihood, NeuralPosterior, SplineFlow, from_simulator
from simkit.infer.likelihood_free._flow import masks, new_flow
from simkit.infer.likelihood_free._series import _convolved
from simkit.infer.likelihood_free._spline import numbers_of, spline

SMALL = SplineFlow(layers=3, width=32, bins=6, steps=1_500)
SPREAD = 0.5
SEEN = np.array([0.9, -0.2])


def linear(unit: float = 1.0):
    """Two numbers with a standard normal prior, seen with normal noise: the posterior is normal with known moments."""

    def simulate(p, key):
        return p["level"] + unit * SPREAD * jax.random.normal(key, (2,))

    prior = Free(dist.Normal(0.0, unit))
    return from_simulator(
        simulate,
        {"level": np.zeros(2)},
        unit * SEEN,
        free={"level.0": prior, "level.1": prior},
    )


MEAN = SEEN / (1 + SPREAD**2)
SD = np.sqrt(SPREAD**2 / (1 + SPREAD**2))


@pytest.fixture(scope="module")
def learned():
    """One posterior for all tests of what it can do."""
    method = NeuralPosterior(simulations=4_000, network=SMALL)
    return simkit.learn_posterior(linear(), method=method, key=jax.random.key(1))


def near(posterior, unit=1.0, means=0.12, spreads=0.12):
    draws = np.asarray(posterior.flat()) / unit
    np.testing.assert_allclose(draws.mean(0), MEAN, atol=means * SD)
    np.testing.assert_allclose(draws.std(0), SD, rtol=spreads)


def test_splines_are_inverted_and_their_slopes_are_those_of_the_map():
    key = jax.random.key(0)
    numbers = 2 * jax.random.normal(key, (200, numbers_of(8)))
    x = jnp.linspace(-5.0, 5.0, 200)
    y, slope = spline(x, numbers)
    back, other = spline(y, numbers, inverse=True)
    np.testing.assert_allclose(back, x, atol=1e-6)
    np.testing.assert_allclose(other, -slope, atol=1e-6)
    by_jax = jax.vmap(jax.grad(lambda x, n: spline(x[None], n[None])[0][0]))(x, numbers)
    np.testing.assert_allclose(jnp.log(by_jax), slope, atol=1e-8)


def test_masks_hide_later_elements():
    inward, across, outward = (mask.astype(int) for mask in masks(4, 16, 5))
    paths = ((inward @ across @ across @ outward) > 0).reshape(4, 4, 5)
    for element in range(4):
        for earlier in range(4):
            assert paths[earlier, element].all() == paths[earlier, element].any() == (earlier < element)


@pytest.mark.parametrize("size", [1, 3])
def test_a_flow_is_a_density_of_what_it_draws(size):
    """The log density of a draw is that of the normal numbers it comes from, less the volume of the map."""
    flow = new_flow(np.random.default_rng(0), size, 2, 3, 16, 5)
    noisy = lambda x, k: x + 0.15 * jax.random.normal(jax.random.key(k), x.shape, x.dtype)
    layers = dataclasses.replace(flow.layers, outward=noisy(flow.layers.outward, 1))
    flow = dataclasses.replace(flow, layers=layers)
    context = jnp.array([[0.3, -1.0]], jnp.float32)
    z = flow.sample(jax.random.key(2), context)
    normal = np.asarray(jax.random.normal(jax.random.key(2), (1, size), jnp.float32))
    pushed = lambda z: forward(flow, z, context)
    np.testing.assert_allclose(pushed(z[0]), normal[0], atol=1e-4)
    volume = np.linalg.slogdet(np.asarray(jax.jacfwd(pushed)(z[0])))[1]
    expected = np.sum(-0.5 * normal**2 - 0.5 * np.log(2 * np.pi)) + volume
    np.testing.assert_allclose(flow.log_prob(z, context)[0], expected, atol=1e-3)


def forward(flow, z, context):
    """The normal numbers behind z, layer by layer."""
    from simkit.infer.likelihood_free._flow import SHIFTS, network

    for i in range(flow.layers.turn.shape[0]):
        layer = jax.tree.map(lambda x, i=i: x[i], flow.layers)
        z = jnp.asarray(z, jnp.float32) @ layer.turn
        numbers = network(layer, z[None], context, flow.bins)[0]
        z = spline((z - numbers[:, 0]) * jnp.exp(-numbers[:, 1]), numbers[:, SHIFTS:])[0]
    return z


def test_a_learned_posterior_is_the_exact_one(learned):
    found = simkit.sample(linear(), method=learned, draws=1000, key=jax.random.key(2))
    near(found)
    exact = stats.norm(MEAN, SD).logpdf(np.asarray(found.draws)).sum(-1)
    assert abs(np.mean(np.asarray(found.log_density) - exact)) < 0.1
    assert not found.warnings


def test_it_holds_for_other_data(learned):
    other = np.array([-1.2, 1.5])
    problem = linear().with_data({"x": other[None, None]})
    draws = np.asarray(simkit.sample(problem, method=learned, key=jax.random.key(3)).flat())
    np.testing.assert_allclose(draws.mean(0), other / (1 + SPREAD**2), atol=0.15 * SD)


def test_its_ranks_are_uniform_and_calibrate_takes_it(learned):
    assert min(learned.calibration.p_values().values()) > 0.005
    found = simkit.calibrate(linear(), method=learned, simulations=400, key=jax.random.key(4))
    assert min(found.p_values().values()) > 0.005
    low, high = found.coverage(0.9)["level.0"], found.coverage(0.5)["level.1"]
    assert abs(low - 0.9) < 4 * np.sqrt(0.9 * 0.1 / 400)
    assert abs(high - 0.5) < 4 * np.sqrt(0.25 / 400)


def test_its_density_has_a_gradient_and_a_batch(learned):
    problem = linear()
    slope = jax.grad(lambda theta: learned.log_prob(theta, problem.data))(jnp.asarray(MEAN))
    assert np.all(np.abs(slope) * SD < 1)
    batch = jax.vmap(lambda theta: learned.log_prob(theta, problem.data))(jnp.stack([MEAN, MEAN + SD]))
    assert batch[0] > batch[1]


def test_the_unit_does_not_matter():
    method = NeuralPosterior(simulations=2_000, network=dataclasses.replace(SMALL, steps=600))
    draws = [
        np.asarray(simkit.sample(linear(unit), method=method, key=jax.random.key(1)).flat()) / unit
        for unit in (1.0, 1e-12, 1e15)
    ]
    np.testing.assert_allclose(draws[1], draws[0], atol=1e-3)
    np.testing.assert_allclose(draws[2], draws[0], atol=1e-3)


def test_failed_simulations_are_counted_and_learned_around():
    """Data fail where a number is below -0.5: the posterior of data that are there is cut off, by no more than Bayes' rule says."""

    def simulate(p, key):
        found = p["level"] + SPREAD * jax.random.normal(key, (2,))
        return jnp.where(p["level"][1] < 0, jnp.nan, found)

    prior = Free(dist.Normal(0.0, 1.0))
    problem = from_simulator(simulate, {"level": np.zeros(2)}, SEEN, free={"level.0": prior, "level.1": prior})
    rng = np.random.default_rng(0)
    exact = MEAN[1] + SD * rng.normal(size=100_000)
    exact = exact[exact > 0]
    for method in (
        NeuralPosterior(simulations=4_000, network=SMALL),
        NeuralLikelihood(simulations=4_000, rounds=1, network=SMALL),
    ):
        found = simkit.sample(problem, method=method, key=jax.random.key(5))
        draws = np.asarray(found.flat())[:, 1]
        assert any("not finite" in text for text in found.warnings)
        np.testing.assert_allclose([draws.mean(), draws.std()], [exact.mean(), exact.std()], rtol=0.25)


def test_rounds_narrow_to_the_observed_data():
    method = NeuralPosterior(simulations=3_000, rounds=2, network=SMALL)
    found = simkit.sample(linear(), method=method, key=jax.random.key(6))
    near(found, means=0.2, spreads=0.2)
    assert "in 2 rounds" in found.method


def test_a_learned_likelihood_is_the_exact_one():
    problem = simkit.learn_likelihood(
        linear(), method=NeuralLikelihood(simulations=4_000, rounds=1, network=SMALL), key=jax.random.key(7)
    )
    exact = lambda theta: dist.Normal(theta, SPREAD).log_prob(SEEN).sum()
    for theta in (MEAN, MEAN + SD, MEAN - [SD, 0]):
        np.testing.assert_allclose(problem.log_likelihood(jnp.asarray(theta))[0], exact(theta), atol=0.3)
    np.testing.assert_allclose(simkit.fit(problem, key=jax.random.key(8)).estimate, MEAN, atol=0.15 * SD + 0.05)
    assert problem.simulate_data(jnp.asarray(MEAN), jax.random.key(0))["x"].shape == (1, 1, 2)


def test_a_likelihood_in_rounds_samples():
    method = NeuralLikelihood(simulations=3_000, rounds=2, network=SMALL)
    near(simkit.sample(linear(), method=method, key=jax.random.key(9)), means=0.2, spreads=0.2)


def test_abc_comes_near_and_regression_nearer():
    plain = simkit.sample(linear(), method=ABCSMC(simulations=30_000), key=jax.random.key(10))
    draws = np.asarray(plain.flat())
    np.testing.assert_allclose(draws.mean(0), MEAN, atol=0.3 * SD)
    assert np.all(draws.std(0) > 0.9 * SD)
    assert np.all(draws.std(0) < 1.5 * SD)
    assert "effective particles" in plain.warnings[0]
    near(
        simkit.sample(linear(), method=ABCSMC(simulations=30_000, adjust=True), key=jax.random.key(11)),
        means=0.25,
        spreads=0.2,
    )


def test_a_problem_with_noise_models_is_a_simulator():
    """Any problem whose data can be drawn: here an ODE, beside NUTS."""
    times = np.linspace(0.0, 2.0, 6)
    data = {"x": np.exp(0.6 * times[1:])}
    system = simkit.from_function(lambda t, y, p: {"x": p["rate"] * y["x"]}, {"rate": 0.5})
    problem = simkit.Problem(
        system,
        simkit.Experiment("one", times[1:], data, start=0.0),
        y0={"x": 1.0},
        free={"rate": Free(dist.Normal(0.5, 0.3))},
        noise={"x": simkit.noise.Normal(0.3)},
    )
    ours = simkit.sample(problem, method=NeuralPosterior(simulations=3_000, network=SMALL), key=jax.random.key(12))
    nuts = simkit.sample(problem, key=jax.random.key(13))
    one, two = (np.asarray(p.flat())[:, 0] for p in (ours, nuts))
    assert abs(one.mean() - two.mean()) < 0.3 * two.std()
    assert abs(one.std() / two.std() - 1) < 0.25


def test_series_are_condensed():
    """The rate of a noisy exponential from 60 times by a network, beside the exact posterior on a grid."""
    times = np.linspace(0.0, 1.0, 60)

    def simulate(p, key):
        return {"x": jnp.exp(p["rate"] * times) + 0.3 * jax.random.normal(key, (60,))}

    seen = np.asarray(simulate({"rate": 0.7}, jax.random.key(3))["x"])
    problem = from_simulator(simulate, {"rate": 0.0}, {"x": seen}, free={"rate": Free(bounds=(0.0, 2.0))})
    grid = np.linspace(0.0, 2.0, 4001)
    log = -0.5 * np.sum((seen - np.exp(grid[:, None] * times)) ** 2, axis=1) / 0.3**2
    weight = np.exp(log - log.max())
    mean = np.sum(grid * weight) / weight.sum()
    sd = np.sqrt(np.sum((grid - mean) ** 2 * weight) / weight.sum())
    method = NeuralPosterior(
        simulations=4_000, summary=simkit.SeriesSummary(channels=16), network=dataclasses.replace(SMALL, steps=600)
    )
    draws = np.asarray(simkit.sample(problem, method=method, key=jax.random.key(14)).flat())[:, 0]
    assert abs(draws.mean() - mean) < sd
    assert draws.std() < 2 * sd


def test_data_beyond_all_simulations_are_said(learned):
    far = linear().with_data({"x": np.array([[[60.0, 0.0]]])})
    assert any("outside of all" in text for text in simkit.sample(far, method=learned, key=jax.random.key(0)).warnings)


REFUSED = {
    "a fit": (lambda p: simkit.fit(p, key=jax.random.key(0)), "has no density"),
    "a start": (lambda p: simkit.sample(p, method=NeuralPosterior(), store="x", key=jax.random.key(0)), "`store`"),
    "few simulations": (lambda p: NeuralPosterior(simulations=10), "at least 100"),
    "rounds": (lambda p: NeuralLikelihood(simulations=200, rounds=5), "100 a round"),
    "a rate": (lambda p: SplineFlow(learning_rate=-1.0), "`learning_rate`"),
    "a quantile": (lambda p: ABCSMC(quantile=2.0), "between 0 and 1"),
    "a flat prior": (
        lambda p: simkit.learn_posterior(
            from_simulator(lambda p, k: p["a"], {"a": 1.0}, 1.0, free={"a": Free()}), key=jax.random.key(0)
        ),
        "needs a prior",
    ),
    "a shape": (
        lambda p: from_simulator(lambda p, k: jnp.zeros(3), {"a": 1.0}, 1.0, free={"a": Free(bounds=(0.0, 1.0))}),
        "of shape (3,)",
    ),
    "a noise model": (
        lambda p: from_simulator(
            lambda p, k: 1.0, {"a": 1.0}, 1.0, free={"a": Free()}, noise={"x": simkit.noise.Normal(1.0)}
        ),
        "but not `noise`",
    ),
    "complex data": (
        lambda p: from_simulator(lambda p, k: jnp.asarray(1j), {"a": 1.0}, 1.0, free={"a": Free()}),
        "`x` is complex",
    ),
    "nothing free": (lambda p: from_simulator(lambda p, k: 1.0, {"a": 1.0}, 1.0, free={}), "at least one parameter"),
    "a text for a parameter": (
        lambda p: from_simulator(lambda p, k: 1.0, {"a": "x"}, 1.0, free={"a": Free()}),
        "`a` must be a number",
    ),
    "no JAX": (
        lambda p: from_simulator(lambda p, k: float(p["a"]), {"a": 1.0}, 1.0, free={"a": Free()}),
        "could not be traced: ConcretizationTypeError",
    ),
    "nothing returned": (
        lambda p: from_simulator(lambda p, k: None, {"a": 1.0}, 1.0, free={"a": Free()}),
        "must return an array",
    ),
    "too many bins": (lambda p: SplineFlow(bins=2000), "at most 100"),
    "an infinite rate": (lambda p: SplineFlow(learning_rate=np.inf), "`learning_rate`"),
    "no numbers": (
        lambda p: from_simulator(lambda p, k: 1.0, {"a": 1.0}, "abc", free={"a": Free()}),
        "must be numbers",
    ),
    "only failures": (
        lambda p: simkit.learn_posterior(
            from_simulator(lambda p, k: p["a"] * jnp.nan, {"a": 1.0}, 1.0, free={"a": Free(bounds=(0.0, 1.0))}),
            method=NeuralPosterior(simulations=200),
            key=jax.random.key(0),
        ),
        "nothing to learn",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, words = REFUSED[name]
    with pytest.raises(simkit.SimkitError, match=words.replace("(", r"\(").replace(")", r"\)")):
        call(linear())


def test_few_draws_come_from_all_members():
    """One draw alone may not be the first member's."""
    method = NeuralPosterior(simulations=500, network=dataclasses.replace(SMALL, steps=100, members=2))
    learned = simkit.learn_posterior(linear(), method=method, key=jax.random.key(1))
    single = {float(learned.draws(linear().data, jax.random.key(i), 1)[0, 0]) for i in range(6)}
    assert len(single) == 6
    assert learned.steps == 100


def test_density_beyond_bounds_and_wrong_shapes(learned):
    method = NeuralPosterior(simulations=500, network=dataclasses.replace(SMALL, steps=100))
    bounded = from_simulator(
        lambda p, k: p["a"] + jax.random.normal(k, (2,)), {"a": 1.0}, SEEN, free={"a": Free(bounds=(0.0, 2.0))}
    )
    found = simkit.learn_posterior(bounded, method=method, key=jax.random.key(1))
    density = jax.jit(jax.vmap(lambda theta: found.log_prob(theta, bounded.data)))
    grid = jnp.linspace(0.001, 1.999, 2001)[:, None]
    np.testing.assert_allclose(np.trapezoid(np.exp(density(grid)), grid[:, 0]), 1.0, atol=2e-3)
    assert np.all(np.isneginf(density(jnp.array([[-1.0], [0.0], [2.0], [3.0]]))))
    with pytest.raises(simkit.ArgumentError, match="must have the shape"):
        found.log_prob(jnp.zeros(3), bounded.data)
    with pytest.raises(simkit.DataError, match="must have the shape"):
        found.draws({"x": jnp.zeros(3)}, jax.random.key(0), 3)
    with pytest.raises(simkit.DataError, match="but there are none"):
        found.draws({"y": jnp.zeros(2)}, jax.random.key(0), 3)
    # As a simulator returns them: without axes of experiments and times, and counts as whole numbers.
    assert found.log_prob(jnp.ones(1), {"x": jnp.array([1, 0])}) == found.log_prob(
        jnp.ones(1), {"x": jnp.array([[[1.0, 0.0]]])}
    )


def test_data_of_another_shape_are_a_sentence():
    short = linear().with_data({"x": np.array([1, 2])})
    np.testing.assert_array_equal(short.data["x"], [[[1.0, 2.0]]])
    with pytest.raises(simkit.DataError, match=r"must have the shape \(1, 1, 2\) or \(2,\) of the problem's"):
        linear().with_data({"x": np.zeros(3)})


def test_a_convolution_is_that_of_equinox():
    for rows in (10, 11, 25):
        layer = eqx.nn.Conv1d(2, 3, 5, 2, padding="SAME", key=jax.random.key(0))
        x = jax.random.normal(jax.random.key(1), (2, rows))
        np.testing.assert_allclose(_convolved(layer, x), layer(x), rtol=1e-5, atol=1e-6)  # single precision


def test_other_priors_and_other_data_of_rounds_are_refused(learned):
    wide = Free(dist.Normal(0.0, 3.0))
    problem = linear()
    narrow = from_simulator(
        problem.likelihood.simulate,
        {"level": np.zeros(2)},
        SEEN,
        free={"level.0": wide, "level.1": wide},
    )
    with pytest.raises(simkit.ArgumentError, match="of another problem"):
        simkit.sample(narrow, method=learned, key=jax.random.key(0))
    rounds = dataclasses.replace(learned, rounds=2)
    with pytest.raises(simkit.ArgumentError, match="holds for no others"):
        simkit.sample(problem, method=rounds, key=jax.random.key(0))


def test_another_problem_is_refused(learned):
    other = from_simulator(lambda p, k: p["a"] + jnp.zeros(2), {"a": 1.0}, SEEN, free={"a": Free(bounds=(0.0, 1.0))})
    with pytest.raises(simkit.ArgumentError, match="free parameters are"):
        simkit.sample(other, method=learned, key=jax.random.key(0))
    holes = linear().with_data({"x": np.array([[[np.nan, 0.0]]])})
    assert holes.data_count == 1
    with pytest.raises(simkit.ArgumentError, match="others are missing"):
        simkit.sample(holes, method=learned, key=jax.random.key(0))
