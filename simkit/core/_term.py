"""The term that steppers see: a system with its inputs and its noise."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._types import Inputs, State, Time
from ._brownian_path import BrownianPath
from ._signals import at_time
from ._sparse_matrix import SparseMatrix
from ._system import KnownJacobian, StochasticSystem


class SystemTerm(eqx.Module):
    """A system with its inputs, as steppers see it: the vector field, and the system itself for those that use its structure.

    With `apart` a barrier stands around the field: where many small members step together XLA would compute a stage again for
    each of its readers. With `late` the derivative of a split system's field computes again what it needs, only when it is its
    turn. `path` is the Brownian path of a stochastic system.
    """

    system: Any  # a System of the family that the stepper serves
    inputs: Inputs
    path: Any = None
    apart: bool = eqx.field(static=True, default=False)
    late: bool = eqx.field(static=True, default=False)

    def vf(self, t: Time, y: State) -> State:
        """Return the vector field."""
        slope = lambda y: self.system.vector_field(t, y, at_time(self.inputs, t))
        if self.apart:
            return jax.lax.optimization_barrier(slope(jax.lax.optimization_barrier(y)))
        return slope(y)

    def diffusion(self, t: Time, y: State) -> Any:
        """Return the diffusion of a stochastic system."""
        assert isinstance(self.system, StochasticSystem)
        return self.system.diffusion(t, y, at_time(self.inputs, t))

    def increment(self, t0: Time, t1: Time, *, use_levy: bool = False) -> Any:
        """Return the increment of the Brownian path, with `use_levy` as a record of `W` and the space-time Levy area `H`."""
        return self.path.evaluate(t0, t1, use_levy=use_levy)


def forced(diffusion: Any, increment: Any) -> State:
    """Return the diffusion times an increment: leaf by leaf, or a matrix for each leaf where processes are common."""
    if isinstance(increment, Common):
        return jax.tree.map(lambda g: g @ increment.processes, diffusion)
    return jax.tree.map(lambda g, dw: g * dw, diffusion, increment)


def known_jacobian(term: SystemTerm, t: Time, y: State) -> Array | SparseMatrix | None:
    """The Jacobian of a term's field where the system knows it, held: it has no derivatives of its own."""
    if not isinstance(term.system, KnownJacobian):
        return None
    system, inputs, t, y = jax.lax.stop_gradient((term.system, term.inputs, t, y))
    return system.jacobian(t, y, at_time(inputs, t))


class Common(NamedTuple):
    """Wiener processes that drive all components together, unlike a tree of one for each component."""

    processes: Any


def common_processes(diffusion: Any, y: State, kind: str) -> int | None:
    """Return the number of processes that drive all components together; None where each component has its own.

    **Raises:** a `TypeError` for a diffusion of another form; `kind` is the name of its system.
    """
    states, factors = jax.tree.leaves(y), jax.tree.leaves(diffusion)
    if jax.tree.structure(diffusion) == jax.tree.structure(y):
        if all(jnp.shape(g) == s.shape for g, s in zip(factors, states, strict=True)):
            return None
        counts = {g.shape[-1] for g in factors if g.ndim > 0}
        if len(counts) == 1 and all(g.shape[:-1] == s.shape for g, s in zip(factors, states, strict=True)):
            return counts.pop()
    raise TypeError(
        f"`diffusion` of {kind} must return the structure of the state, each leaf with the shape of the "
        f"state's or with one common axis behind, but the shapes are {[jnp.shape(g) for g in factors]} for a state of "
        f"{[s.shape for s in states]}."
    )


def brownian_shape(system: StochasticSystem, t: Time, y: State, inputs: Inputs) -> Any:
    """Return the shapes of a Brownian path: the structure of the (encoded) state, or m common processes."""
    diffusion = jax.eval_shape(lambda t, y: system.diffusion(t, y, at_time(inputs, t)), t, y)
    states = jax.eval_shape(lambda y: y, y)
    count = common_processes(diffusion, states, type(system).__name__)
    if count is None:
        return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), states)
    return Common(jax.ShapeDtypeStruct((count,), jax.tree.leaves(diffusion)[0].dtype))


def brownian_path(shape: Any, key: Any, *, levy_area: bool) -> BrownianPath:
    """Return a Brownian path that is drawn anew for each step from a random key."""
    # Not the bits of the key itself, which are those of keys that are split from it.
    words = jax.random.bits(jax.random.fold_in(key, 0x70617468), (2,), jnp.uint32)
    return BrownianPath((words[0], words[1]), shape, levy_area)
