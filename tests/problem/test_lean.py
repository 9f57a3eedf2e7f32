"""What compiled code sees of a problem: filled up rows, which change no number and show nowhere."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import Experiment, Fixed, Free, Problem, count_compilations
from simkit.engine.task._bucket import bucket
from simkit.noise import Normal
from simkit.odes import from_function, from_response

THETA = jnp.array([0.7])


def relaxation(dosed=False):
    """A state that decays, stiffly enough for a Rosenbrock method to have something to solve."""
    if not dosed:
        return from_function(lambda t, y, p: {"a": -p["k"] * y["a"]}, {"k": 0.5})
    return from_function(
        lambda t, y, p, inputs: {"a": inputs["line"] + inputs["steps"] + inputs["pulses"] - p["k"] * y["a"]}, {"k": 0.5}
    )


DECAY, DOSED = relaxation(), relaxation(dosed=True)


def problem(rows, *, system=DECAY, step=None, experiments=None, **options):
    if experiments is None:
        times = np.linspace(0.5, 3.0, rows)
        data = np.where(np.arange(rows) == 1, np.nan, 2.0 * np.exp(-0.6 * times))
        experiments = [Experiment("one", times, {"a": data}, start=0.0)]
    options = {"free": {"k": Free(dist.LogNormal(-0.5, 0.4))}, "noise": {"a": Normal(0.1)}, "y0": {"a": 2.0}} | options
    return Problem(system, experiments, step=step, **options)


def test_buckets():
    counts = np.arange(1, 5000)
    for parts in (4, 8):
        found = np.array([bucket(int(n), parts) for n in counts])
        assert (found >= counts).all()
        assert (np.diff(found) >= 0).all()
        assert (found < counts * (1 + 1 / parts)).all()
        assert [bucket(int(n), parts) for n in found] == list(found)  # a problem that is filled up stays as it is
    assert bucket(21) == bucket(23) == 24
    assert bucket(8) == 8
    assert len({bucket(int(n)) for n in counts}) < 50


@pytest.mark.parametrize(
    ("solver", "step"),
    [(None, None), (None, Fixed(7)), (simkit.solvers.Rodas5P(), Fixed(2))],
)
def test_filled_rows_change_no_likelihood_and_no_gradient(solver, step):
    whole = problem(17, solver=solver, step=step)
    lean = whole.lean()
    assert lean.data["a"].shape[1] == (20 if step is None else 18)

    @eqx.filter_jit
    def values(p, theta):
        value = lambda x: p.log_likelihood(x)[0]
        return value(theta), p.until(0.5).log_likelihood(theta)[0], jax.jacfwd(value)(theta), jax.grad(value)(theta)

    # The sums run over more terms, so in another order: some roundings.
    for found, expected in zip(values(lean, THETA), values(whole, THETA), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_regressions_and_errors_are_filled_up_as_well():
    line = from_response(lambda x, p: p["slope"] * x[0] + x[1], {"slope": 2.0})
    places = np.random.default_rng(0).normal(size=(13, 2))
    values, errors = places.sum(axis=1), np.linspace(1, 2, 13)
    data = Experiment("line", places, {"y": values}, errors={"y": errors})
    whole = Problem(line, data, free={"slope": Free(bounds=(0.0, 9.0))}, noise={"y": Normal(0.1)})
    lean = whole.lean()
    assert lean.times.shape == (1, 14, 2)
    assert lean.errors["y"].shape == (1, 14)
    np.testing.assert_allclose(lean.log_likelihood(THETA)[0], whole.log_likelihood(THETA)[0], rtol=1e-13)


def test_users_see_the_true_rows():
    whole = problem(17, step=Fixed(2))
    assert whole.data["a"].shape == whole.predict(THETA)["a"].shape == (1, 17)
    assert whole.at(np.linspace(0.0, 9.0, 33)).data["a"].shape == (1, 33)
    assert whole.simulate_data(THETA, jax.random.key(0))["a"].shape == (1, 17)
    draws = np.array([[0.6], [0.8]])
    for times, rows in ((None, 17), (np.linspace(0.0, 4.0, 33), 33)):
        found = simkit.predict(whole, draws, times)
        asked = whole if times is None else whole.at(times)
        assert found.times.shape == (1, rows)
        assert found.curves["a"].shape == found.samples["a"].shape == (2, 1, rows)
        np.testing.assert_array_equal(found.times, asked.times[:, 1:])
        # The same arithmetic in a program of another length, which the compiler may vectorise otherwise: some roundings.
        np.testing.assert_allclose(found.curves["a"][0], asked.predict(jnp.array([0.6]))["a"], rtol=1e-13)


def test_an_observable_sees_the_true_rows():
    share = lambda system, trajectory: trajectory.ys["a"] / jnp.mean(trajectory.ys["a"])
    times = np.linspace(0.5, 3.0, 17)
    data = Experiment("one", times, {"share": np.exp(-0.6 * times)}, start=0.0)
    whole = problem(0, experiments=[data], observables={"share": share}, noise={"share": Normal(0.1)})
    assert whole.lean().data["share"].shape == (1, 17)
    np.testing.assert_array_equal(whole.lean().log_likelihood(THETA)[0], whole.log_likelihood(THETA)[0])


def test_words_and_the_longest_step_are_no_part_of_a_program():
    long, short = (
        problem(rows, step=0.3, experiments=[Experiment(name, times, {"a": np.exp(-times)}, start=0.0)])
        for rows, name, times in ((3, "x", np.array([0.6, 1.0, 1.2])), (3, "y", np.array([0.5, 1.0, 1.1])))
    )
    assert jax.tree.structure(long.lean()) == jax.tree.structure(short.lean())
    assert jax.tree.structure(long) != jax.tree.structure(short)  # their names differ
    # The steps of a lean problem are as long as before at other times.
    steps = [asked.at(np.array([3.0])).method.step for asked in (long, long.lean())]
    assert steps == [Fixed(10), Fixed(10)]


@pytest.mark.slow
def test_tables_of_inputs_are_filled_up():
    knots, times = np.linspace(0.0, 2.0, 17), np.linspace(0.5, 3.0, 5)
    doses = {
        "line": simkit.Interpolated(knots, knots),
        "steps": simkit.PiecewiseConstant(knots, knots),
        "pulses": simkit.Pulses(knots, knots, 0.1),
    }
    data = [Experiment(f"{i}", times, {"a": np.ones(5)}, start=0.0, inputs=doses) for i in range(2)]
    likelihood = eqx.filter_jit(lambda p: p.log_likelihood(THETA)[0])
    for step, rows in ((None, 20), (Fixed(2), 18)):
        whole = problem(5, system=DOSED, step=step, experiments=data)
        lean = whole.lean()
        assert {signal.times.shape for signal in lean.base.inputs.values()} == {(2, rows)}
        assert {signal.times.shape for signal in whole.base.inputs.values()} == {(2, 17)}
        # The same jumps, some of them twice: rounding only.
        np.testing.assert_allclose(likelihood(lean), likelihood(whole), rtol=1e-12)
    free = {"inputs.line.values.16": Free(dist.LogNormal(0.0, 1.0))}
    held = problem(5, system=DOSED, step=Fixed(2), experiments=data, free=free).lean()
    # Repeats of a number that is free would not follow it.
    assert held.base.inputs["line"].times.shape == (2, 17)
    assert held.base.inputs["steps"].times.shape == (2, 18)


@pytest.mark.parametrize("x64", [True, False])
def test_filling_up_and_asking_at_other_times_compile_nothing(x64):
    with jax.enable_x64(x64):
        whole = problem(17, step=Fixed(2), system=relaxation())
        with count_compilations() as counter:
            for rows in (21, 31, 41):
                asked = whole.at(np.linspace(0.0, 4.0, rows)).lean()
            whole.lean()
    assert counter.compilations + counter.from_disk == 0, counter
    assert asked.times.dtype == asked.data["a"].dtype == ("float64" if x64 else "float32")


def test_a_traced_problem_can_be_filled_up():
    whole = problem(17, step=Fixed(2))
    arrays, static = eqx.partition(whole, eqx.is_array)
    found = jax.jit(lambda arrays, theta: eqx.combine(arrays, static).lean().log_likelihood(theta)[0])(arrays, THETA)
    np.testing.assert_allclose(found, whole.log_likelihood(THETA)[0], rtol=1e-13)
