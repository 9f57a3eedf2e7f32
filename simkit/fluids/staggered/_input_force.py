"""Forces on a flow on a staggered grid: given ones, those of an input, and what scalars lift."""

from typing import Any

import jax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..._types import Inputs
from ...core import Input
from ..spectral._force import InputForce
from ._scalars import lifted
from ._staggered import Staggered, to_faces
from ._state import StaggeredFlow, called


def inputs_of_force(force: Any) -> dict[str, Input]:
    """The inputs that a flow with this force reads."""
    if not isinstance(force, InputForce):
        return {}
    doc = "acceleration at the centres, (dimensions, *grid.shape), or a tuple of components at their faces"
    return {"force": Input(unit="length/time2", doc=doc)}


def given_force(at: Staggered, inputs: Inputs) -> list[Array | ArrayLike]:
    """The acceleration that the input `force` gives, at the faces of each component.

    **Raises:** an `ArgumentError` for an input of another shape, or none.
    """
    force = inputs["force"] if isinstance(inputs, dict) and "force" in inputs else None
    if isinstance(force, jax.Array):
        at.grid.check_field(force, "inputs", (at.dimensions,))
        return [to_faces(at, force[i], i) for i in range(at.dimensions)]
    shapes = [at.shape(i) for i in range(at.dimensions)]
    if not isinstance(force, tuple | list) or [getattr(x, "shape", None) for x in force] != shapes:
        raise ArgumentError(
            f"The input `force` must be an acceleration at the centres, or a tuple of {at.dimensions} components at their faces, "
            f"whose shapes are {', '.join(map(str, shapes))}."
        )
    return list(force)


def forces_on(system: Any, t: ArrayLike, y: StaggeredFlow, inputs: Inputs) -> list[Any] | None:
    """The acceleration of the fluid by all forces, at the faces of each component; None where there are none."""
    at, dtype = system.at, y.velocity[0].dtype
    found: list[Any] = [0.0] * at.dimensions
    if isinstance(system.force, InputForce):
        found = given_force(at, inputs)
    elif callable(system.force):
        found = [called(system.force, t, at.mesh(i, dtype))[i] for i in range(at.dimensions)]
    elif system.force is not None:
        found = [system.force[i] for i in range(at.dimensions)]
    if system.buoyancy is not None:
        for i in range(at.dimensions):
            found[i] = found[i] + system.buoyancy[i] * to_faces(at, y.scalar, i)
    lifts = [lifted(system, y, i) for i in range(at.dimensions)]
    if lifts[0] is not None:
        return [a + b for a, b in zip(found, lifts, strict=True)]
    return None if system.force is None and system.buoyancy is None else found
