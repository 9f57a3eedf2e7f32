"""A model printed as Python: the file is executed, and has the derivatives of the model it came from."""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from petab_models import sbml, write_problem

import simkit

BOEHM = Path(__file__).parents[2] / "data" / "petab" / "Boehm_JProteomeRes2014" / "Boehm_JProteomeRes2014.yaml"


def executed(folder, source):
    path = folder / "printed.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("printed", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def slopes_of(system, state, t):
    return {name: float(x) for name, x in vars(system.vector_field(t, state, None)).items()}


def test_the_printed_model_of_boehm_has_its_derivatives(tmp_path):
    read = simkit.petab.load(BOEHM)
    module = executed(tmp_path, simkit.petab.python_source(read))
    (title,) = [
        n for n in vars(module) if isinstance(vars(module)[n], type) and issubclass(vars(module)[n], simkit.PlainSystem)
    ]
    example = vars(module)[title].example()
    system, y0 = example.system, example.y0
    state = jax.tree.map(lambda x: x + 1.3, y0)
    found = slopes_of(system, state, jnp.asarray(0.7))
    setup = read.problem.setup(read.nominal)
    theirs = setup.system.vector_field(jnp.asarray(0.7), {name: getattr(state, name) for name in found}, {})
    assert set(found) == set(theirs)
    np.testing.assert_allclose([found[n] for n in found], [float(theirs[n]) for n in found], rtol=1e-12)


@pytest.fixture
def small(tmp_path):
    model = sbml(
        {"A": 2.0, "lambda": 0.0},
        {"k": 0.5, "u": 0.0, "z": 1.0, "A0": 3.0},
        {"r": ("A", "lambda", "cell * hill(k * A, u) + cell * k^1.5 * A")},
        rules={"u": "piecewise(3, time < 1, 5)"},
        rates={"z": "-exp(-k * time) * min(z, 2, A)"},
        functions={"hill": "lambda(a, b, a / (a + b))"},
        initial={"A": "2 * A0"},
        volume=2.0,
        amounts=["lambda"],
    )
    return write_problem(
        tmp_path,
        model,
        "parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate\nk | log10 | 0.01 | 10 | 0.7 | 1",
        "observableId | observableFormula | noiseFormula\no | A | 0.1",
        "observableId | simulationConditionId | time | measurement\no | c0 | 1 | 2.0",
    )


def test_rules_names_and_initial_values(tmp_path, small):
    module = executed(tmp_path, simkit.petab.python_source(simkit.petab.load(small)))
    example = module.Small.example()
    system, y0 = example.system, example.y0
    assert (float(y0.A), float(y0.lambda_), float(y0.z), float(system.k)) == (6.0, 0.0, 1.0, 0.7)
    for t, u in ((0.5, 3.0), (1.5, 5.0)):
        rate = 0.7 * 6 / (0.7 * 6 + u) + 0.7**1.5 * 6  # a volume of 2 and the amount of `lambda`
        expected = {"A": -rate, "lambda_": 2 * rate, "z": -np.exp(-0.7 * t)}
        found = slopes_of(system, y0, jnp.asarray(t))
        assert found == pytest.approx(expected, rel=1e-12)
        assert float(system.outputs(jnp.asarray(t), y0, None)["r"]) == pytest.approx(2 * rate)


def test_events_are_named(tmp_path, small):
    text = (tmp_path / "model.xml").read_text()
    model = sbml(
        {"A": 2.0}, {"k": 1.0}, {"r": ("A", "", "cell * k * A")}, events={"dose": ("time >= 1", {"A": "A + 1"})}
    )
    assert text != model
    (tmp_path / "model.xml").write_text(model)
    with pytest.raises(simkit.ArgumentError, match="`dose`"):
        simkit.petab.python_source(simkit.petab.load(small))
