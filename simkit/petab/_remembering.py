"""Systems with a memory: numbers beside the state that no rate changes, and that events read and set."""

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import Inputs, State, Time
from ..core import ConstrainedSystem, Example, KnownJacobian, PlainSystem, SparseMatrix, System
from ._sbml_system import AbstractSBMLSystem

if TYPE_CHECKING:
    AbstractVar = Any
else:
    from equinox import AbstractVar


class Remembering(System):
    """A system beside whose state there is a memory, one vector.

    - `inner`: what is solved, a system with the parameters that rates need; `whole`: the model with all of them.
    - `signals`: its inputs.
    """

    inner: AbstractVar[Any]
    whole: AbstractVar[AbstractSBMLSystem]
    signals: AbstractVar[Any]

    @abc.abstractmethod
    def split(self, y: State) -> tuple[Any, Array]:
        """The state, and the memory."""

    @abc.abstractmethod
    def joined(self, state: State, memory: Array) -> Any:
        """Both as one."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        state, memory = self.split(y)
        return self.joined(self.inner.vector_field(t, state, inputs), jnp.zeros_like(memory))

    @classmethod
    def example(cls) -> "Example[Any]":
        raise ArgumentError("A system read from SBML has no example: give its state and times.")


class _Paired(Remembering):
    def split(self, y: State) -> tuple[Any, Array]:
        return y

    def joined(self, state: State, memory: Array) -> Any:
        return state, memory


class _Beside(_Paired, PlainSystem):
    inner: Any
    whole: AbstractSBMLSystem
    signals: Any


class _Constrained(_Paired, ConstrainedSystem):
    inner: Any
    whole: AbstractSBMLSystem
    signals: Any
    size: int = eqx.field(static=True)

    def mass(self, t: Time) -> Any:
        """M of the model, and of the memory the identity."""
        own = self.inner.mass(t)
        if isinstance(own, dict):
            return own, jnp.ones(self.size)
        return jax.scipy.linalg.block_diag(own, jnp.eye(self.size, dtype=own.dtype))


class _Known(Remembering, KnownJacobian):
    inner: Any
    whole: AbstractSBMLSystem
    signals: Any
    size: int = eqx.field(static=True)

    def split(self, y: State) -> tuple[Any, Array]:
        return y[..., : -self.size], y[..., -self.size :]

    def joined(self, state: State, memory: Array) -> Any:
        return jnp.concatenate([state, memory], axis=-1)

    def jacobian(self, t: Time, y: Array, inputs: Inputs) -> Array | SparseMatrix:
        own = self.inner.jacobian(t, self.split(y)[0], inputs)
        return own.padded(self.size) if isinstance(own, SparseMatrix) else jnp.pad(own, (0, self.size))


def remembering(inner: Any, whole: AbstractSBMLSystem, signals: Any, size: int) -> Remembering:
    """The system that is solved, with a memory of some size."""
    if isinstance(inner, ConstrainedSystem):
        return _Constrained(inner, whole, signals, size)
    return _Known(inner, whole, signals, size) if isinstance(inner, KnownJacobian) else _Beside(inner, whole, signals)


def diluted(y: State, memory: Array) -> float:
    """The share of a tolerance that is that of the state alone: the memory, which has no error, is part of the mean."""
    size = ravel_pytree(y)[0].size
    return float((size / (size + memory.size)) ** 0.5)
