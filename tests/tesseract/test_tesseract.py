"""Components have the values and the derivatives of what they are made of."""

import importlib.util
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import odes, tesseract
from simkit.cli import main

TIMES = np.linspace(0.0, 5.0, 6)
LINE = """
[study]
title = "A line"
[system.equations]
"d x" = "-rate * x"
[system.parameters]
rate = 0.5
[y0]
x = 2.0
[solve]
step = 0.01
[simulate]
times = {from = 0.0, to = 2.0, count = 3}
"""


def power(inputs):
    x, more = inputs["x"], inputs["more"]
    return {"y": x ** inputs["power"] * more["a"] + more["b"][1], "whole": {"sum": x.sum()}}


GIVEN = {"x": np.array([1.0, 2.0, 3.0]), "power": 2, "more": {"a": np.array(0.5), "b": [np.zeros(3), np.ones(3)]}}


def test_endpoints_of_a_function():
    made = tesseract.endpoints(power)
    np.testing.assert_allclose(made.apply(GIVEN)["y"], [1.5, 3.0, 5.5])
    names, wanted = {"x", "more.{a}", "more.b.[1]"}, {"y", "whole.sum"}
    jacobian = made.jacobian(GIVEN, names, wanted)
    np.testing.assert_allclose(jacobian["y"]["x"], np.diag([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(jacobian["y"]["more.{a}"], [1.0, 4.0, 9.0])
    np.testing.assert_allclose(jacobian["y"]["more.b.[1]"], np.eye(3))
    np.testing.assert_allclose(jacobian["whole.sum"]["x"], np.ones(3))
    tangent = {"x": np.array([1.0, 0, 0]), "more.{a}": np.array(2.0), "more.b.[1]": np.zeros(3)}
    moved = made.jacobian_vector_product(GIVEN, names, wanted, tangent)
    np.testing.assert_allclose(moved["y"], [1 + 2, 8, 18])
    back = made.vector_jacobian_product(GIVEN, {"x"}, {"y"}, {"y": np.array([1.0, 0, 1.0])})
    np.testing.assert_allclose(back["x"], [1.0, 0.0, 3.0])
    shapes = made.abstract_eval({**GIVEN, "x": {"shape": (3,), "dtype": "float64"}})
    assert shapes == {"y": {"shape": (3,), "dtype": "float64"}, "whole": {"sum": {"shape": (), "dtype": "float64"}}}
    with pytest.raises(
        simkit.ArgumentError, match=r"There is no `more\.c`: in the place of `c` there is only `a`, `b`"
    ):
        made.jacobian(GIVEN, {"more.c"}, {"y"})


def test_a_system_and_its_names():
    system, y0, _, _ = odes.LotkaVolterra.example()
    made = tesseract.from_system(system, y0, TIMES, names=["growth", "y0.hare"], step=0.05)
    assert set(made.inputs) == {"growth", "y0.hare"}
    assert made.words["growth"] == "birth rate of the prey (1/year)"

    def last(growth, hare):
        start = odes.LotkaVolterra.State(hare, y0.lynx)
        return simkit.simulate(odes.LotkaVolterra(growth=growth), start, TIMES, step=0.05).final().lynx

    expected = jax.grad(last, (0, 1))(jnp.asarray(0.55), jnp.asarray(30.0))
    cotangent = {"lynx": np.eye(6)[5]}
    found = made.endpoints.vector_jacobian_product(made.defaults(), {"growth", "y0.hare"}, {"lynx"}, cotangent)
    np.testing.assert_allclose([found["growth"], found["y0.hare"]], expected, rtol=1e-12)
    with pytest.raises(simkit.UnknownNameError, match="growth"):
        tesseract.from_system(system, y0, TIMES, names=["grwth"])


def line_problem():
    line = odes.from_response(lambda x, p: p["a"] * x + p["b"], {"a": 2.0, "b": jnp.zeros(2)[0]})
    data = simkit.Experiment("l", [1.0, 2.0, 3.0], {"y": [2.0, 4.1, 5.9]})
    free = {"a": simkit.Free(bounds=(0.0, 9.0), start=1.0), "b": simkit.Free(bounds=(-1.0, 1.0))}
    return simkit.Problem(line, data, free=free, noise={"y": simkit.noise.Normal(0.1)})


def test_a_problem():
    problem = line_problem()
    made = tesseract.from_problem(problem)
    given = made.defaults() | {"b": np.array(0.25)}
    assert set(made.defaults()) == {"a", "b"}
    assert made.defaults()["a"] == 1.0
    assert -1.0 < made.defaults()["b"] < 1.0  # drawn between its bounds, as where a fit begins
    assert np.isfinite(made.endpoints.apply(made.defaults())["log_posterior"])
    found = made.endpoints.apply(given)
    np.testing.assert_allclose(found["y"][0], [1.25, 2.25, 3.25])
    theta = jnp.array([1.0, 0.25])
    np.testing.assert_allclose(found["log_posterior"], problem.log_posterior(theta))
    slopes = made.endpoints.jacobian(given, {"a", "b"}, {"log_likelihood"})["log_likelihood"]
    expected = jax.grad(lambda at: problem.log_likelihood(at)[0])(theta)
    np.testing.assert_allclose([slopes["a"], slopes["b"]], expected)


def test_wrong_inputs_of_a_component():
    made = tesseract.from_problem(line_problem())
    given = made.defaults() | {"b": 0.25}
    apply, jacobian = made.endpoints.apply, made.endpoints.jacobian
    for wrong, match in (
        ({"a": 1.0}, r"must hold all of `a`, `b`, but `b` is missing"),
        (given | {"a": "two"}, r"input `a` must be a number or an array of them, but it is 'two'"),
        (given | {"a": np.ones(2)}, r"input `a` must have the shape \(\), but it has \(2,\)"),
        (given | {"slop": 1.0}, r"no input of this component `slop`"),
        (given | {"a": {"of": 1.0}}, r"no input of this component `a\.of`"),
    ):
        with pytest.raises(simkit.SimkitError, match=match):
            apply(wrong)
    for names, wanted, match in (
        ((), ("y",), r"`jac_inputs` must hold paths"),
        (("a",), (), r"`jac_outputs` must hold paths"),
        ("a", ("y",), r"`jac_inputs` must hold paths, such as \{\"x\"\}, but it is 'a'"),
    ):
        with pytest.raises(simkit.ArgumentError, match=match):
            jacobian(given, names, wanted)
    with pytest.raises(simkit.ArgumentError, match="`tangent_vector` must hold an array for each path"):
        made.endpoints.jacobian_vector_product(given, {"a"}, {"y"}, {})
    with pytest.raises(simkit.ArgumentError, match="vector at `y` must have the shape"):
        made.endpoints.vector_jacobian_product(given, {"a"}, {"y"}, {"y": np.ones(7)})


def exported(tmp_path, *more):
    study = tmp_path / "line.toml"
    study.write_text(LINE)
    return main(["export", str(study), str(tmp_path / "made"), "--tesseract", *more])


def test_a_study_as_a_folder(tmp_path, capsys):
    assert exported(tmp_path) == 0
    names = {path.name for path in (tmp_path / "made").iterdir()}
    assert names == {"line.toml", "tesseract_api.py", "tesseract_config.yaml", "tesseract_requirements.txt"}
    assert "from_tesseract_api" in capsys.readouterr().out
    assert exported(tmp_path) == 2
    assert "exists already" in capsys.readouterr().err
    assert exported(tmp_path, "--overwrite") == 0
    made = tesseract.from_study(simkit.load_study(tmp_path / "made" / "line.toml"))
    np.testing.assert_allclose(made.endpoints.apply(made.defaults())["x"], 2 * np.exp([0, -0.5, -1.0]), rtol=1e-9)


def test_files_outside_the_folder_are_refused(tmp_path):
    (tmp_path / "line.toml").write_text(LINE)
    study = simkit.load_study(tmp_path / "line.toml")
    study.files["../data.csv"] = ""
    with pytest.raises(simkit.ArgumentError, match=r"must lie in its folder to go with it, but `../data.csv`"):
        tesseract.study_files(study)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tesseract_core") is None, reason="needs the extra tesseract")
def test_tesseract_core_takes_a_component(tmp_path):
    from tesseract_core import Tesseract
    from tesseract_core.runtime.testing.finite_differences import check_gradients

    exported(tmp_path)
    served = Tesseract.from_tesseract_api(tmp_path / "made" / "tesseract_api.py")
    np.testing.assert_allclose(served.apply({})["x"], 2 * np.exp([0, -0.5, -1.0]), rtol=1e-9)
    system, y0, _, _ = odes.LotkaVolterra.example()
    component = tesseract.from_system(system, y0, TIMES, names=["growth", "y0.hare"])
    module = types.ModuleType("tesseract_api")
    module.InputSchema, module.OutputSchema = component.schemas()
    vars(module).update(component.endpoints._asdict())
    served = Tesseract.from_tesseract_api(module)
    assert served.abstract_eval({})["hare"] == {"shape": (6,), "dtype": "float64"}
    checked = list(check_gradients(module, {"inputs": {}}, rtol=1e-4, show_progress=False, max_evals=50, seed=0))
    assert {name for name, _, _ in checked} == {"jacobian", "jacobian_vector_product", "vector_jacobian_product"}
    for name, results, count in checked:
        assert count > 0, name
        assert all(result.exception is None for result in results), results
