"""Solves with delays: from a task to states with derivatives."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, PyTree

from ...core import batched_together, by_member, with_curves
from ..batching._mesh import alike_arrays
from ..task._task import Options, Task
from ._loop import looped
from ._posed import Posed, pose
from ._replay import replayed


def integrate_delayed(task: Task, options: Options = Options()) -> tuple[Any, Array, tuple[Array, Array]]:
    """States at the task's times, status, and the numbers of accepted and rejected steps.

    The task's start is an encoded state, and its tolerances are settled.
    """
    kept = kept_steps(task, options)
    system, inputs = with_curves((task.system, task.inputs))
    parts = alike_arrays((system, task.y0, inputs, task.times, task.step))

    def solve(system: Any, y0: Any, inputs: Any, times: Array, step: Any) -> tuple[Array, Array]:
        return _solved(task._replace(system=system, y0=y0, inputs=inputs, times=times, step=step, key=None), kept)

    ys, figures = by_member(solve, *parts)
    status, steps, rejected = (jax.lax.stop_gradient(figures[i]).astype(int) for i in range(3))
    unravel = pose(task).unravel
    return jax.vmap(unravel)(ys), status, (steps, rejected)


def kept_steps(task: Task, options: Options) -> int:
    """The number of steps that a solve keeps."""
    system: Any = task.system
    return max(options.room, int(system.kept_steps()), 2)


def _solved(task: Task, kept: int) -> tuple[Array, Array]:
    """Rows of flat states, and status, steps and rejected steps as numbers of their type.

    The value is that of a loop without derivatives. Derivatives are those of the steps that it accepted, taken once more.
    """
    leaves, structure = jax.tree.flatten(task)
    places = [i for i, x in enumerate(leaves) if isinstance(x, jax.Array)]

    def posed(arrays: Any) -> tuple[Posed, Array, Any]:
        filled = list(leaves)
        for i, x in zip(places, arrays, strict=True):
            filled[i] = x
        whole: Task = jax.tree.unflatten(structure, filled)
        return pose(whole), whole.times, jnp.asarray(whole.step.most(), whole.times.dtype)

    def run(arrays: Any, room: int) -> Any:
        found, times, most = posed(jax.lax.stop_gradient(arrays))
        result = looped(found, times, kept, most, room)
        figures = jnp.stack([result.status, result.steps, result.rejected]).astype(times.dtype)
        return (result.ys, figures), result.mesh

    @jax.custom_jvp
    def solve(*arrays: Array) -> Any:
        return batched_together(run(arrays, 0)[0], arrays)

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        (ys, figures), mesh = run(primals, task.step.max_steps)
        moving = [i for i, x in enumerate(tangents) if not isinstance(x, SymbolicZero)]

        def again(*values: PyTree) -> Array:
            filled = list(primals)
            for i, x in zip(moving, values, strict=True):
                filled[i] = x
            found, times, _ = posed(filled)
            return replayed(found, times, kept, mesh)

        dots = jax.jvp(again, [primals[i] for i in moving], [tangents[i] for i in moving])[1]
        out = batched_together((ys, figures), primals)
        return out, (dots, jnp.zeros_like(figures))

    solve.defjvp(rule, symbolic_zeros=True)
    return solve(*(leaves[i] for i in places))
