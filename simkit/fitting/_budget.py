"""Limits of the number of solver steps in the simulations of a fit."""

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..engine import Adaptive
from ..problem import Problem


def step_limit(problem: Problem) -> Float[Array, ""]:
    """After so many steps a simulation is given up; infinite where steps are fixed."""
    step = problem.method.step
    most = step.most() if isinstance(step, Adaptive) else jnp.inf
    return jnp.asarray(most, problem.times.dtype)


def held_to(problem: Problem, budget: ArrayLike) -> Problem:
    """The same problem whose simulations are given up after so many steps, or where its own limit is lower, after those."""
    if not isinstance(problem.method.step, Adaptive):
        return problem
    budget = jnp.asarray(budget, problem.times.dtype)
    return eqx.tree_at(lambda p: p.method.step.budget, problem, budget, is_leaf=lambda x: x is None)


def awake(problem: Problem, live: Bool[Array, ""]) -> Problem:
    """The same problem, whose simulations end at once where they are not wanted: a batch then costs what is wanted of it."""
    return held_to(problem, jnp.where(live, step_limit(problem), 0))
