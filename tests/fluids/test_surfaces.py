"""Bodies of triangles: distances against closed forms, files, holes, derivatives."""

import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, DataError, fluids

CUBE = np.array([[i, j, k] for i in (0.2, 0.8) for j in (0.3, 0.9) for k in (0.1, 0.5)])
FACES = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
HALVES = np.array([[f[i] for i in half] for f in FACES for half in ((0, 1, 2), (0, 2, 3))])
BOX = fluids.Box(CUBE.mean(axis=0), CUBE.max(axis=0) - CUBE.min(axis=0))


def ball(times=2):
    """An icosahedron whose triangles are cut in four, with corners on the unit sphere (Loop)."""
    g = (1 + 5**0.5) / 2
    corners = [np.array(c) for s in (1, -1) for t in (g, -g) for c in ([0, s, t], [s, t, 0], [t, 0, s])]
    corners = [c / np.linalg.norm(c) for c in corners]
    near = lambda i, j: abs(np.linalg.norm(corners[i] - corners[j]) - 2 / (1 + g * g) ** 0.5) < 1e-9
    faces = [
        (i, j, k) for i in range(12) for j in range(i) for k in range(j) if near(i, j) and near(j, k) and near(i, k)
    ]
    turned = lambda f: f if np.linalg.det([corners[i] for i in f]) > 0 else f[::-1]
    triangles = np.array([[corners[i] for i in turned(f)] for f in faces])
    for _ in range(times):
        a, b, c = np.moveaxis(triangles, 1, 0)
        ab, bc, ca = ((u + v) / np.linalg.norm(u + v, axis=1)[:, None] for u, v in ((a, b), (b, c), (c, a)))
        parts = ([a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca])
        triangles = np.concatenate([np.stack(part, axis=1) for part in parts])
    return triangles


def text_of(triangles):
    corners = lambda t: "\n".join(f"vertex {x:.9e} {y:.9e} {z:.9e}" for x, y, z in t)
    facets = [f"facet normal 0 0 0\nouter loop\n{corners(t)}\nendloop\nendfacet" for t in triangles]
    return "solid body\n" + "\n".join(facets) + "\nendsolid body\n"


def bytes_of(triangles):
    records = b"".join(np.concatenate([np.zeros(3), t.ravel()]).astype("<f4").tobytes() + b"\0\0" for t in triangles)
    return b"solid, or so it says".ljust(80) + struct.pack("<I", len(triangles)) + records


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_cube_of_triangles_is_a_box(dtype, turned):
    body = simkit.cast(fluids.TriangleSurface(CUBE, HALVES[:, ::-1] if turned else HALVES), jnp.dtype(dtype))
    x = tuple(jnp.asarray(c, dtype) for c in np.random.default_rng(0).uniform(-0.3, 1.3, (3, 2000)))
    found, exact = body(x), simkit.cast(BOX, jnp.dtype(dtype))(x)
    assert found.dtype == dtype
    assert (np.asarray(exact) < 0).sum() > 30
    np.testing.assert_allclose(found, exact, atol=1e-14 if dtype == np.float64 else 2e-6)
    np.testing.assert_allclose(body.volume(), 0.6 * 0.6 * 0.4, rtol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_a_ball_of_triangles_is_a_ball_up_to_the_depth_of_its_triangles(tmp_path, scale):
    tmp_path.joinpath("ball.stl").write_bytes(bytes_of(ball()))
    body = fluids.read_stl(tmp_path / "ball.stl", scale=scale)
    assert len(body.triangles) == 320
    assert len(body.corners) == 162  # corners of neighbours are one
    x = tuple(jnp.asarray(c * scale) for c in np.random.default_rng(0).uniform(-1.5, 1.5, (3, 2000)))
    exact = np.asarray(fluids.Disk(jnp.zeros(3), jnp.asarray(scale))(x))
    depth = (np.asarray(body(x)) - exact) / scale
    assert depth.min() > -1e-6
    assert 5e-3 < depth.max() < 0.025  # 1 - cos of half the angle under which an edge is seen, at most


def test_text_and_binary_files_are_one_body(tmp_path):
    triangles = CUBE[HALVES]
    tmp_path.joinpath("a.stl").write_text(text_of(triangles))
    tmp_path.joinpath("b.stl").write_bytes(bytes_of(triangles))
    a, b = (fluids.read_stl(tmp_path / name, scale=1000.0) for name in ("a.stl", "b.stl"))
    np.testing.assert_allclose(a.corners, b.corners, rtol=1e-7)
    np.testing.assert_allclose(a.volume(), 1e9 * 0.144, rtol=1e-6)


def test_a_derivative_by_corners_is_that_of_the_nearest_triangle():
    body = fluids.TriangleSurface(CUBE, HALVES)
    point = tuple(jnp.asarray(c) for c in (0.9, 0.6, 0.3))  # 0.1 beside the face at x = 0.8

    def distance(shift):
        return fluids.TriangleSurface(body.corners + shift[None], HALVES)(point)

    np.testing.assert_allclose(jax.grad(distance)(jnp.zeros(3)), [-1.0, 0.0, 0.0], atol=1e-13)
    np.testing.assert_allclose(jax.grad(lambda x: body((x, *point[1:])))(point[0]), 1.0, rtol=1e-13)


@pytest.mark.slow
def test_a_body_of_triangles_in_both_flows():
    """The cut faces and links of a cube are those of the box of the same size, far from the ends, over which a box has images."""
    body, grid = fluids.TriangleSurface(0.6 * CUBE + 0.2, HALVES), fluids.Grid((8, 8, 8), 1.0)
    box = fluids.Box(0.6 * BOX.centre + 0.2, 0.6 * BOX.lengths)
    start = lambda x: (jnp.ones_like(x[0]), 0 * x[0], 0 * x[0])
    drags = []
    for shape in (body, box):
        flow = fluids.IncompressibleFlow(grid, viscosity=0.1, obstacle=fluids.Obstacle(shape))
        run = simkit.simulate(flow, flow.start(start), [0.0, 0.02], step=simkit.Fixed(4)).final()
        drags.append(flow.outputs(0.02, run, None)["drag"])
    np.testing.assert_allclose(drags[0], drags[1], atol=1e-4)  # what conjugate gradients leave of the pressure, of 2
    solid = [fluids.LatticeBoltzmann(grid, step=0.01, viscosity=0.1, obstacle=shape).solid for shape in (body, box)]
    np.testing.assert_array_equal(*solid)


def test_holes_and_files_that_are_none_are_refused(tmp_path):
    triangles = CUBE[HALVES]
    tmp_path.joinpath("hole.stl").write_bytes(bytes_of(triangles[1:]))
    with pytest.raises(
        DataError, match=r"hole.stl` is no closed body.* 3 edges are those of one triangle alone \(a hole\), one of"
    ):
        fluids.read_stl(tmp_path / "hole.stl")
    tmp_path.joinpath("words.stl").write_text("solid nothing\nendsolid")
    with pytest.raises(DataError, match="must be an STL file"):
        fluids.read_stl(tmp_path / "words.stl")
    tmp_path.joinpath("nan.stl").write_text(text_of(triangles).replace("2.000000000e-01", "nan", 1))
    with pytest.raises(DataError, match="finite numbers"):
        fluids.read_stl(tmp_path / "nan.stl")
    with pytest.raises(DataError, match=r"nowhere\.stl"):
        fluids.read_stl(tmp_path / "nowhere.stl")
    flipped = np.concatenate([HALVES[:1, ::-1], HALVES[1:]])
    with pytest.raises(ArgumentError, match="go round different ways"):
        fluids.TriangleSurface(CUBE, flipped)
    with pytest.raises(ArgumentError, match="triangles of a surface must differ, but 12 stand there twice"):
        fluids.TriangleSurface(CUBE, np.concatenate([HALVES, HALVES]))
    with pytest.raises(ArgumentError, match="whole numbers from 0 to 7"):
        fluids.TriangleSurface(CUBE, HALVES + 1)
    with pytest.raises(ArgumentError, match="in three dimensions, but the grid has 2"):
        fluids.TriangleSurface(CUBE, HALVES)((jnp.zeros(3), jnp.zeros(3)))
    far = fluids.TriangleSurface(CUBE + 5, HALVES)
    flow = fluids.IncompressibleFlow(fluids.Grid((8, 8, 8), 1.0), viscosity=0.1, obstacle=fluids.Obstacle(far))
    with pytest.warns(UserWarning, match="holds no centre of a cell"):
        simkit.simulate(flow, flow.start(), [0.0, 0.01], step=0.01)
