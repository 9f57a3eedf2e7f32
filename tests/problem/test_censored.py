"""Data below, above and between limits: densities, information, fits and what every verb does with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import simkit
from simkit import noise as models
from simkit.problem._censored import Limits, log_density
from simkit.problem._censored_information import censored_information

INF = np.inf
LINE = simkit.odes.from_response(lambda x, p: p["start"] + p["slope"] * x, {"start": 1.0, "slope": 1.0})
FREE = {
    "start": simkit.Free(bounds=(-5.0, 5.0)),
    "slope": simkit.Free(bounds=(-5.0, 5.0)),
    "noise.y.scale": simkit.Free(bounds=(0.01, 10.0)),
}


def _problem(data, x, noise=None, free=FREE):
    return simkit.Problem(
        LINE, simkit.Experiment("line", x, {"y": data}), free=free, noise={"y": noise or models.Normal(0.5)}
    )


# ---- what a user writes ----


def test_values_beyond_limits_are_censored_at_them():
    data = simkit.Censored([0.0, 0.5, 0.7, np.nan, 9.0], below=0.5, above=[8.0, 8.0, 8.0, 8.0, np.nan])
    np.testing.assert_array_equal(data.mask, [True, True, False, False, False])
    np.testing.assert_array_equal(data.values, [0.5, 0.5, 0.7, np.nan, 9.0])
    assert repr(data) == "Censored(4 data, 2 below and 0 above a limit)"


def test_flags_of_monolix():
    data = simkit.Censored.flagged([0.5, 0.5, 2.0, 7.0, 0.4], [1, 1, 0, -1, 0], [np.nan, 0.1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(data.mask, [True, True, False, True, False])
    np.testing.assert_array_equal(data.limits["floor"], [-INF, 0.1, -INF, -INF, -INF])
    # What was quantified has the limit of the others; not so what lies beyond it all the same.
    np.testing.assert_array_equal(data.limits["low"], [0.5, 0.5, 0.5, 0.5, -INF])
    np.testing.assert_array_equal(data.limits["high"], [7.0, 7.0, 7.0, 7.0, 7.0])


@pytest.mark.parametrize("value", [0.5, -2.0, 0.0])
def test_a_quantified_datum_at_the_limit_is_exact(value):
    data = simkit.Censored.flagged([value, value], [1, 0])
    experiment = simkit.Experiment("line", [0.0, 1.0], {"y": data})
    np.testing.assert_array_equal(data.mask, [True, False])
    assert repr(experiment) == "Experiment('line': 2 times, data y 2 (1 censored))"
    held = _problem(data, [0.0, 1.0]).dataset.limits["y"]
    values = jnp.full((1, 2), value, jnp.float32)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), held)
    np.testing.assert_array_equal(single.censored(values), [[True, False]])


def test_intervals():
    data = simkit.Censored.between([1.0, -INF, 2.0, np.nan, 3.0], [1.0, 0.5, INF, np.nan, 4.0])
    np.testing.assert_array_equal(data.mask, [False, True, True, False, True])
    np.testing.assert_array_equal(data.values, [1.0, 0.5, 2.0, np.nan, 4.0])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: simkit.Censored([1.0], below=3.0, above=2.0), "`below` is 3 and `above` is 2"),
        (lambda: simkit.Censored([1.0, 2.0], below=[1.0]), "one number or one a datum"),
        (lambda: simkit.Censored([1.0], floor=0.0), "needs a limit `below`"),
        (lambda: simkit.Censored([1.0], below="low"), "must be numbers"),
        (lambda: simkit.Censored([1.0], below=np.nan), "The limit `below` is NaN"),
        (lambda: simkit.Censored.flagged([1.0, 2.0], [0, 2]), "entry 1 is 2"),
        (lambda: simkit.Censored.flagged([1.0, 2.0], [0]), "shape of the values"),
        (lambda: simkit.Censored.flagged([1.0], [1], [2.0]), "`LIMIT` is 2 and `DV` is 1"),
        (lambda: simkit.Censored.between([2.0], [1.0]), "goes from 2 to 1"),
        (lambda: simkit.Censored.between([2.0], [1.0, 2.0]), "must have one shape"),
    ],
)
def test_bad_limits_are_sentences(make, text):
    with pytest.raises(simkit.DataError, match=text):
        make()


class Uniform(models.AbstractNoise):
    """A noise model without a distribution function."""

    domain = "real"

    def log_prob(self, value, location):
        return 0 * value - 0 * location

    def sample(self, key, location):
        return location + jax.random.uniform(key, location.shape, location.dtype)


def test_a_noise_model_without_distribution_function_is_named():
    with pytest.raises(simkit.ArgumentError, match="`Uniform` has no distribution function"):
        _problem(simkit.Censored([1.0], below=2.0), [0.0], Uniform(), {"start": FREE["start"]})


# ---- densities ----

PEERS = {
    "Normal": (models.Normal(0.7), lambda m: stats.norm(m, 0.7)),
    "LogNormal": (models.LogNormal(0.4), lambda m: stats.lognorm(0.4, scale=m)),
    "StudentT": (models.StudentT(0.6, 3.5), lambda m: stats.t(3.5, m, 0.6)),
    "Laplace": (models.Laplace(0.9), lambda m: stats.laplace(m, 0.9)),
    "Poisson": (models.Poisson(), stats.poisson),
    "NegativeBinomial": (models.NegativeBinomial(6.0), lambda m: stats.nbinom(6.0, 6.0 / (6.0 + m))),
}
LIMITS = Limits(
    *(jnp.asarray(x) for x in ([-INF, 1.0, 1.0, 0.0], [3.0, 4.0, 2.0, 1.0], [9.0, 6.0, 7.0, INF], [INF, 8.0, INF, INF]))
)
LOCATION = jnp.asarray([2.0, 4.0, 6.0, 3.0])


@pytest.mark.parametrize("name", PEERS)
def test_densities_equal_differences_of_scipys_distribution_functions(name):
    noise, peer = PEERS[name]
    peer = peer(np.asarray(LOCATION))
    below, above = peer.cdf, lambda x: peer.sf(x - 1 if noise.domain == "count" else x)
    density = peer.logpmf if noise.domain == "count" else peer.logpdf
    low, floor, high, ceiling = (np.asarray(getattr(LIMITS, end)) for end in ("low", "floor", "high", "ceiling"))
    nothing = (floor <= 0) if noise.domain == "positive" else np.isinf(floor)
    in_low = below(low) - np.where(nothing, 0.0, below(np.where(nothing, 1.0, floor)))
    known = np.isfinite(high)
    in_high = np.where(
        known, above(np.where(known, high, 9.0)) - np.where(ceiling < INF, above(np.minimum(ceiling, 20.0)), 0), 0
    )
    told = lambda value: np.asarray(log_density(noise, LIMITS, jnp.asarray(value), LOCATION))
    np.testing.assert_allclose(told(low), np.log(in_low), rtol=1e-9)
    np.testing.assert_allclose(told(low - 0.5 if noise.domain != "count" else low), np.log(in_low), rtol=1e-9)
    np.testing.assert_allclose(told(np.where(known, high, low))[known], np.log(in_high[known]), rtol=1e-9)
    middle = np.array([5.0, 5.0, 5.0, 5.0])
    np.testing.assert_allclose(told(middle), density(middle), rtol=1e-9)


@pytest.mark.parametrize("name", ["Normal", "StudentT", "Laplace"])
@pytest.mark.parametrize("middle", [0.3, 12.0, -8.0])
def test_narrow_intervals_keep_their_digits(name, middle):
    noise = PEERS[name][0]
    for width in (1e-1, 1e-3, 1e-6, 1e-9, 1e-13):
        lower, upper = jnp.asarray([middle]), jnp.asarray([middle + width])
        limits = Limits(floor=lower, low=upper)
        told = lambda m, limits=limits, upper=upper: log_density(noise, limits, upper, m)[0]
        found = told(jnp.asarray([0.0]))
        # The density at the middle times the width is wrong by (width / scale)^2 / 24 of itself times a curvature below 400.
        center = 0.5 * (lower + upper)
        near = (noise.log_prob(center, jnp.asarray([0.0])) + jnp.log(upper - lower))[0]
        assert abs(float(found - near)) < 20 * (width / 0.6) ** 2 + 2e-11 * max(1, abs(float(found)))
        slope, thin = (
            jax.grad(told)(jnp.asarray([0.0])),
            jax.grad(lambda m, c=center: noise.log_prob(c, m)[0])(jnp.asarray([0.0])),
        )
        np.testing.assert_allclose(slope, thin, rtol=200 * width + 1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_are_finite_where_other_branches_are_not(dtype):
    noise = jax.tree.map(lambda x: x.astype(dtype), models.LogNormal(0.4))
    limits = Limits(low=jnp.asarray([0.5, 0.5, 0.5], dtype), floor=jnp.asarray([0.0, -INF, -INF], dtype))
    values, location = jnp.asarray([0.5, 7.0, 0.5], dtype), jnp.asarray([1e8, 1e-8, 1e-30], dtype)
    value, slopes = jax.value_and_grad(lambda m, n: log_density(n, limits, values, m).sum(), argnums=(0, 1))(
        location, noise
    )
    assert np.isfinite(value)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(slopes))


# ---- information ----


@pytest.mark.parametrize(
    "noise",
    [
        models.Normal(0.7),
        models.Combined(0.5, 0.2),
        models.LogNormal(0.4),
        models.StudentT(0.6, 3.5),
        models.Laplace(0.9),
        models.Poisson(),
    ],
)
def test_information_is_the_mean_product_of_scores(noise):
    leaves, structure = jax.tree.flatten(noise)
    parts = [LOCATION, *(jnp.broadcast_to(x, LOCATION.shape) for x in leaves)]
    count = 20_000

    @jax.jit
    def scores(keys):
        def one(key):
            drawn = LIMITS.coarse(noise.sample(key, LOCATION))
            told = lambda parts: log_density(structure.unflatten(parts[1:]), LIMITS, drawn, parts[0]).sum()
            return jnp.stack(jax.grad(told)(parts), axis=-1)

        return jax.lax.map(one, keys, batch_size=1000)

    s = np.asarray(scores(jax.random.split(jax.random.key(0), count)))
    products = s[..., :, None] * s[..., None, :]
    found = np.asarray(jax.jit(lambda: censored_information(noise, LIMITS, LOCATION).matrix())())
    error = products.std(axis=0) / np.sqrt(count)
    # Of up to 36 normal numbers the largest is below 4.5 but for one draw in 4000; counts have draws of their own, 4096 a datum.
    room = 4.5 * (1 + 2.2 * (noise.domain == "count"))
    assert np.all(np.abs(found - products.mean(axis=0)) < room * error + 1e-12)
    full = np.asarray(noise.information(LOCATION).matrix() + 0 * found)
    lost = np.linalg.eigvalsh(full - found)
    assert lost.min() > -1e-6 * full.max() - 0.1 * full.max() * (noise.domain == "count")


def test_information_of_a_limit_far_away_is_whole_and_none_is_left_beyond():
    noise, location = models.Normal(0.7), jnp.asarray([2.0, 2.0])
    far = censored_information(noise, Limits(low=jnp.asarray([-50.0, 50.0])), location).matrix()
    np.testing.assert_allclose(far[0], np.diag([1 / 0.49, 2 / 0.49]), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(far[1], 0, atol=1e-12)


# ---- verbs ----

X = np.linspace(0.0, 1.0, 80)
Y = 1 + 2 * X + 0.5 * np.random.default_rng(3).standard_normal(80)
LOW, HIGH = 1.6, 2.7


def tobit(x, y, low, high):
    """The estimate of Tobin (1958) with two limits by SciPy: start, slope, scale."""
    below, above = y <= low, y >= high
    exact = ~below & ~above

    def misfit(p):
        mean, scale = p[0] + p[1] * x, np.exp(p[2])
        told = stats.norm.logcdf(low, mean, scale)[below].sum() + stats.norm.logsf(high, mean, scale)[above].sum()
        return -told - stats.norm.logpdf(y, mean, scale)[exact].sum()

    best = optimize.minimize(
        misfit, [1.0, 1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 9999}
    )
    return np.array([best.x[0], best.x[1], np.exp(best.x[2])]), best.fun


@pytest.fixture(scope="module")
def fitted():
    problem = _problem(simkit.Censored(Y, below=LOW, above=HIGH), X)
    return problem, simkit.fit(problem, starts=3)


def test_fit_equals_tobit_of_scipy(fitted):
    problem, fit = fitted
    known, misfit = tobit(X, Y, LOW, HIGH)
    # Nelder and Mead's method ends within 1e-8 of the optimum.
    np.testing.assert_allclose(fit.estimate, known, rtol=1e-6)
    np.testing.assert_allclose(fit.log_likelihood, -misfit, rtol=1e-12)
    assert problem.closed == ()  # no closed form of the scatter holds
    # Standard errors by the expected information, beside those of the observed one.
    hessian = jax.hessian(lambda theta: -problem.log_likelihood(theta)[0])(fit.estimate)
    np.testing.assert_allclose(fit.standard_error, np.sqrt(np.diag(np.linalg.inv(hessian))), rtol=0.1)
    assert "80 data (" in repr(problem)
    assert "censored)" in repr(problem)


def test_estimates_are_not_biased_where_those_without_censored_data_are():
    x = np.tile(np.linspace(0.0, 1.0, 20), 15)
    problem = _problem(simkit.Censored(1 + 2 * x, below=LOW), x)
    truth, found, dropped = np.array([1.0, 2.0, 0.5]), [], []
    for key in jax.random.split(jax.random.key(5), 12):
        again = problem.with_data(problem.simulate_data(jnp.asarray(truth), key))
        fit = simkit.fit(again, starts=1, key=key)
        found.append((np.asarray(fit.estimate) - truth) / np.asarray(fit.standard_error))
        y = again.dataset.exact("y")[0]
        kept = np.isfinite(y)
        dropped.append(np.polyfit(x[kept], y[kept], 1)[0] - 2.0)
    # The mean of 12 errors in units of their standard errors is N(0, 1 / 12); 3.5 of these.
    assert np.all(np.abs(np.mean(found, axis=0)) < 3.5 / np.sqrt(12)), np.mean(found, axis=0)
    assert 0.5 < np.std(found) < 1.5
    # Without the data below the limit the slope comes out too small by more than a third in every data set.
    assert np.all(np.array(dropped) < -0.5)


def test_single_precision_and_transformations(fitted):
    problem, fit = fitted
    told = lambda theta: problem.log_likelihood(theta)[0]
    many = jnp.stack([fit.estimate, fit.estimate * 1.1])
    np.testing.assert_allclose(jax.jit(jax.vmap(told))(many), [told(x) for x in many], rtol=1e-12)
    single, theta = jax.tree.map(
        lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, (problem, fit.estimate)
    )
    value, slope = jax.value_and_grad(lambda theta: single.log_likelihood(theta)[0])(theta)
    assert value.dtype == slope.dtype == jnp.float32
    np.testing.assert_allclose(value, told(fit.estimate), rtol=1e-5)
    wanted = jax.grad(told)(fit.estimate * 1.1)
    np.testing.assert_allclose(jax.grad(lambda t: single.log_likelihood(t)[0])(theta * 1.1), wanted, rtol=1e-3)


def test_check_spreads_residuals_of_censored_data(fitted):
    problem, fit = fitted
    found = simkit.check(problem, fit)
    part = found.residuals["y"]
    hidden = ((Y <= LOW) | (Y >= HIGH))[None]
    np.testing.assert_array_equal(part.censored, hidden)
    assert np.isnan(part.raw[hidden]).all()
    assert np.isfinite(part.raw[~hidden]).all()
    mean, scale = part.predicted, float(fit.estimate[2])
    pit, low, high = part.pit, stats.norm.cdf(LOW, mean, scale), stats.norm.cdf(HIGH, mean, scale)
    below, above = (Y <= LOW)[None], (Y >= HIGH)[None]
    assert np.all(pit[below] < low[below])
    assert np.all(pit[above] > high[above])
    assert not found.warnings
    assert next(f for f in found.findings if f.test == "PIT").p > 0.01


def test_residuals_of_censored_counts_and_of_models_without_tails():
    class Plain(models.AbstractNoise):
        domain = "real"

        def log_prob(self, value, location):
            return models.Normal(0.5).log_prob(value, location)

        def sample(self, key, location):
            return models.Normal(0.5).sample(key, location)

        def log_cumulative(self, value, location):
            return models.Normal(0.5).log_cumulative(value, location)

    free = {"start": FREE["start"], "slope": FREE["slope"]}
    plain = _problem(simkit.Censored(Y, below=LOW), X, Plain(), free)
    normal = _problem(simkit.Censored(Y, below=LOW), X, models.Normal(0.5), free)
    theta = jnp.asarray([1.0, 2.0])
    np.testing.assert_allclose(plain.log_likelihood(theta)[0], normal.log_likelihood(theta)[0])
    # Information by draws, 1 to 4 % in all.
    np.testing.assert_allclose(plain.information(theta), normal.information(theta), rtol=0.1)
    part = simkit.check(plain, simkit.fit(plain, starts=1)).residuals["y"]
    assert np.isfinite(part.quantile).all()
    assert np.all(part.censored[0] == (Y <= LOW))
    counts = _problem(
        simkit.Censored(np.round(5 * Y), below=8.0),
        X,
        models.Poisson(),
        {"start": simkit.Free(start=5.0, bounds=(0.1, 50.0)), "slope": simkit.Free(start=10.0, bounds=(0.0, 50.0))},
    )
    part = simkit.check(counts, simkit.fit(counts, starts=1)).residuals["y"]
    hidden = part.censored
    assert hidden.any()
    assert np.all(part.pit[hidden] < stats.poisson.cdf(8, part.predicted[hidden]))


def test_missing_and_censored_data_of_several_experiments():
    one = simkit.Experiment("one", [0.0, 1.0, 2.0], {"y": simkit.Censored([0.2, np.nan, 3.0], below=0.5)})
    two = simkit.Experiment("two", [0.0, 1.0], {"y": [1.0, 2.0]})
    problem = simkit.Problem(LINE, [one, two], free=FREE, noise={"y": models.Normal(0.5)})
    theta = jnp.asarray([1.0, 1.0, 0.5])
    known = stats.norm.logcdf(0.5, 1.0, 0.5) + stats.norm.logpdf([3.0, 1.0, 2.0], [3.0, 1.0, 2.0], 0.5).sum()
    for each in (problem, problem.lean()):
        np.testing.assert_allclose(each.log_likelihood(theta)[0], known, rtol=1e-12)
        assert np.isfinite(jax.grad(lambda t, p=each: p.log_likelihood(t)[0])(theta)).all()
    assert problem.data_count == 4
    assert problem.dataset.censored_count == 1
    again = problem.with_data({"y": jnp.asarray([[0.1, 9.0, 0.4], [0.1, 0.2, 0.3]])})
    # A datum that is drawn is censored by the limit of that whose place it takes; experiment `two` has none.
    np.testing.assert_array_equal(again.data["y"], [[0.5, np.nan, 0.5], [0.1, 0.2, np.nan]])
    assert again.dataset.censored_count == 2


def test_sample_predict_compare_and_files(fitted, tmp_path):
    problem, fit = fitted
    posterior = simkit.sample(problem, start=fit, chains=2, draws=100, warmup=100, key=jax.random.key(0))
    # The posterior of flat priors is near the normal distribution around the estimate.
    mean = np.asarray(posterior.flat()).mean(axis=0)
    assert np.all(np.abs(mean - np.asarray(fit.estimate)) < np.asarray(fit.standard_error))
    prediction = simkit.predict(problem, posterior, X[:3], key=jax.random.key(1))
    assert np.isfinite(np.asarray(prediction.samples["y"])).all()
    path = tmp_path / "result.nc"
    simkit.save(path, problem=problem, fit=fit, posterior=posterior)
    seen = simkit.load(path).observed
    lower, upper = seen.sets["y"]
    np.testing.assert_array_equal(lower[0][Y <= LOW], -INF)
    np.testing.assert_array_equal(upper[0][Y >= HIGH], INF)
    exact = (Y > LOW) & (Y < HIGH)
    np.testing.assert_array_equal(lower[0][exact], Y[exact])
    from simkit import viz

    for data in (problem, seen):
        figure = viz.plot_fit(data)
        markers = {line.get_marker(): len(line.get_xdata()) for line in figure.axes[0].lines}
        assert markers == {"o": int(exact.sum()), "v": int((Y <= LOW).sum()), "^": int((Y >= HIGH).sum())}


def test_a_population_with_data_below_the_limit_equals_quadrature():
    """The marginal likelihood of random intercepts, where Laplace's approximation is compared with a sum over a fine grid."""
    rng = np.random.default_rng(2)
    x, people = np.linspace(0.0, 1.0, 6), 12
    y = (1 + 0.6 * rng.standard_normal(people))[:, None] + 2 * x + 0.3 * rng.standard_normal((people, 6))
    low = 1.2
    experiments = [simkit.Experiment(f"p{i}", x, {"y": simkit.Censored(y[i], below=low)}) for i in range(people)]
    free = {
        "start": simkit.Individual(simkit.Free(bounds=(-5.0, 5.0)), transform="linear"),
        "slope": simkit.Free(bounds=(-5.0, 5.0)),
        "noise.y.scale": simkit.Free(bounds=(0.05, 5.0)),
    }
    problem = simkit.Problem(LINE, experiments, free=free, noise={"y": models.Normal(0.3)})
    fit = simkit.fit(problem, starts=2)
    grid = np.linspace(-8.0, 8.0, 801)

    def misfit(p):
        mean = (p[0] + np.exp(p[3]) * grid)[:, None] + p[1] * x
        scale, total = np.exp(p[2]), 0.0
        for row in y:
            told = np.where(row <= low, stats.norm.logcdf(low, mean, scale), stats.norm.logpdf(row, mean, scale)).sum(
                axis=1
            )
            total -= np.log(np.sum(np.exp(told) * stats.norm.pdf(grid)) * (grid[1] - grid[0]))
        return total

    best = optimize.minimize(
        misfit, [1.0, 2.0, -1.0, -0.5], method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-7}
    ).x
    known = {"start": best[0], "slope": best[1], "noise.y.scale": np.exp(best[2])}
    for name, value in known.items():
        place = fit.names.index(name)
        # Laplace's approximation is exact for normal data and good to a tenth of a standard error here.
        assert abs(float(fit.estimate[place]) - value) < 0.15 * float(fit.standard_error[place]), name


class Whole(simkit.problem.AbstractLikelihood):
    """A likelihood of its own, which knows nothing of limits."""

    def log_prob(self, theta, model, data):
        return jnp.zeros(len(data.labels))


def test_likelihoods_of_users_take_no_censored_data():
    experiment = simkit.Experiment("line", [0.0, 1.0], {"y": simkit.Censored([0.2, 1.0], below=0.5)})
    with pytest.raises(simkit.ArgumentError, match="experiment `line` has censored data of `y`"):
        simkit.Problem(LINE, experiment, free={"slope": FREE["slope"]}, likelihood=Whole())


def test_petab_has_no_censored_data(tmp_path):
    pytest.importorskip("libsbml")
    system, y0 = simkit.odes.ExponentialDecay(), simkit.odes.ExponentialDecay.example().y0
    data = simkit.Censored([0.2, 1.0], below=0.5)
    problem = simkit.Problem(
        system,
        simkit.Experiment("decay", [1.0, 2.0], {"amount": data}, start=0.0),
        y0=y0,
        free={"rate": simkit.Free(bounds=(0.1, 2.0))},
        noise={"amount": models.Normal(0.1)},
    )
    with pytest.raises(simkit.ArgumentError, match="must not be censored, but those of `amount` are"):
        simkit.petab.write(problem, tmp_path)
