"""Assimilation against Kalman's filter and smoother in closed form, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.assimilation import ETKF, LETKF, EnKF, FourDVar, Hybrid, Localisation, Observations, members_around

TIMES = np.array([0.3, 0.6, 0.9, 1.2])
MATRIX = np.array([[-0.3, 1.0, 0.2], [-1.0, -0.1, 0.0], [0.1, 0.3, -0.5]])
LINEAR = simkit.from_function(lambda t, y, p: {"x": p["a"] @ y["x"]}, {"a": jnp.asarray(MATRIX)})
BEFORE = np.array([[1.0, 0.2, 0.1], [0.2, 0.8, -0.1], [0.1, -0.1, 0.6]])
MEAN = np.array([1.0, -0.5, 0.3])
NOISE = np.array([[0.3, 0.1], [0.1, 0.2]])
SEEN = np.array([[0.4, 0.1], [np.nan, -0.3], [0.2, np.nan], [-0.6, 0.5]])
EXACT = jax.scipy.linalg.expm(jnp.asarray(0.3 * MATRIX))


def observed(matrix=NOISE, **more):
    return Observations(TIMES, SEEN, covariance=matrix, operator=lambda y: y["x"][:2], start=0.0, **more)


def kalman(errors=NOISE, mean=MEAN, rows=SEEN):
    """Means and covariances by the textbook, missing observations left out."""
    step, spread, found = np.asarray(EXACT), BEFORE, []
    for row in rows:
        mean, spread = step @ mean, step @ spread @ step.T
        there = np.flatnonzero(np.isfinite(row))
        h = np.eye(3)[there]
        gain = spread @ h.T @ np.linalg.inv(h @ spread @ h.T + errors[np.ix_(there, there)])
        mean, spread = mean + gain @ (row[there] - h @ mean), spread - gain @ h @ spread
        found.append((mean, spread))
    return [np.array(each) for each in zip(*found, strict=True)]


def exact_members(count=8):
    """An ensemble whose mean and sample covariance are those of the background."""
    drawn = np.random.default_rng(0).normal(size=(count, 3))
    drawn = drawn - drawn.mean(axis=0)
    whitened = drawn @ np.linalg.inv(np.linalg.cholesky(drawn.T @ drawn / (count - 1)).T)
    return {"x": jnp.asarray(MEAN + whitened @ np.linalg.cholesky(BEFORE).T)}


def run(method, start=None, observations=None, **more):
    given = exact_members() if start is None else start
    return simkit.assimilate(LINEAR, given, observations or observed(), method=method, step=0.01, solver="rk4", **more)


@pytest.mark.parametrize("rotation", [False, True])
def test_the_transform_filter_is_kalmans(rotation):
    """To 1e-9: steps of 0.01 of a method of order 4 leave 1e-10."""
    mean, spread = kalman()
    found = run(ETKF(rotation=rotation), key=jax.random.key(0), keep_members=True)
    np.testing.assert_allclose(found.mean["x"], mean, atol=1e-9)
    apart = np.asarray(found.members["x"]) - np.asarray(found.mean["x"])[:, None]
    np.testing.assert_allclose(np.einsum("tmi,tmj->tij", apart, apart) / 7, spread, atol=1e-9)
    np.testing.assert_array_equal(found.observed, [2, 1, 1, 2])


def test_a_local_filter_that_sees_all_is_the_global_one():
    errors = np.diag([0.3, 0.2])
    everywhere = Localisation(1e3, places=np.arange(3.0), observed=np.arange(2.0), taper="step")
    given = Observations(TIMES, SEEN, errors=np.sqrt([0.3, 0.2]), operator=lambda y: y["x"][:2], start=0.0)
    found = run(LETKF(everywhere), observations=given)
    mean, spread = kalman(errors)
    np.testing.assert_allclose(found.mean["x"], mean, atol=1e-9)
    np.testing.assert_allclose(found.deviation["x"], np.sqrt(np.diagonal(spread, axis1=1, axis2=2)), atol=1e-9)


def test_perturbed_observations_tend_to_kalmans():
    """The error of the mean is below five standard errors, of members drawn and of observations perturbed."""
    mean, spread = kalman()
    members = members_around({"x": jnp.asarray(MEAN)}, 400, key=jax.random.key(1), covariance=BEFORE)
    found = run(EnKF(), start=members, key=jax.random.key(2))
    allowed = 5 * 2 * np.sqrt(np.diagonal(spread, axis1=1, axis2=2) / 400)
    assert (np.abs(found.mean["x"] - mean) < allowed).all()


def test_four_dimensional_variation_ends_windows_as_kalmans_filter():
    """The second window begins at the end of the first, with the same covariance as that."""
    mean, spread = kalman(rows=SEEN[:2])
    found = run(FourDVar(BEFORE, window=2, iterations=1), start={"x": jnp.asarray(MEAN)})
    np.testing.assert_allclose(found.mean["x"][1], mean[-1], atol=1e-8)
    np.testing.assert_allclose(found.deviation["x"][1], np.sqrt(np.diag(spread[-1])), atol=1e-8)
    mean, _ = kalman(mean=mean[-1], rows=SEEN[2:])
    np.testing.assert_allclose(found.mean["x"][3], mean[-1], atol=1e-8)
    np.testing.assert_allclose(found.last["x"], mean[-1], atol=1e-8)


def test_a_hybrid_is_its_parts_by_hand():
    """Windows of one time: the gain by a weighted covariance, whose ensemble is corrected by Kalman's filter beside it."""
    places = Localisation(1.5, places=np.arange(3.0))
    method = lambda share: Hybrid(FourDVar(BEFORE, iterations=1), ETKF(), share=share, localisation=places)
    step, spread, mean, expected = np.asarray(EXACT), BEFORE, MEAN, []
    taper = np.asarray(places.matrix)
    assert taper[0, 2] < taper[0, 1] < 1
    for row in SEEN:
        there = np.flatnonzero(np.isfinite(row))
        h, error = np.eye(3)[there], NOISE[np.ix_(there, there)]
        mixed = step @ (0.4 * BEFORE + 0.6 * taper * spread) @ step.T
        mean = step @ mean
        mean = mean + mixed @ h.T @ np.linalg.inv(h @ mixed @ h.T + error) @ (row[there] - h @ mean)
        spread = step @ spread @ step.T
        spread = spread - spread @ h.T @ np.linalg.inv(h @ spread @ h.T + error) @ h @ spread
        expected.append(mean)
    found = run(method(0.6))
    np.testing.assert_allclose(found.mean["x"], expected, atol=1e-8)
    np.testing.assert_allclose(found.last["x"], expected[-1], atol=1e-8)
    assert "with 8 members by ETKF" in str(found)
    alone = run(FourDVar(BEFORE, iterations=1), start={"x": jnp.asarray(MEAN)})
    np.testing.assert_allclose(run(method(0.0)).mean["x"], alone.mean["x"], atol=1e-12)


@pytest.mark.slow
def test_a_hybrid_follows_where_few_members_alone_do_not():
    """Lorenz-96, every second place: ten local members lose the truth, their hybrid with a climate does not."""
    system, y0, _, _ = simkit.odes.Lorenz96.example()
    solve = lambda y, times: simkit.simulate(system, y, times, step=0.05, solver="rk4").ys.x
    begin = solve(y0, [0.0, 20.0])[-1]
    climate = np.cov(np.asarray(solve(type(y0)(begin), np.linspace(0.0, 200.0, 1001))).T)
    times = 0.2 * np.arange(1, 151)
    truth = solve(type(y0)(begin), np.r_[0.0, times])[1:]
    values = truth[:, ::2] + jax.random.normal(jax.random.key(0), (150, 20))
    seen = Observations(times, values, errors=1.0, operator=lambda y: y.x[::2], start=0.0)
    ring = lambda observed: Localisation(4.0, places=np.arange(40.0), observed=observed, period=40.0)
    members = members_around(type(y0)(begin), 10, key=jax.random.key(1), deviation=1.0)
    members_alone = LETKF(ring(np.arange(0.0, 40.0, 2)), 1.05)
    together = Hybrid(FourDVar(0.02 * climate, iterations=2), members_alone, share=0.8, localisation=ring(None))
    errors = []
    for method in (members_alone, together):
        found = simkit.assimilate(system, members, seen, method=method, step=0.05, solver="rk4")
        errors.append(np.sqrt(np.mean((found.mean.x - truth)[50:] ** 2)))
    assert errors[1] < 0.9 < 1.5 < errors[0], errors


def smoother(error, rows=SEEN):
    """Means and deviations at all times given all data, from the joint normal distribution of all states."""
    step, size = np.asarray(EXACT), 3 * len(rows)
    mean, covariance = np.zeros(size), np.zeros((size, size))
    here, spread = MEAN, BEFORE
    for i in range(len(rows)):
        here, spread = step @ here, step @ spread @ step.T + error
        now = slice(3 * i, 3 * i + 3)
        mean[now], covariance[now, now] = here, spread
        for j in range(i):
            then = slice(3 * j, 3 * j + 3)
            covariance[now, then] = step @ covariance[3 * i - 3 : 3 * i, then]
            covariance[then, now] = covariance[now, then].T
    there = np.isfinite(rows).ravel()
    see = np.kron(np.eye(len(rows)), np.eye(3)[:2])[there]
    noise = np.kron(np.eye(len(rows)), NOISE)[np.ix_(there, there)]
    gain = covariance @ see.T @ np.linalg.inv(see @ covariance @ see.T + noise)
    mean, covariance = mean + gain @ (rows.ravel()[there] - see @ mean), covariance - gain @ see @ covariance
    return mean.reshape(-1, 3), np.sqrt(np.diag(covariance)).reshape(-1, 3)


def fixed_lag(k, lag, errors=NOISE):
    """Mean and covariance at a time given the observations up to `lag` times later: those of the start, moved there."""
    rows, prior = SEEN[: min(k + lag, 3) + 1], np.linalg.inv(BEFORE)
    step = np.asarray(EXACT)
    vector = prior @ MEAN
    for power, row in enumerate(rows, 1):
        there = np.flatnonzero(np.isfinite(row))
        h = (np.linalg.matrix_power(step, power))[there]
        weight = h.T @ np.linalg.inv(errors[np.ix_(there, there)])
        prior, vector = prior + weight @ h, vector + weight @ row[there]
    moved, spread = np.linalg.matrix_power(step, k + 1), np.linalg.inv(prior)
    return moved @ spread @ vector, moved @ spread @ moved.T


@pytest.mark.parametrize("lag", [1, 2, 9])
def test_an_ensemble_smooths_as_kalman(lag):
    found = run(ETKF(rotation=True), key=jax.random.key(0), lag=lag)
    mean, spread = zip(*[fixed_lag(k, lag) for k in range(4)], strict=True)
    np.testing.assert_allclose(found.smoothed["x"], mean, atol=1e-9)
    deviation = np.sqrt(np.diagonal(spread, axis1=1, axis2=2))
    np.testing.assert_allclose(found.smoothed_deviation["x"], deviation, atol=1e-9)
    np.testing.assert_allclose(found.mean["x"][-1], found.smoothed["x"][-1], rtol=1e-12)
    plain = run(ETKF(rotation=True), key=jax.random.key(0))
    assert plain.smoothed is None
    # Matrices of other widths are summed in another order.
    np.testing.assert_allclose(found.mean["x"], plain.mean["x"], rtol=1e-12)


def test_local_and_perturbed_smoothers():
    errors = np.diag([0.3, 0.2])
    everywhere = Localisation(1e3, places=np.arange(3.0), observed=np.arange(2.0), taper="step")
    given = Observations(TIMES, SEEN, errors=np.sqrt([0.3, 0.2]), operator=lambda y: y["x"][:2], start=0.0)
    mean, spread = zip(*[fixed_lag(k, 2, errors) for k in range(4)], strict=True)
    found = run(LETKF(everywhere), observations=given, lag=2)
    np.testing.assert_allclose(found.smoothed["x"], mean, atol=1e-9)
    members = members_around({"x": jnp.asarray(MEAN)}, 400, key=jax.random.key(1), covariance=BEFORE)
    drawn = run(EnKF(), start=members, key=jax.random.key(2), observations=given, lag=2)
    allowed = 5 * 2 * np.sqrt(np.diagonal(np.array(spread), axis1=1, axis2=2) / 400)
    assert (np.abs(drawn.smoothed["x"] - np.array(mean)) < allowed).all()


def test_derivatives_of_smoothed_states_are_finite():
    """By inflation, against differences; the ensembles of before the start have no spread, whose root has no derivative."""

    def spread(inflation):
        found = run(ETKF(inflation), lag=3)
        return jnp.sum(found.smoothed_deviation["x"]) + jnp.sum(found.smoothed["x"])

    slope = jax.grad(spread)(1.05)
    by_differences = (spread(1.05 + 1e-5) - spread(1.05 - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, by_differences, rtol=1e-6)


@pytest.mark.slow
def test_smoothing_halves_the_error_of_a_chaotic_system():
    """Lorenz-96, errors of 1, 24 members: what is seen in the next units tells more than the ensemble's past knew."""
    system, y0, _, _ = simkit.odes.Lorenz96.example()
    times = 0.05 * np.arange(1, 601)
    truth = jax.tree.map(lambda x: x[1:], simkit.simulate(system, y0, np.r_[0.0, times], step=0.05, solver="rk4").ys)
    seen = Observations(times, {"x": truth.x + np.random.default_rng(0).normal(size=(600, 40))}, errors=1.0, start=0.0)
    members = members_around(y0, 24, key=jax.random.key(1), deviation=0.5)
    found = simkit.assimilate(system, members, seen, method=ETKF(1.02), step=0.05, solver="rk4", truth=truth, lag=20)
    late = slice(200, 580)
    assert found.smoothed_error[late].mean() < 0.6 * found.error[late].mean()
    # The spread tells the error: within a fifth, over 380 times.
    spread = np.sqrt(np.mean(np.asarray(found.smoothed_deviation.x) ** 2, axis=1))
    assert 0.8 < spread[late].mean() / found.smoothed_error[late].mean() < 1.25
    assert "smoothed" in repr(found)


def test_a_weak_constraint_smooths_as_kalman():
    error = 0.05 * BEFORE + 0.02 * np.eye(3)
    start = {"x": jnp.asarray(MEAN)}
    found = run(FourDVar(BEFORE, window=4, iterations=1, model_error=error), start=start)
    mean, deviation = smoother(error)
    np.testing.assert_allclose(found.mean["x"], mean, atol=1e-8)
    np.testing.assert_allclose(found.deviation["x"], deviation, atol=1e-8)
    assert "weak constraint" in repr(found)
    # Without an error to speak of it is the strong constraint.
    strong = run(FourDVar(BEFORE, window=2, iterations=1), start=start)
    nearly = run(FourDVar(BEFORE, window=2, iterations=1, model_error=1e-12 * np.eye(3)), start=start)
    np.testing.assert_allclose(nearly.mean["x"], strong.mean["x"], atol=1e-9)


def test_derivatives_and_batches():
    """The derivative of the last mean by the inflation, against a difference; of equal eigenvalues too."""
    last = lambda inflation: jnp.sum(run(ETKF(inflation)).mean["x"][-1])
    slope = jax.grad(last)(1.05)
    np.testing.assert_allclose(slope, (last(1.05 + 1e-5) - last(1.05 - 1e-5)) / 2e-5, rtol=1e-6)
    several = jax.vmap(last)(jnp.array([1.0, 1.05]))
    np.testing.assert_allclose(several[1], last(1.05), rtol=1e-12)


def test_single_precision_and_what_is_printed():
    system, y0, _, _ = simkit.odes.Lorenz96.example()
    system, y0 = simkit.cast((system, y0), jnp.float32)
    seen = Observations(
        np.arange(1, 6, dtype=np.float32) * 0.05, {"x": np.full((5, 40), 2.0, np.float32)}, errors=1.0, start=0.0
    )
    local = LETKF(Localisation(4.0, places=np.arange(40), period=40), 1.04, rotation=True)
    members = members_around(y0, 7, key=jax.random.key(0), deviation=1.0)
    truth = jax.tree.map(lambda x: jnp.broadcast_to(x, (5, 40)), y0)
    found = simkit.assimilate(system, members, seen, method=local, step=0.05, key=jax.random.key(1), truth=truth)
    assert found.mean.x.dtype == jnp.float32
    assert "LETKF with 7 members" in repr(found)
    assert "chi-square" in found._repr_html_()
    assert bool(jnp.all(found.deviation.x < found.forecast_deviation.x))


def test_a_failed_forecast_names_its_time():
    blown = simkit.from_function(lambda t, y, p: {"x": p["a"] * y["x"] ** 3}, {"a": 1.0})
    seen = Observations([0.1, 5.0], {"x": [1.0, 1.0]}, errors=1.0, start=0.0)
    members = {"x": jnp.array([1.0, 1.5, 2.0])}
    with pytest.raises(simkit.SimulationError, match="to t = 5 failed"):
        simkit.assimilate(blown, members, seen, method=ETKF(), step=0.1)


X = {"x": np.zeros((4, 3))}
PLACES = np.arange(3.0)
REFUSED = {
    "times out of order": (
        lambda: Observations([1.0, 0.5], {"x": [1.0, 1.0]}, errors=1.0),
        "must increase, but entry 0 is 1",
    ),
    "before the start": (
        lambda: Observations([1.0], {"x": [1.0]}, errors=1.0, start=2.0),
        "must not lie before the start",
    ),
    "rows": (lambda: Observations([1.0, 2.0], {"x": [1.0]}, errors=1.0), "a row for each of the 2 times"),
    "covariance": (lambda: observed(np.array([[1.0, 2.0], [2.0, 1.0]])), "symmetric and positive definite"),
    "background": (lambda: FourDVar(np.ones((3, 3))), "symmetric and positive definite"),
    "model error": (lambda: FourDVar(np.eye(3), model_error=np.eye(2)), "must have the shape"),
    "hybrid, share": (lambda: Hybrid(FourDVar(BEFORE), ETKF(), share=1.5), "from 0 to 1, but it is 1.5"),
    "hybrid, all of few members": (
        lambda: Hybrid(FourDVar(BEFORE), ETKF(), share=1.0),
        "below 1 without `localisation`",
    ),
    "hybrid, root": (lambda: Hybrid(FourDVar(root=np.eye(3)), ETKF()), "must have a `covariance`"),
    "hybrid, steps": (
        lambda: Hybrid(FourDVar(BEFORE), ETKF(), localisation=Localisation(1.2, places=np.arange(3.0), taper="step")),
        "`localisation` must be symmetric and positive definite",
    ),
    "hybrid, one state": (
        lambda: run(Hybrid(FourDVar(BEFORE), ETKF()), start={"x": jnp.asarray(0.5)}),
        "must be an ensemble",
    ),
    "errors": (lambda: Observations([1.0], {"x": [1.0]}, errors=0.0), "finite and positive"),
    "outside of the domain": (
        lambda: Localisation(1.0, places=PLACES, observed=[4.0], period=3),
        "must lie from 0 to the period",
    ),
    "one member": (lambda: run(ETKF(), start={"x": jnp.ones((1, 3))}), "at least 2"),
    "few members": (
        lambda: run(
            LETKF(Localisation(1.0, places=PLACES)),
            start={"x": jnp.ones((2, 3))},
            observations=Observations(TIMES, X, errors=1.0),
        ),
        "at least 3",
    ),
    "other places": (lambda: run(LETKF(Localisation(1.0, places=np.arange(5.0)))), "has 5 places and 5 observations"),
    "no members": (lambda: run(ETKF(), start={"x": jnp.ones(())}), "must be an ensemble"),
    "outside of the windows": (
        lambda: run(FourDVar(BEFORE, window=3), start={"x": jnp.ones(3)}),
        "the last 1 lie outside",
    ),
    "no key": (lambda: run(EnKF()), "give `key`"),
    "smoothed windows": (
        lambda: run(FourDVar(BEFORE, window=2), start={"x": jnp.ones(3)}, lag=2),
        "`lag` must be 0 with `FourDVar`",
    ),
    "negative lag": (lambda: run(ETKF(), lag=-1), "`lag` must be"),
    "operator": (
        lambda: run(ETKF(), observations=Observations(TIMES, SEEN, errors=1.0, operator=lambda y: y["x"])),
        "returns 3 numbers",
    ),
    "shape": (lambda: run(ETKF(), observations=Observations(TIMES, {"x": SEEN}, errors=1.0)), "must have the shape"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, text = REFUSED[name]
    with pytest.raises(simkit.ArgumentError, match=text.replace("(", r"\(")):
        call()
