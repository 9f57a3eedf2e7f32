"""What an ensemble says about arguments that cannot work, and about members that fail."""

import jax
import numpy as np
import pytest

import simkit
from simkit.core import Setup
from simkit.engine import resolve_members
from simkit.odes import GeometricBrownianMotion, LotkaVolterra, VanDerPol, from_function, from_response

SYSTEM, Y0, _, _ = LotkaVolterra.example()
TIMES = np.linspace(0.0, 1.0, 3)
EXPLOSION = from_function(lambda t, y, p: p["rate"] * y**2 + p["inflow"], {"rate": 1.0, "inflow": 0.0})


def run(over, **options):
    return simkit.ensemble(SYSTEM, Y0, TIMES, over=over, **options)


@pytest.mark.parametrize(
    ("over", "told"),
    [
        ({}, "Argument `over` must name at least one quantity"),
        ({"growth": []}, "hold at least one member"),
        ({"growth": 0.5}, r"`growth`, whose shape is \(\), an array of shape \(members,\), but its shape is \(\)"),
        ({"growth": np.ones((3, 2))}, r"an array of shape \(members,\), but its shape is \(3, 2\)"),
        ({"growth": [0.5, 0.6], "y0.hare": [1.0, 2.0, 3.0]}, "`growth` has 2, `y0.hare` has 3"),
        ({"growth": ["fast", "slow"]}, "must give real numbers for `growth`"),
        ({"growth": [[0.5], [0.5, 0.6]]}, "must give real numbers for `growth`"),
        ({"growth": None}, "must give real numbers for `growth`"),
        ({"growth": [0.5 + 1j]}, "must give real numbers for `growth`"),
        ({"growth": [np.datetime64("2020-01-01")]}, "must give real numbers for `growth`"),
    ],
)
def test_values_that_do_not_fit_are_refused(over, told):
    with pytest.raises(simkit.ArgumentError, match=told):
        run(over)


@pytest.mark.parametrize("path", ["grwoth", "y0.hares", "inputs.torque", "", "y0"])
def test_a_name_of_nothing_is_refused(path):
    with pytest.raises(simkit.UnknownNameError) as caught:
        run({path: [1.0, 2.0]})
    assert f"`{path}`" in str(caught.value)


def test_a_misspelt_name_is_told_what_it_may_mean():
    with pytest.raises(simkit.UnknownNameError, match="growth"):
        run({"grwoth": [1.0, 2.0]})


@pytest.mark.parametrize("lanes", [0, -3, True])
def test_lanes_are_a_positive_number(lanes):
    with pytest.raises(simkit.ArgumentError, match=f"Argument `lanes` must be .* but it is {lanes}"):
        run({"growth": [0.5, 0.6]}, lanes=lanes)


@pytest.mark.parametrize("devices", [[], ["cpu"], "cpu", [0, 1], [jax.devices()[0]] * 2])
def test_devices_are_different_devices(devices):
    with pytest.raises(simkit.ArgumentError, match="Argument `devices` must be a list of different devices"):
        run({"growth": [0.5, 0.6]}, devices=devices)


def test_a_failure_is_raised_or_marked():
    # `__wrapped__` is what runs where no type checker stands in front, as for users
    with pytest.raises(
        simkit.ArgumentError, match='Argument `on_failure` must be "raise" or "mark", but it is \'ignore\''
    ):
        unchecked(simkit.ensemble)(SYSTEM, Y0, TIMES, over={"growth": [0.5]}, on_failure="ignore")


def unchecked(function):
    """A function without the type checks of the tests."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (jax.random.split(jax.random.key(0), 2), "one key or one for each of 3 members, but there are 2"),
        (jax.random.split(jax.random.PRNGKey(0), 4), "one key or one for each of 3 members, but there are 4"),
        (7, "must be a random key"),
        (None, "`GeometricBrownianMotion` is stochastic, so argument `key` must be a random key"),
    ],
    ids=["too few", "too many, raw", "a number", "none"],
)
def test_keys_that_do_not_fit_are_refused(key, told):
    system, y0, _, _ = GeometricBrownianMotion.example()
    with pytest.raises(simkit.ArgumentError, match=told):
        simkit.ensemble(system, y0, TIMES, over={"growth": [0.1, 0.2, 0.3]}, key=key)


def test_times_that_do_not_increase_are_refused():
    with pytest.raises(simkit.ArgumentError, match="times"):
        simkit.ensemble(SYSTEM, Y0, [0.0, 2.0, 1.0], over={"growth": [0.5]})


LOST = {"rate": [0.5, 4.0, np.nan, 0.1], "inflow": [0.0, 0.25, 0.0, 0.0]}


def test_members_that_fail_are_named_with_their_values():
    found = simkit.ensemble(EXPLOSION, 1.0, TIMES, over=LOST)
    np.testing.assert_array_equal(np.asarray(found.status) == 0, [True, False, False, True])
    first, second = found.failures()
    assert first == f"member 1 (inflow 0.25, rate 4.0): {simkit.Status(int(found.status[1])).message}"
    assert second.startswith("member 2 (inflow 0.0, rate nan): ")
    text = repr(found)
    assert "4, 2 failed" in text
    assert first in text
    assert np.isfinite(found.ys[np.array([0, 3])]).all()
    # a state is known until the failure, and NaN from there on
    assert np.isfinite(found.ys[1, 0])
    assert np.isnan(found.ys[1, -1])


def test_values_that_are_arrays_are_printed_too():
    pull = from_function(lambda t, y, p: p["weights"][0] * y**2 + p["weights"][1], {"weights": np.array([1.0, 0.0])})
    found = simkit.ensemble(pull, 1.0, TIMES, over={"weights": [[0.5, 0.0], [4.0, 0.0]]})
    assert [text.partition(":")[0] for text in found.failures()] == ["member 1 (weights [4. 0.])"]


def test_an_ensemble_may_raise_what_went_wrong():
    with pytest.raises(simkit.SimulationError) as caught:
        simkit.ensemble(EXPLOSION, 1.0, TIMES, over=LOST, on_failure="raise")
    assert str(caught.value).startswith("2 of 4 members failed; the first is member 1 (inflow 0.25, rate 4.0): ")
    sound = {path: values[3:] for path, values in LOST.items()}
    assert simkit.ensemble(EXPLOSION, 1.0, TIMES, over=sound, on_failure="raise").failures() == []


def test_too_few_steps_are_told_by_member():
    step = simkit.Adaptive(max_steps=3)
    found = simkit.ensemble(SYSTEM, Y0, [0.0, 20.0], over={"growth": [0.5, 0.6]}, step=step)
    assert found.failures() == [
        f"member {member} (growth {growth}): {simkit.Status.STEP_LIMIT.told('Rodas5P')}"
        for member, growth in enumerate([0.5, 0.6])
    ]


def test_one_stiff_member_makes_the_method_stiff():
    system, y0, _, _ = VanDerPol.example()
    setup, times = Setup(system, y0, None), np.array([0.0, 3000.0])
    resolved = lambda *damping: resolve_members(setup, {"damping": np.array(damping)}, len(damping), times)
    assert not resolved(1.0, 1.0).solver.stiff
    assert resolved(1.0, 1000.0).solver.stiff
    assert resolved(1000.0, 1.0).solver.stiff
    given = simkit.solvers.Tsit5()
    assert resolve_members(setup, {"damping": np.array([1000.0])}, 1, times, solver=given).solver == given


def test_a_static_system_is_not_asked_whether_it_is_stiff():
    asked = []

    def response(x, params):
        asked.append(x)
        return params["slope"] * x

    line = from_response(response, {"slope": 1.0})
    method = resolve_members(Setup(line, {}, None), {"slope": np.array([1.0, 2.0])}, 2, TIMES)
    assert method.solver is None
    assert not asked


def test_nothing_is_advised_that_was_done_already():
    """A run by the solver for stiff systems is not sent to that solver, wherever its end is told."""
    system, y0, _, _ = VanDerPol.example()
    options = {"solver": simkit.solvers.Rodas5P(), "step": simkit.Adaptive(max_steps=10)}
    one = simkit.simulate(system, y0, [0.0, 100.0], on_failure="mark", **options)
    many = simkit.ensemble(system, y0, [0.0, 100.0], over={"damping": [1.0, 2.0]}, **options)
    for text in (repr(one), repr(many), *many.failures()):
        assert "by the solver for stiff systems" in text
        assert "Take `solver=Rodas5P()`" not in text
    with pytest.raises(simkit.SimulationError, match="by the solver for stiff systems"):
        simkit.simulate(system, y0, [0.0, 100.0], **options)
    # A chosen explicit solver that used up its steps handed its members over to that one.
    options = {"step": simkit.Adaptive(max_steps=10)}
    assert (
        "by the solver for stiff systems"
        in simkit.ensemble(system, y0, [0.0, 100.0], over={"damping": [1.0, 2.0]}, **options).failures()[0]
    )
    explicit = simkit.ensemble(
        system, y0, [0.0, 100.0], over={"damping": [1.0]}, solver=simkit.solvers.Tsit5(), **options
    )
    assert "Take `solver=Rodas5P()`" in explicit.failures()[0]
    assert "stiff solver" not in simkit.Status.UNSTABLE.told("Rodas5P")


@pytest.mark.parametrize(
    ("over", "told"),
    [
        (
            {"growth": np.array([0.5, -0.1])},
            "`growth` of LotkaVolterra must not be negative, but `over` gives member 1",
        ),
        ({"growth": np.array([0.5, np.nan, -2.0])}, "member 2 the value -2"),
    ],
)
def test_numbers_of_members_stay_in_their_supports(tmp_path, over, told):
    with pytest.raises(simkit.ArgumentError, match=told):
        run(over)
    with pytest.raises(simkit.ArgumentError, match=told):
        simkit.sweep(SYSTEM, Y0, TIMES, over=over, store=tmp_path / "s")
