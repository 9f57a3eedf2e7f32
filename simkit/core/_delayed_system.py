"""Delayed systems: a slope that depends on states of the past."""

import abc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval as pe
from jaxtyping import Array

from .._types import Inputs, State, Time
from ._signals import at_time
from ._system import System


class Past:
    """The past of a solution: `past(time)` is the state at an earlier time, `past.slope(time)` its derivative by time there.

    Equations with slopes of the past are neutral: their solutions have jumps in the first derivative a lag after each other for
    ever, and steps end on all of them that there is room for.
    """

    def __init__(self, state: Callable[[Time], Any], slope: Callable[[Time], Any] | None = None):
        self._state, self._slope = state, slope

    def __call__(self, time: Time) -> Any:
        """The state at a time."""
        return self._state(time)

    def slope(self, time: Time) -> Any:
        """The time derivative of the state at a time, with the structure of the state; NaN where the state is not known."""
        if self._slope is not None:
            return self._slope(time)
        time = jnp.asarray(time, jnp.result_type(float, time))
        state, slope = jax.jvp(self._state, (time,), (jnp.ones_like(time),))
        return jax.tree.map(
            lambda x, rate: jnp.where(jnp.isnan(x), x, rate), state, slope
        )  # what is not known has no slope


class DelayedSystem(System):
    r"""Delay differential equations,

    $$\frac{dy}{dt} = f\big(t, y(t), y(t - \tau_1), y(t - \tau_2), \dots\big), \qquad y(t) = \phi(t) \text{ for } t < t_0$$

    with lags $\tau_i > 0$ that may depend on parameters, and a history $\phi$. Slopes of the past, $\dot y(t - \tau_i)$, may be
    arguments of f too (neutral equations).

    A subclass writes `delayed_field` (f), `lags` and `example`, and where they differ from the defaults `history`, `breaks`,
    `earliest` and `kept_steps`. States of the past are those that a solver steps, with the structure of `y`.

    ```python
    import jax.numpy as jnp
    import simkit


    class Feedback(simkit.DelayedSystem):
        rate: simkit.Scalar = simkit.quantity(1.0, unit="1/s")
        lag: simkit.Scalar = simkit.quantity(1.0, unit="s", support=simkit.POSITIVE)

        def delayed_field(self, t, y, inputs, past):
            return {"x": -self.rate * past(t - self.lag)["x"]}

        def lags(self, t, y, inputs):
            return self.lag

        @classmethod
        def example(cls):
            return simkit.Example(cls(), {"x": 1.0}, jnp.linspace(0.0, 10.0, 101))


    print(simkit.simulate(*Feedback.example()[:3]).final()["x"])
    ```
    """

    @abc.abstractmethod
    def delayed_field(self, t: Time, y: State, inputs: Inputs, past: Past) -> State:
        """The time derivative of the state; `past(t - lag)` is the state at an earlier time, `past.slope(t - lag)` its slope.

        At a time that no lag of `lags` reaches and that is not known (not kept, not come, before the history) it is NaN, which ends
        as a status.
        """

    @abc.abstractmethod
    def lags(self, t: Time, y: State, inputs: Inputs) -> Any:
        """Return all lags that `delayed_field` uses, as a number, an array, or a tree of them, in the unit of time.

        The solution has jumps in its derivatives a lag after the start, two lags after it and so on; steps end there. Lags that
        depend on neither time nor state are seen to be constant.
        """

    def history(self, t: Time, y0: State) -> State:
        """Return the state at a time before the first one; by default the state at the first time."""
        return y0

    def earliest(self) -> Time | None:
        """Return the time from which the history is known; by default None, it reaches back without end."""
        return None

    def breaks(self) -> Array | None:
        """Return times before the first one at which the history jumps or has a kink, shape `(n,)`; by default none."""
        return None

    def kept_steps(self) -> int:
        """Return the number of steps that a simulation keeps, at least those of the longest lag; by default 512.

        It bounds the memory. A lag that holds more steps is the status `HISTORY_FULL`.
        """
        return 512

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        """Return the slope of a solution that has been at `y` for ever."""
        return self.delayed_field(t, y, inputs, Past(lambda time: y))


def is_neutral(system: DelayedSystem, t: Time, y: State, inputs: Inputs) -> bool:
    """Tell whether the slope of a solution depends on slopes of its past."""
    asked = []

    def slope(time: Time) -> State:
        asked.append(time)
        return jax.tree.map(jnp.ones_like, y)

    jax.eval_shape(lambda t, y: system.delayed_field(t, y, at_time(inputs, t), Past(lambda time: y, slope)), t, y)
    return bool(asked)


def constant_lags(system: DelayedSystem, t: Time, y: State, inputs: Inputs) -> np.ndarray:
    """Tell of each number among the lags whether it is the same at all times and states: its program reads neither."""
    count = 1 + len(jax.tree.leaves(y))
    program = jax.make_jaxpr(lambda t, y: system.lags(t, y, at_time(inputs, t)))(t, y).jaxpr
    found = [np.zeros(0, bool)]
    for i, lag in enumerate(program.outvars):
        read = pe.dce_jaxpr(program, [j == i for j in range(len(program.outvars))])[1]
        found.append(np.full(int(np.prod(lag.aval.shape)), not any(read[:count])))
    return np.concatenate(found)
