"""An environment for reinforcement learning, made from a system with inputs."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._doors import check_count, check_function, check_key, check_kind, shown
from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import StochasticSystem, System, as_state, check_system
from ..engine import Adaptive, Fixed, simulate
from ..solvers import SolverLike, as_solver
from ._actions import as_bounds, check_actions, check_interval, held, limits


class Episode(NamedTuple):
    """State of an environment: of the system, the number of actions so far, and the key of what is drawn next."""

    y: State
    steps: Int[Array, ""]
    key: PRNGKeyArray


class Transition(NamedTuple):
    """Result of an action.

    - `state`: of the environment; `observation`: what a policy sees of it.
    - `reward`: a number.
    - `terminated`: whether the task ended, by its own rule or since the simulation failed; `truncated`: whether the limit of steps
      ended the episode.
    """

    state: Episode
    observation: Array
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class Environment(eqx.Module):
    """An environment for reinforcement learning: a system, of which a policy sets inputs for one interval after the other.

    `reset(key)` returns a state and an observation, `step(state, action)` a transition. Both are pure functions: `jit`, `vmap`,
    `grad` and `scan` wrap them. A step is a simulation over one interval with the actions held. Actions beyond their bounds are
    set to these.

    **Arguments:**

    - `system`: a system with inputs; `actions`: name of an input -> its bounds, such as `{"torque": (-2.0, 2.0)}`.
    - `start`: a function (key) -> state, or a state.
    - `reward`: a function (state, action, state after the interval) -> a number; `action` has an entry for each of `actions`.
    - `interval`: for which an action is held, in the system's unit of time.
    - `observe`: a function (state) -> a vector; by default the numbers of the state.
    - `terminate`: a function (state after the interval) -> whether the task is over; None for never.
    - `limit`: the number of actions after which an episode is truncated; None for none.
    - `noise`: standard deviation of the noise of observations, one for all or one for each.
    - `solver`, `step`, `inputs`: as in `simulate`; by default four stages of Runge and Kutta over the interval.

    A simulation that fails ends its episode: it is terminated, and its observation and reward are NaN.

    **Raises:** an `ArgumentError` for arguments of other kinds.

    ```python
    import jax, jax.numpy as jnp, simkit
    pendulum, y0, *_ = simkit.odes.Pendulum.example()
    environment = simkit.control.Environment(
        pendulum,
        {"torque": (-2.0, 2.0)},
        start=y0,
        reward=lambda y, action, after: -jnp.cos(after.position),
        interval=0.05,
    )
    state, observation = environment.reset(jax.random.key(0))
    print(environment.step(state, jnp.array([1.0])).reward)
    ```
    """

    system: System
    actions: tuple[tuple[str, tuple[float, float]], ...] = eqx.field(static=True)
    start: Any
    reward: Callable[..., Any]
    interval: float = eqx.field(static=True)
    observe: Callable[[State], Array] | None
    terminate: Callable[[State], Any] | None
    limit: int | None = eqx.field(static=True)
    noise: Any
    solver: Any
    rule: Any
    inputs: Inputs

    def __init__(
        self,
        system: System,
        actions: Mapping[str, tuple[float, float]],
        *,
        start: State | Callable[[PRNGKeyArray], State],
        reward: Callable[..., Any],
        interval: float,
        observe: Callable[[State], Array] | None = None,
        terminate: Callable[[State], Any] | None = None,
        limit: int | None = None,
        noise: Any = 0.0,
        solver: SolverLike | None = None,
        step: float | Adaptive | Fixed | None = None,
        inputs: Inputs = None,
    ):
        check_kind("system", system, System, "a system", "Write `simkit.odes.Pendulum()`.")
        check_actions(system, actions)
        check_interval(interval)
        check_function("reward", reward, ("state", "action", "after"))
        for name, function in (("observe", observe), ("terminate", terminate)):
            if function is not None:
                check_function(name, function, ("state",))
        if limit is not None:
            check_count("limit", limit)
        if not callable(start):
            check_system(system, start)
        if not np.all(np.asarray(noise) >= 0):
            raise ArgumentError(
                f"Argument `noise` must be standard deviations of at least 0, but it is {shown(noise)}."
            )
        plain = solver is None and step is None and not isinstance(system, StochasticSystem)
        self.system, self.actions, self.start, self.reward = system, as_bounds(actions), start, reward
        self.interval, self.observe, self.terminate, self.limit = float(interval), observe, terminate, limit
        self.noise, self.inputs = noise, inputs
        self.solver, self.rule = as_solver("rk4" if plain else solver), Fixed() if plain else step

    def __hash__(self) -> int:
        # `jax.jit` asks for one where its methods are given to it; arrays have none.
        return id(self)

    def reset(self, key: PRNGKeyArray) -> tuple[Episode, Float[Array, " numbers"]]:
        """The state and the observation at the start of an episode."""
        check_key(key, needed=True)
        first, second, key = jax.random.split(key, 3)
        y = as_state(self.system, self.start(first) if callable(self.start) else self.start)
        return Episode(y, jnp.zeros((), jnp.int32), key), self._observed(y, second)

    def step(self, state: Episode, action: ArrayLike) -> Transition:
        """The transition by an action, which has an entry for each of `actions`."""
        numbers = ravel_pytree(state.y)[0]
        low, high = limits(self.actions, numbers.dtype)
        if jnp.shape(action) != low.shape:
            raise ArgumentError(
                f"Argument `action` must have the shape {low.shape}, a number for each of "
                f"{', '.join(name for name, _ in self.actions)}, but its shape is {jnp.shape(action)}."
            )
        action = jnp.clip(jnp.asarray(action, numbers.dtype), low, high)
        noise, seen, key = jax.random.split(state.key, 3)
        after, failed = self._after(state, action, noise)
        reward = jnp.asarray(self.reward(state.y, action, after), numbers.dtype)
        over = jnp.asarray(False) if self.terminate is None else jnp.asarray(self.terminate(after), bool)
        steps = state.steps + 1
        truncated = jnp.asarray(False) if self.limit is None else steps >= self.limit
        observation = self._observed(after, seen)
        return Transition(Episode(after, steps, key), observation, reward, over | failed, truncated)

    def _after(self, state: Episode, action: Array, key: PRNGKeyArray) -> tuple[State, Array]:
        """The state after an interval, and whether the simulation failed."""
        numbers = ravel_pytree(state.y)[0]
        # Time counts from the start of an episode: inputs and fields may read it.
        begin = state.steps.astype(numbers.dtype) * self.interval
        times = jnp.stack([begin, begin + self.interval])
        found = simulate(
            self.system,
            state.y,
            times,
            solver=self.solver,
            step=self.rule,
            inputs={**(self.inputs or {}), **held(dict(self.actions), action)},
            key=key if isinstance(self.system, StochasticSystem) else None,
            on_failure="mark",
        )
        return found.final(), found.status != 0

    def _observed(self, y: State, key: PRNGKeyArray) -> Array:
        numbers = ravel_pytree(y)[0]
        seen = numbers if self.observe is None else jnp.asarray(self.observe(y), numbers.dtype)
        if isinstance(self.noise, int | float) and self.noise == 0:
            return seen
        return seen + jnp.asarray(self.noise, seen.dtype) * jax.random.normal(key, seen.shape, seen.dtype)
