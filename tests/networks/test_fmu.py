"""Functional mock-up units: their library by ctypes against simkit, and where it is installed FMPy's validation and simulation."""

import ctypes
import dataclasses
import shutil
import xml.etree.ElementTree as xml
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.networks import write_fmu

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
START = {"prey": 1.0, "hunter": 0.5}
POND = simkit.from_equations(
    {
        "d prey": "growth*prey - bite",
        "d hunter": "gain*bite - death*hunter + if(t > 3, drift, 0)",
        "bite": "rate*prey*hunter/(1 + max(prey, 0.1)^0.5)",
    },
    parameters={
        "growth": simkit.quantity(1.1, unit="1/day", support=simkit.POSITIVE, doc="of prey"),
        "gain": 0.4,
        "death": 0.3,
        "rate": 0.7,
    },
    inputs={"drift": simkit.Input("1/day", default=0.05)},
    outputs={"eaten": "bite*gain"},
    name="Pond",
)
FORMULAS = (
    "exp(-x) + ln(x) + log10(x) + log2(y) + abs(-x) + sqrt(x) + rint(7*x) + _pi*_e",
    "sin(x) + cos(y) + tan(x/3) + sinh(x) + cosh(y) + tanh(x)",
    "asin(x/3) + acos(x/3) + atan(y) + asinh(x) + acosh(x + 2) + atanh(x/3)",
    "x^y + (x - 9)^2 + (x - 9)^3 + (x - 9)^(y - 0.5) + (x - 9)^0.5 + 2^x - -x/y",
    "min(x, y, t) + max(x, y) + sum(x, y, 1) + avg(x, y)",
    "if(x > 1 && !(y == 2), 3, 4)*if(x < 1 || y >= 2, 5, 6) + (x != y) + if(x <= y, x, y)",
)


class Library:
    """A unit's library, as an importer calls it."""

    def __init__(self, path, folder):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
            self.description = xml.fromstring(archive.read("modelDescription.xml"))
        (binary,) = (file for file in (folder / "binaries").glob("*/*"))
        self.c = ctypes.CDLL(str(binary))
        self.c.fmi2Instantiate.restype = self.c.fmi2GetVersion.restype = ctypes.c_void_p
        rows = self.description.iter("ScalarVariable")
        self.reference = {row.get("name"): int(row.get("valueReference")) for row in rows}
        guid = self.description.get("guid").encode()
        assert self.c.fmi2Instantiate(b"a", 1, b"of another unit", b"", None, 0, 0) is None
        self.at = ctypes.c_void_p(self.c.fmi2Instantiate(b"a", 1, guid, b"", None, 0, 0))
        self.c.fmi2SetupExperiment(self.at, 1, ctypes.c_double(1e-9), ctypes.c_double(0.0), 0, ctypes.c_double(0.0))

    def get(self, *names):
        values = (ctypes.c_double * len(names))()
        references = (ctypes.c_uint * len(names))(*(self.reference[name] for name in names))
        assert self.c.fmi2GetReal(self.at, references, ctypes.c_size_t(len(names)), values) == 0
        return np.array(values)

    def set(self, name, value):
        reference, number = (ctypes.c_uint * 1)(self.reference[name]), (ctypes.c_double * 1)(value)
        return self.c.fmi2SetReal(self.at, reference, ctypes.c_size_t(1), number)

    def step(self, begin, length):
        return self.c.fmi2DoStep(self.at, ctypes.c_double(begin), ctypes.c_double(length), 1)


@needs_compiler
def test_slopes_outputs_and_steps_are_those_of_simkit(tmp_path):
    unit = Library(write_fmu(POND, START, tmp_path / "pond.fmu", times=(0.0, 6.0)), tmp_path)
    np.testing.assert_array_equal(unit.get("prey", "hunter", "growth", "drift"), [1.0, 0.5, 1.1, 0.05])
    slopes = POND.vector_field(jnp.asarray(0.0), START, {"drift": 0.05})
    np.testing.assert_allclose(unit.get("der(prey)", "der(hunter)"), [slopes["prey"], slopes["hunter"]], rtol=1e-14)
    assert unit.set("drift", 0.2) == unit.set("growth", 0.9) == 0
    assert unit.set("eaten", 1.0) == 3  # an output is not set
    other = dataclasses.replace(POND, growth=jnp.asarray(0.9))
    times, inputs = jnp.array([0.0, 1.5, 3.0, 6.0]), {"drift": 0.2}
    expected = simkit.simulate(other, START, times, inputs=inputs, step=simkit.Adaptive(1e-10)).ys
    for i in range(1, 4):
        assert unit.step(float(times[i - 1]), float(times[i] - times[i - 1])) == 0
        # Tolerances of 1e-9 and 1e-10 a step.
        np.testing.assert_allclose(unit.get("prey", "hunter"), [expected["prey"][i], expected["hunter"][i]], rtol=1e-6)


@needs_compiler
def test_functions_of_formulas_are_those_of_simkit(tmp_path):
    outputs = {f"o{i}": text for i, text in enumerate(FORMULAS)}
    system = simkit.from_equations({"d x": "-x", "d y": "t"}, parameters={"k": 1.0}, outputs=outputs)
    for place, state in enumerate(({"x": 0.7, "y": 1.3}, {"x": 2.5, "y": 2.0})):
        unit = Library(write_fmu(system, state, tmp_path / f"all{place}.fmu"), tmp_path / str(place))
        expected = system.outputs(jnp.asarray(0.0), {name: jnp.asarray(x) for name, x in state.items()}, None)
        # C's and XLA's functions agree to some units in the last place.
        np.testing.assert_allclose(unit.get(*outputs), [float(expected[name]) for name in outputs], rtol=1e-13)


@needs_compiler
def test_a_blow_up_is_a_failed_step(tmp_path):
    system = simkit.from_equations({"d x": "x^2"}, parameters={"k": 1.0})
    unit = Library(write_fmu(system, {"x": 1.0}, tmp_path / "up.fmu"), tmp_path)
    assert unit.step(0.0, 0.9) == 0
    np.testing.assert_allclose(unit.get("x"), 10.0, rtol=1e-6)  # x = 1 / (1 - t)
    assert unit.step(0.9, 0.2) == 3


def test_source_alone_and_the_description(tmp_path):
    one, two = (write_fmu(POND, START, tmp_path / f"{name}.fmu", compiler="none") for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archive:
        assert archive.namelist() == ["modelDescription.xml", "sources/Pond.c"]
        description = xml.fromstring(archive.read("modelDescription.xml"))
    kept = {row.get("name"): row for row in description.iter("ScalarVariable")}
    assert kept["growth"].get("causality") == "parameter"
    assert kept["growth"].find("Real").attrib == {"unit": "1/day", "start": "1.1"}
    assert kept["der(hunter)"].find("Real").get("derivative") == "2"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda path: write_fmu(POND, START, path.with_suffix(".zip")), 'must end with ".fmu"'),
        (lambda path: write_fmu(POND, START, path, times=(1.0, 1.0)), "must increase"),
        (lambda path: write_fmu(POND, {"prey": 1.0}, path), "must give the state `hunter`"),
        (lambda path: write_fmu(POND, START, path, compiler="no-such-compiler"), "`no-such-compiler` is not found"),
        (lambda path: write_fmu(POND, START, path, compiler="false"), "The compiler `false` failed"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, given, said):
    with pytest.raises(simkit.ArgumentError, match=said):
        given(tmp_path / "a.fmu")
    assert not list(tmp_path.iterdir())


@needs_compiler
def test_fmpy_validates_and_simulates(tmp_path):
    fmpy = pytest.importorskip("fmpy")
    from fmpy.validation import validate_fmu

    path = write_fmu(POND, START, tmp_path / "pond.fmu", times=(0.0, 5.0))
    assert validate_fmu(str(path)) == []
    expected = simkit.simulate(POND, START, [0.0, 5.0], step=simkit.Adaptive(1e-10)).final()
    for kind, tolerance in (("ModelExchange", 1e-5), ("CoSimulation", 1e-6)):
        found = fmpy.simulate_fmu(str(path), fmi_type=kind, relative_tolerance=1e-9, output_interval=0.5)[-1]
        np.testing.assert_allclose(
            [found["prey"], found["hunter"]], [expected["prey"], expected["hunter"]], rtol=tolerance
        )
