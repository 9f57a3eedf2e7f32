"""Functional mock-up units as systems: those of `write_fmu` and one with events, against their equations and exact solutions."""

import dataclasses
import pickle
import shutil
import warnings
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.networks import _fmu, read_fmu, write_fmu

pytest.importorskip("fmpy")
pytestmark = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")

POND = simkit.from_equations(
    {
        "d prey": "growth*prey - bite",
        "d hunter": "gain*bite - death*hunter + drift",
        "bite": "prey*hunter/(1 + prey^0.5)",
    },
    parameters={"growth": 1.1, "gain": 0.4, "death": simkit.quantity(0.3, unit="1/day")},
    inputs={"drift": simkit.Input("1/day", default=0.05)},
    outputs={"eaten": "bite*gain"},
)
START = {"prey": 1.0, "hunter": 0.5}
TIMES = np.linspace(0.0, 6.0, 7)
STEP = simkit.Adaptive(1e-9)


@pytest.fixture(scope="module")
def pond(tmp_path_factory):
    return read_fmu(write_fmu(POND, START, tmp_path_factory.mktemp("unit") / "pond.fmu", times=(0.0, 6.0)))


def changed(path, description=lambda text: text, drop=""):
    """The unit with another description, or without some of its files."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not drop or drop not in name}
    text = files["modelDescription.xml"].decode()
    files["modelDescription.xml"] = description(text).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_it_is_the_system_that_was_written(pond):
    assert {name: float(x) for name, x in pond.start().items()} == START
    assert pond.unit.span == (0.0, 6.0)
    assert pond.reads()["drift"] == simkit.Input("1/day", default=0.05)
    found = simkit.simulate(pond, pond.start(), TIMES, inputs={"drift": 0.2}, step=STEP)
    expected = simkit.simulate(POND, START, TIMES, inputs={"drift": 0.2}, step=STEP)
    for name in START:
        np.testing.assert_allclose(found.ys[name], expected.ys[name], rtol=1e-9)  # rounding grows 1e5 times
    at = jnp.asarray(1.0), {name: jnp.asarray(x) for name, x in START.items()}, {"drift": jnp.asarray(0.2)}
    np.testing.assert_allclose(pond.outputs(*at)["eaten"], POND.outputs(*at)["eaten"], rtol=1e-14)
    jacobian = jax.jacfwd(lambda y: pond.encode(POND.vector_field(at[0], pond.decode(y), at[2])))
    np.testing.assert_allclose(
        pond.jacobian(at[0], pond.encode(at[1]), at[2]), jacobian(pond.encode(at[1])), rtol=1e-14
    )


def ends(system, growth, drift, **options):
    """The last state by a parameter and an input."""
    if isinstance(system, simkit.networks.FMUSystem):
        system = dataclasses.replace(system, parameters={**system.parameters, "growth": growth})
    else:
        system = dataclasses.replace(system, growth=growth)
    final = simkit.simulate(system, START, TIMES, inputs={"drift": drift}, step=STEP, **options).final()
    return jnp.stack([final["prey"], final["hunter"]])


@pytest.mark.parametrize(
    ("derivative", "options"), [(jax.jacfwd, {}), (jax.jacrev, {}), (jax.jacfwd, {"solver": "bdf"})]
)
def test_first_derivatives_go_through_the_solve(pond, derivative, options):
    at = jnp.asarray(1.1), jnp.asarray(0.05)
    found, expected = (derivative(lambda *x, s=s: ends(s, *x, **options), (0, 1))(*at) for s in (pond, POND))
    # By parameters they are central differences of the slopes; BDF steps by another matrix, to the tolerance.
    np.testing.assert_allclose(found, expected, rtol=1e-4 if options else 1e-8)


def test_second_derivatives(pond):
    def slope(system):
        field = lambda y: pond.encode(
            system.vector_field(jnp.asarray(0.0), pond.decode(y), {"drift": jnp.asarray(0.1)})
        )
        return (lambda y: pond.vector_field(0.0, y, {"drift": 0.1})) if system is pond else field

    y = jnp.array([1.0, 0.5])
    found, expected = (jax.jacfwd(jax.jacfwd(slope(system)))(y) for system in (pond, POND))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(jax.jacrev(jax.jacrev(slope(pond)))(y), expected, rtol=1e-6, atol=1e-9)
    final = ends(pond, jnp.asarray(1.1), jnp.asarray(0.05), solver="rodas5p")
    np.testing.assert_allclose(final, ends(POND, jnp.asarray(1.1), jnp.asarray(0.05)), rtol=1e-6)
    with pytest.raises(simkit.ArgumentError, match="has no third derivatives"):
        jax.jacfwd(jax.jacfwd(jax.jacfwd(slope(pond))))(y)


def test_ensembles_and_pickles(pond):
    growth = np.array([0.9, 1.1, 1.3])
    members = simkit.ensemble(pond, START, TIMES, over={"growth": growth}, step=STEP)
    expected = simkit.ensemble(POND, START, TIMES, over={"growth": growth}, step=STEP)
    np.testing.assert_allclose(members.ys["prey"], expected.ys["prey"], rtol=1e-7, atol=1e-9)
    again = pickle.loads(pickle.dumps(pond))
    assert again.unit == pond.unit
    assert float(again.vector_field(0.0, jnp.ones(2), None)[0]) == float(pond.vector_field(0.0, jnp.ones(2), None)[0])


def test_it_is_fitted(pond):
    data = simkit.simulate(dataclasses.replace(POND, growth=jnp.asarray(1.3)), START, TIMES[:4]).ys["prey"]
    problem = simkit.Problem(
        pond,
        simkit.Experiment("pond", TIMES[:4], {"prey": data}),
        y0=START,
        free={"growth": simkit.Free(bounds=(0.5, 2.0))},
        noise={"prey": simkit.noise.Normal(0.01)},
        step=simkit.Fixed(20),
    )
    np.testing.assert_allclose(simkit.fit(problem, starts=1).estimate, [1.3], rtol=1e-4)


def test_differences_stand_in_for_derivatives(tmp_path, pond):
    path = write_fmu(POND, START, tmp_path / "plain.fmu", times=(0.0, 6.0))
    plain = read_fmu(without_derivatives(path))
    assert not plain.unit.exact
    y = pond.encode(pond.start())
    np.testing.assert_allclose(plain.jacobian(0.0, y, None), pond.jacobian(0.0, y, None), rtol=1e-9)


def test_wrong_derivatives_of_a_unit_are_seen(monkeypatch, tmp_path, pond):
    monkeypatch.setattr(_fmu, "FUNCTIONS", _fmu.FUNCTIONS.replace("= found[unknown[i]]", "= 1.01*found[unknown[i]]"))
    path = write_fmu(POND, START, tmp_path / "wrong.fmu", times=(0.0, 6.0))
    with pytest.warns(UserWarning, match="are not those of its slopes"):
        wrong = read_fmu(path)
    y = pond.encode(pond.start())
    np.testing.assert_allclose(wrong.jacobian(0.0, y, None), pond.jacobian(0.0, y, None), rtol=1e-9)


def test_a_unit_without_states_is_static(tmp_path):
    path = write_fmu(POND, START, tmp_path / "static.fmu")

    def stateless(text):
        """The description without derivatives and states: `eaten` follows from the start values."""
        begin, end = text.index("<Derivatives>"), text.index("</Derivatives>") + len("</Derivatives>")
        text = text[:begin] + text[end:]
        return text.replace('derivative="1"', "").replace('derivative="2"', "")

    system = read_fmu(changed(path, stateless), parameters=["gain"])
    assert isinstance(system, simkit.networks.StaticFMU)
    assert system.start() is None

    def eaten(gain):
        return dataclasses.replace(system, parameters={"gain": gain}).outputs(jnp.asarray(0.0), None, None)["eaten"]

    value, slope = jax.jvp(eaten, (jnp.asarray(0.4),), (jnp.asarray(1.0),))
    np.testing.assert_allclose([value, slope], [0.4 * 0.25, 0.25], rtol=1e-8)  # bite = 1*0.5/(1 + 1)


def without_derivatives(path):
    """The unit as one that has none."""
    return changed(path, lambda text: text.replace('providesDirectionalDerivative="true"', ""))


@pytest.mark.parametrize(
    ("formula", "start", "at", "expected"),
    [
        ("-x/(1 + x)", 1e6, 1.0, -0.25),
        ("-x/(1e-12 + x)", 0.0, 1e-12, -2.5e11),
        ("exp(x/1e-9)", 0.0, 0.0, 1e9),
        ("-ln(x)", 1e-12, 1e-12, -1e12),
        ("x^3 - 1e12*x", 1e6, 0.0, -1e12),
    ],
)
def test_differences_find_the_size_at_which_a_unit_bends(tmp_path, formula, start, at, expected):
    system = simkit.from_equations({"d x": formula}, parameters={"k": 1.0})
    path = write_fmu(system, {"x": start}, tmp_path / "bent.fmu")
    own = read_fmu(path)  # whose derivatives must not be blamed
    assert own.unit.exact
    found = read_fmu(without_derivatives(path)).jacobian(0.0, jnp.array([at]), None)[0, 0]
    np.testing.assert_allclose([own.jacobian(0.0, jnp.array([at]), None)[0, 0], found], expected, rtol=1e-5)


def test_fast_changes_in_long_experiments_and_kinks(tmp_path):
    system = simkit.from_equations({"d x": "sin(100*t) + if(x > 1, -x, 0)"}, parameters={"k": 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unit = read_fmu(write_fmu(system, {"x": 1.0}, tmp_path / "long.fmu", times=(0.0, 1e6)))
    slope = jax.jacfwd(lambda t: unit.vector_field(t, jnp.array([0.5]), None)[0])(1.0)
    np.testing.assert_allclose(slope, 100 * np.cos(100), rtol=1e-6)


def test_states_and_values_that_make_no_sense(tmp_path, pond):
    with pytest.raises(simkit.ArgumentError, match="must hold `prey`, `hunter`, but `prey` is missing"):
        simkit.simulate(pond, {"rabbit": 1.0, "hunter": 1.0}, TIMES)
    path = write_fmu(POND, START, tmp_path / "pond.fmu")
    with pytest.raises(simkit.ArgumentError, match="of type Real, and finite, but it is nan"):
        read_fmu(path, values={"gain": np.nan})
    with pytest.raises(simkit.ArgumentError, match=r"`der\(prey\)` must have a start value that can be set"):
        read_fmu(path, values={"der(prey)": 1.0})
    path.unlink()
    with pytest.raises(simkit.DataError, match="There is no functional mock-up unit"):
        dataclasses.replace(pond.unit, path=str(path), outputs=()).values(
            "slopes", 0.0, np.ones(2), np.zeros(1), np.ones(3)
        )


def test_chosen_parameters_outputs_and_values(tmp_path):
    path = write_fmu(POND, START, tmp_path / "pond.fmu")
    system = read_fmu(path, parameters=["growth"], outputs=["der(prey)"], values={"gain": 0.5, "hunter": 2.0})
    assert list(system.parameters) == ["growth"]
    assert float(system.start()["hunter"]) == 2.0
    other = dataclasses.replace(POND, gain=jnp.asarray(0.5))
    y = {"prey": jnp.asarray(1.0), "hunter": jnp.asarray(2.0)}
    slopes = other.vector_field(jnp.asarray(0.0), y, {"drift": 0.05})
    found = system.outputs(0.0, y, {"drift": 0.05})
    np.testing.assert_allclose(found["der(prey)"], slopes["prey"], rtol=1e-14)
    np.testing.assert_allclose(found["eaten"], 0.5 * 2.0 / 2.0, rtol=1e-14)


BALL = simkit.from_equations({"d height": "speed", "d speed": "-g"}, parameters={"g": 9.81, "back": 0.7})
INDICATOR = (
    "fmi2GetEventIndicators(Component c, double values[], size_t n) { values[0] = ((Model*)c)->r[0]; return OK; }"
)
BOUNCE = """fmi2NewDiscreteStates(Component c, EventInfo* info) {
    double* r = ((Model*)c)->r;
    memset(info, 0, sizeof(EventInfo));
    if (r[0] <= 0 && r[1] < 0) { r[0] = 0; r[1] *= -r[5]; info->values_changed = 1; MORE }
    return OK;
}"""


def ball(monkeypatch, path, more=""):
    """A unit that bounces by its own events."""
    source = _fmu.FUNCTIONS
    for name, new in (("fmi2GetEventIndicators", INDICATOR), ("fmi2NewDiscreteStates", BOUNCE.replace("MORE", more))):
        begin = source.index(name)
        source = source[:begin] + new + source[source.index("}\n", begin) + 1 :]
    monkeypatch.setattr(_fmu, "FUNCTIONS", source)
    write_fmu(BALL, {"height": 1.0, "speed": 0.0}, path, times=(0.0, 2.0))
    return read_fmu(changed(path, lambda text: text.replace('EventIndicators="0"', 'EventIndicators="1"')))


def test_its_events_are_found_and_differentiated(monkeypatch, tmp_path):
    system = ball(monkeypatch, tmp_path / "ball.fmu")
    with pytest.raises(simkit.ArgumentError, match=r"Give `events=system.own_events\(\)`"):
        simkit.simulate(system, system.start(), [0.0, 1.0])

    def bounces(back):
        other = dataclasses.replace(system, parameters={**system.parameters, "back": back})
        return simkit.simulate(other, system.start(), [0.0, 1.6], events=system.own_events()).events.times[:3]

    fall = np.sqrt(2 / 9.81)
    # The ball is up for 2 fall back^k after bounce k.
    np.testing.assert_allclose(bounces(jnp.asarray(0.7)), fall * np.array([1, 2.4, 3.38]), rtol=1e-9)
    slopes = jax.jacfwd(bounces)(jnp.asarray(0.7))
    np.testing.assert_allclose(slopes, fall * np.array([0, 2, 2 + 4 * 0.7]), rtol=1e-6, atol=1e-9)


def test_what_it_remembers_ends_the_run(monkeypatch, tmp_path):
    system = ball(monkeypatch, tmp_path / "tired.fmu", "r[4] = 1;")
    with (
        pytest.warns(UserWarning, match="changes at its event at time 0.45"),
        pytest.raises(simkit.SimulationError, match="gives a state that is not finite"),
    ):
        simkit.simulate(system, system.start(), [0.0, 1.0], events=system.own_events())


def refused(path, case):
    """Units that no system is made of."""
    if case == "other file":
        path.write_text("no archive")
    elif case == "absent":
        path.unlink()
    else:
        edits = {
            "version": ('fmiVersion="2.0"', 'fmiVersion="1.0"'),
            "co-simulation": ("ModelExchange", "Other"),
            "memory": ('EventIndicators="0"', 'EventIndicators="2"'),
            "discrete": ('causality="output" variability="continuous" />', ""),
        }
        old, new = edits.get(case, ("", ""))
        edit = (lambda text: text.replace(old, new)) if old else (lambda text: text)
        if case == "memory":
            edit = lambda text: text.replace(old, new).replace(
                '"local" variability="continuous"', '"local" variability="discrete"'
            )
        changed(path, edit, drop="binaries" if case == "library" else "")
    return path


@pytest.mark.parametrize(
    ("case", "options", "error", "said"),
    [
        ("other file", {}, simkit.DataError, "is no functional mock-up unit"),
        ("absent", {}, simkit.DataError, "There is no functional mock-up unit"),
        ("version", {}, (simkit.ArgumentError, simkit.DataError), "1.0|cannot be read"),
        ("co-simulation", {}, simkit.ArgumentError, "must be one for model exchange"),
        ("memory", {}, simkit.ArgumentError, r"discrete variables, `der\(prey\)`"),
        ("library", {}, simkit.ArgumentError, "must hold a library for this machine"),
        ("", {"parameters": ["grow"]}, simkit.UnknownNameError, "growth"),
        ("", {"parameters": "growth"}, simkit.ArgumentError, "must be a list of names"),
        ("", {"outputs": ["eat"]}, simkit.UnknownNameError, "eaten"),
        ("", {"values": {"growth": "fast"}}, simkit.ArgumentError, "must be of type Real, and finite"),
        ("", {"values": {"growth": True}}, simkit.ArgumentError, "must be of type Real, and finite"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, case, options, error, said):
    path = refused(write_fmu(POND, START, tmp_path / "pond.fmu"), case)
    with pytest.raises(error, match=said):
        read_fmu(path, **options)


def test_a_unit_that_has_changed_is_not_taken_for_the_one_read(tmp_path):
    path = write_fmu(POND, START, tmp_path / "pond.fmu")
    system = read_fmu(path)
    write_fmu(POND, {"prey": 2.0, "hunter": 0.5}, path)
    with pytest.raises(simkit.DataError, match="has changed since it was read"):
        dataclasses.replace(system.unit, outputs=()).values("slopes", 0.0, np.ones(2), np.zeros(1), np.ones(3))
