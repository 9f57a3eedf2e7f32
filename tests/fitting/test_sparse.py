"""Sparse fits beside closed forms, other programs, and a search through all models."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.fitting._proximal import Penalty, _Box, _minimised
from simkit.problem import with_fixed

COUNT = 5
NAMES = [f"b{i}" for i in range(COUNT)]
TRUE = np.array([3.0, 1.5, 0.0, 0.0, -2.0])


def _linear(rows, values, **more):
    table = jnp.asarray(rows)
    model = simkit.odes.from_response(
        lambda x, p: table[x.astype(int)] @ jnp.stack([p[name] for name in NAMES]), dict.fromkeys(NAMES, 0.1)
    )
    data = simkit.Experiment("rows", np.arange(len(values), dtype=float), {"y": values})
    free = {name: simkit.Free(bounds=(-20.0, 20.0)) for name in NAMES}
    return simkit.Problem(model, data, free=free | more, noise={"y": simkit.noise.Normal(1.0)})


@pytest.fixture(scope="module")
def drawn():
    random = np.random.default_rng(0)
    rows = random.normal(size=(30, COUNT))
    return rows, rows @ TRUE + random.normal(size=30)


@pytest.fixture(scope="module")
def problem(drawn):
    return _linear(*drawn)


def test_a_step_is_the_minimum_of_quadratic_and_penalty():
    # Kuhn and Tucker's conditions: the slope is -w sign(z - t) away from the kink, at most w at it, and outwards on a bound.
    random = np.random.default_rng(1)
    root = random.normal(size=(8, 6)) * 10.0 ** np.array([0, 3, -2, 1, 0, 2])
    square, right = root.T @ root, root.T @ random.normal(size=8)
    weight = jnp.asarray([0.0, 1e3, 1e-3, 0.4, 5.0, 50.0])
    target = jnp.asarray([0.0, 1e-3, 0.0, 0.2, 0.0, 0.0])
    box = _Box(jnp.full(6, -1e3), jnp.full(6, 1e3).at[0].set(0.01))
    found = jax.jit(_minimised)(
        jnp.asarray(square), jnp.asarray(right), Penalty(weight, jnp.zeros(6), target), box, jnp.ones(6).at[0].set(0.0)
    )
    slope, away = square @ found - right, np.asarray(found - target)
    size = np.sqrt(np.diag(square))
    assert 0 < (away[1:] == 0).sum() < 5
    for j in range(1, 6):
        # Slopes in units of the curvature; a solution in float64 leaves 1e-9 of it.
        gap = abs(slope[j]) - weight[j] if away[j] == 0 else abs(slope[j] + weight[j] * np.sign(away[j]))
        assert gap <= 1e-9 * size[j]
    assert (found[0] == 0.01 and slope[0] < 0) or abs(slope[0]) < 1e-9 * size[0]


@pytest.mark.slow
def test_orthonormal_columns_are_soft_thresholded(drawn):
    rows = np.linalg.qr(drawn[0])[0]
    best = rows.T @ drawn[1]
    strengths = np.sort(np.abs(best))[::-1] * 0.9
    method = simkit.Sparse(NAMES, weights="equal", strengths=strengths)
    found = simkit.fit(_linear(rows, drawn[1]), starts=1, method=method)
    exact = np.sign(best) * np.maximum(np.abs(best) - strengths[:, None], 0)
    np.testing.assert_allclose(found.thetas[:-1], exact, rtol=1e-9, atol=1e-12)
    assert (np.asarray(found.thetas[:-1] == 0) == (exact == 0)).all()
    np.testing.assert_allclose(found.thetas[-1], best, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_the_path_is_that_of_scikit_learn(problem, drawn, share):
    linear = pytest.importorskip("sklearn.linear_model")
    strengths = np.array([70.0, 40.0, 10.0, 1.0])
    method = simkit.Sparse(NAMES, weights="equal", strengths=strengths, l1_ratio=share)
    found = simkit.fit(problem, starts=1, method=method)
    for strength, theta in zip(strengths, np.asarray(found.thetas), strict=False):
        # Their objective is divided by the number of data.
        theirs = linear.ElasticNet(strength / 30, l1_ratio=share, fit_intercept=False, tol=1e-14, max_iter=100_000)
        other = theirs.fit(*drawn).coef_
        np.testing.assert_allclose(theta, other, atol=1e-9)
        assert ((theta == 0) == (other == 0)).all()
    if share == 1:
        # Everything vanishes from the first knot of their path on, and not before.
        knots, _, _ = linear.lars_path(*drawn, method="lasso")
        default = simkit.fit(problem, starts=1, method=simkit.Sparse(NAMES, weights="equal"))
        np.testing.assert_allclose(default.strengths[0], knots[0] * 30 * (1 + 1e-6), rtol=1e-9)
        assert not default.active[0].any()
        assert default.active.sum(axis=1).tolist()[0] == 0 < default.active.sum(axis=1).tolist()[1]


@pytest.mark.slow
def test_the_criterion_chooses_what_a_search_through_all_models_does(problem, drawn):
    rows, values = drawn

    def bic(left):
        chosen = rows[:, list(left)]
        residual = values - chosen @ np.linalg.lstsq(chosen, values, rcond=None)[0]
        return len(left) * np.log(30) + np.sum(residual**2) + 30 * np.log(2 * np.pi)

    every = [left for count in range(COUNT + 1) for left in itertools.combinations(range(COUNT), count)]
    best = min(every, key=bic)
    found = simkit.fit(problem, starts=1, method=simkit.Sparse(NAMES))
    assert found.kept == tuple(NAMES[i] for i in best)
    assert {"b0", "b1", "b4"} <= set(found.kept) < set(NAMES)
    np.testing.assert_allclose(found.criterion[found.chosen], bic(best), rtol=1e-9)
    np.testing.assert_allclose(found.fit.bic, bic(best), rtol=1e-9)
    exact = np.linalg.lstsq(rows[:, list(best)], values, rcond=None)[0]
    np.testing.assert_allclose(found.fit.estimate, exact, rtol=1e-7)
    np.testing.assert_allclose(found.refitted[found.chosen][np.array(best)], exact, rtol=1e-7)
    assert found.vanished == {name: 0.0 for name in NAMES if name not in found.kept}
    small = found.reduced(problem)
    assert small.names == found.fit.names == found.kept
    np.testing.assert_allclose(small.log_likelihood(found.fit.estimate)[0], found.fit.log_likelihood, rtol=1e-12)
    assert "nothing: b2 = 0" in repr(found)
    assert "chosen" in repr(found)
    folds = simkit.fit(problem, starts=1, method=simkit.Sparse(NAMES, by=5))
    # Folds compare predictions and keep no less.
    assert set(found.kept) <= set(folds.kept)
    assert folds.criterion[0] > folds.criterion[folds.chosen]


@pytest.mark.slow
def test_two_of_eight_mechanisms_are_found():
    names, truth, data = _predators()
    found = simkit.fit(data, starts=4, method=simkit.Sparse(names), horizons=(1.0,))
    assert found.kept == ("crowding", "saturation")
    fit = found.fit
    for name, value in truth.items():
        # 4 standard errors: one in 16 000 for each of six.
        assert abs(float(fit[name]) - value) < 4 * float(fit.standard_error[fit.names.index(name)])


def _predators():
    """Eight candidates beside growth, predation and death, of which two are at work, and data with errors of 5 %."""
    core = {"growth": 1.0, "attack": 0.8, "conversion": 0.6, "death": 0.5}
    names = ["crowding", "saturation", "arrivals", "newcomers", "cannibalism", "other_food", "harvest", "interference"]

    def field(t, y, p):
        x, z = y["prey"], y["predator"]
        eaten = p["attack"] * x * z / (1 + p["saturation"] * x + p["interference"] * z)
        grown = p["growth"] * x * (1 - p["crowding"] * x) - p["harvest"] * x**2 / (1 + x) + p["arrivals"]
        lost = p["death"] * z + p["cannibalism"] * z**2
        return {
            "prey": grown - eaten,
            "predator": p["conversion"] * eaten - lost + p["newcomers"] + p["other_food"] * z / (1 + z),
        }

    truth, y0 = core | {"crowding": 0.15, "saturation": 0.3}, {"prey": 1.5, "predator": 0.8}
    times, random = np.linspace(0.5, 25.0, 50), np.random.default_rng(1)
    run = simkit.simulate(simkit.from_function(field, dict.fromkeys(names, 0.0) | truth), y0, [0.0, *times])
    data = {name: np.asarray(run.ys[name])[1:] * np.exp(0.05 * random.normal(size=50)) for name in y0}
    free = {name: simkit.Free(bounds=(0.05, 5.0)) for name in core}
    free |= {name: simkit.Free(bounds=(0.0, 2.0), transform="linear", start=0.05) for name in names}
    noise = {name: simkit.noise.LogNormal(0.05) for name in y0}
    system = simkit.from_function(field, core | dict.fromkeys(names, 0.0))
    return (
        names,
        truth,
        simkit.Problem(system, simkit.Experiment("pond", times, data, start=0.0, y0=y0), free=free, noise=noise),
    )


def test_an_unknown_that_is_fixed_is_a_constant(problem):
    left = with_fixed(problem, {"b1": 1.5, "b3": 0.0})
    assert left.names == ("b0", "b2", "b4")
    theta = jnp.asarray([3.0, 0.1, -2.0])
    whole = problem.log_likelihood(jnp.asarray([3.0, 1.5, 0.1, 0.0, -2.0]))[0]
    np.testing.assert_allclose(left.log_likelihood(theta)[0], whole, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"names": []}, "must be names of unknowns"),
        ({"names": ["b0", "b0"]}, "each name once"),
        ({"names": ["b0"], "by": "cp"}, '"bic"'),
        ({"names": ["b0"], "by": 1}, "folds"),
        ({"names": ["b0"], "l1_ratio": 0.0}, "above 0"),
        ({"names": ["b0"], "weights": "scaled"}, '"adaptive"'),
        ({"names": ["b0"], "weights": {"b1": 1.0}}, "not among"),
        ({"names": ["b0", "b1"], "weights": {"b1": 1.0}}, "for each of"),
        ({"names": ["b0"], "strengths": [1.0, 2.0]}, "each less"),
        ({"names": ["b0"], "targets": {"b2": 0.0}}, "not among"),
    ],
)
def test_wrong_options_are_refused(arguments, words):
    with pytest.raises(simkit.ArgumentError, match=words):
        simkit.Sparse(**arguments)


def test_what_cannot_vanish_is_refused(drawn):
    problem = _linear(*drawn, **{"noise.y.scale": simkit.Free(bounds=(0.1, 10.0))})
    with pytest.raises(simkit.ArgumentError, match="moves by its logarithm"):
        simkit.fit(problem, method=simkit.Sparse(["noise.y.scale"]))
    with pytest.raises(simkit.UnknownNameError, match="b9"):
        simkit.fit(problem, method=simkit.Sparse(["b9"]))
    with pytest.raises(simkit.ArgumentError, match="between its bounds"):
        simkit.fit(problem, method=simkit.Sparse(["b0"], targets={"b0": 30.0}))


def test_a_search_through_all_models_is_that_of_least_squares_and_is_kept_in_files(problem, drawn, tmp_path):
    rows, values = drawn

    def bic(left):
        chosen = rows[:, list(left)]
        residual = values - chosen @ np.linalg.lstsq(chosen, values, rcond=None)[0]
        return len(left) * np.log(30) + np.sum(residual**2) + 30 * np.log(2 * np.pi)

    found = simkit.fit(problem, starts=8, method=simkit.Sparse(NAMES, search="all"))
    every = [left for count in range(COUNT + 1) for left in itertools.combinations(range(COUNT), count)]
    assert len(found.models) == 2**COUNT == len(set(found.models))
    score = dict(zip(found.models, np.asarray(found.criterion), strict=True))
    for left in every:
        # A model of normal errors is solved by one Gauss-Newton step, to rounding.
        np.testing.assert_allclose(score[tuple(NAMES[i] for i in left)], bic(left), rtol=1e-9)
    assert found.kept == tuple(NAMES[i] for i in min(every, key=bic))
    assert "all subsets" in repr(found)
    assert "and 16 models more" in repr(found)

    again = simkit.load(simkit.save(tmp_path / "sparse.h5", found)).sparse_fit
    for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, two)
    assert repr(again) == repr(found)
    assert again.reduced(problem).names == found.kept


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"search": "some"}, "`search` must be"),
        ({"search": "all", "by": 5}, "leave `by` out"),
        ({"search": "all", "strengths": (1.0,)}, "leave `strengths` out"),
        ({"search": "all", "names": [f"a{i}" for i in range(13)]}, "at most 12 names"),
    ],
)
def test_searches_that_cannot_be_made_are_refused(arguments, words):
    with pytest.raises(simkit.ArgumentError, match=words):
        simkit.Sparse(**{"names": NAMES, **arguments})
