"""Sobol indices and elementary effects, against what is known of Ishigami's function and of a linear one."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, MissingPackageError, sweeps

A, B = 7.0, 0.1
ISHIGAMI = dict.fromkeys(("x1", "x2", "x3"), (-np.pi, np.pi))
COUNT = 1024


def ishigami(x, p):
    """Ishigami & Homma (1990): sin x1 + a sin^2 x2 + b x3^4 sin x1, and twice that."""
    y = jnp.sin(p["x1"]) + A * jnp.sin(p["x2"]) ** 2 + B * p["x3"] ** 4 * jnp.sin(p["x1"])
    return {"y": y, "twice": 2.0 * y}


def linear(x, p):
    return {"y": 2.0 * p["u"] + 3.0 * jnp.log10(p["v"])}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Ishigami's function at the points of a design with pairs."""
    points = sweeps.sobol_design(ISHIGAMI, COUNT, key=jax.random.key(1), second_order=True)
    system = simkit.from_response(ishigami, dict.fromkeys(ISHIGAMI, 0.0))
    return simkit.sweep(system, None, [0.0], over=points, store=tmp_path_factory.mktemp("ishigami") / "s", chunk=2048)


def analytic():
    """Parts of the variance, integrated by hand: V1, V2 and V13; all others are zero."""
    v1 = 0.5 * (1 + B * np.pi**4 / 5) ** 2
    v2 = A**2 / 8
    v13 = B**2 * np.pi**8 * (1 / 18 - 1 / 50)
    return np.array([v1, v2, v13]) / (v1 + v2 + v13)


def test_indices_of_ishigami(swept):
    found = sweeps.sobol_indices(swept, ISHIGAMI, swept["y"][:, 0], key=jax.random.key(1), second_order=True)
    s1, s2, s13 = analytic()
    # Quasi-random sums over 1024 base points: the error of such an index is a few hundredths (SALib's own intervals say 0.06).
    np.testing.assert_allclose(found.first, [s1, s2, 0.0], atol=0.03)
    np.testing.assert_allclose(found.total, [s1 + s13, s2, s13], atol=0.03)
    np.testing.assert_allclose(found.second[0, 1:], [0.0, s13], atol=0.05)
    assert np.isnan(found.second[1, 0])
    assert (np.abs(found.first - [s1, s2, 0.0]) < found.first_error).all()
    assert found.names == ("x1", "x2", "x3")
    text = repr(found)
    assert "95% confidence" in text
    assert text.splitlines()[2].startswith("  x1")


@pytest.mark.parametrize("second_order", [False, True])
def test_indices_of_ishigami_by_rule(tmp_path, second_order):
    rule = sweeps.SobolDesignRule(ISHIGAMI, COUNT, key=jax.random.key(2), second_order=second_order)
    system = simkit.from_response(ishigami, dict.fromkeys(ISHIGAMI, 0.0))
    swept = simkit.sweep(system, None, [0.0], over=rule, store=tmp_path / "s", chunk=4096)
    found = sweeps.sobol_indices(swept, ISHIGAMI, swept["y"][:, 0], key=jax.random.key(1), second_order=second_order)
    s1, s2, s13 = analytic()
    np.testing.assert_allclose(found.first, [s1, s2, 0.0], atol=0.03)  # as by the design that is held
    np.testing.assert_allclose(found.total, [s1 + s13, s2, s13], atol=0.03)
    if second_order:
        np.testing.assert_allclose(found.second[0, 1:], [0.0, s13], atol=0.05)


def test_outputs_may_be_arrays(swept):
    both = np.stack([swept["y"][:, 0], swept["twice"][:, 0]], axis=1)
    found = sweeps.sobol_indices(swept, ISHIGAMI, both, key=jax.random.key(1), second_order=True)
    assert found.first.shape == (3, 2)
    assert found.second.shape == (3, 3, 2)
    # A share does not depend on the unit of the output.
    np.testing.assert_allclose(found.first[:, 0], found.first[:, 1], rtol=1e-9)
    assert "of an output of shape (2,)" in repr(found)


def test_effects_of_a_linear_function(tmp_path):
    ranges = {"u": (0.0, 5.0), "v": (0.1, 10.0, "log")}
    points = sweeps.morris_design(ranges, 8, key=jax.random.key(3))
    system = simkit.from_response(linear, {"u": 0.0, "v": 1.0})
    swept = simkit.sweep(system, None, [0.0], over=points, store=tmp_path / "s")
    found = sweeps.morris(swept, ranges, swept["y"][:, 0], key=jax.random.key(3))
    # The slope over a whole range is 2 * 5, and 3 for each of two decades; nothing bends it: rounding alone is left.
    np.testing.assert_allclose(found.mean, [10.0, 6.0], rtol=1e-9)
    np.testing.assert_allclose(found.mean_absolute, [10.0, 6.0], rtol=1e-9)
    np.testing.assert_allclose(found.deviation, 0.0, atol=1e-8)
    assert "mean |effect|" in repr(found)


def test_points_of_another_design_are_refused(swept, tmp_path):
    with pytest.raises(ArgumentError, match=r"points of `sobol_design\(ranges, count\)`"):
        sweeps.sobol_indices(swept, ISHIGAMI, swept["y"][:, 0], key=jax.random.key(1))
    with pytest.raises(ArgumentError, match="must name the paths of the sweep, x1, x2, x3"):
        sweeps.sobol_indices(swept, {"x1": (0.0, 1.0)}, swept["y"][:, 0], key=jax.random.key(1))
    with pytest.raises(ArgumentError, match="points of `morris_design"):
        sweeps.morris(swept, ISHIGAMI, swept["y"][:, 0], key=jax.random.key(1))
    with pytest.raises(ArgumentError, match=r"a value for each of 8192 members, but its shape is \(3,\)"):
        sweeps.sobol_indices(swept, ISHIGAMI, np.ones(3), key=jax.random.key(1))


def test_members_that_failed_are_named(swept):
    broken = swept["y"][:, 0].copy()
    broken[[5, 9]] = np.nan
    with pytest.raises(
        ArgumentError, match=r"finite for all members, but of 2 it is not, the first being member 5: x1 "
    ):
        sweeps.sobol_indices(swept, ISHIGAMI, broken, key=jax.random.key(1), second_order=True)


def test_bad_designs():
    with pytest.raises(ArgumentError, match="`count` must be a power of two, such as 1024"):
        sweeps.sobol_design(ISHIGAMI, 1000, key=jax.random.key(1))
    with pytest.raises(ArgumentError, match="`levels` must be an even number"):
        sweeps.morris_design(ISHIGAMI, 4, key=jax.random.key(1), levels=3)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "SALib.sample.sobol", None)
    with pytest.raises(MissingPackageError, match=r"pip install \"simkit\[sensitivity\]\""):
        sweeps.sobol_design(ISHIGAMI, 8, key=jax.random.key(1))


def test_other_ranges_levels_and_settings_are_refused(tmp_path):
    """y = 2 u + 3 log10 v has effects 2 and 6 of a step over (0, 1) and (0.1, 10)."""
    ranges = {"u": (0.0, 1.0), "v": (0.1, 10.0, "log")}
    system = simkit.from_response(linear, {"u": 0.5, "v": 1.0})
    key = jax.random.key(0)
    walks = sweeps.morris_design(ranges, 6, key=key, levels=8)
    found = simkit.sweep(system, None, [0.0], over=walks, store=tmp_path / "m")
    y = found["y"][:, 0]
    np.testing.assert_allclose(sweeps.morris(found, ranges, y, key=key, levels=8).mean_absolute, [2.0, 6.0], rtol=1e-6)
    for wrong in ({"levels": 4}, {"ranges": ranges | {"u": (0.0, 10.0)}}, {"ranges": ranges | {"v": (0.1, 10.0)}}):
        with pytest.raises(ArgumentError, match="must be over the points of"):
            sweeps.morris(found, wrong.get("ranges", ranges), y, key=key, levels=wrong.get("levels", 8))
    with pytest.raises(ArgumentError, match="even number"):
        sweeps.morris(found, ranges, y, key=key, levels=5)
    with pytest.raises(ArgumentError, match="must vary between the members"):
        sweeps.morris(found, ranges, np.ones(len(y)), key=key, levels=8)
    some = sweeps.morris(found, ranges, np.stack([np.ones(len(y)), y], axis=1), key=key, levels=8)
    assert np.isnan(some.mean_absolute[:, 0]).all()
    np.testing.assert_allclose(some.mean_absolute[:, 1], [2.0, 6.0], rtol=1e-6)
    points = sweeps.sobol_design(ranges, 16, key=key)
    swept = simkit.sweep(system, None, [0.0], over=points, store=tmp_path / "s")
    y = swept["y"][:, 0]
    for wrong in (ranges | {"u": (0.0, 10.0)}, ranges | {"v": (0.1, 10.0)}):
        with pytest.raises(ArgumentError, match="must be over the points of"):
            sweeps.sobol_indices(swept, wrong, y, key=key)
    for wrong in ({"confidence": 2.0}, {"resamples": 1}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            sweeps.sobol_indices(swept, ranges, y, key=key, **wrong)
    with pytest.raises(ArgumentError, match="trajectories"):
        sweeps.morris_design(ranges, 0, key=key)
