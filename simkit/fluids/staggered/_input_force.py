"""Forces on staggered grids that an input gives."""

from typing import Any

import jax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..._types import Inputs
from ...core import Input
from ..spectral._force import InputForce
from ._staggered import Staggered, to_faces


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
