"""Inputs that no function of a system reads: a misspelt name, or a system without inputs."""

import functools
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._errors import ArgumentError
from .._types import Inputs, State, Time
from ._coupled_system import CoupledSystem
from ._input import check_inputs
from ._names import named_leaves
from ._particle_system import ParticleSystem
from ._signals import at_time
from ._system import StaticSystem, StochasticSystem, System, TransportSystem
from ._traced import tracing


def warn_of_unread(system: System, y0: State, inputs: Inputs, t: Time) -> None:
    """Warn of inputs that neither the field nor the outputs of a system depend on; nothing while tracing.

    **Raises:** an `UnknownNameError` or an `ArgumentError` where the system declares its inputs and the given ones are others, and
    for wires of a coupled system to inputs that their part does not read.
    """
    check_inputs(system, inputs)
    if isinstance(system, CoupledSystem) and not tracing(system, y0, inputs, t):
        _check_wires(system, y0, inputs, t)
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


def _check_wires(system: CoupledSystem, y0: State, inputs: Inputs, t: Time) -> None:
    """Refuse wires to inputs that no slope and no output of their part depends on."""
    for name in (name for name in system.wires if system[name].reads() is None):
        part, values = system[name], jax.eval_shape(lambda t: at_time(inputs, t), t)
        received = jax.eval_shape(lambda t, y, values, name=name: system.received(name, t, y, values), t, y0, values)
        try:
            unread = _unread_of(part, y0[name], received, t)
        except Exception:  # what a function of a part misses is said by the verb
            continue
        if wrong := [
            key for key in system.wires[name] if not any(f"{path}.".startswith(f"{key}.") for path in unread[1])
        ]:
            raise ArgumentError(
                f"A wire feeds `{name}.{wrong[0]}`, but no slope and no output of `{name}`, a {type(part).__name__}, depends on an "
                f"input `{wrong[0]}`. Correct the name, or leave the wire out."
            )


def _unread_of(part: System, y0: State, received: Any, t: Time) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of values of inputs on which nothing of a part depends, and of those on which something does."""
    dynamic, static = eqx.partition((part, y0, t), eqx.is_array_like)

    def traced(values: PyTree, dynamic: PyTree) -> Any:
        part, y0, t = eqx.combine(dynamic, static)
        return jax.tree.leaves([part.vector_field(t, part.encode(y0), values), part.outputs(t, y0, values)])

    program = jax.make_jaxpr(traced)(received, dynamic).jaxpr
    used = {id(x) for equation in program.eqns for x in equation.invars} | {id(x) for x in program.outvars}
    known = list(zip(named_leaves(received), program.invars, strict=False))
    return tuple(name for name, x in known if id(x) not in used), tuple(name for name, x in known if id(x) in used)


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
