"""Inputs that no function of a system reads: a misspelt name, or a system without inputs."""

import functools
import warnings
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._errors import ArgumentError
from .._types import Inputs, State, Time
from ._coupled_system import CoupledSystem
from ._delayed_system import DelayedSystem, Past
from ._input import check_inputs, dotted
from ._jump_diffusion import jumps_too
from ._keyed import keyed
from ._names import named_leaves
from ._particle_system import ParticleSystem
from ._signals import at_time
from ._system import StaticSystem, StochasticSystem, System, TransportSystem
from ._traced import tracing


def warn_of_unread(system: System, y0: State, inputs: Inputs, t: Time, asked: Any) -> None:
    """Warn of inputs that neither the field nor the outputs of a system depend on; nothing while tracing.

    `asked` are the inputs as they were given, without the defaults that `inputs` has; a warning names these alone.

    **Raises:** an `UnknownNameError` or an `ArgumentError` where the system declares its inputs and the given ones are others, and
    for wires of a coupled system to inputs that their part does not read.
    """
    check_inputs(system, inputs)
    if isinstance(system, CoupledSystem) and not tracing(system, y0, inputs, t):
        _check_wires(system, y0, inputs, t)
    if asked is None or isinstance(system, ParticleSystem) or tracing(system, y0, inputs, t):
        return
    # Static parts may have no hash; and what a function of a system misses is said by the verb.
    try:
        unread = _unread(*keyed((system, y0, inputs, t)))
        if isinstance(asked, Mapping):
            unread = [name for name in unread if any(f"{name}.".startswith(f"{key}.") for key in dotted(asked))]
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
    try:
        found = _unread_wire(*keyed((system, y0, inputs, t)))
    except Exception:  # what a function of a part misses is said by the verb
        return
    if found is not None:
        name, key = found
        raise ArgumentError(
            f"A wire feeds `{name}.{key}`, but no slope and no output of `{name}`, a {type(system[name]).__name__}, depends on an "
            f"input `{key}`. Correct the name, or leave the wire out."
        )


@functools.lru_cache(maxsize=256)
def _unread_wire(structure: Any, shapes: PyTree, other: Any, static: tuple[Any, ...]) -> tuple[str, str] | None:
    """The part and the input of a wire that nothing depends on, among parts that do not declare their inputs; else None."""
    known = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*shape) for shape in shapes])
    fixed = jax.tree.unflatten(other, static)

    def received(known: PyTree, name: str) -> Any:
        system, y0, inputs, t = eqx.combine(known, fixed)
        return system.received(name, t, y0, at_time(inputs, t))

    def traced(values: PyTree, known: PyTree, name: str) -> Any:
        system, y0, _, t = eqx.combine(known, fixed)
        part, y = system[name], y0[name]
        state = part.encode(y)
        found = [part.vector_field(t, state, values), part.outputs(t, y, values)]
        if isinstance(part, StochasticSystem):
            found += noise_of(part, t, state, values)
        return jax.tree.leaves(found)

    system = eqx.combine(known, fixed)[0]
    for name in (name for name in system.wires if system[name].reads() is None):
        values = jax.eval_shape(functools.partial(received, name=name), known)
        used = _used(jax.make_jaxpr(functools.partial(traced, name=name))(values, known).jaxpr, values)
        for key in system.wires[name]:
            if not any(f"{path}.".startswith(f"{key}.") for path in used):
                return name, key
    return None


def noise_of(system: StochasticSystem, t: Time, state: State, inputs: Inputs) -> list[Any]:
    """The parts of the noise of a system: its diffusion, and its jumps where it has some."""
    found = [system.diffusion(t, state, inputs)]
    if jumps_too(system):
        bound = system.jump_bound(t, t, state, inputs)
        found += [system.jump_rate(t, state, inputs), bound, system.jump(t, state, inputs, jax.random.key(0))]
    return found


def _used(program: Any, values: PyTree) -> list[str]:
    """The names of values, the first arguments of a program, that enter it."""
    read = {id(x) for equation in program.eqns for x in equation.invars} | {id(x) for x in program.outvars}
    return [name for name, x in zip(named_leaves(values), program.invars, strict=False) if id(x) in read]


def _looked_up(state: State, time: Time) -> Any:
    """A state of the past that depends on the time at which it is looked up."""
    return jax.tree.map(lambda x: x + (0 * jnp.asarray(time)).astype(x.dtype), state)


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
            if isinstance(system, DelayedSystem):
                found += [
                    system.delayed_field(t, state, values, Past(functools.partial(_looked_up, state))),
                    system.lags(t, state, values),
                ]
            if isinstance(system, StochasticSystem):
                found += noise_of(system, t, state, values)
            if isinstance(system, TransportSystem):
                found.append(system.longest_step(t, state, values))
        return jax.tree.leaves(found)

    values = jax.eval_shape(lambda leaves: at_time(*parts(leaves)[2:]), leaves)
    program = jax.make_jaxpr(traced)(values, leaves).jaxpr
    used = _used(program, values)
    return tuple(name for name in named_leaves(values) if name not in used)
