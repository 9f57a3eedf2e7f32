"""BDF: its formulas, its accuracy and its steps beside other programs, and every transformation around it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from solvers.problems import ROBERTSON, Curved, Field, robertson, van_der_pol

import simkit
from simkit import Adaptive
from simkit.core import Setup
from simkit.engine import Method, integrate
from simkit.engine.task._task import Options
from simkit.reducers import Mean
from simkit.solvers import BDF, Rodas5P
from simkit.solvers._bdf import ALPHA, GAMMA, HISTORY, KAPPA, KEPT, MOST_ORDER, POWERS, ROWS, _rescaled

# ---- formulas ----


def differences(f, end, h, count=ROWS):
    """Backward differences of order 1 to 7 at a time, with steps of length h."""
    values = f(end - h * np.arange(count + 1))
    found = []
    for _ in range(count):
        values = values[:-1] - values[1:]
        found.append(values[0])
    return np.array(found)


@pytest.mark.parametrize("k", range(1, MOST_ORDER + 1))
def test_formulas_are_exact_for_polynomials(k):
    """A formula of order k, its change of the step, its new differences and its dense output, of a polynomial of degree k."""
    f = np.polynomial.Polynomial(np.arange(1.0, k + 2) ** 2)
    h, factor, t = 0.3, 0.7, 2.0
    rounding = 1e-11  # of differences of numbers up to 1e4
    before = differences(f, t, h)
    rescaled = np.asarray(_rescaled(jnp.asarray(factor), jnp.asarray(k), jnp.dtype("float64"))) @ before
    np.testing.assert_allclose(rescaled[:k], differences(f, t, factor * h)[:k], rtol=rounding, atol=rounding)
    before = differences(f, t, factor * h)
    change = f(t + factor * h) - f(t) - before[:k].sum()  # from what the differences predict: nothing at this degree
    assert abs(change) < 1e-9
    after = KEPT[k] @ before + change
    np.testing.assert_allclose(after[:k], differences(f, t + factor * h, factor * h)[:k], rtol=1e-9, atol=1e-9)
    slope = f.deriv()(t + factor * h)
    np.testing.assert_allclose(HISTORY[k] @ before, factor * h * slope / ALPHA[k], rtol=rounding)
    theta = np.linspace(0, 1, 5)
    increments = POWERS[:, :k] @ after[:k]
    dense = f(t) + sum(theta ** (j + 1) * q for j, q in enumerate(increments))
    np.testing.assert_allclose(dense, f(t + theta * factor * h), rtol=1e-10)


def test_coefficients_are_those_of_the_paper():
    """The angles of A(alpha)-stability of table 1 of Shampine and Reichelt (1997), from the locus of the formulas' roots."""
    published = {1: 90, 2: 90, 3: 80, 4: 66, 5: 51.8}
    z = np.exp(1j * np.linspace(1e-3, np.pi, 20_001))
    back = 1 - 1 / z  # the backward difference of z^n, over z^n
    for k, angle in published.items():
        predicted = back ** (k + 1)  # y - y^(0) is the difference of order k + 1
        locus = sum(back**m / m for m in range(1, k + 1)) - KAPPA[k] * GAMMA[k] * predicted
        outside = np.abs(locus) > 1e-6
        found = 180 - np.degrees(np.abs(np.angle(locus[outside]))).max()
        assert abs(found - angle) < 0.7  # the table has whole degrees


# ---- accuracy ----


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_the_error_follows_the_tolerance(dtype):
    times = jnp.asarray([0.0, 0.4, 1.0], dtype)
    tolerances = (1e-3, 1e-5, 1e-7, 1e-9) if dtype == jnp.float64 else (1e-2, 1e-3, 1e-4)
    system = simkit.cast(Curved(), dtype)
    errors = []
    for tolerance in tolerances:
        run = simkit.simulate(system, Curved.start(dtype), times, solver=BDF(), step=Adaptive(tolerance, tolerance))
        assert run.ys.a.dtype == dtype
        exact = Curved.exact(np.asarray(times, float))
        a, b = np.asarray(run.ys.a, float), np.asarray(run.ys.b, float)
        errors.append(max(np.abs(a / exact.a - 1).max(), np.abs(b - exact.b).max()))
    # Errors of steps add up along a solution that grows by e^5; each is at most its tolerance.
    assert all(error < 100 * tolerance for error, tolerance in zip(errors, tolerances, strict=True))
    slope = np.polyfit(np.log(tolerances), np.log(errors), 1)[0]
    assert 0.6 < slope < 1.2  # an estimate of the wrong order would make it a half or less


STIFF = [
    (robertson, ROBERTSON, (1.0, 0.0, 0.0), 1e4, (1.0, 1e-4, 1.0)),
    (van_der_pol, (1e3,), (2.0, 0.0), 2e3, (1.0, 1.0)),
]


@pytest.mark.parametrize(("rates", "parameters", "start", "end", "sizes"), STIFF, ids=["robertson", "van_der_pol"])
def test_stiff_problems_beside_scipy(rates, parameters, start, end, sizes):
    field = lambda t, y: np.array(rates(t, y, parameters))
    sizes = np.array(sizes)
    truth = solve_ivp(field, (0, end), start, method="Radau", rtol=1e-10, atol=1e-12 * sizes)
    system = Field(jnp.asarray(parameters), rates)
    for tolerance in (1e-4, 1e-7):
        atol = 1e-2 * tolerance * sizes
        peer = solve_ivp(field, (0, end), start, method="BDF", rtol=tolerance, atol=atol)
        run = simkit.simulate(
            system, jnp.asarray(start), jnp.asarray([0.0, end]), solver=BDF(), step=Adaptive(tolerance, atol)
        )
        scale = atol + tolerance * np.abs(truth.y[:, -1])
        error = lambda y, scale=scale: np.abs((y - truth.y[:, -1]) / scale).max()
        # After some hundred steps, each within its tolerance; SciPy has the same formulas and up to 30 here.
        assert error(np.asarray(run.final())) < max(3 * error(peer.y[:, -1]), 30)
        assert int(run.steps) < 1.5 * (len(peer.t) - 1)
        assert int(run.rejected) < 0.2 * int(run.steps)


def test_states_between_the_ends_of_steps():
    """x' = -k (x - cos t): Prothero and Robinson (1974)."""
    rate = 1e6
    system = simkit.from_function(lambda t, y, p: -p["rate"] * (y - jnp.cos(t)), {"rate": rate})
    times = np.concatenate([[0.0], np.linspace(1.0, 30.0, 59)])
    exact = (rate**2 * np.cos(times) + rate * np.sin(times)) / (rate**2 + 1)
    for tolerance in (1e-3, 1e-6):
        found = simkit.simulate(system, jnp.asarray(exact[0]), times, solver=BDF(), step=Adaptive(tolerance, tolerance))
        # Between its ends a step has the error of a polynomial of its order, a few times its tolerance.
        np.testing.assert_allclose(found.ys, exact, atol=20 * tolerance)


def test_a_grid_is_solved_by_its_structure_with_factors_that_serve_many_steps():
    """Heat on a line, from the slowest mode: its eigenvalue is known. Steps would be 1e4 of an explicit method."""
    n, end = 200, 0.5
    place = np.arange(1, n + 1) / (n + 1)
    heat = lambda t, y, p: p["k"] * (jnp.pad(y, (1, 0))[:-1] - 2 * y + jnp.pad(y, (0, 1))[1:]) * (n + 1) ** 2
    system = simkit.from_function(heat, {"k": 1.0})
    run = simkit.simulate(
        system, jnp.sin(np.pi * place), [0.0, end], solver=BDF(), step=Adaptive(1e-6, 1e-9), on_failure="mark"
    )
    slow = 4 * (n + 1) ** 2 * np.sin(0.5 * np.pi / (n + 1)) ** 2
    np.testing.assert_allclose(run.final(), np.sin(np.pi * place) * np.exp(-slow * end), rtol=2e-5)
    assert int(run.steps) < 150


# ---- derivatives ----

TIMES = (0.0, 1.0, 10.0, 40.0)


def states(k, tolerance=1e-8, **options):
    setup = Setup(Field(k, robertson), jnp.asarray([1.0, 0.0, 0.0], k.dtype))
    step = Adaptive(tolerance, 1e-4 * tolerance, max_steps=512)
    return integrate(setup, jnp.asarray(TIMES, k.dtype), Method(BDF(), step), **options).ys[1:]


@pytest.mark.slow
def test_tangents_agree_with_reverse_mode_and_differences():
    k = jnp.asarray(ROBERTSON)
    forward = np.asarray(jax.jit(jax.jacfwd(states))(k))
    reverse = np.asarray(jax.jit(jax.jacrev(states))(k))
    # Rows nearly cancel (mass is conserved): round-off against the largest entry of each column.
    scale = np.abs(forward).max((0, 1), keepdims=True)
    np.testing.assert_allclose(forward / scale, reverse / scale, atol=1e-11)
    run = jax.jit(states)
    numeric = np.stack(
        [(run(k.at[i].multiply(1.001)) - run(k.at[i].multiply(0.999))) / (0.002 * k[i]) for i in range(3)], -1
    )
    # (1e-3)^2 of curvature and 1e-8 of tolerance over 2e-3.
    np.testing.assert_allclose(numeric / scale, forward / scale, atol=1e-5)


@pytest.mark.slow
def test_gradients_in_little_memory_are_the_same():
    """512 steps at most, of which a record holds 8 rows: it is filled again from snapshots."""
    k = jnp.asarray(ROBERTSON)
    slope = lambda **options: jax.jit(jax.grad(lambda k: states(k, 1e-6, **options)[-1, 0]))(k)
    np.testing.assert_allclose(slope(options=Options(memory=40_000)), slope(), rtol=1e-11)  # sums in another order


@pytest.mark.slow
def test_second_derivatives():
    """y = 1 / (1 + k r t), and its second derivative by k is 2 r^2 / (1 + k r)^3."""
    rate = np.arange(1.0, 4)

    def end(k):
        setup = Setup(Field(k[None], lambda t, y, k: -k[0] * rate * y * y), jnp.ones(3))
        return (
            integrate(setup, jnp.asarray([0.0, 1.0]), Method(BDF(), Adaptive(1e-8, 1e-10, max_steps=512))).ys[-1].sum()
        )

    exact = np.sum(2 * rate**2 / (1 + 0.8 * rate) ** 3)
    for second in (jax.jacfwd(jax.grad(end)), jax.grad(jax.grad(end))):
        # Some hundred steps at 1e-8; a derivative of a solution amplifies their errors by less than 100.
        np.testing.assert_allclose(jax.jit(second)(jnp.asarray(0.8)), exact, rtol=1e-5)


@pytest.mark.slow
def test_an_ensemble_is_a_loop_in_values_and_gradients():
    factors = jnp.asarray([0.7, 1.0, 1.3])
    rates = lambda a: jnp.asarray(ROBERTSON) * jnp.stack([a, jnp.ones_like(a), jnp.ones_like(a)])
    value = lambda a: states(rates(a), 1e-6)[-1, 0]
    both = jax.value_and_grad(value)
    loop = [jax.jit(both)(a) for a in factors]
    batch = jax.jit(jax.vmap(both))(factors)
    for found, expected in zip(batch, zip(*loop, strict=True), strict=True):
        np.testing.assert_allclose(
            found, np.stack(expected), rtol=1e-9
        )  # another fusion: rounding of some hundred steps
    shared = jax.jit(jax.grad(lambda scale: jax.vmap(lambda a: value(scale * a))(factors).sum()))(jnp.asarray(1.0))
    np.testing.assert_allclose(shared, np.sum(np.stack([slope for _, slope in loop]) * factors), rtol=1e-9)


# ---- inputs, events, reducers ----


def dosed(t, y, p, inputs):
    return inputs["dose"] - p["k"] * y


def test_jumps_of_an_input_are_landed_on_and_started_from():
    system = simkit.from_function(dosed, {"k": 0.5})
    times = jnp.array([0.0, 0.3, 1.0, 3.0])
    step = Adaptive(1e-8, 1e-10, max_steps=1024)

    def exact(t, start):  # a constant inflow during the pulse, then decay
        rate = 2.0 / 0.21
        return rate / 0.5 * (1 - jnp.exp(-0.5 * 0.21)) * jnp.exp(-0.5 * (t - start - 0.21))

    def last(start, solver=BDF()):
        inputs = {"dose": simkit.Pulses(start[None], jnp.array([2.0]), jnp.array(0.21))}
        return simkit.simulate(system, 0.0, times, inputs=inputs, solver=solver, step=step)

    start = jnp.array(0.37)
    run = last(start)
    np.testing.assert_allclose(run.ys[2:], exact(times[2:], start), rtol=1e-6)  # a hundred steps, each at 1e-8
    assert run.ys[1] == 0
    assert int(run.rejected) < 10  # a restart is a step of order 1, as long as that allows
    value, slope = jax.value_and_grad(lambda start: last(start).ys[-1])(start)
    np.testing.assert_allclose(slope / value, 0.5, rtol=1e-5)  # y(3) is proportional to exp(0.5 start)


@pytest.mark.slow
def test_events_are_found_in_the_step_that_passes_them():
    """2 exp(-k t) passes c at log(2 / c) / k."""
    times = jnp.linspace(0.0, 10.0, 21)
    event = simkit.Event(lambda system, t, y, inputs: y - 0.3, ends=True)

    def passed(rate):
        system = simkit.from_function(lambda t, y, p: -p["k"] * y, {"k": rate})
        return simkit.simulate(
            system, 2.0, times, events=event, solver=BDF(), step=Adaptive(1e-8, 1e-10, max_steps=512)
        )

    rate = jnp.asarray(0.8)
    exact = np.log(2 / 0.3) / 0.8
    found = passed(rate)
    np.testing.assert_allclose(found.event_time, exact, rtol=1e-6)  # a hundred steps, each at 1e-8
    np.testing.assert_allclose(found.event_state, 0.3, rtol=1e-8)
    before = times < exact
    np.testing.assert_allclose(found.ys[before], 2 * np.exp(-0.8 * times[before]), rtol=1e-6)
    assert np.isnan(found.ys[~before]).all()
    slope = jax.grad(lambda rate: passed(rate).event_time)(rate)
    np.testing.assert_allclose(slope, -exact / 0.8, rtol=1e-5)
    batch = jax.vmap(lambda rate: passed(rate).event_time)(jnp.asarray([0.5, 0.8, 0.1]))
    np.testing.assert_allclose(batch, [np.log(2 / 0.3) / 0.5, exact, np.inf], rtol=1e-6)


def test_reduced_rows_are_the_saved_ones():
    system = simkit.from_function(lambda t, y, p: -p["k"] * y, {"k": 0.5})
    times = jnp.linspace(0.0, 10.0, 101)  # two pieces
    run = lambda **options: simkit.simulate(system, 2.0, times, solver=BDF(), step=Adaptive(1e-8, 1e-10), **options)
    # A piece starts anew: other steps of the same tolerance.
    np.testing.assert_allclose(run(reduce={"mean": Mean()}).reduced["mean"], run().ys.mean(), rtol=1e-6)


# ---- failures ----


def test_fixed_steps_are_refused():
    system, y0, times, _ = simkit.odes.Robertson.example()
    with pytest.raises(simkit.ArgumentError, match=r"must be `Adaptive\(\)`, but it is Fixed"):
        simkit.simulate(system, y0, times, solver="bdf", step=simkit.Fixed(3))


def test_a_solution_that_runs_away_fails_with_a_status():
    growing = simkit.from_function(lambda t, y, p: p["rate"] * y**2, {"rate": 1.0})  # infinite at time 1
    run = simkit.simulate(growing, 1.0, [0.0, 0.5, 2.0], solver=BDF(), step=Adaptive(1e-6, 1e-8), on_failure="mark")
    assert run.status != simkit.Status.OK
    np.testing.assert_allclose(run.ys[1], 2.0, rtol=1e-4)  # 1 / (1 - t); errors grow as its square
    assert np.isnan(run.ys[2])


def test_rodas5p_and_bdf_agree_in_an_ensemble_of_many_members():
    """More members than lanes, each with its own number of steps."""
    system = simkit.from_function(lambda t, y, p: jnp.stack([-p["k"] * (y[0] - jnp.cos(t)), y[0] - y[1]]), {"k": 1.0})
    over = {"k": jnp.logspace(0, 5, 7)}
    run = lambda solver, tolerance: (
        simkit.ensemble(
            system,
            jnp.zeros(2),
            [0.0, 1.0, 5.0],
            over=over,
            solver=solver,
            step=Adaptive(tolerance, tolerance),
            lanes=2,
        ).ys
    )
    np.testing.assert_allclose(run(BDF(), 1e-7), run(Rodas5P(), 1e-10), atol=1e-5)  # a hundred steps


@pytest.mark.slow
def test_members_over_two_devices_are_those_of_one():
    """Values and gradients inside `shard_map`, with and without its check of what varies over the mesh."""
    rates = lambda t, y, k: [-k[0] * (y[0] - jnp.cos(t)), y[0] - y[1]]

    def end(k):
        setup = Setup(Field(k[None], rates), jnp.zeros(2))
        return integrate(setup, jnp.asarray([0.0, 1.0, 5.0]), Method(BDF(), Adaptive(1e-6, 1e-8, max_steps=256))).ys[
            -1, 1
        ]

    many, both = jnp.logspace(0, 4, 4), jax.vmap(jax.value_and_grad(end))
    mesh = jax.make_mesh((2,), ("lane",), axis_types=(jax.sharding.AxisType.Auto,))
    expected = jax.jit(both)(many)
    for checked in (True, False):
        spread = jax.shard_map(both, mesh=mesh, in_specs=jax.P("lane"), out_specs=jax.P("lane"), check_vma=checked)
        for found, value in zip(jax.jit(spread)(many), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-9)  # another fusion: rounding of some hundred steps


def test_complex_states_are_refused():
    system, y0, _, _ = simkit.fluids.FisherKPP.example()
    with pytest.raises(simkit.ArgumentError, match=r"`BDF` steps real states, and those of `FisherKPP` are complex"):
        simkit.simulate(system, y0, [0.0, 0.1], solver="bdf")
