"""Events in study files: formulas of conditions and changes, beside closed forms, through every command."""

import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import StudyError, UnknownNameError
from simkit.core import as_events
from simkit.report import report
from simkit.stores import describe
from simkit.study import study_from_text, study_text
from simkit.study.runs import explain_study, simulate_study, sweep_study


class Ball(simkit.PlainSystem):
    """A ball in free fall."""

    gravity: simkit.Scalar = simkit.quantity(9.81, unit="m/s2", support=simkit.POSITIVE, doc="acceleration")
    restitution: simkit.Scalar = simkit.quantity(0.9, unit="1", support=simkit.POSITIVE, doc="speed kept by a bounce")

    def vector_field(self, t, y, inputs):
        return {"height": y["speed"], "speed": -self.gravity}

    @classmethod
    def example(cls):
        return simkit.Example(
            cls(), {"height": jnp.asarray(2.0), "speed": jnp.asarray(0.0)}, jnp.linspace(0.0, 3.0, 31)
        )


class Room(simkit.PlainSystem):
    """A room that loses heat and has a heater of 20 K per hour, which is on (1) or off (0)."""

    loss: simkit.Scalar = simkit.quantity(0.5, unit="1/h", support=simkit.POSITIVE, doc="rate of loss")

    def reads(self):
        return {"outside": simkit.Input(unit="degC", default=5.0)}

    def vector_field(self, t, y, inputs):
        outside = (inputs or {}).get("outside", 5.0)
        return {
            "heater": jnp.zeros_like(y["heater"]),
            "warmth": 20.0 * y["heater"] - self.loss * (y["warmth"] - outside),
        }

    @classmethod
    def example(cls):
        return simkit.Example(
            cls(), {"heater": jnp.asarray(1.0), "warmth": jnp.asarray(18.0)}, jnp.linspace(0.0, 3.0, 31)
        )


MODELS = {"ball": Ball, "room": Room, "one_compartment": simkit.odes.OneCompartment}
BALL = """
[system]
model = "ball"
[y0]
height = 2.0
speed = 0.0
[solve]
step = { rtol = 1e-10 }
"""
BOUNCE = """
[[events]]
name = "bounce"
condition = "height < 0"
change = { speed = "-restitution * speed" }
"""
SIMULATE = """
[simulate]
times = { from = 0.0, to = 3.0, count = 31 }
"""


def read(text, **options):
    return study_from_text(text, models=MODELS, **options)


def bounces(count, height=2.0, restitution=0.9, gravity=9.81):
    """Times of bounces: sqrt(2 h / g) (1 + 2 sum of e^k)."""
    first = np.sqrt(2 * height / gravity)
    return first * (1 + 2 * np.concatenate([[0.0], np.cumsum(restitution ** np.arange(1, count))]))


def test_a_ball_bounces_as_in_the_closed_form(tmp_path):
    study = read(BALL + SIMULATE + BOUNCE)
    simulate_study(study, tmp_path)
    results = simkit.load(tmp_path / "result.h5")
    found = results.trajectory.events
    # The field is a polynomial of degree two, so that only rounding is left.
    np.testing.assert_allclose(found.times[:3], bounces(3), rtol=1e-12)
    np.testing.assert_allclose(found.after["speed"][:3], -0.9 * found.before["speed"][:3], rtol=1e-12)
    assert found.names == ("bounce",)
    page = report(results)
    assert re.search(r">Events</h2>\s*<ul><li>bounce 3 times, from 0.63\d* to 2.82\d*</li></ul>", page)


def test_a_thermostat_has_the_period_of_the_closed_form(tmp_path):
    """A thermostat with two comparisons and an input: heated towards 5 + 40 degrees, cooled towards 5."""
    text = """
    [system]
    model = "room"
    [y0]
    heater = 1.0
    warmth = 18.0
    [inputs]
    outside = 5.0
    [solve]
    step = { rtol = 1e-9 }
    [simulate]
    times = { from = 0.0, to = 3.0, count = 31 }
    [[events]]
    name = "off"
    condition = "warmth > outside + 17"
    change = { heater = 0 }
    [[events]]
    name = "on"
    condition = "warmth - 18"
    direction = "down"
    change = { heater = "1 - heater" }
    """
    found = simulate_study(read(text), tmp_path).events
    heated, cooled = np.log(27.0 / 23.0) / 0.5, np.log(17.0 / 13.0) / 0.5  # from 18 to 22 degrees and back
    expected = np.cumsum([heated, cooled, heated, cooled])
    np.testing.assert_allclose(found.times[:4], expected, rtol=1e-7)
    np.testing.assert_array_equal(found.which[:4], [0, 1, 0, 1])


def test_known_times_values_and_the_end(tmp_path):
    text = """
    [[events]]
    name = "kick"
    at = 0.5
    every = 1.0
    values = 3.0
    change = { speed = "speed + value * min(t, 2)" }
    [[events]]
    name = "end"
    condition = "t - 2.75"
    ends = true
    """
    study = read(BALL.replace("9.81", "9.81") + SIMULATE + text)
    np.testing.assert_array_equal(study.events["kick"].at, [0.5, 1.5, 2.5])
    found = simulate_study(study, tmp_path)
    np.testing.assert_allclose(found.events.table()[-1]["before"]["speed"], -9.81 * 2.75 + 3.0 * (0.5 + 1.5 + 2.0))
    np.testing.assert_allclose(found.event_time, 0.5)
    assert np.isnan(found.ys["speed"][-1])


EXPERIMENT = """
[noise]
height = { model = "normal", scale = 0.01 }
[free]
restitution = { bounds = [0.1, 1.0] }
[experiments.drop]
start = 0.0
times = [0.5, 1.0, 1.5]
data = { height = [0.77, 0.9, 1.5] }
"""


def flown(t, restitution):
    """The height before the second bounce."""
    first = np.sqrt(4.0 / 9.81)
    speed = restitution * 9.81 * first
    return np.where(t < first, 2.0 - 0.5 * 9.81 * t**2, speed * (t - first) - 0.5 * 9.81 * (t - first) ** 2)


def test_a_fit_knows_the_events():
    problem = read(BALL + EXPERIMENT + BOUNCE).problem()
    times = np.array([0.5, 1.0, 1.5])
    height = lambda e: problem.predict(e)["height"][0]
    np.testing.assert_allclose(height(jnp.array([0.8])), flown(times, 0.8), rtol=1e-9)
    with pytest.raises(StudyError, match="must not end its simulations"):
        read(BALL + EXPERIMENT + BOUNCE + "ends = true").problem()


@pytest.mark.slow
def test_derivatives_of_a_problem_go_through_formulas():
    problem, times = read(BALL + EXPERIMENT + BOUNCE).problem(), np.array([0.5, 1.0, 1.5])
    height = lambda e: problem.predict(e)["height"][0]
    slope = jax.jacfwd(height)(jnp.array([0.8]))[:, 0]
    # The height after the bounce is linear in the speed that it leaves with.
    np.testing.assert_allclose(slope, (flown(times, 0.81) - flown(times, 0.79)) / 0.02, rtol=1e-7, atol=1e-9)


def test_a_sweep_knows_the_events(tmp_path):
    text = """
    [sweep]
    times = [0.0, 0.5, 1.0]
    [sweep.over]
    restitution = [0.5, 0.7, 0.9]
    """
    study = read(BALL + text + BOUNCE)
    found = sweep_study(study, tmp_path / "store", progress=False)
    expected = [flown(np.array([0.0, 0.5, 1.0]), e) for e in (0.5, 0.7, 0.9)]
    np.testing.assert_allclose(found.trajectory(slice(None)).ys["height"], expected, rtol=1e-9)


def test_a_sweep_goes_on_in_another_process_and_not_with_other_formulas():
    """The definition of a sweep holds the formulas, and nothing that differs from process to process, as hashes of texts do."""
    told = [
        describe({"events": as_events(read(BALL + SIMULATE + text).events)})
        for text in (BOUNCE, BOUNCE, BOUNCE.replace("height < 0", "height < 0.1"))
    ]
    assert told[0] == told[1]
    assert told[0] != told[2]
    assert not [name for name in told[0] if "mark" in name]
    formulas = read(BALL + SIMULATE + BOUNCE).events["bounce"].condition.formulas
    hash(formulas)
    assert "mark" not in vars(pickle.loads(pickle.dumps(formulas)))


@pytest.mark.slow
def test_explain_knows_the_events():
    assert "simulated" in str(explain_study(read(BALL + SIMULATE + BOUNCE)))


def test_doses_come_before_the_events_of_the_study():
    text = """
    [system]
    model = "one_compartment"
    [y0]
    depot = 0.0
    central = 0.0
    [noise]
    concentration = { model = "normal", scale = 0.3 }
    [free]
    clearance = { bounds = [1.0, 50.0] }
    [experiments.one]
    start = 0.0
    times = [1.0, 2.0]
    data = { concentration = [5.0, 4.0] }
    doses = [{ amount = 320.0, into = "depot" }]
    [experiments.two]
    start = 0.0
    times = [1.0, 2.0]
    data = { concentration = [5.0, 4.0] }
    [[events]]
    name = "NAME"
    at = 1.5
    change = { central = "0.5 * central", depot = 0.0 }
    """
    study = read(text.replace("NAME", "dialysis"))
    assert [tuple(e.events) for e in study.experiments] == [("dose", "dialysis")] * 2
    found = study.problem().predict(jnp.array([2.8]))["concentration"]
    ka, ke = 1.5, 2.8 / 32.0
    bateman = 10.0 * ka / (ka - ke) * (np.exp(-ke * np.array([1.0, 1.5])) - np.exp(-ka * np.array([1.0, 1.5])))
    np.testing.assert_allclose(found[0], [bateman[0], 0.5 * bateman[1] * np.exp(-0.5 * ke)], rtol=1e-5)
    np.testing.assert_array_equal(found[1], 0.0)
    with pytest.raises(StudyError, match=r"`name` in .events.dose.*another one than `dose`"):
        read(text.replace("NAME", "dose"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "height <",
            "heigth <",
            "`condition` in .events.bounce.*There is no state.*`heigth`.*`gravity`, `height`, `rest",
        ),
        ("height < 0", "gravity - 3", "must depend on the state"),
        ("height < 0", "height == 0", "must be a number that passes zero, or one comparison"),
        ("height < 0", "height < 0 && speed < 0", "one event for each comparison"),
        ("height < 0", "height <", "an operand is missing at the end"),
        ("height < 0", "__import__(1)", "function `__import__` is called, which is unknown"),
        ("height < 0", "height.real", "There is no state.*`height.real`"),
        ('"height < 0"', '"height < 0"\ndirection = "up"', "must be left out of a comparison"),
        ('"height < 0"', '"height"\ndirection = "dawn"', "there is no direction `dawn`.*`down`"),
        ('"height < 0"', '"height"\nevery = 1.0', "`every`.*goes with known times"),
        ("speed = ", "spede = ", "`spede` in .events.bounce.change.*There is no component.*`height`, `speed`"),
        ('"-restitution * speed"', "true", "must be a formula"),
        ('"-restitution * speed"', '"value"', "There is no state.*`value`"),
        ('change = { speed = "-restitution * speed" }', "", "must say what it does, `change`"),
        ('name = "bounce"', "", "must give `name`"),
        ('name = "bounce"', 'name = "a.b"', "must be a word without dots"),
        ("[[events]]", "[events]", "must be an array of tables"),
        ("condition", "condtion", "must give a `condition` or times.*neither"),
        ("change =", "at = 1.0\nchange =", "gives both"),
        ('condition = "height < 0"', 'at = "1.0"', "`at`.*must be an array"),
        ('condition = "height < 0"', "at = 1.0\nevery = -1.0", "`every`.*must be positive"),
        ('condition = "height < 0"', "at = 1.0\nevery = 1e-9", "at most 100,000"),
        ('condition = "height < 0"', "at = [1.0, 2.0]\nevery = 1.0", "goes with one time"),
        ('condition = "height < 0"', "at = 1.0\nadditional = 2", "goes with an interval"),
        ('condition = "height < 0"', "at = [1.0, 2.0]\nvalues = [1, 2, 3]", "one number for each of 2 times"),
        ('condition = "height < 0"', "at = 1.0\nvalues = 2.0", "`values`.*must be used by a formula of `change`"),
        ('condition = "height < 0"', 'at = 1.0\ndirection = "up"', "`direction`.*goes with a `condition`"),
        ("change =", "chnage =\nchange =", "Invalid|TOML"),
        ("change =", "lag = 1.0\nchange =", "has no key `lag`"),
    ],
)
def test_what_is_wrong_is_a_sentence_with_its_place(old, new, words):
    assert old in BOUNCE
    with pytest.raises((StudyError, UnknownNameError), match=words):
        read(BALL + SIMULATE + BOUNCE.replace(old, new))


def test_events_before_the_start_and_of_one_name_are_refused(tmp_path):
    early = '[[events]]\nname = "kick"\nat = -1.0\nchange = { speed = 0.0 }\n'
    with pytest.raises(simkit.SimkitError, match=r"kick.*-1"):
        simulate_study(read(BALL + SIMULATE + early), tmp_path)
    with pytest.raises(StudyError, match="two events are called `bounce`"):
        read(BALL + SIMULATE + BOUNCE + BOUNCE)
    with pytest.raises(StudyError, match="must come with `additional`"):
        read(BALL + early.replace("-1.0", "1.0\nevery = 1.0"))


def test_a_name_with_two_meanings_asks_for_its_sort():
    class Twice(Ball):
        height: simkit.Scalar = simkit.quantity(1.0, unit="m", doc="of the table")

    models = {"ball": Twice}
    with pytest.raises(StudyError, match=r"`height` has 2 meanings: write `state.height` or `parameters.height`"):
        study_from_text(BALL + BOUNCE, models=models)
    study = study_from_text(BALL + BOUNCE.replace("height <", "state.height < parameters.height + "), models=models)
    y, condition = {"height": jnp.asarray(5.0), "speed": jnp.asarray(0.0)}, study.events["bounce"].condition
    assert float(condition(Twice(), jnp.asarray(0.0), y, None)) == 4.0


def test_elements_of_arrays_and_states_without_names():
    """Lorenz (1963) has named states; a state that is one array is called y."""
    text = """
    [system]
    model = "lorenz_96"
    [[events]]
    name = "cut"
    condition = "x.3 > 9.5"
    change = { x = "0.5 * x" }
    """
    system = simkit.odes.Lorenz96.example()
    name = next(iter(simkit.core.named_leaves(system.y0)))
    study = study_from_text(text.replace("x", name).replace("lorenz_96", LORENZ))
    event = study.events["cut"]
    y = jax.tree.map(lambda x: jnp.arange(float(x.size)), system.y0)
    assert float(event.condition(study.system, jnp.asarray(0.0), y, None)) == 3.0 - 9.5
    half = event.changed(study.system, jnp.asarray(0.0), y, None)
    np.testing.assert_array_equal(jax.tree.leaves(half)[0], 0.5 * jax.tree.leaves(y)[0])
    with pytest.raises(StudyError, match=r"must be one number, but.*is an array"):
        study_from_text(text.replace("x.3", "x").replace("x", name).replace("lorenz_96", LORENZ))


LORENZ = next(name for name, kind in simkit.study.REGISTRIES["systems"].items() if kind is simkit.odes.Lorenz96)


def test_the_template_shows_an_event(tmp_path):
    text = study_text(tmp_path / "new.toml")
    assert "# [[events]]" in text
    lines = text.splitlines()
    begin = lines.index(next(line for line in lines if line.startswith("# [[events]]")))
    shown = [line.removeprefix("# ") for line in lines[begin : begin + 4]]
    assert set(study_from_text("\n".join([*lines[:begin], *shown, *lines[begin + 4 :]])).events) == {"harvest"}
