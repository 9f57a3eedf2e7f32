"""A sample of the public sets of differential equations at all tolerances, by the judge of `benchmarks/ode_sets.py`."""

import importlib.util
import json
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from validation.mechanics_problems import SQUEEZER_START, Squeezer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sets():
    spec = importlib.util.spec_from_file_location("ode_sets", ROOT / "benchmarks/ode_sets.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.mark.parametrize(
    ("part", "name"),
    [("NONSTIFF DETEST", "NB1"), ("STIFF DETEST", "SD4"), ("Test Set for IVP Solvers", "HIRES")]
    + [pytest.param("delays", name, marks=pytest.mark.slow) for name in ("A2", "D1")],
)
def test_a_sample_is_right_at_all_tolerances(sets, part, name):
    found = sets.judge(sets.PARTS[part]()[name])
    assert found["ended"] == "right", found


def test_the_judge_tells_wrong_from_right(sets):
    fine, off = (lambda tolerance: (0, 50 * tolerance)), (lambda tolerance: (0, 5e3 * tolerance))
    assert sets.judge((fine, None))["ended"] == "right"
    assert sets.judge((off, None))["ended"] == "wrong"
    assert sets.judge((off, lambda tolerance: 1e3 * tolerance))["ended"] == "right"
    assert sets.judge((off, lambda tolerance: 1e2 * tolerance))["ended"] == "wrong"
    assert sets.judge((lambda tolerance: (3, np.nan), None))["ended"] == "failed"
    assert sets.judge((lambda tolerance: (0, np.nan), None))["ended"] == "wrong"


def test_references_agree_with_those_of_a_looser_tolerance(sets):
    """What SciPy gives with ten times the tolerance is within a tenth of what counts as right at the tightest tolerance."""
    apart = {name: row["apart"] for name, row in json.loads(sets.ENDS.read_text()).items()}
    assert len(apart) > 60
    far = {name: value for name, value in apart.items() if value > 0.1 * sets.ALLOWED * sets.TOLERANCES[-1]}
    # Their slopes jump where a state changes its sign, which SciPy's steps pass over.
    assert set(far) == {"C1", "C2"}
    assert max(far.values()) < 2e-7


def test_the_squeezer_starts_with_the_published_accelerations():
    """Equations from the places of the bodies, by another way than those of the set: its multipliers balance its accelerations."""
    system, y0, _, _ = Squeezer.example()
    field = system.vector_field(jnp.asarray(0.0), y0, None)
    # Of forces of 0.03 in N m, and accelerations of 1e4.
    assert np.abs(np.asarray(field["w"])).max() < 1e-12
    assert np.abs(np.asarray(field["multipliers"])).max() < 1e-10
    np.testing.assert_array_equal(np.asarray(y0["w"][:2]), SQUEEZER_START)
