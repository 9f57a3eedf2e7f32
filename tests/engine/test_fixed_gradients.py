"""Reverse mode through fixed steps: right in every scheme of checkpoints, and within the memory it was given."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from simkit import ArgumentError, Fixed, simulate
from simkit.core import SystemTerm
from simkit.engine import fixed_grid
from simkit.engine.stepping._checkpointed import Checkpointed, choose_segments, parse_memory, segment_schemes
from simkit.engine.stepping._fixed_grid import checkpointed_scan
from simkit.odes import LotkaVolterra, Pendulum, from_function
from simkit.solvers import Tsit5, VelocityVerlet

SUBSTEPS = 150
TIMES = (0.0, 1.0, 2.5, 4.0)
# Bounds in bytes, for the 450 steps of two float64 states below: all steps kept, one level of segments, two levels.
BOUNDS = {None: 0, 2200: 1, 1450: 2}


def states(factor, memory=None, solver=None, substeps=SUBSTEPS):
    if isinstance(solver, VelocityVerlet):
        system, y0, _, _ = Pendulum.example()
    else:
        system, y0, _, _ = LotkaVolterra.example()
        system = LotkaVolterra(growth=0.55 * factor)
    y0 = jax.tree.map(lambda x: x * factor, y0)
    ys = fixed_grid(SystemTerm(system, None), solver or Tsit5(), y0, jnp.asarray(TIMES), substeps, memory=memory)
    return jnp.stack(jax.tree.leaves(ys))


def loss(factor, memory=None, solver=None):
    return jnp.sum(states(factor, memory, solver) ** 2)


@pytest.mark.parametrize(("memory", "levels"), BOUNDS.items())
def test_the_bounds_of_these_tests_select_each_scheme(memory, levels):
    assert len(choose_segments(len(TIMES) - 1, SUBSTEPS, 16, 16, memory)) == levels


@pytest.mark.parametrize("memory", BOUNDS)
@pytest.mark.parametrize("solver", [Tsit5(), VelocityVerlet()], ids=lambda solver: type(solver).__name__)
def test_reverse_mode_equals_forward_mode(solver, memory):
    one = jnp.asarray(1.0)
    # The same linear map, applied from the other end: rounding of some hundred steps.
    reverse = jax.jit(jax.grad(lambda x: loss(x, memory, solver)))(one)
    forward = jax.jit(jax.jacfwd(lambda x: loss(x, memory, solver)))(one)
    np.testing.assert_allclose(reverse, forward, rtol=1e-11)


def test_a_component_that_is_not_used_has_no_cotangent():
    _, y0, _, _ = LotkaVolterra.example()

    def hare(growth, direct):
        own = LotkaVolterra(growth=growth)
        if direct:
            ys = fixed_grid(SystemTerm(own, None), Tsit5(), y0, jnp.asarray(TIMES), 5)
        else:
            ys = simulate(own, y0, jnp.asarray(TIMES), solver=Tsit5(), step=Fixed(5)).ys
        return ys.hare.sum()

    for direct in (True, False):
        one = lambda growth, direct=direct: hare(growth, direct)
        np.testing.assert_allclose(jax.jit(jax.grad(one))(0.5), jax.jit(jax.jacfwd(one))(0.5), rtol=1e-12)


def test_reverse_mode_equals_differences():
    slopes = [(loss(1 + h) - loss(1 - h)) / (2 * h) for h in (1e-3, 5e-4)]
    extrapolated = (
        4 * slopes[1] - slopes[0]
    ) / 3  # its error is some h^4 = 1e-13 and the rounding of the loss, 1e-16 / h
    np.testing.assert_allclose(jax.grad(loss)(jnp.asarray(1.0)), extrapolated, rtol=1e-8)


@pytest.mark.parametrize("memory", BOUNDS)
def test_states_and_second_derivatives_are_the_same_in_every_scheme(memory):
    one = jnp.asarray(1.0)
    np.testing.assert_array_equal(states(one, memory), states(one))
    bounded = lambda x: loss(x, memory)
    # Forward over forward needs no checkpoints at all. Rounding as above, larger for the second derivative.
    expected = jax.jit(jax.jacfwd(jax.jacfwd(loss)))(one)
    mixed = jax.grad(jax.grad(bounded)) if memory else jax.hessian(bounded)
    np.testing.assert_allclose(jax.jit(mixed)(one), expected, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, 1450])
def test_batches_and_shards(memory):
    members = jnp.array([0.9, 1.0, 1.1, 1.2])
    slope = jax.grad(lambda x: loss(x, memory))
    expected = jax.jit(jax.vmap(jax.jacfwd(loss)))(members)
    close = lambda found: np.testing.assert_allclose(found, expected, rtol=1e-10)  # rounding, as above
    close(jax.jit(jax.vmap(slope))(members))
    mesh = jax.make_mesh((2,), ("m",), axis_types=(AxisType.Auto,))
    part = PartitionSpec("m")
    for check in (True, False):
        shard = lambda f, check=check: jax.shard_map(
            jax.vmap(f), mesh=mesh, in_specs=part, out_specs=part, check_vma=check
        )
        close(jax.jit(shard(slope))(members))
        close(jax.jit(jax.grad(lambda xs, shard=shard: shard(lambda x: loss(x, memory))(xs).sum()))(members))


@pytest.mark.slow
def test_memory_stays_below_the_bound_and_falls_with_it():
    cells, substeps = 2000, 600
    y0 = jnp.sin(jnp.arange(cells) / 100)

    def heat(rate):
        """Diffusion on a periodic line of cells."""
        return SystemTerm(
            from_function(lambda t, y, p: p["rate"] * (jnp.roll(y, 1) - 2 * y + jnp.roll(y, -1)), {"rate": rate}), None
        )

    def squares(rate, memory):
        times = jnp.asarray([0.0, 1.0, 2.0])
        return jnp.sum(fixed_grid(heat(rate), Tsit5(), y0, times, substeps, memory=memory) ** 2)

    state = y0.nbytes
    schemes = segment_schemes(2, substeps)
    used = []
    for bound in (1900 * state, 150 * state, 85 * state):
        gradient = jax.jit(jax.grad(lambda rate, bound=bound: squares(rate, bound)))
        used.append(gradient.lower(jnp.asarray(0.1)).compile().memory_analysis().temp_size_in_bytes)
        assert used[-1] <= bound
        assert len(choose_segments(2, substeps, state, state, bound)) == len(used) - 1
    assert used == sorted(used, reverse=True)
    assert used[0] > schemes[()] * state  # so the bounds above do select something
    with pytest.raises(
        ArgumentError, match=r"must be at least .* [KM]iB a member for the gradient of 1200 fixed steps"
    ):
        squares(jnp.asarray(0.1), 20 * state)


@pytest.mark.parametrize("length", [1, 2, 3, 16, 17, 100, 101])
@pytest.mark.parametrize("counts", [(), (1,), (3,), (7,), (2, 3), (200,)])
def test_segments_of_any_number_make_every_step_once_and_in_order(length, counts):
    digits = lambda carry, i: (carry[0] + 1, carry[1] * 1.25 + i)
    found = checkpointed_scan(digits, (jnp.asarray(0), jnp.asarray(0.5)), length, jnp.float64, counts)
    expected = 0.5
    for i in range(length):
        expected = expected * 1.25 + i
    assert found[0] == length
    np.testing.assert_allclose(found[1], expected, rtol=1e-14)  # the same sums, perhaps contracted


@pytest.mark.parametrize(("windows", "substeps"), [(1, 10_000), (1, 1), (100, 100), (100, 5), (10_000, 1), (3, 7)])
def test_schemes_trade_memory_for_steps(windows, substeps):
    schemes = segment_schemes(windows, substeps)
    assert schemes[()] == (windows + (windows > 1)) * substeps
    assert all(held >= windows for held in schemes.values())
    if (windows, substeps) == (1, 10_000):
        assert list(schemes.items()) == [((), 10_000), ((100,), 200), ((22, 21), 65)]
    if (windows, substeps) == (100, 100):
        assert schemes[(1,)] == 201


def test_the_default_keeps_all_steps_only_where_that_is_little():
    assert choose_segments(1, 500, 16, 16, None) == ()
    assert choose_segments(1, 10_000, 16, 16, None) == (100,)
    assert choose_segments(1, 10_000, 16, 16, 2**30) == ()  # who has the memory says so
    assert choose_segments(1, 50, 800_000, 800_000, None) == ()  # segments would take more than half
    assert choose_segments(1, 10_000, 800_000, 800_000, None) == (100,)
    assert choose_segments(10_000, 1, 16, 16, None) == ()  # the results themselves are as large
    assert (
        len(choose_segments(1, 10_000, 10**9, 10**9, None)) == 2
    )  # beyond the default bound, but nobody asked for one


@pytest.mark.slow
def test_the_default_takes_no_more_memory_than_recursive_checkpoints():
    """A tenth more than Diffrax at most, for two numbers and for a field, over 10,000 steps of the same method."""
    field = lambda t, y, p: p * (jnp.roll(y, 1) - 2 * y + jnp.roll(y, -1))

    def ours(p, y):
        system = from_function(lambda t, y, p: field(t, y, p["p"]), {"p": p})
        return jnp.sum(simulate(system, y, jnp.array([0.0, 1.0]), solver=Tsit5(), step=Fixed(10_000)).final() ** 2)

    def theirs(p, y):
        term = diffrax.ODETerm(field)
        found = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 1e-4, y, args=p, max_steps=10_000)
        return jnp.sum(found.ys[-1] ** 2)

    for size in (2, 2000):
        y = jnp.cos(jnp.arange(size) / 100)
        compiled = [jax.jit(jax.grad(loss)).lower(jnp.asarray(0.1), y).compile() for loss in (ours, theirs)]
        used = [program.memory_analysis().temp_size_in_bytes for program in compiled]
        assert 0 < used[0] < 1.1 * used[1]


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [("2 GiB", 2 * 2**30), ("500 MB", 500_000_000), ("1.5KiB", 1536), ("7 B", 7), (" .5 kB ", 500), (4096, 4096)],
)
def test_amounts_of_memory(given, bytes_):
    assert Checkpointed(memory=given).memory == bytes_
    assert hash(Checkpointed(memory=given)) == hash(Checkpointed(memory=bytes_))


@pytest.mark.parametrize("given", ["2 gigs", "GiB", "-1 GiB", "", "0 MB", 0, -5, True])
def test_amounts_that_are_none(given):
    with pytest.raises(ArgumentError, match="Argument `memory` must be"):
        Checkpointed(memory=given)


@pytest.mark.parametrize("given", [1.5, None])
def test_amounts_of_another_type(given):
    with pytest.raises(ArgumentError, match="whole number of bytes or text"):
        parse_memory(given)  # the checks of types that the tests switch on would stop the class itself
