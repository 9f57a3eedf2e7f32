"""Inputs that no function of a system reads: a misspelt name, or a system without inputs."""

import functools
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._types import Inputs, State, Time
from ._names import named_leaves
from ._particle_system import ParticleSystem
from ._signals import at_time
from ._system import StaticSystem, StochasticSystem, System, TransportSystem
from ._traced import tracing


def warn_of_unread(system: System, y0: State, inputs: Inputs, t: Time) -> None:
    """Warn of inputs that neither the field nor the outputs of a system depend on; nothing while tracing."""
    if inputs is None or isinstance(system, ParticleSystem) or tracing(system, y0, inputs, t):
        return
    dynamic, static = eqx.partition((system, y0, inputs, t), eqx.is_array_like)
    leaves, structure = jax.tree.flatten(dynamic)
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    others, other = jax.tree.flatten(static)
    # Static parts may have no hash; and what a function of a system misses is said by the verb.
    try:
        unread = _unread(structure, shapes, other, tuple(others))
    except Exception:
        return
    if unread:
        names = ", ".join(f"`{name}`" if name else "`inputs`" for name in unread)
        warnings.warn(
            f"{type(system).__name__} does not read {names} of argument `inputs`: no slope and no output depends on "
            f"{'it' if len(unread) == 1 else 'them'}.",
            stacklevel=3,
        )


@functools.lru_cache(maxsize=256)
def _unread(structure: Any, shapes: PyTree, other: Any, static: tuple[Any, ...]) -> tuple[str, ...]:
    """The names of inputs that do not enter the traced functions; the cache spares a second tracing of the same system."""
    leaves = [jax.ShapeDtypeStruct(*shape) for shape in shapes]

    def parts(leaves: PyTree) -> Any:
        return eqx.combine(jax.tree.unflatten(structure, leaves), jax.tree.unflatten(other, static))

    def traced(values: PyTree, leaves: PyTree) -> Any:
        system, y0, _, t = parts(leaves)
        found = [system.outputs(t, y0, values)]
        if not isinstance(system, StaticSystem):
            state = system.encode(y0)
            found.append(system.vector_field(t, state, values))
            if isinstance(system, StochasticSystem):
                found.append(system.diffusion(t, state, values))
            if isinstance(system, TransportSystem):
                found.append(system.longest_step(t, state, values))
        return jax.tree.leaves(found)

    values = jax.eval_shape(lambda leaves: at_time(*parts(leaves)[2:]), leaves)
    program = jax.make_jaxpr(traced)(values, leaves).jaxpr
    used = {id(x) for equation in program.eqns for x in equation.invars} | {id(x) for x in program.outvars}
    # The values are the first arguments.
    return tuple(name for name, x in zip(named_leaves(values), program.invars, strict=False) if id(x) not in used)
