"""Systems of equations as text: values, derivatives, travel, export, and mistakes."""

import pickle
import sys
import types

import jax
import jax.numpy as jnp
import libsbml
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, DataError, UnknownNameError

EQUATIONS = {
    "d algae": "growth*algae*(1 - algae/capacity) - uptake",
    "dgrazers/dt": "gain*uptake - death*grazers",
    "uptake": "light*grazing*algae*grazers/(half + algae)",
}
PARAMETERS = {
    "growth": simkit.quantity(0.8, unit="1/day", support=simkit.POSITIVE, doc="growth rate"),
    "capacity": 9.0,
    "grazing": 1.2,
    "half": 2.0,
    "gain": 0.3,
    "death": 0.1,
}
INPUTS = {"light": simkit.Input(default=1.0)}


def pond(**more):
    given = {"inputs": INPUTS, "outputs": {"green": "0.02*algae"}, "name": "Pond"} | more
    return simkit.from_equations(EQUATIONS, parameters=PARAMETERS, **given)


def test_lotka_volterra_of_text_is_that_of_code():
    known, y0, times, _ = simkit.odes.LotkaVolterra.example()
    text = {
        "d hare": "growth*hare - predation*hare*lynx",
        "d lynx": "conversion*hare*lynx - death*lynx",
    }
    values = {name: float(simkit.core.Setup(known).get(name)) for name in simkit.core.Setup(known).names()}
    told = simkit.from_equations(text, parameters=values)
    options = {"step": simkit.Adaptive(1e-7)}
    found = simkit.simulate(told, told.State(hare=30.0, lynx=4.0), times, **options).ys
    exact = simkit.simulate(known, y0, times, **options).ys
    np.testing.assert_allclose(found.hare, exact.hare, rtol=1e-4)  # both within their tolerance, in either float type
    np.testing.assert_allclose(found.lynx, exact.lynx, rtol=1e-4)


def test_the_jacobian_is_exact():
    system = pond()
    y = {"algae": jnp.asarray(3.0), "grazers": jnp.asarray(0.5)}
    slopes = jax.jacfwd(lambda y: system.vector_field(0.0, y, {"light": 1.0}))(y)
    a, g = 3.0, 0.5
    feeding = 1.2 * g * 2.0 / (2.0 + a) ** 2  # d uptake / d algae, by hand
    np.testing.assert_allclose(slopes["algae"]["algae"], 0.8 * (1 - 2 * a / 9.0) - feeding, rtol=1e-6)
    np.testing.assert_allclose(slopes["grazers"]["grazers"], 0.3 * 1.2 * a / (2 + a) - 0.1, rtol=1e-6)


def test_parameters_are_quantities_and_the_system_travels():
    system = pond(states={"algae": simkit.quantity(unit="g/m^3")})
    setup = simkit.core.Setup(system, system.State(algae=1.0, grazers=0.2))
    assert setup.metadata("growth") == ("1/day", simkit.POSITIVE, "growth rate")
    assert setup.metadata("y0.algae").unit == "g/m^3"
    again = pickle.loads(pickle.dumps(system))
    assert type(again) is type(system)
    assert "dalgae/dt = growth*algae" in repr(system)
    page = system._repr_html_()
    assert "<math" in page
    assert "http" not in page


def test_a_fit_finds_its_parameters():
    system = pond()
    times = np.linspace(0.0, 12.0, 13)
    truth = simkit.simulate(system, system.State(algae=1.0, grazers=0.2), times)
    green = 0.02 * np.asarray(truth.ys.algae)
    problem = simkit.Problem(
        system,
        simkit.Experiment("e", times, {"green": green}, y0=system.State(algae=1.0, grazers=0.2)),
        free={"growth": simkit.Free(bounds=(0.2, 3.0))},
        noise={"green": simkit.noise.Normal(0.001)},
    )
    found = simkit.fit(problem, starts=1, key=jax.random.key(0))
    np.testing.assert_allclose(found.estimate, [0.8], rtol=1e-3)


def test_python_source_is_the_same_model():
    system = pond()
    source = simkit.networks.equations_source(system, {"algae": 1.0, "grazers": 0.2}, [0.0, 10.0])
    module = sys.modules["written"] = types.ModuleType("written")
    try:
        exec(compile(source, "written.py", "exec"), module.__dict__)
        written, y0, _, _ = module.Pond.example()
        slope = written.vector_field(0.0, jax.tree.map(jnp.asarray, y0), {"light": 0.5})
    finally:
        del sys.modules["written"]
    own = system.vector_field(0.0, system.State(algae=1.0, grazers=0.2), {"light": 0.5})
    np.testing.assert_allclose([slope.algae, slope.grazers], [own.algae, own.grazers], rtol=1e-6)


def test_sbml_is_valid():
    text = simkit.petab.equations_sbml(pond(), {"algae": 1.0, "grazers": 0.2})
    document = libsbml.readSBMLFromString(text)
    document.setConsistencyChecks(libsbml.LIBSBML_CAT_UNITS_CONSISTENCY, False)
    document.checkConsistency()
    errors = [document.getError(i) for i in range(document.getNumErrors())]
    assert not [error.getMessage() for error in errors if error.getSeverity() >= libsbml.LIBSBML_SEV_ERROR]
    model = document.getModel()
    assert model.getNumRules() == 4
    assert model.getParameter("growth").getValue() == 0.8
    assert libsbml.formulaToL3String(model.getRateRule("grazers").getMath()) == "gain * uptake - death * grazers"


def refused(error, match, equations=None, parameters=None, **more):
    with pytest.raises(error, match=match):
        simkit.from_equations(equations or {"d x": "-k*x"}, parameters=parameters or {"k": 1.0}, **more)


@pytest.mark.parametrize("name", ["lambda", "None", "True", "class", "State"])
def test_names_that_no_field_can_have(name):
    refused(ArgumentError, f"The name `{name}` of a parameter must be another one", {"d x": "-x"}, {name: 1.0})
    if name != "State":
        refused(ArgumentError, f"The name `{name}` of a state must be another one", {f"d {name}": "-k"})


def test_mistakes_are_refused_by_place():
    refused(
        (UnknownNameError, DataError), r"`d x`.*growht.*Close matches: `growth`", {"d x": "growht*x"}, {"growth": 1.0}
    )
    refused(UnknownNameError, r"The state `z` must have an equation", states={"z": simkit.quantity(unit="m")})
    refused(DataError, "`a` uses `b` uses `a`", {"d x": "a", "a": "b + k", "b": "2*a"})
    refused(ArgumentError, "stands there twice", {"d x": "-k*x", "x'": "k"})
    refused(ArgumentError, "must hold a derivative", {"x": "k"})
    refused(ArgumentError, "left side of an equation", {"d x + y": "k"})
    refused(DataError, "a parenthesis is not closed", {"d x": "-k*(x"})
    refused(DataError, "function `sinus`.*unknown", {"d x": "sinus(x)"})
    refused(ArgumentError, "must be positive", parameters={"k": simkit.quantity(-1.0, support=simkit.POSITIVE)})
    refused(ArgumentError, "`k` is a parameter and an input", inputs={"k": simkit.Input()})
    refused(ArgumentError, "means something else", parameters={"k": 1.0, "t": 2.0})
    refused(ArgumentError, "systems have a method or a class of it", parameters={"k": 1.0, "outputs": 2.0})
    refused(ArgumentError, "must be a number or a quantity with a value", parameters={"k": "fast"})
    with pytest.raises(ArgumentError, match="must give `light`"):
        simkit.simulate(pond(inputs={"light": simkit.Input()}), {"algae": 1.0, "grazers": 1.0}, [0.0, 1.0])
