"""The one Diffrax term: a system with its inputs."""

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
from jaxtyping import Array

from .._types import Inputs, State
from ._signals import at_time
from ._system import KnownJacobian, StochasticSystem, System


class SystemTerm(diffrax.AbstractTerm):
    """The full vector field for any solver, and the system itself for solvers that use its structure.

    With `apart` a barrier stands around the field: where many small members step together XLA would compute a stage again for
    each of its readers. With `late` the derivative of a split system's field computes again what it needs, only when it is its
    turn.
    """

    system: System
    inputs: Inputs
    apart: bool = eqx.field(static=True, default=False)
    late: bool = eqx.field(static=True, default=False)

    def vf(self, t: Any, y: State, args: Any = None) -> State:
        slope = lambda y: self.system.vector_field(t, y, at_time(self.inputs, t))
        if self.apart:
            return jax.lax.optimization_barrier(slope(jax.lax.optimization_barrier(y)))
        return slope(y)

    def contr(self, t0: Any, t1: Any, **kwargs: Any) -> Any:
        return t1 - t0

    def prod(self, vf: State, control: Any) -> State:
        return jax.tree.map(lambda slope: control * slope, vf)


def known_jacobian(terms: Any, t: Any, y: State) -> Array | None:
    """The Jacobian of a term's field where the system knows it, held: it has no derivatives of its own."""
    if not (isinstance(terms, SystemTerm) and isinstance(terms.system, KnownJacobian)):
        return None
    system, inputs, t, y = jax.lax.stop_gradient((terms.system, terms.inputs, t, y))
    return system.jacobian(t, y, at_time(inputs, t))


class Common(NamedTuple):
    """Wiener processes that drive all components together, unlike a tree of one for each component."""

    processes: Any


class DiffusionTerm(diffrax.AbstractTerm):
    """The diffusion of a stochastic system, driven by a Brownian path."""

    system: StochasticSystem
    inputs: Inputs
    path: diffrax.AbstractBrownianPath

    def vf(self, t: Any, y: State, args: Any = None) -> Any:
        return self.system.diffusion(t, y, at_time(self.inputs, t))

    def contr(self, t0: Any, t1: Any, **kwargs: Any) -> Any:
        return self.path.evaluate(t0, t1, **kwargs)

    def prod(self, vf: Any, control: Any) -> State:
        if isinstance(control, Common):
            return jax.tree.map(lambda g: g @ control.processes, vf)
        return jax.tree.map(lambda g, dw: g * dw, vf, control)


def brownian_shape(system: StochasticSystem, t: Any, y: State, inputs: Inputs) -> Any:
    """What a Brownian path must supply: the state's own structure, or m common processes."""
    diffusion = jax.eval_shape(lambda t, y: system.diffusion(t, y, at_time(inputs, t)), t, y)
    states, factors = jax.tree.leaves(jax.eval_shape(lambda y: y, y)), jax.tree.leaves(diffusion)
    if jax.tree.structure(diffusion) == jax.tree.structure(y):
        if all(g.shape == s.shape for g, s in zip(factors, states, strict=True)):
            return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), diffusion)
        counts = {g.shape[-1] for g in factors if g.ndim > 0}
        if len(counts) == 1 and all(g.shape[:-1] == s.shape for g, s in zip(factors, states, strict=True)):
            return Common(jax.ShapeDtypeStruct((counts.pop(),), factors[0].dtype))
    raise TypeError(
        f"`diffusion` of {type(system).__name__} must return the structure of the state, each leaf with the shape of the "
        f"state's or with one common axis behind, but the shapes are {[g.shape for g in factors]} for a state of "
        f"{[s.shape for s in states]}."
    )


def stochastic_terms(system: StochasticSystem, inputs: Inputs, path: diffrax.AbstractBrownianPath) -> diffrax.MultiTerm:
    """Drift and diffusion as Diffrax's stochastic solvers want them."""
    return diffrax.MultiTerm(SystemTerm(system, inputs), DiffusionTerm(system, inputs, path))
