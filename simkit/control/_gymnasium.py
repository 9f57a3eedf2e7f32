"""Environments as those of Gymnasium: one, and many at once."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._doors import check_count, check_kind
from .._errors import missing_package
from ._actions import limits
from ._environment import Environment


def to_gymnasium(environment: Environment, count: int | None = None) -> Any:
    """Return an environment as a `gymnasium.Env`, or `count` of them as a `gymnasium.vector.VectorEnv`.

    Observations and actions are boxes of float32. The observations of the vector environment of an episode that has ended are those
    of a new one from the next step on, for which its action is not used (`AutoresetMode.NEXT_STEP`).

    **Arguments:**

    - `environment`: what to wrap.
    - `count`: how many step together, in one compiled program; None for one.

    **Raises:** a `MissingPackageError` without the package `gymnasium`.
    """
    check_kind(
        "environment", environment, Environment, "an environment", "Make one: `simkit.control.Environment(...)`."
    )
    if count is not None:
        check_count("count", count)
    env, vector_env = _classes()
    return env(environment) if count is None else vector_env(environment, count)


def _boxes(environment: Environment) -> tuple[Any, Any]:
    """The spaces of observations and of actions."""
    from gymnasium.spaces import Box

    shape = jax.eval_shape(environment.reset, jax.random.key(0))[1].shape
    low, high = (np.asarray(x) for x in limits(environment.actions, jnp.float32))
    return Box(-np.inf, np.inf, shape, np.float32), Box(low, high, dtype=np.float32)


def _seed(generator: np.random.Generator) -> int:
    return int(generator.integers(2**31))


def _one(environment: Environment) -> tuple[Any, Any]:
    """Compiled reset and step of one; what leaves them are few arrays, since each takes some microseconds."""

    def reset(seed: Any) -> Any:
        state, observation = environment.reset(jax.random.key(seed))
        return state, observation.astype(jnp.float32)

    def step(state: Any, action: Any) -> Any:
        state, observation, reward, *over = environment.step(state, action)
        return state, observation.astype(jnp.float32), reward, jnp.stack(over)

    return jax.jit(reset), jax.jit(step)


def _many(environment: Environment, count: int) -> tuple[Any, Any]:
    """Compiled reset and step of many; those whose episode is over begin a new one instead of a step."""

    def reset(seed: Any) -> Any:
        state, observation = jax.vmap(environment.reset)(jax.random.split(jax.random.key(seed), count))
        return state, observation.astype(jnp.float32)

    def one(state: Any, over: Any, action: Any) -> Any:
        found = environment.step(state, action)
        begun, observation = environment.reset(jax.random.fold_in(state.key, 0))
        pick = functools.partial(jax.tree.map, lambda a, b: jnp.where(over, a, b))
        after = pick(_opened(begun), _opened(found.state))
        after = after._replace(key=jax.random.wrap_key_data(after.key))
        flags = jnp.stack([found.terminated, found.truncated]) & ~over
        return after, pick(observation, found.observation).astype(jnp.float32), jnp.where(over, 0, found.reward), flags

    return jax.jit(reset), jax.jit(jax.vmap(one, out_axes=(0, 0, 0, 1)))


def _opened(state: Any) -> Any:
    return state._replace(key=jax.random.key_data(state.key))


@functools.cache
def _classes() -> tuple[type, type]:
    """The two classes, which inherit from a package that is imported on first use."""
    try:
        import gymnasium
        from gymnasium.vector import AutoresetMode, VectorEnv
        from gymnasium.vector.utils import batch_space
    except ImportError as error:
        raise missing_package("An environment of Gymnasium", "gymnasium", "gymnasium") from error

    class Single(gymnasium.Env):
        """One environment of simkit."""

        metadata = {"render_modes": []}

        def __init__(self, environment: Environment):
            self.environment, self.state = environment, None
            self.observation_space, self.action_space = _boxes(environment)
            self._begin, self._move = _one(environment)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            self.state, observation = self._begin(_seed(self.np_random))
            return np.asarray(observation), {}

        def step(self, action: Any) -> Any:
            self.state, observation, reward, over = self._move(self.state, np.asarray(action))
            terminated, truncated = np.asarray(over).tolist()
            return np.asarray(observation), float(reward), terminated, truncated, {}

    class Vector(VectorEnv):
        """Many environments of simkit in one compiled program."""

        metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

        def __init__(self, environment: Environment, count: int):
            self.environment, self.num_envs, self.state = environment, count, None
            self.single_observation_space, self.single_action_space = _boxes(environment)
            self.observation_space = batch_space(self.single_observation_space, count)
            self.action_space = batch_space(self.single_action_space, count)
            self.over = np.zeros(count, bool)
            self._begin, self._move = _many(environment, count)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            self.state, observation = self._begin(_seed(self.np_random))
            self.over = np.zeros(self.num_envs, bool)
            return np.asarray(observation), {}

        def step(self, actions: Any) -> Any:
            self.state, observation, reward, over = self._move(self.state, self.over, np.asarray(actions))
            terminated, truncated = np.asarray(over)
            self.over = terminated | truncated
            return np.asarray(observation), np.asarray(reward, np.float64), terminated, truncated, {}

    return Single, Vector
