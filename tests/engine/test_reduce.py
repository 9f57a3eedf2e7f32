"""Reducers in a solve: equal to reducing what would have been saved, under every transformation, in bounded memory."""

import dataclasses
import functools
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tree_allclose
from jax.sharding import PartitionSpec

import simkit
from simkit.odes import LotkaVolterra, OrnsteinUhlenbeck, from_function, from_response
from simkit.reducers import Extremes, Histogram, Integral, Mean, Moments, Reducer

SYSTEM, Y0, _, _ = LotkaVolterra.example()
TIMES = np.linspace(0.0, 20.0, 200)  # four pieces, the last one filled up
EDGES = np.linspace(0.0, 100.0, 21)
hare = lambda system, t, y: y.hare
REDUCERS = {
    "mean": Mean(),
    "moments": Moments(hare),
    "extremes": Extremes(),
    "histogram": Histogram(EDGES, hare),
    "integral": Integral(lambda system, t, y: {"predation": system.predation * y.hare * y.lynx, "late": t > 10.0}),
}


def expected(system, trajectory):
    """The same numbers from the saved states, by NumPy."""
    times, hares = np.asarray(trajectory.times), np.asarray(trajectory.ys.hare)
    rate = np.asarray(system.predation * trajectory.ys.hare * trajectory.ys.lynx)
    area = lambda x: np.sum(np.diff(times) * (x[1:] + x[:-1]) / 2)
    return {
        "mean": np.mean(trajectory.ys.lynx),
        "moments": (hares.mean(), hares.var(), times.size),
        "extremes": (hares.min(), hares.max(), times[hares.argmin()], times[hares.argmax()]),
        "histogram": np.histogram(hares, EDGES)[0],
        "integral": (area(rate), area((times > 10.0).astype(float))),
    }


def picked(results):
    moments, extremes, integral = (results[name] for name in ("moments", "extremes", "integral"))
    return {
        "mean": results["mean"].lynx,
        "moments": (moments.mean, moments.variance, moments.count),
        "extremes": (
            extremes.minimum.hare,
            extremes.maximum.hare,
            extremes.time_of_minimum.hare,
            extremes.time_of_maximum.hare,
        ),
        "histogram": results["histogram"],
        "integral": (integral["predation"], integral["late"]),
    }


@pytest.mark.parametrize("step", [simkit.Fixed(3), simkit.Adaptive(1e-9, 1e-11)], ids=["fixed", "adaptive"])
def test_results_are_those_of_the_saved_states(step):
    saved = simkit.simulate(SYSTEM, Y0, TIMES, step=step)
    found = simkit.simulate(SYSTEM, Y0, TIMES, step=step, reduce=REDUCERS)
    # fixed steps are the same ones, up to rounding; adaptive ones are others, of tolerance 1e-9, and errors grow tenfold
    rtol = 1e-12 if isinstance(step, simkit.Fixed) else 1e-7
    assert tree_allclose(picked(found.reduced), expected(SYSTEM, saved), rtol=rtol)
    np.testing.assert_array_equal(found.times, saved.times[np.array([0, -1])])
    np.testing.assert_allclose(found.final().hare, saved.final().hare, rtol=rtol)
    np.testing.assert_array_equal(found.ys.hare[0], Y0.hare)
    assert found.status == simkit.Status.OK
    if isinstance(step, simkit.Fixed):
        assert found.steps == saved.steps
    else:
        assert (
            saved.steps <= found.steps <= saved.steps + 2 * 4
        )  # a piece ends a step early and goes on with its length
    assert "reduced histogram" in repr(found)


def test_a_random_path_is_the_same_one():
    system, y0, times, _ = OrnsteinUhlenbeck.example()
    times = np.linspace(times[0], times[-1], 150)
    key, step = jax.random.key(4), simkit.Fixed(2)
    for solver in (simkit.solvers.EulerMaruyama(), simkit.solvers.SRA1()):
        run = functools.partial(simkit.simulate, system, y0, times, key=key, step=step, solver=solver)
        saved, found = run(), run(reduce={"moments": Moments()})
        np.testing.assert_array_equal(found.final().x, saved.final().x)
        np.testing.assert_allclose(found.reduced["moments"].mean.x, saved.ys.x.mean(), rtol=1e-12)
        np.testing.assert_allclose(found.reduced["moments"].variance.x, saved.ys.x.var(), rtol=1e-12)


@pytest.mark.slow
def test_steps_end_on_the_jumps_of_inputs_also_at_the_end_of_a_piece():
    system = from_function(lambda t, y, p, inputs: inputs["dose"] - p["k"] * y, {"k": 0.5})
    times = jnp.linspace(0.0, 10.0, 101)  # two pieces, which meet at 5
    mean = {"mean": Mean(), "last": Integral()}

    def results(start, step, **options):
        inputs = {"dose": simkit.Pulses(start, jnp.array([2.0, 1.0]), jnp.array(0.2))}
        return simkit.simulate(system, 0.0, times, inputs=inputs, step=step, **options)

    starts = jnp.array([2.03, 5.0])
    for step, rtol in ((simkit.Fixed(2), 1e-12), (simkit.Adaptive(1e-9, 1e-11), 1e-7)):  # as above
        saved = lambda starts, step=step: results(starts, step).ys.mean()
        found = lambda starts, step=step: results(starts, step, reduce=mean).reduced["mean"]
        np.testing.assert_allclose(found(starts), saved(starts), rtol=rtol)
        np.testing.assert_allclose(jax.grad(found)(starts), jax.grad(saved)(starts), rtol=100 * rtol, atol=1e-12)


def test_systems_without_dynamics_and_with_momentum():
    line = from_response(lambda x, p: p["slope"] * x, {"slope": 2.0})
    found = simkit.simulate(line, {}, [1.0, 2.0, 6.0], reduce={"mean": Mean(lambda s, x, y: s.outputs(x, y, None))})
    np.testing.assert_allclose(jax.tree.leaves(found.reduced), [6.0], rtol=1e-15)
    system, y0, times, _ = simkit.odes.HarmonicOscillator.example()
    times = np.linspace(times[0], times[-1], 90)
    run = lambda **options: simkit.simulate(
        system, y0, times, step=simkit.Fixed(5), solver=simkit.solvers.VelocityVerlet(), **options
    )
    np.testing.assert_allclose(run(reduce={"mean": Mean()}).reduced["mean"].position, run().ys.position.mean(axis=0))


# ---- transformations ----


def variance(step, reduced):
    """The variance of hares as a function of a parameter and the save times, with and without a reducer."""
    reduce: Any = {"m": Moments(hare)} if reduced else None

    def found(growth, times):
        trajectory = simkit.simulate(LotkaVolterra(growth=growth), Y0, times, step=step, reduce=reduce)
        return trajectory.reduced["m"].variance if reduced else jnp.var(trajectory.ys.hare)

    return found


STEPS = pytest.mark.parametrize(
    ("step", "rtol"), [(simkit.Fixed(2), 1e-9), (simkit.Adaptive(1e-9, 1e-11), 1e-6)], ids=["fixed", "adaptive"]
)  # sums of some hundred terms of alternating sign; a thousand tolerances, since errors and derivatives grow over 8 years
SHORT = jnp.linspace(0.0, 8.0, 80)


@STEPS
@pytest.mark.slow
def test_gradients_are_those_of_the_saved_states(step, rtol):
    found, saved = variance(step, True), variance(step, False)
    several = jnp.linspace(0.4, 0.6, 3)
    a, b = (jax.jit(jax.vmap(jax.grad(f), (0, None)))(several, SHORT) for f in (found, saved))
    np.testing.assert_allclose(a, b, rtol=rtol)
    np.testing.assert_allclose(jax.jacfwd(found)(several[0], SHORT), a[0], rtol=rtol)


@pytest.mark.slow
@STEPS
def test_hessians_and_gradients_by_times_are_those_of_the_saved_states(step, rtol):
    found, saved = variance(step, True), variance(step, False)
    growth = jnp.asarray(0.5)
    a, b = (jax.jit(jax.hessian(f))(growth, SHORT) for f in (found, saved))
    np.testing.assert_allclose(a, b, rtol=rtol)
    a, b = (jax.jit(jax.grad(f, argnums=1))(growth, SHORT) for f in (found, saved))
    np.testing.assert_allclose(a, b, rtol=rtol, atol=10 * rtol * np.max(np.abs(b)))


@pytest.mark.slow
def test_members_are_simulations_on_one_device_and_on_two():
    growth = np.linspace(0.4, 0.6, 5)
    for step in (simkit.Fixed(2), None):
        run = functools.partial(simkit.ensemble, SYSTEM, Y0, TIMES, over={"growth": growth}, reduce=REDUCERS, step=step)
        one, two = (run(devices=jax.devices()[:count]) for count in (1, 2))
        assert one.reduced["histogram"].shape == (5, 20)
        assert one.times.shape == one.ys.hare.shape == (5, 2)
        assert tree_allclose(one.reduced, two.reduced, rtol=1e-9)  # rounding, which some twenty years let grow
        alone = simkit.simulate(LotkaVolterra(growth=growth[3]), Y0, TIMES, reduce=REDUCERS, step=step)
        assert alone.steps == one.steps[3]
        assert tree_allclose(jax.tree.map(lambda x: x[3], one.reduced), alone.reduced, rtol=1e-9)


@pytest.mark.parametrize("check", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_gradient_of_shards(check):
    mesh = jax.make_mesh((2,), ("members",), axis_types=(jax.sharding.AxisType.Auto,))

    def one(growth):
        return simkit.simulate(LotkaVolterra(growth=growth), Y0, TIMES, reduce={"m": Mean(hare)}).reduced["m"]

    spec = PartitionSpec("members")
    growth = jnp.linspace(0.4, 0.6, 4)
    spread = jax.shard_map(jax.vmap(jax.grad(one)), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check)
    np.testing.assert_allclose(jax.jit(spread)(growth), jax.jit(jax.vmap(jax.grad(one)))(growth), rtol=1e-9)


def test_single_precision_stays_single():
    system, y0 = simkit.cast((SYSTEM, Y0), jnp.float32)
    for step in (simkit.Fixed(3), None):
        found = simkit.simulate(system, y0, TIMES, reduce=REDUCERS, step=step)
        kinds = {leaf.dtype for leaf in jax.tree.leaves(found.reduced)}
        assert kinds == {np.dtype("float32"), np.dtype("int32")}
        exact = simkit.simulate(SYSTEM, Y0, TIMES, reduce=REDUCERS)
        np.testing.assert_allclose(found.reduced["mean"].hare, exact.reduced["mean"].hare, rtol=1e-3)  # tolerance 1e-4


# ---- failures ----


EXPLOSION = from_function(lambda t, y, p: p["rate"] * y**2, {"rate": 1.0})  # from 1 infinite at time 1 / rate


@pytest.mark.slow
@pytest.mark.parametrize("step", [simkit.Fixed(4), simkit.Adaptive(1e-6, 1e-9)], ids=["fixed", "adaptive"])
def test_a_failed_member_is_nan_and_leaves_the_others_alone(step):
    times = np.linspace(0.0, 2.0, 200)
    reduce = {"mean": Mean(), "count": Histogram(np.array([0.0, 2.0, 4.0]))}
    rate = jnp.array([0.3, 0.9, 0.4])
    found = simkit.ensemble(EXPLOSION, 1.0, times, over={"rate": rate}, step=step, reduce=reduce)
    np.testing.assert_array_equal(found.status != 0, [False, True, False])
    assert np.isnan(found.reduced["mean"][1])
    assert np.isnan(found.reduced["count"][1]).all()
    assert np.isnan(found.final()[1])
    exact = [np.mean(1 / (1 - r * times)) for r in (0.3, 0.4)]
    np.testing.assert_allclose(found.reduced["mean"][np.array([0, 2])], exact, rtol=1e-5)  # ten tolerances

    def variances(shift, rate):
        found = simkit.ensemble(EXPLOSION, 1.0 + shift, times, over={"rate": rate}, step=step, reduce={"m": Moments()})
        return jnp.where(found.status == 0, found.reduced["m"].variance, 0.0).sum()

    slopes = [jax.grad(variances)(jnp.zeros(()), rates) for rates in (rate, rate[np.array([0, 2])])]
    np.testing.assert_allclose(*slopes, rtol=1e-9)
    with pytest.raises(simkit.SimulationError, match=r"failed between the times 0 and 2"):
        simkit.simulate(dataclasses.replace(EXPLOSION), 1.0, times, step=step, reduce=reduce)


def test_the_step_limit_is_that_of_the_whole_solve():
    step = simkit.Adaptive(1e-6, 1e-9, max_steps=50)
    found = simkit.simulate(SYSTEM, Y0, TIMES, step=step, reduce={"mean": Mean()}, on_failure="mark")
    assert found.status == simkit.Status.STEP_LIMIT
    assert found.steps + found.rejected <= 2 * 50
    enough = simkit.simulate(SYSTEM, Y0, TIMES, step=simkit.Adaptive(1e-6, 1e-9, 100), reduce={"mean": Mean()})
    assert enough.status == simkit.Status.OK


# ---- memory ----


@pytest.mark.slow
@pytest.mark.parametrize("step", [simkit.Fixed(1), simkit.Adaptive(1e-3, 1e-6)], ids=["fixed", "adaptive"])
def test_memory_does_not_grow_with_the_number_of_save_times(step):
    field = from_function(lambda t, y, p: -p["k"] * y, {"k": 0.5})

    def needed(count, **options):
        def run(times):
            return simkit.simulate(field, jnp.ones(1000), times, step=step, solver=simkit.solvers.Tsit5(), **options)

        return jax.jit(run).lower(jnp.linspace(0.0, 1.0, count)).compile().memory_analysis() or pytest.skip(
            "no analysis here"
        )

    reduced = {count: needed(count, reduce={"mean": Mean()}) for count in (1_000, 100_000)}
    grown = reduced[100_000].temp_size_in_bytes - reduced[1_000].temp_size_in_bytes
    assert grown < 10 * 8 * 100_000  # copies of the times themselves; the trajectory is a hundred times that
    assert reduced[100_000].output_size_in_bytes < 10 * 8 * 1000
    assert needed(100_000).output_size_in_bytes > 8 * 1000 * 100_000


def test_the_record_of_reverse_mode_keeps_to_its_bound():
    def needed(count, memory):
        def loss(k, times):
            system = from_function(lambda t, y, p: -p["k"] * y, {"k": k})
            gradient = simkit.Checkpointed(memory)
            found = simkit.simulate(
                system, jnp.ones(1000), times, step=simkit.Fixed(1), gradient=gradient, reduce={"mean": Mean()}
            )
            return found.reduced["mean"].sum()

        program = jax.jit(jax.grad(loss)).lower(jnp.asarray(0.5), jnp.linspace(0.0, 1.0, count)).compile()
        analysis = program.memory_analysis() or pytest.skip("no analysis here")
        return analysis.temp_size_in_bytes

    # states at the starts of 1563 pieces take 12.5 MB, those of 40 segments of 40 pieces a twentieth of it
    assert needed(100_000, "1 GiB") - needed(100_000, "2 MiB") > 8e6


# ---- arguments ----


def test_what_is_no_reducer_is_named():
    for wrong in ({}, [Mean()], {"mean": 3.0}, {"mean": Mean}, {1: Mean()}):
        with pytest.raises(simkit.ArgumentError, match=r"`reduce` must"):
            inspect.unwrap(simkit.simulate)(SYSTEM, Y0, TIMES, reduce=wrong)  # as without checked types


def test_a_total_that_changes_its_form_is_named():
    class Growing(Reducer):
        def row(self, system, t, y):
            return y.hare

        def start(self, t, row):
            return jnp.zeros(1)

        def update(self, total, t, row):
            return jnp.concatenate([total, total])

        def finish(self, total):
            return total

    with pytest.raises(simkit.ArgumentError, match=r"reducer `growing` must return a total of the form.*shape=\(2,\)"):
        simkit.simulate(SYSTEM, Y0, TIMES, reduce={"growing": Growing()})
