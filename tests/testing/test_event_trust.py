"""Events without a derivative are told: those that graze, touch, slide or rest."""

import numpy as np
import pytest

import simkit
from simkit.odes import from_function
from simkit.testing import check_events, check_gradient

TIMES = np.linspace(0.0, 3.0, 31)


def falling(t, y, p):
    return {"height": y["speed"], "speed": -9.81 + p["lift"] * y["height"]}


def height(system, t, y, inputs):
    return y["height"]


BALL = from_function(falling, {"lift": 0.0})
START = {"height": 2.0, "speed": 0.0}


def bounce(kept):
    return simkit.Event(height, "down", lambda system, t, y, inputs: {**y, "speed": -kept * y["speed"]})


def test_a_ball_that_bounces_is_trusted():
    found = check_events(BALL, START, TIMES, events={"floor": bounce(0.8)})
    assert found.trusted
    # speeds of 1, 0.8 and 0.64 of the first one, which is the largest
    np.testing.assert_allclose(found.slopes["floor"], [1.0, 0.8, 0.64], rtol=1e-6)
    assert "floor: 3 times" in repr(found)


@pytest.mark.parametrize(
    ("level", "said"),
    [
        pytest.param(2.0 - 1e-7, "grazes|touches", marks=pytest.mark.slow),
        (2.0 + 1e-7, "touches"),
        pytest.param(1.0, "", marks=pytest.mark.slow),
    ],
)
def test_a_thrown_ball_that_just_reaches_a_ceiling_is_not(level, said):
    ceiling = simkit.Event(lambda system, t, y, inputs: y["height"] - level, "up")
    thrown = {"height": 0.0, "speed": np.sqrt(2 * 9.81 * 2.0)}  # up to 2
    found = check_events(BALL, thrown, TIMES, events={"ceiling": ceiling})
    assert found.trusted == (not said)
    if said:
        assert any(word in repr(found) for word in said.split("|"))
        assert "Remedy" in repr(found)


def test_a_ball_that_stays_on_the_floor_rests():
    found = check_events(BALL, START, TIMES, events=bounce(0.0))
    assert not found.trusted
    assert "rests" in repr(found)


@pytest.mark.slow
def test_the_gradient_of_a_problem_tells_of_its_contacts():
    times = TIMES[1:16]
    thrown = {"height": 0.0, "speed": np.sqrt(2 * 9.81 * 2.0)}
    data = {"height": np.asarray(simkit.simulate(BALL, thrown, TIMES[:16]).ys["height"])[1:]}

    def trust(level):
        ceiling = simkit.Event(
            lambda system, t, y, inputs: y["height"] - level,
            "up",
            lambda system, t, y, inputs: {**y, "speed": -y["speed"]},
        )
        experiment = simkit.Experiment("throw", times, data, y0=thrown, start=0.0, events={"ceiling": ceiling})
        free = {"lift": simkit.Free(bounds=(-1.0, 1.0), start=0.0)}
        problem = simkit.Problem(BALL, experiment, free=free, noise={"height": simkit.noise.Normal(0.1)})
        return check_gradient(problem)

    assert trust(1.0).contacts["throw"].trusted
    grazing = trust(2.0 + 1e-7)
    assert not grazing.trusted
    assert "touches" in repr(grazing)
