"""Systems with events of their own: runs without events are refused, and so are wholes that would lose them."""

from typing import Any

import jax.numpy as jnp
import pytest

import simkit

RING = simkit.Event(lambda system, t, y, inputs: y["x"] - 0.5, "down")


class Bell(simkit.PlainSystem):
    """A decay that rings at one half."""

    rate: Any = simkit.quantity(1.0)

    def vector_field(self, t, y, inputs):
        return {"x": -self.rate * y["x"]}

    def own_events(self):
        return {"ring": RING}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"x": jnp.asarray(1.0)}, jnp.array([0.0, 2.0]))


BELL, START, TIMES, _ = Bell.example()
ASKED = r"Give `events=system.own_events\(\)`"


def test_a_run_with_them_is_like_any_other():
    found = simkit.simulate(BELL, START, TIMES, events=BELL.own_events())
    assert abs(float(found.events["ring"].times[0]) - 0.6931) < 1e-3


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (lambda: simkit.simulate(BELL, START, TIMES), ASKED),
        (lambda: simkit.ensemble(BELL, START, TIMES, over={"rate": [1.0, 2.0]}), ASKED),
        (lambda: simkit.sweep(BELL, START, TIMES, over={"rate": [1.0, 2.0]}, store="nowhere"), ASKED),
        (
            lambda: simkit.Problem(
                BELL,
                simkit.Experiment("bell", TIMES, {"x": [1.0, 0.1]}),
                y0=START,
                free={"rate": simkit.Free(bounds=(0.1, 9.0))},
                noise={"x": simkit.noise.Normal(0.1)},
            ),
            ASKED,
        ),
        (
            lambda: simkit.simulate(simkit.Coupled({"bell": BELL}, wires={}), {"bell": START}, TIMES),
            "part `bell` has events of its own",
        ),
        (
            lambda: simkit.simulate(simkit.Patches(BELL, jnp.zeros((2, 2))), {"x": jnp.ones(2)}, TIMES),
            "model of the patches has events of its own",
        ),
    ],
)
def test_a_run_that_loses_them_is_refused(run, said):
    with pytest.raises(simkit.ArgumentError, match=said):
        run()
