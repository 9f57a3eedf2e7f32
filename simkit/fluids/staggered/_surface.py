"""Bodies whose surface is made of triangles, such as those of STL files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Int

from ..._doors import check_kind
from ..._errors import ArgumentError, DataError
from ...core import quantity, traced
from ...stores import input_bytes, reading
from ..grids._checks import check_value

HEADER, RECORD = 84, 50
"""Bytes before the triangles of a binary STL file, the last four of which count them, and bytes of each."""

CORNERS = 12
"""The first of the bytes of a record that hold its corners, behind the normal."""


class TriangleSurface(eqx.Module):
    """The signed distance of a body in space whose closed surface is made of triangles, negative inside.

    It stands wherever a `Disk` does: as the `distance` of an `Obstacle`, or as the body of a `LatticeBoltzmann`. Each point looks
    at each triangle once, when a system is made or traced. The distance is that to the nearest triangle, and a point is inside
    where the surface winds around it (by the sum of solid angles), so that bodies may be of any shape and of several parts.
    Derivatives by the corners are those of the nearest triangle.

    - `corners`: shape (n, 3), any unit of length.
    - `triangles`: shape (triangles, 3), the places of three corners each. Seen from outside they go round one way, all the same:
        either way will do.

    **Raises:** an `ArgumentError` for a surface that is not closed, with a place at its edge, or whose triangles go round
    different ways.

    **Source:** van Oosterom and Strackee (1983), IEEE Trans. Biomed. Eng. 30:125, for the solid angle.

    ```python
    import numpy as np
    from simkit import fluids

    corners = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    body = fluids.TriangleSurface(corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    ```
    """

    triangles: Int[Array, "t 3"]
    corners: Any = quantity(unit="length", doc="corners of the triangles")

    def __init__(self, corners: ArrayLike, triangles: ArrayLike | Sequence[Sequence[int]]):
        _check_shape("corners", np.shape(corners))
        places = np.asarray(triangles)
        _check_shape("triangles", places.shape)
        if places.dtype.kind not in "iu" or places.min() < 0 or places.max() >= np.shape(corners)[0]:
            raise ArgumentError(
                f"Argument `triangles` must hold whole numbers from 0 to {np.shape(corners)[0] - 1}, the places of `corners`."
            )
        if not traced(corners) and not np.isfinite(np.asarray(corners)).all():
            raise ArgumentError("Argument `corners` must be finite, but holds numbers that are not.")
        _check_closed(corners, places)
        self.corners, self.triangles = corners, jnp.asarray(places, jnp.int32)

    def __call__(self, x: tuple[Array, ...]) -> Array:
        if len(x) != 3:
            raise ArgumentError(
                f"A TriangleSurface is a body in three dimensions, but the grid has {len(x)}. Take a `Disk` or `Box`."
            )
        point = tuple(jnp.broadcast_arrays(*x))
        dtype, shape = point[0].dtype, point[0].shape
        corners = jnp.asarray(self.corners, dtype)[self.triangles]

        def look(
            carry: tuple[Array, Array, Array], item: tuple[Array, Array]
        ) -> tuple[tuple[Array, Array, Array], None]:
            least, nearest, angle = carry
            place, corner = item
            square = _square_distance(point, corner)
            angle = angle + _solid_angle(point, corner)
            return (jnp.minimum(least, square), jnp.where(square < least, place, nearest), angle), None

        start = jnp.full(shape, jnp.inf, dtype), jnp.zeros(shape, jnp.int32), jnp.zeros(shape, dtype)
        places = jnp.arange(len(corners), dtype=jnp.int32)
        point, fixed = lax.stop_gradient((point, corners))
        (_, nearest, angle), _ = lax.scan(look, start, (places, fixed))
        square = _square_distance(tuple(jnp.broadcast_arrays(*x)), jnp.moveaxis(corners[nearest], (-2, -1), (0, 1)))
        tiny = jnp.finfo(dtype).tiny
        distance = jnp.where(square > tiny, jnp.sqrt(jnp.maximum(square, tiny)), 0)
        return jnp.where(jnp.abs(angle) > 2 * jnp.pi, -distance, distance)

    def volume(self) -> Array:
        """The volume inside."""
        a, b, c = jnp.moveaxis(self.corners[self.triangles] - jnp.mean(self.corners, axis=0)[None, None], 1, 0)
        return jnp.abs(jnp.sum(a * jnp.cross(b, c))) / 6


def read_stl(path: str | Path, scale: float = 1.0) -> TriangleSurface:
    """Read the surface of a body from an STL file, binary or text.

    - `scale`: by which its coordinates are multiplied, such as 0.001 for a file in millimetres and a grid in metres.

    **Raises:** a `DataError` for a file that is no STL file or whose surface has a hole, with a place at its edge.
    """
    what = "STL file"
    check_kind("path", path, str | Path, "a path", 'Write `read_stl("body.stl")`.')
    check_value("scale", scale, positive=True)
    with reading(path, what, near="*.stl"):
        content = input_bytes(path, what)
    corners = _binary(content) if _is_binary(content) else _text(content, path)
    if not len(corners) or not np.isfinite(corners).all():
        raise DataError(
            f"The STL file `{path}` must hold triangles of finite numbers, but it does not. Export it again."
        )
    unique, places = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    triangles = places.reshape(-1, 3)
    flat = (triangles == np.roll(triangles, 1, axis=1)).any(axis=1)  # triangles without area, which some programs write
    try:
        return TriangleSurface(unique * float(scale), triangles[~flat])
    except ArgumentError as raised:
        raise DataError(
            f"The STL file `{path}` is no closed body. {raised} Repair it in the program that made it."
        ) from raised


def _is_binary(content: bytes) -> bool:
    """Tell a binary file by its length; headers of both kinds may begin with the word solid."""
    return len(content) >= HEADER and len(content) == HEADER + RECORD * int.from_bytes(
        content[HEADER - 4 : HEADER], "little"
    )


def _binary(content: bytes) -> np.ndarray:
    records = np.frombuffer(content, np.uint8, offset=HEADER).reshape(-1, RECORD)
    corners = np.ascontiguousarray(records[:, CORNERS : CORNERS + 36]).view("<f4")
    return corners.reshape(-1, 3, 3).astype(float)


def _text(content: bytes, path: Any) -> np.ndarray:
    words = content.decode("ascii", "replace").split()
    starts = [i for i, word in enumerate(words) if word.lower() == "vertex"]
    try:
        corners = [[float(word) for word in words[i + 1 : i + 4]] for i in starts]
    except ValueError:
        corners = [[]]
    if not corners or words[0].lower() != "solid" or len(corners) % 3 or {len(corner) for corner in corners} != {3}:
        raise DataError(
            f"The file `{path}` must be an STL file, binary or text, but it is none, or it was cut off. Export the body again."
        )
    return np.array(corners).reshape(-1, 3, 3)


def _check_shape(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[1] != 3 or not shape[0]:
        raise ArgumentError(f"Argument `{name}` of TriangleSurface must have the shape (n, 3), but has {shape}.")


def _check_closed(corners: ArrayLike, triangles: np.ndarray) -> None:
    """Refuse edges that are not those of two triangles which go along them in opposite directions."""
    _, copies = np.unique(np.sort(triangles, axis=1), axis=0, return_counts=True)
    if copies.max() > 1:
        raise ArgumentError(
            f"The triangles of a surface must differ, but {int((copies > 1).sum())} stand there twice. Leave one of each."
        )
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]).astype(np.int64)
    size = int(triangles.max()) + 1
    keys, counts = np.unique(edges[:, 0] * size + edges[:, 1], return_counts=True)
    back = (keys % size) * size + keys // size
    at = np.minimum(np.searchsorted(keys, back), len(keys) - 1)
    matched = np.where(keys[at] == back, counts[at], 0)
    wrong = np.flatnonzero(matched != counts)
    if not len(wrong):
        return
    first = int(keys[wrong[0]] // size)
    place = "" if traced(corners) else f", one of them at {np.asarray(corners)[first].tolist()}"
    turned = counts[wrong].max() > 1
    raise ArgumentError(
        f"The triangles of a surface must close it, but {len(wrong)} edges "
        f"{'are those of triangles that go round different ways' if turned else 'are those of one triangle alone (a hole)'}{place}."
    )


Vector = tuple[Array, ...]
"""Three components, so that those of all points lie side by side."""


def _less(u: Vector, v: Vector) -> Vector:
    return tuple(a - b for a, b in zip(u, v, strict=True))


def _dot(u: Vector, v: Vector) -> Array:
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


def _cross(u: Vector, v: Vector) -> Vector:
    return u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]


def _square_distance(point: Vector, corners: Array) -> Array:
    """The square of the distance of points from a triangle with corners `(3, 3)`, or from one for each, `(3, 3, *points)`."""
    a, b, c = (tuple(corner) for corner in corners)
    normal = _cross(_less(b, a), _less(c, a))
    outside, edges = jnp.zeros(point[0].shape, bool), []
    for start, end in ((a, b), (b, c), (c, a)):
        along, away = _less(end, start), _less(point, start)
        outside = outside | (_dot(_cross(normal, along), away) < 0)
        share = jnp.clip(_dot(along, away) / _dot(along, along), 0, 1)
        rest = tuple(x - share * y for x, y in zip(away, along, strict=True))
        edges.append(_dot(rest, rest))
    above = _dot(normal, _less(point, a))
    return jnp.where(
        outside, jnp.minimum(jnp.minimum(edges[0], edges[1]), edges[2]), above * above / _dot(normal, normal)
    )


def _solid_angle(point: Vector, corners: Array) -> Array:
    """The solid angle under which a triangle is seen from points, its sign that of the way round."""
    a, b, c = (_less(tuple(corner), point) for corner in corners)
    x, y, z = (jnp.sqrt(_dot(v, v)) for v in (a, b, c))
    return 2 * jnp.arctan2(_dot(a, _cross(b, c)), x * y * z + _dot(a, b) * z + _dot(a, c) * y + _dot(b, c) * x)
