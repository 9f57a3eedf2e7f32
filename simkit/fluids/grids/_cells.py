"""Parts of arrays along an axis."""

from jaxtyping import Array


def cells(field: Array, axis: int, start: int, stop: int) -> Array:
    """Cells start to stop of an axis counted from the last axes of an array."""
    index = [slice(None)] * field.ndim
    index[axis] = slice(start, stop)
    return field[tuple(index)]
