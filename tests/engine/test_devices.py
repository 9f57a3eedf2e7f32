"""Ensembles over devices: the numbers do not depend on how many there are, nor in which process they are."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import in_processes, tree_allclose

import simkit
from simkit.odes import GeometricBrownianMotion, LotkaVolterra, from_function, from_response

pytestmark = pytest.mark.slow  # each compiles for one device and for two

TWO = tuple(jax.devices()[:2])
SYSTEM, Y0, _, _ = LotkaVolterra.example()
TIMES = np.linspace(0.0, 4.0, 6)
EXPLOSION = from_function(lambda t, y, p: p["rate"] * y**2, {"rate": 1.0})  # from 1 infinite at time 1 / rate


def growths(members, dtype=float):
    return np.linspace(0.3, 0.9, members, dtype=dtype)


def predators(members, system=SYSTEM, y0=Y0, times=TIMES, **options):
    values = growths(members, y0.hare.dtype)
    return simkit.ensemble(system, y0, times, over={"growth": values}, **options)


def same(found, expected, rtol=1e-12):
    """Every array; devices may compile to another order of operations, so up to rounding, and step counts exactly."""
    assert found.solver == expected.solver
    for name in ("status", "steps", "rejected", "evaluations"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    return tree_allclose((found.times, found.ys, found.over), (expected.times, expected.ys, expected.over), rtol=rtol)


def test_two_devices_are_there():
    assert len(TWO) == 2


@pytest.mark.parametrize("members", [1, 2, 5])
def test_members_need_not_be_a_multiple_of_the_devices(members):
    one = predators(members, devices=TWO[:1])
    two = predators(members, devices=TWO)
    assert two.status.shape == (members,)
    assert two.ys.hare.shape == (members, len(TIMES))
    assert same(two, one)


def test_members_of_an_ensemble_are_simulations_in_their_order():
    found = predators(5, devices=TWO)
    for member, growth in enumerate(growths(5)):
        alone = simkit.simulate(LotkaVolterra(growth=growth), Y0, TIMES)
        assert alone.steps == found.steps[member]
        # steps of the same length, of which the last digits depend on how a compiler orders the sums
        np.testing.assert_allclose(found.ys.hare[member], alone.ys.hare, rtol=1e-10)


def test_all_devices_are_taken_unless_some_are_given():
    assert predators(5).ys.hare.sharding.device_set == set(jax.devices())
    assert predators(5, devices=TWO).ys.hare.sharding.device_set == set(TWO)
    assert predators(5, devices=[TWO[1]]).ys.hare.sharding.device_set == {TWO[1]}


def test_arguments_may_stand_on_another_device():
    elsewhere = jax.device_put(growths(5), TWO[1])
    found = simkit.ensemble(SYSTEM, Y0, TIMES, over={"growth": elsewhere}, devices=TWO[:1])
    assert same(found, predators(5, devices=TWO[:1]))


def test_more_lanes_and_fewer_change_no_number():
    assert same(predators(5, devices=TWO, lanes=1), predators(5, devices=TWO, lanes=3))


def test_inside_jit_the_devices_given_are_taken():
    def last(values, devices):
        return simkit.ensemble(SYSTEM, Y0, TIMES, over={"growth": values}, devices=devices).final().hare

    compiled = jax.jit(last, static_argnums=1)
    spread, alone = compiled(growths(5), TWO), compiled(growths(5), None)
    assert spread.sharding.device_set == set(TWO)
    assert len(alone.sharding.device_set) == 1  # inside a transformation the caller is in charge
    np.testing.assert_allclose(spread, alone, rtol=1e-12)


@pytest.mark.parametrize("step", [None, simkit.Fixed(8)], ids=["adaptive", "fixed"])
def test_gradients_do_not_depend_on_the_number_of_devices(step):
    def loss(arguments, devices):
        system, values = arguments
        found = simkit.ensemble(system, Y0, TIMES, over={"growth": values}, devices=devices, step=step)
        return jnp.sum((found.ys.hare - found.ys.lynx) ** 2)

    arguments = (SYSTEM, jnp.asarray(growths(5)))
    one, two = (jax.grad(loss)(arguments, devices) for devices in (TWO[:1], TWO))
    # a sum over members may be taken in another order; `growth` itself is replaced in every member
    assert tree_allclose(two, one, rtol=1e-12, atol=1e-12 * float(jnp.abs(one[1]).max()))
    assert float(jnp.abs(one[1]).min()) > 0
    assert float(jnp.abs(one[0].predation)) > 0
    assert float(one[0].growth) == 0


def test_the_gradient_over_two_devices_is_a_slope():
    def loss(values):
        return jnp.sum(
            simkit.ensemble(SYSTEM, Y0, TIMES, over={"growth": values}, devices=TWO, step=simkit.Adaptive(1e-10, 1e-12))
            .final()
            .lynx
            ** 2
        )

    values = jnp.asarray(growths(3))
    slope, size = jax.grad(loss)(values), 1e-5
    for member in range(3):
        ends = [loss(values.at[member].add(sign * size)) for sign in (1, -1)]
        # a central difference: its own error is of order size^2, that of the solves 1e-10 / size
        np.testing.assert_allclose(slope[member], (ends[0] - ends[1]) / (2 * size), rtol=1e-5)


def test_members_that_fail_on_one_device_leave_those_on_the_other_alone():
    # Members are dealt out in turns, so that the first device has only sound members and the second only explosions.
    rates = np.array([0.2, 2.0, 0.25, 3.0, 0.3, 4.0, 0.35])
    times = np.linspace(0.0, 1.0, 5)
    found = simkit.ensemble(EXPLOSION, 1.0, times, over={"rate": rates}, devices=TWO)
    sound = simkit.ensemble(EXPLOSION, 1.0, times, over={"rate": rates[::2]}, devices=TWO[:1])
    np.testing.assert_array_equal(np.flatnonzero(found.status), [1, 3, 5])
    np.testing.assert_array_equal(found.steps[::2], sound.steps)
    np.testing.assert_allclose(found.ys[::2], sound.ys, rtol=1e-12)
    # dy/dt = r y^2; the default tolerances are 1e-6, and the state grows by a half at most
    np.testing.assert_allclose(found.ys[::2], 1 / (1 - rates[::2, None] * times), rtol=1e-5)
    assert np.isnan(found.ys[1::2, -1]).all()
    assert len(found.failures()) == 3


@pytest.mark.parametrize("devices", [TWO[:1], TWO], ids=["one device", "two devices"])
def test_members_that_fail_leave_the_gradient_of_what_all_share_alone(devices):
    def loss(inflow, rates):
        explosion = from_function(lambda t, y, p: p["rate"] * y**2 + p["inflow"], {"rate": 1.0, "inflow": inflow})
        found = simkit.ensemble(explosion, 1.0, [0.0, 1.0], over={"rate": rates}, devices=devices)
        return jnp.where(found.status == 0, found.final(), 0.0).sum()

    rates = jnp.array([0.2, 2.0, 0.25, 3.0, 0.3])
    shared, each = jax.grad(loss, argnums=(0, 1))(jnp.array(0.1), rates)
    expected, sound = jax.grad(loss, argnums=(0, 1))(jnp.array(0.1), rates[::2])
    np.testing.assert_allclose(shared, expected, rtol=1e-12)
    np.testing.assert_allclose(each[::2], sound, rtol=1e-12)
    np.testing.assert_array_equal(each[1::2], 0)


@pytest.mark.parametrize("members", [3, 300])
def test_fixed_steps_take_turns_of_many_lanes(members):
    one = predators(members, devices=TWO[:1], step=simkit.Fixed(2), lanes=64)
    two = predators(members, devices=TWO, step=simkit.Fixed(2), lanes=64)
    assert same(two, one)
    assert (np.asarray(two.steps) == 2 * (len(TIMES) - 1)).all()


@pytest.mark.parametrize("several", [False, True], ids=["one key", "a key each"])
def test_paths_depend_on_the_keys_and_not_on_the_devices(several):
    system, y0, _, _ = GeometricBrownianMotion.example()
    key = jax.random.split(jax.random.key(3), 5) if several else jax.random.key(3)
    draw = lambda devices: simkit.ensemble(
        system, y0, TIMES, over={"volatility": np.full(5, 0.3)}, key=key, devices=devices, step=simkit.Fixed(4)
    )
    one, two = draw(TWO[:1]), draw(TWO)
    assert same(two, one)
    assert len(np.unique(np.asarray(two.ys.x[:, -1]))) == 5  # every member draws its own noise


def test_a_raw_key_is_a_key():
    system, y0, _, _ = GeometricBrownianMotion.example()
    draw = lambda key: simkit.ensemble(
        system, y0, TIMES, over={"volatility": np.full(3, 0.3)}, key=key, devices=TWO, step=simkit.Fixed(4)
    )
    key = jax.random.key(3)
    assert same(draw(jax.random.key_data(key)), draw(key))


def test_a_static_system_needs_no_solver():
    line = from_response(lambda x, params: params["slope"] * x, {"slope": 1.0})
    slopes = np.array([1.0, 2.0, 3.0])
    found = simkit.ensemble(line, {}, TIMES, over={"slope": slopes}, devices=TWO)
    assert found.times.shape == (3, len(TIMES))
    assert found.failures() == []


def test_single_precision_stays_single():
    single = lambda tree: jax.tree.map(lambda leaf: leaf.astype("float32"), tree)
    run = lambda devices: predators(5, single(SYSTEM), single(Y0), TIMES.astype("float32"), devices=devices)
    one, two = run(TWO[:1]), run(TWO)
    assert two.ys.hare.dtype == two.times.dtype == np.float32
    np.testing.assert_array_equal(two.status, 0)
    # seven digits, of which rounding takes one in some thirty steps
    assert tree_allclose(two.ys, one.ys, rtol=1e-5)


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_get_the_whole_result(tmp_path, count):
    """Five members: on four devices three have a place for one that is not there."""
    results = in_processes(pathlib.Path(__file__).with_name("one_process.py"), tmp_path, count)
    rates = np.linspace(0.3, 0.9, 5)
    expected = simkit.ensemble(SYSTEM, Y0, TIMES, over={"growth": rates}, devices=TWO[:1])
    slope = jax.grad(
        lambda values: jnp.sum(simkit.ensemble(SYSTEM, Y0, TIMES, over={"growth": values}).final().hare ** 2)
    )
    for result in results:
        with np.load(result) as found:
            assert found["devices"] == count
            np.testing.assert_array_equal(found["steps"], expected.steps)
            # the same program on another number of devices: up to the order of sums
            np.testing.assert_allclose(found["hare"], expected.ys.hare, rtol=1e-12)
            np.testing.assert_allclose(found["slope"], slope(jnp.asarray(rates)), rtol=1e-11)
            assert list(found["failures"]) == ["member 1 (rate 2.0): " + simkit.Status.STEP_TOO_SMALL.message]


@pytest.mark.slow
def test_each_of_two_processes_fits_and_samples(tmp_path):
    """It ended in JAX's words: "spans non-addressable devices"."""
    one, two = (np.load(result) for result in in_processes(pathlib.Path(__file__).with_name("one_fit.py"), tmp_path))
    for name in ("estimate", "lower", "draws", "curves"):
        np.testing.assert_array_equal(one[name], two[name])  # the same program on the same numbers
    np.testing.assert_allclose(one["estimate"], 2.0, atol=0.2)  # data with a scatter of 0.1
