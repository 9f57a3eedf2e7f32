import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as stats

import simkit
from simkit import Experiment, Free, Problem
from simkit.core import Setup
from simkit.engine import integrate
from simkit.noise import Normal
from simkit.odes import from_function, from_response
from simkit.problem._prior import StoredPrior

DECAY = from_function(lambda t, y, p: {"a": -p["k"] * y["a"]}, {"k": 0.5})
TIMES = np.array([0.5, 1.0, 2.0])


def decay_problem(experiments, **options):
    options = {"free": {"k": Free(dist.LogNormal(-0.5, 0.4))}, "noise": {"a": Normal(0.1)}, "y0": {"a": 2.0}} | options
    return Problem(DECAY, experiments, step=0.05, **options)


def experiment(name="one", *, data=None, times=TIMES, **options):
    data = 2.0 * np.exp(-0.7 * times) if data is None else data
    return Experiment(name, times, {"a": data}, start=0.0, **options)


def test_the_likelihood_is_that_of_the_closed_form():
    seen = np.array([1.3, np.nan, 0.6])
    problem = decay_problem(experiment(data=seen))
    value, status = problem.log_likelihood(jnp.array([0.7]))
    expected = stats.norm.logpdf(seen, 2.0 * np.exp(-0.7 * TIMES), 0.1)[[0, 2]].sum()
    np.testing.assert_allclose(value, expected, rtol=1e-7)  # Tsit5 with steps of 0.05 is exact to some 1e-10
    assert status.shape == (1,)
    np.testing.assert_allclose(problem.log_prior(jnp.array([0.7])), stats.lognorm.logpdf(0.7, 0.4, scale=np.exp(-0.5)))
    assert problem.data_count == 2


def test_experiments_have_their_own_times_starts_and_conditions():
    experiments = [
        experiment("first"),
        Experiment("second", [1.5, 4.0], {"a": [1.0, 0.2]}, start=1.0, y0={"a": 3.0}),
        experiment("third", set={"y0.a": "dose", "k": 0.1}),
    ]
    free = {"k": Free(dist.LogNormal(0.0, 1.0)), "dose": Free(dist.LogNormal(0.0, 1.0))}
    problem = decay_problem(experiments, free=free)
    found = problem.predict(jnp.array([0.7, 5.0]))["a"]
    np.testing.assert_allclose(found[0], 2.0 * np.exp(-0.7 * TIMES), rtol=1e-8)
    np.testing.assert_allclose(found[1, :2], 3.0 * np.exp(-0.7 * np.array([0.5, 3.0])), rtol=1e-8)
    np.testing.assert_allclose(found[2], 5.0 * np.exp(-0.1 * TIMES), rtol=1e-8)
    assert problem.setup(jnp.array([0.7, 5.0]), "third").y0["a"] == 5.0
    assert problem.target("dose") == "y0.a"
    assert problem.data_count == 8


def test_precedence_experiment_before_problem_before_free_path():
    experiments = [experiment("own", set={"k": 0.1}), experiment("common", set={})]
    problem = decay_problem(experiments, free={"y0.a": Free(dist.LogNormal(0.0, 1.0))}, set={"k": 0.2})
    found = problem.predict(jnp.array([1.0]))["a"]
    np.testing.assert_allclose(found, np.exp(-np.array([[0.1], [0.2]]) * TIMES), rtol=1e-8)


def test_errors_multiply_the_scale():
    sizes = np.array([1.0, 2.0, np.nan])
    problem = decay_problem(experiment(data=np.array([1.3, 1.0, np.nan]), errors={"a": sizes}))
    value, _ = problem.log_likelihood(jnp.array([0.7]))
    expected = stats.norm.logpdf([1.3, 1.0], 2.0 * np.exp(-0.7 * TIMES[:2]), 0.1 * sizes[:2]).sum()
    np.testing.assert_allclose(value, expected, rtol=1e-7)


def test_inputs_of_different_length_are_padded():
    system = from_function(
        lambda t, y, p, inputs: inputs["dose"] - p["k"] * y, {"k": 0.5}, outputs=lambda t, y, inputs: {"y": y}
    )
    doses = [simkit.Pulses([0.0], [1.0], 0.5), simkit.Pulses([0.0, 1.0], [1.0, 2.0], 0.5)]
    experiments = [Experiment(f"{i}", [3.0], {"y": [1.0]}, start=0.0, inputs={"dose": d}) for i, d in enumerate(doses)]
    problem = Problem(
        system, experiments, y0=0.0, free={"k": Free(dist.LogNormal(0, 1))}, noise={"y": Normal(1.0)}, step=0.1
    )
    one = lambda start, amount, t: amount / 0.5 / 0.5 * (1 - np.exp(-0.25)) * np.exp(-0.5 * (t - start - 0.5))
    found = problem.predict(jnp.array([0.5]))["y"][:, 0]
    np.testing.assert_allclose(found, [one(0, 1, 3), one(0, 1, 3) + one(1, 2, 3)], rtol=1e-8)


def test_an_observable_is_a_function_of_the_trajectory():
    observables = {"share": lambda system, trajectory: trajectory.ys["a"] / trajectory.ys["a"][0]}
    e = Experiment("one", TIMES, {"share": [0.7, 0.5, 0.2]}, start=0.0)
    problem = decay_problem(e, observables=observables, noise={"share": Normal(0.1)})
    np.testing.assert_allclose(problem.predict(jnp.array([0.7]))["share"][0], np.exp(-0.7 * TIMES), rtol=1e-8)


def test_other_times_keep_the_length_of_the_steps():
    problem = decay_problem(experiment())
    asked = problem.at([1.0, 21.0])
    assert asked.method.step.substeps == 400  # 20 units of time in steps of 0.05
    np.testing.assert_allclose(
        problem.predict(jnp.array([0.7]), [1.0, 21.0])["a"][0], 2 * np.exp(-0.7 * np.array([1, 21])), rtol=1e-7
    )
    with pytest.raises(simkit.ArgumentError, match="before the start"):
        problem.at([-1.0, 1.0])


def test_regression_over_a_plain_function_with_two_predictors():
    model = from_response(lambda x, p: p["a"] * x[0] + p["b"] * x[1], {"a": 1.0, "b": 1.0})
    x = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 1.0]])
    problem = Problem(
        model, Experiment("r", x, {"y": x @ [2.0, 3.0]}), free={"a": Free(), "b": Free()}, noise={"y": Normal(1.0)}
    )
    value, _ = problem.log_likelihood(jnp.array([2.0, 3.0]))
    np.testing.assert_allclose(value, 3 * stats.norm.logpdf(0.0), rtol=1e-12)


def test_gradients_agree_and_failures_are_minus_infinity_without_a_gradient():
    """A gradient of 0 at a failure would tell an optimiser that it has converged; who replaces the infinity has its slope."""
    growth = from_function(lambda t, y, p: {"a": p["k"] * y["a"] ** 2}, {"k": 0.5})
    problem = Problem(
        growth,
        Experiment("g", [1.0], {"a": [2.0]}, start=0.0),
        y0={"a": 1.0},
        free={"k": Free()},
        noise={"a": Normal(0.1)},
    )
    value = lambda theta: problem.log_likelihood(theta)[0]
    good, bad = jnp.array([0.4]), jnp.array([4.0])  # y = 1 / (1 - k t) has no value at t = 1 for k > 1
    exact = jax.grad(lambda k: stats_normal(1 / (1 - k[0])))(good)
    for slope in (jax.grad(value)(good), jax.jacfwd(value)(good)):
        np.testing.assert_allclose(slope, exact, rtol=1e-4)  # the solve's tolerance is 1e-6, amplified by the misfit
    assert value(bad) == -jnp.inf
    for derive in (jax.grad, jax.jacfwd, lambda f: jax.jit(jax.grad(f))):
        np.testing.assert_array_equal(derive(value)(bad), [jnp.nan])
        np.testing.assert_array_equal(derive(problem.log_posterior)(bad), [jnp.nan])
    np.testing.assert_allclose(jax.vmap(jax.grad(value))(jnp.stack([good, bad])), [exact, [jnp.nan]], rtol=1e-4)
    replaced = lambda theta: jnp.where(jnp.isfinite(value(theta)), value(theta), -1e9)
    for derive in (jax.grad, jax.jacfwd):
        np.testing.assert_array_equal(derive(replaced)(bad), [0.0])


def stats_normal(location):
    return -0.5 * ((2.0 - location) / 0.1) ** 2


def test_until_hides_later_data_without_a_new_shape():
    problem = decay_problem(experiment())
    early = problem.until(0.5)
    assert jax.tree.structure(early) == jax.tree.structure(problem)
    np.testing.assert_array_equal(np.isfinite(early.data["a"][0]), [True, True, False])


def test_simulated_data_have_the_shape_of_the_data_and_keep_what_is_missing():
    problem = decay_problem(experiment(data=np.array([1.0, np.nan, 1.0])))
    data = problem.simulate_data(jnp.array([0.7]), jax.random.key(0))
    again = problem.with_data(data)
    np.testing.assert_array_equal(np.isnan(again.data["a"]), np.isnan(problem.data["a"]))
    assert jnp.abs(again.data["a"][0, 0] - 2 * np.exp(-0.35)) < 0.5  # five standard deviations of 0.1


def test_coordinates_and_bounds():
    free = {"k": Free(bounds=(0.1, 10.0), transform="log"), "y0.a": Free(bounds=(-1.0, 1.0))}
    problem = decay_problem(experiment(), free=free)
    theta = jnp.array([0.7, -0.2])
    np.testing.assert_allclose(problem.natural(problem.coordinates(theta)), theta)
    many = jnp.stack([theta, theta + 0.1])
    np.testing.assert_allclose(problem.natural(problem.coordinates(many)), many)
    np.testing.assert_allclose(problem.coordinate_bounds(), [[np.log(0.1), np.log(10.0)], [-1.0, 1.0]])


def test_float32_problem():
    problem = simkit.cast(decay_problem(experiment()), jnp.float32)
    value, _ = problem.log_likelihood(jnp.array([0.7], jnp.float32))
    assert value.dtype == jnp.float32


def test_the_likelihood_composes_with_jit_vmap_and_a_problem_as_argument():
    problem = decay_problem(experiment())
    function = eqx.filter_jit(lambda problem, thetas: jax.vmap(lambda t: problem.log_likelihood(t)[0])(thetas))
    thetas = jnp.array([[0.5], [0.7]])
    np.testing.assert_allclose(function(problem, thetas), [problem.log_likelihood(t)[0] for t in thetas])


# ---- bad input ----

BAD = {
    "unknown output": (lambda: decay_problem(Experiment("e", TIMES, {"aa": TIMES})), r"no noise model .*`aa`.*`a`"),
    "unknown free": (lambda: decay_problem(experiment(), free={"kk": Free()}), r"no quantity, and no `set`.*`kk`.*`k`"),
    "unknown in set": (lambda: decay_problem(experiment(set={"y0.b": 1.0})), r"`set` of experiment `one`.*`y0.b`"),
    "unknown name in set": (lambda: decay_problem(experiment(set={"y0.a": "dos"})), r"no free parameter .*`dos`"),
    "no y0": (lambda: decay_problem(experiment(), y0=None), "must have an initial state"),
    "prior outside": (
        lambda: Problem(
            simkit.odes.ExponentialDecay(),
            Experiment("e", TIMES, {"amount": TIMES}),
            y0=simkit.odes.ExponentialDecay.example().y0,
            free={"rate": Free(dist.Cauchy(0.0, 1.0))},
            noise={"amount": Normal(1.0)},
        ),
        r"prior of `rate` must lie inside its support \(0, inf\)",
    ),
    "bounds turned round": (
        lambda: decay_problem(experiment(), free={"k": Free(bounds=(2.0, 1.0))}),
        "bounds of `k` must be .lower, upper.",
    ),
    "empty bounds": (
        lambda: decay_problem(experiment(), free={"k": Free(bounds=(1.0, 1.0))}),
        "bounds of `k` must leave room",
    ),
    "start outside": (
        lambda: decay_problem(experiment(), free={"k": Free(bounds=(0.0, 1.0), start=3.0)}),
        "start of `k` must lie inside its bounds",
    ),
    "unsorted": (
        lambda: decay_problem(experiment(times=np.array([1.0, 0.5, 2.0]))),
        "must increase, but 1 is followed by 0.5",
    ),
    "twice": (lambda: decay_problem(experiment(times=np.array([1.0, 1.0, 2.0]))), "1 is there twice"),
    "late start": (
        lambda: decay_problem(Experiment("e", TIMES, {"a": TIMES}, start=1.0)),
        "start of experiment `e` must not lie after",
    ),
    "length": (lambda: experiment(data=np.ones(2)), "one entry a time, 3"),
    "text": (lambda: experiment(data=["a", "b", "c"]), "must be numbers"),
    "infinite": (lambda: experiment(data=np.array([1.0, np.inf, 1.0])), "must be finite or NaN"),
    "all missing": (lambda: experiment(data=np.full(3, np.nan)), "are all missing"),
    "empty": (lambda: Experiment("e", [], {"a": []}), "at least one time"),
    "nan time": (lambda: Experiment("e", [np.nan], {"a": [1.0]}), "must be finite"),
    "zero scale": (
        lambda: decay_problem(experiment(), noise={"a": Normal(0.0)}),
        "noise scale of `a` must be positive",
    ),
    "log of zero": (
        lambda: decay_problem(experiment(data=np.array([1.0, 0.0, 1.0])), noise={"a": simkit.noise.LogNormal(0.1)}),
        "needs positive data, but experiment `one` holds 0",
    ),
    "not counts": (lambda: decay_problem(experiment(), noise={"a": simkit.noise.Poisson()}), "needs counts 0, 1, 2"),
    "same names": (lambda: decay_problem([experiment("e"), experiment("e")]), "a name of its own"),
    "none": (lambda: decay_problem([]), "at least one experiment"),
    "stochastic": (
        lambda: Problem(
            simkit.odes.OrnsteinUhlenbeck(),
            experiment(),
            y0=simkit.odes.OrnsteinUhlenbeck.example().y0,
            free={},
            noise={"a": Normal()},
        ),
        "is stochastic",
    ),
    "a set outside the support": (
        lambda: decay_problem(simkit.Experiment("e", [1.0], {"a": [1.0]}, set={"noise.a.scale": -1.0})),
        "must give `noise.a.scale` a number inside its support",
    ),
    "errors without scale": (
        lambda: decay_problem(
            experiment(data=np.ones(3), errors={"a": np.ones(3)}), noise={"a": simkit.noise.Poisson()}
        ),
        "has no scale",
    ),
    "shape": (lambda: decay_problem(experiment(data=np.ones((3, 2)))), "must have the shape of the output"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_refused_in_a_sentence(case):
    build, words = BAD[case]
    with pytest.raises(simkit.SimkitError, match=words):
        build()


@pytest.mark.parametrize(
    "prior",
    [
        dist.Normal(1.0, 2.0),
        dist.LogNormal(0.5, 1.0),
        dist.TruncatedNormal(1.0, 0.5, low=0.0),
        dist.TruncatedNormal(1.0, 0.5, low=0.0, high=2.0),
        dist.Uniform(0.5, 2.0),
        dist.LogUniform(0.5, 2.0),
        dist.Gamma(2.0, 1.0),
        dist.Beta(2.0, 3.0),
        dist.StudentT(3.0, 0.0, 1.0),
        dist.HalfNormal(1.0),
        dist.Exponential(2.0),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_a_stored_prior_is_the_prior_and_has_one_order_of_leaves(prior):
    stored = StoredPrior.of(prior)
    assert stored.names == tuple(sorted(stored.names))
    with jax.numpy_dtype_promotion("standard"):  # which NumPyro's two-sided truncation relies on
        again = jax.jit(lambda stored: stored.distribution().log_prob(0.7))(stored)
        np.testing.assert_allclose(again, prior.log_prob(0.7), rtol=1e-12)
        np.testing.assert_array_equal(stored.distribution().sample(jax.random.key(0)), prior.sample(jax.random.key(0)))


def test_a_problem_prints_a_prior_that_is_cut_off_by_its_own_name():
    system, y0, _, _ = simkit.odes.ExponentialDecay.example()
    decay = Experiment("e", [0.0, 1.0], {"amount": [1.0, 0.5]})
    free = {"rate": Free(dist.Normal(1.0, 1.0)), "y0.amount": Free(dist.HalfNormal(1.0))}
    text = repr(Problem(system, decay, y0=y0, free=free, noise={"amount": Normal(1.0)}, step=0.5))
    assert "prior Normal(1, 1), cut off, in (0, inf)" in text
    assert "prior HalfNormal(1), in (0, inf)" in text


def test_an_observable_sees_the_rows_of_its_experiment_alone():
    """Experiments of different length are filled up, of which a mean or a last row must know nothing."""
    observables = {
        "part": lambda system, trajectory: trajectory.ys["a"] / trajectory.ys["a"].mean(),
        "late": lambda system, trajectory: trajectory.ys["a"] / trajectory.final()["a"],
    }
    lengths = (3, 1, 2)
    es = [Experiment(f"{n}", TIMES[:n], {"part": np.ones(n), "late": np.ones(n)}, start=0.0) for n in lengths]
    noise = {name: Normal(0.1) for name in observables}
    problem = decay_problem(es, observables=observables, noise=noise)
    found = problem.predict(jnp.array([0.7]))
    for i, n in enumerate(lengths):
        curve = np.exp(-0.7 * np.concatenate([[0.0], TIMES[:n]]))
        np.testing.assert_allclose(found["part"][i, :n], curve[1:] / curve.mean(), rtol=1e-8)
        np.testing.assert_allclose(found["late"][i, :n], curve[1:] / curve[-1], rtol=1e-8)
    alone = [decay_problem(e, observables=observables, noise=noise) for e in es]
    theta = jnp.array([0.6])
    total = lambda problems: sum(problem.log_likelihood(theta)[0] for problem in problems)
    np.testing.assert_allclose(total([problem]), total(alone), rtol=1e-12)
    np.testing.assert_allclose(total([problem.lean()]), total(alone), rtol=1e-12)
    together = jax.jit(jax.grad(lambda theta: problem.log_likelihood(theta)[0]))(theta)
    apart = sum(jax.grad(lambda theta, p=p: p.log_likelihood(theta)[0])(theta) for p in alone)
    np.testing.assert_allclose(together, apart, rtol=1e-10)  # rounding of some forty steps
    at = problem.at([0.5, 1.5]).predict(theta)["part"]  # every experiment at the same times: nothing is filled up
    np.testing.assert_allclose(at[0], at[1], rtol=1e-12)


LAST = {
    "interpolated": (simkit.Interpolated, "values.1", {"values": [1.0, 2.0]}, {"values": [1.0, 0.5, 0.2, 0.1]}),
    "interpolated, its time": (
        simkit.Interpolated,
        "times.1",
        {"values": [1.0, 2.0]},
        {"values": [1.0, 0.5, 0.2, 0.1]},
    ),
    "steps": (simkit.PiecewiseConstant, "values.1", {"values": [1.0, 2.0]}, {"values": [1.0, 0.5, 0.2, 0.1]}),
    "steps, its time": (simkit.PiecewiseConstant, "times.1", {"values": [1.0, 2.0]}, {"values": [1.0, 0.5, 0.2, 0.1]}),
    "pulses": (
        simkit.Pulses,
        "amounts.1",
        {"amounts": [1.0, 2.0], "duration": 0.5},
        {"amounts": [1.0, 0.5, 0.2, 0.1], "duration": 0.5},
    ),
    "pulses, their time": (
        simkit.Pulses,
        "times.1",
        {"amounts": [1.0, 2.0], "duration": 0.5},
        {"amounts": [1.0, 0.5, 0.2, 0.1], "duration": 0.5},
    ),
}


# One case of each kind by default; the others compile as many programs again.
BY_DEFAULT = {("interpolated", "free"), ("pulses", "named"), ("steps, its time", "set"), ("pulses, their time", "free")}
LAST_ROWS = [
    pytest.param(case, how, marks=[] if (case, how) in BY_DEFAULT else [pytest.mark.slow])
    for case in LAST
    for how in ("free", "named", "set")
]


@pytest.mark.parametrize(("case", "how"), LAST_ROWS)
def test_the_last_row_of_a_table_may_be_free_where_other_tables_are_longer(case, how):
    kind, number, short, long = LAST[case]
    system = from_function(
        lambda t, y, p, inputs: inputs["feed"] - p["k"] * y, {"k": 0.5}, outputs=lambda t, y, inputs: {"y": y}
    )
    path, value, times = f"inputs.feed.{number}", 1.312, [1.0, 2.0, 4.0]  # a kink on a stage has two slopes
    inputs = [kind(times=[0.0, 1.0], **short), kind(times=[0.0, 1.0, 1.5, 2.5], **long)]
    own = {"free": {}, "named": {path: "last"}, "set": {path: value}}[how]
    unknowns = {"free": {path: Free()}, "named": {"last": Free()}, "set": {"k": Free()}}[how]
    theta = jnp.array([0.5 if how == "set" else value])

    def problem(chosen):
        es = [
            Experiment(
                f"{i}", times, {"y": [1.0, 1.0, 1.0]}, start=0.0, inputs={"feed": inputs[i]}, set=own if i == 0 else {}
            )
            for i in chosen
        ]
        return Problem(system, es, y0=0.2, free=unknowns, noise={"y": Normal(0.5)}, step=0.1)

    together, alone = problem([0, 1]), problem([0])
    np.testing.assert_allclose(together.predict(theta)["y"][0], alone.predict(theta)["y"][0], rtol=1e-12)
    if how == "named":  # the other experiment has nothing free
        fixed = problem([1, 0]).predict(theta)["y"][0]
        np.testing.assert_allclose(together.predict(theta)["y"][1], fixed, rtol=1e-12)
    slope = lambda p: jax.jacfwd(lambda theta: p.predict(theta)["y"][0])(theta)
    np.testing.assert_allclose(slope(together), slope(alone), rtol=1e-9, atol=1e-12)
    assert together.target(together.names[0]) == ("k" if how == "set" else path)
    lean = together.lean()
    np.testing.assert_allclose(lean.log_likelihood(theta)[0], together.log_likelihood(theta)[0], rtol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        simkit.noise.Combined(-1.0, 0.1),
        simkit.noise.StudentT(1.0, -3.0),
        simkit.noise.StudentT(1.0, np.nan),
        simkit.noise.Normal(np.inf),
    ],
)
def test_numbers_of_noise_outside_their_support_are_refused(model):
    system = simkit.from_function(lambda t, y, p: {"x": -p["k"] * y["x"]}, {"k": 1.0})
    experiment = simkit.Experiment("e", [0.0, 1.0], {"x": [1.0, 0.5]}, y0={"x": 1.0})
    with pytest.raises(simkit.ArgumentError, match=f"of {type(model).__name__} must"):
        simkit.Problem(system, experiment, free={"k": simkit.Free(bounds=(0.0, 2.0))}, noise={"x": model})


def test_a_number_of_noise_that_is_free_may_be_unknown():
    system = simkit.from_function(lambda t, y, p: {"x": -p["k"] * y["x"]}, {"k": 1.0})
    experiment = simkit.Experiment("e", [0.0, 1.0], {"x": [1.0, 0.5]}, y0={"x": 1.0})
    noise = {"x": simkit.noise.StudentT(0.1, np.nan)}
    simkit.Problem(system, experiment, free={"noise.x.freedom": simkit.Free(bounds=(1.0, 9.0))}, noise=noise)


def test_a_protocol_may_read_what_the_system_does_not():
    class Doubled(simkit.problem.AbstractProtocol):
        """One simulation from twice the dose."""

        def run(self, setup, times, method):
            y0 = {"x": 2 * setup.inputs["dose"](times[0])}
            setup = Setup(setup.system, y0, setup.inputs, setup.noise)
            return setup, integrate(setup, times, method)

    system = simkit.from_function(lambda t, y, p: {"x": -p["k"] * y["x"]}, {"k": 1.0})
    experiment = simkit.Experiment("e", [0.0, 1.0], {"x": [1.0, 0.5]}, y0={"x": 1.0}, inputs={"dose": 3.0})
    free = {"k": simkit.Free(bounds=(0.0, 2.0))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simkit.Problem(system, experiment, free=free, noise={"x": simkit.noise.Normal(0.1)}, protocol=Doubled())
