"""Forces on flows, as the modes of an acceleration."""

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..._types import Inputs, Scalar
from ...core import Input, quantity, scaled
from ._waves import Waves


class Force(eqx.Module):
    """An acceleration that does not depend on the flow."""

    @abc.abstractmethod
    def modes(self, t: ArrayLike, waves: Waves, inputs: Inputs, dtype: DTypeLike) -> Array:
        """The modes of the acceleration, `(dimensions, *waves.shape)`, in real precision `dtype`."""


class KolmogorovForce(Force):
    r"""Kolmogorov's force along the first axis, $f_x = A \sin(2\pi n (y - y_0) / L_y)$ with n `waves` from the origin $y_0$.

    It costs no transform. With viscosity $\nu$ and drag $\mu$ the parallel flow $u = f_x / (\nu k^2 + \mu)$ is a solution.
    """

    amplitude: Scalar = quantity(1.0, doc="largest acceleration")
    waves: int = eqx.field(static=True, default=4)

    def modes(self, t: ArrayLike, waves: Waves, inputs: Inputs, dtype: DTypeLike) -> Array:
        if not 1 <= self.waves <= waves.cutoffs[1]:
            raise ArgumentError(
                f"Argument `waves` of the force must be 1 to {waves.cutoffs[1]} on this grid, but it is {self.waves}."
            )
        half = (
            np.exp(1j * np.pi * self.waves / waves.grid.shape[1]) / 2j
        )  # to the first centre, half a cell from the origin
        found = np.zeros((waves.grid.dimensions, *waves.shape), complex)
        index = waves.indices(1)
        line = np.where(index == self.waves, half, np.where(index == -self.waves, np.conj(half), 0))
        found[(0, 0, slice(None), *[0] * (waves.grid.dimensions - 2))] = line
        return scaled(self.amplitude, jnp.asarray(found, np.result_type(np.dtype(dtype), np.complex64)))


class SteadyForce(Force):
    """A given acceleration, `(dimensions, *grid.shape)` at the centres; a transform an evaluation."""

    field: Array = quantity(doc="acceleration")

    def modes(self, t: ArrayLike, waves: Waves, inputs: Inputs, dtype: DTypeLike) -> Array:
        waves.grid.check_field(self.field, "field", (waves.grid.dimensions,))
        return waves.modes(self.field)


class InputForce(Force):
    """The acceleration that the input `force` gives, `(dimensions, *grid.shape)` at the centres; a transform an evaluation.

    An `IncompressibleFlow` takes it as well, there without a transform, and components at their faces in a tuple.
    """

    def modes(self, t: ArrayLike, waves: Waves, inputs: Inputs, dtype: DTypeLike) -> Array:
        force = inputs["force"]
        waves.grid.check_field(force, "inputs", (waves.grid.dimensions,))
        return waves.modes(force)


def inputs_of(force: Force | None) -> dict[str, Input] | None:
    """The inputs that a flow with this force reads; None where a force of a user's own may read any."""
    if isinstance(force, InputForce):
        return {"force": Input(unit="length/time2", doc="acceleration at the centres, (dimensions, *grid.shape)")}
    return {} if force is None or isinstance(force, KolmogorovForce | SteadyForce) else None
