"""A solve gone through in Python: its steps are those of the compiled one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, UnknownNameError, quantity
from simkit.inspect import watch

ALL = range(1000)


def test_the_steps_are_those_of_the_adaptive_solve():
    system, y0, times, _ = simkit.odes.VanDerPol.example()
    run = simkit.simulate(system, y0, times)
    moments = list(watch(system, y0, times, ALL))
    assert int(run.rejected) > 0
    assert len(moments) == int(run.steps) + int(run.rejected)
    assert [moment.number for moment in moments] == list(range(len(moments)))
    last = moments[-1]
    assert last.time + last.step == pytest.approx(float(times[-1]), rel=1e-15)
    for found, expected in zip(jax.tree.leaves(last.advance()), jax.tree.leaves(run.final()), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_steps_of_a_grid_are_rows_of_a_finer_one():
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    fine = simkit.simulate(system, y0, np.linspace(0.0, 2.0, 21), step=0.1)
    moments = list(watch(system, y0, [0.0, 1.0, 2.0], [0, 7, 13, 20, 99], step=0.1))
    assert [moment.number for moment in moments] == [0, 7, 13]
    for moment in moments:
        assert moment.time == pytest.approx(0.1 * moment.number)
        np.testing.assert_allclose(moment["hare"], fine.ys.hare[moment.number], rtol=1e-13)


def test_noise_is_that_of_the_run():
    system, y0, times, _ = simkit.odes.OrnsteinUhlenbeck.example()
    key, step = jax.random.key(3), float(times[-1] - times[0]) / 40
    ends = np.array([times[0], times[-1]])
    fine = simkit.simulate(system, y0, np.linspace(*ends, 41), step=step, key=key)
    (moment,) = watch(system, y0, ends, [17], step=step, key=key)
    (found,), (rows,) = jax.tree.leaves(moment.setup.y0), jax.tree.leaves(fine.ys)
    np.testing.assert_allclose(found, rows[17], rtol=1e-12)


def test_print_and_debugger_work_in_the_model():
    seen = []

    class Falling(simkit.PlainSystem):
        rate: Any = quantity()

        def vector_field(self, t, y, inputs):
            if not isinstance(y, jax.core.Tracer):
                seen.append(float(y[0]))
            return -self.rate * y

        outputs = invariants = example = lambda *_: {}

    (moment,) = watch(Falling(jnp.asarray(1.0)), jnp.array([2.0, 3.0]), [0.0, 1.0], [0])
    assert not seen
    np.testing.assert_allclose(moment.slope(), [-2.0, -3.0])
    assert seen == [2.0]
    text = repr(moment)
    assert "step 0, from time 0 to" in text
    assert "y = [2.0, 3.0]" in text


def test_bad_input():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    with pytest.raises(UnknownNameError, match="no field of the state `hair`"):
        next(watch(system, y0, times, [0], fields=["hair"]))
    with pytest.raises(ArgumentError, match="from 0 on"):
        next(watch(system, y0, times, [-1]))
    line = simkit.odes.from_response(lambda x, params: params["slope"] * x, {"slope": 1.0})
    with pytest.raises(ArgumentError, match="no steps to watch"):
        next(watch(line, {}, times, [0]))
