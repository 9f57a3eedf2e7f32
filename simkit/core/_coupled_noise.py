"""Coupled systems with stochastic parts: the noise of each, and the kind of noise of the whole."""

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval as pe
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import Inputs, State, Time
from ._coupled_system import CoupledSystem, together
from ._keyed import keyed
from ._signals import at_time
from ._system import ConstrainedSystem, StochasticSystem, System
from ._term import common_processes

Kind = Literal["additive", "diagonal", "general"]
Reading = Literal["ito", "stratonovich"]


class StochasticCoupled(CoupledSystem, StochasticSystem):
    """Systems side by side, some with noise; `Coupled` makes it.

    The Wiener processes of different parts are independent, and parts without noise have a diffusion of zero. Where the
    processes of a part drive all of its components together, the diffusion has one axis of the processes of all parts.
    """

    parts: dict[str, Any]
    wires: dict[str, dict[str, Any]]
    conserved: Callable[..., Any] | None = eqx.field(static=True, default=None)

    @property
    def interpretation(self) -> Reading:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The reading of the parts, which agree."""
        for reading in _readings(self.parts, self.wires):
            return reading
        return "ito"  # additive noise, for which both are the same

    @property
    def noise_kind(self) -> Kind:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The kind of noise as far as it is known without a state: "general" where wires feed a part with noise."""
        noisy = _noisy(self.parts)
        return (
            "general"
            if any(self.wires.get(name) for name in noisy)
            else _joined({part.noise_kind for part in noisy.values()})
        )

    def drift(self, t: Time, y: State, inputs: Inputs) -> State:
        return self.field(t, y, inputs)

    def diffusion(self, t: Time, y: State, inputs: Inputs) -> State:
        seen = self.decode(y)
        own = {name: together(y[name]) for name in self.parts}
        found = {
            name: _diffusion(name, part, t, own[name], self.received(name, t, seen, inputs))
            for name, part in self.parts.items()
            if isinstance(part, StochasticSystem)
        }
        counts = {name: common_processes(found[name], own[name], type(self[name]).__name__) for name in found}
        if all(count is None for count in counts.values()):
            return {name: found[name] if name in found else jax.tree.map(jnp.zeros_like, y[name]) for name in y}
        blocks = {name: _columns(g, own[name], counts[name]) for name, g in found.items()}
        widths = {name: jax.tree.leaves(block)[0].shape[-1] for name, block in blocks.items()}
        before, total, result = 0, sum(widths.values()), {}
        for name in y:
            if name in blocks:
                rest = total - before - widths[name]
                result[name] = jax.tree.map(functools.partial(_between, before=before, behind=rest), blocks[name])
                before += widths[name]
            else:
                result[name] = jax.tree.map(lambda x: jnp.zeros((*x.shape, total), x.dtype), y[name])
        return result


def _diffusion(name: str, part: StochasticSystem, t: Time, state: State, inputs: Inputs) -> Any:
    """The diffusion of a part, with the structure of its state."""
    if any(jnp.iscomplexobj(x) for x in jax.tree.leaves(state)):
        raise ArgumentError(
            f"The part `{name}`, a {type(part).__name__}, is stochastic and steps complex numbers, which the noise of coupled "
            "systems does not serve: write its state as real numbers."
        )
    return part.diffusion(t, state, inputs)


def _columns(diffusion: Any, state: State, count: int | None) -> Any:
    """The diffusion of a part as one with an axis of processes: of those that it has, or one for each of its numbers."""
    if count is not None:
        return diffusion
    leaves, structure = jax.tree.flatten(diffusion)
    total, before, found = sum(x.size for x in jax.tree.leaves(state)), 0, []
    for g in leaves:
        own = jnp.diag(g.ravel()).reshape(*g.shape, g.size)
        found.append(_between(own, before, total - before - g.size))
        before += g.size
    return jax.tree.unflatten(structure, found)


def _between(block: Array, before: int, behind: int) -> Array:
    """A block of columns between columns of zeros."""
    return jnp.pad(block, [(0, 0)] * (block.ndim - 1) + [(before, behind)])


def _noisy(parts: Mapping[str, System]) -> dict[str, StochasticSystem]:
    return {name: part for name, part in parts.items() if isinstance(part, StochasticSystem)}


def _readings(parts: Mapping[str, System], wires: Mapping[str, Any]) -> dict[Reading, str]:
    """The readings of parts to which they matter, those whose noise may depend on states, each with the first such part."""
    found: dict[Reading, str] = {}
    for name, part in _noisy(parts).items():
        if part.noise_kind != "additive" or wires.get(name):
            found.setdefault(part.interpretation, name)
    return found


def _joined(kinds: Collection[str]) -> Kind:
    """The kind of noise of parts of these kinds side by side."""
    return "general" if "general" in kinds else "diagonal" if "diagonal" in kinds else "additive"


def check_noises(parts: Mapping[str, System], wires: Mapping[str, Any]) -> None:
    """Refuse parts that no solver steps together: of different readings, or noise beside algebraic equations.

    **Raises:** an `ArgumentError` that names them.
    """
    noisy = next(iter(_noisy(parts)))
    for name, part in parts.items():
        if isinstance(part, ConstrainedSystem):
            raise ArgumentError(
                f"The parts `{noisy}` and `{name}` cannot be coupled: `{type(parts[noisy]).__name__}` is stochastic, "
                f"`{type(part).__name__}` has algebraic equations, and no solver steps both together yet. Solve the algebraic "
                "equations in the vector field, where they have a closed form."
            )
    readings = _readings(parts, wires)
    if len(readings) > 1:
        (first, one), (second, other) = readings.items()
        raise ArgumentError(
            f"The parts `{one}` and `{other}` cannot be coupled: the noise of `{one}` is meant as {first.capitalize()} and that of "
            f"`{other}` as {second.capitalize()}, and one solver reads all in one way. Write one of them in the reading of the "
            "other: a Stratonovich equation is that of Ito with 1/2 g dg/dy added to its drift."
        )


def noise_kind_of(system: StochasticSystem, y0: State = None, inputs: Inputs = None) -> Kind:
    """The kind of noise of a system. That of a coupled one follows from what its traced diffusion depends on, given a state.

    A part that is additive by itself is not where a wire that its diffusion reads depends on a state; then the whole is
    "general". So it is where processes common to all components of a part stand beside diagonal noise.
    """
    if not isinstance(system, StochasticCoupled) or y0 is None:
        return system.noise_kind
    known = keyed((system, y0, inputs))
    for found in (_kind_of, _kind_of.__wrapped__):
        try:
            return found(*known)
        except Exception:  # static parts may have no hash; and what a function of a part misses is said by the verb
            continue
    return system.noise_kind


@functools.lru_cache(maxsize=256)
def _kind_of(structure: Any, shapes: Any, other: Any, static: tuple[Any, ...]) -> Kind:
    known = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*shape) for shape in shapes])
    fixed = jax.tree.unflatten(other, static)

    def values(known: Any) -> tuple[Any, Any, Any, Any]:
        system, y0, inputs = eqx.combine(known, fixed)
        t = jnp.zeros((), jnp.result_type(*jax.tree.leaves(y0)))
        return system, y0, at_time(inputs, t), t

    def traced(seen: State, known: Any) -> list[Any]:
        """The diffusion of the parts, whose wires see other states than the parts themselves."""
        system, y0, inputs, t = values(known)
        return [
            jax.tree.leaves(part.diffusion(t, part.encode(y0[name]), system.received(name, t, seen, inputs)))
            for name, part in _noisy(system.parts).items()
        ]

    program = jax.make_jaxpr(traced)(known[1], known).jaxpr
    used = pe.dce_jaxpr(program, [True] * len(program.outvars))[1]
    if any(used[: len(jax.tree.leaves(known[1]))]):
        return "general"
    kinds: set[str] = set()

    def alone(known: Any) -> None:
        system, y0, inputs, t = values(known)
        for name, part in _noisy(system.parts).items():
            own = system.received(name, t, y0, inputs)
            kinds.add(noise_kind_of(part, y0[name], own))
            state = part.encode(y0[name])
            if common_processes(part.diffusion(t, state, own), state, type(part).__name__) is not None:
                kinds.add("shared")

    jax.eval_shape(alone, known)
    return "general" if {"diagonal", "shared"} <= kinds else _joined(kinds)
