"""Spaces: images, distances, volumes and their derivatives, in two and three dimensions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.md import OpenSpace, Orthorhombic, Triclinic

SKEWED = np.array([[4.0, 0.3, -0.2], [1.1, 3.5, 0.4], [-0.9, 0.8, 5.0]])
SPACES = {
    "orthorhombic": Orthorhombic([3.0, 4.0, 5.0]),
    "orthorhombic 2-D": Orthorhombic([3.0, 4.0]),
    "triclinic": Triclinic(SKEWED),
    "left-handed": Triclinic(SKEWED[[1, 0, 2]]),
    "triclinic 2-D": Triclinic([[2.0, 0.1], [0.9, 1.8]]),
}


def positions(space, n=400):
    return jnp.asarray(np.random.default_rng(0).uniform(-9, 9, (n, space.dimensions)))


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_wrap_moves_by_lattice_vectors_into_the_cell(space):
    x = positions(space)
    wrapped = space.wrap(x)
    images = (x - wrapped) @ jnp.linalg.inv(space.vectors())
    np.testing.assert_allclose(images, jnp.round(images), atol=1e-12)
    fraction = wrapped @ jnp.linalg.inv(space.vectors())
    assert (fraction > -1e-12).all()
    assert (fraction < 1 + 1e-12).all()
    assert jnp.abs(images).max() > 1


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_displacement_is_the_nearest_image_within_half_a_plane_distance(space):
    x = positions(space)
    a, b = x[:200], x[200:]
    ours = space.displacement(a, b)
    images = np.array(list(itertools.product(range(-12, 13), repeat=space.dimensions))) @ np.asarray(space.vectors())
    every = np.asarray(a - b)[:, None] + images
    nearest = np.linalg.norm(every, axis=-1).min(1)
    near = nearest < 0.5 * np.asarray(space.plane_distances()).min()
    assert near.sum() > 5
    np.testing.assert_allclose(np.linalg.norm(ours, axis=-1)[near], nearest[near], atol=1e-12)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_volume_and_plane_distances(space):
    h = np.asarray(space.vectors())
    np.testing.assert_allclose(space.volume(), abs(np.linalg.det(h)), rtol=1e-14)
    faces = [np.delete(h, k, axis=0) for k in range(len(h))]
    area = [np.sqrt(np.linalg.det(face @ face.T)) for face in faces]
    np.testing.assert_allclose(space.plane_distances(), abs(np.linalg.det(h)) / np.array(area), rtol=1e-13)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_scaled_deforms_the_lattice_and_has_the_derivative_of_the_volume(space):
    d = space.dimensions
    strain = jnp.asarray(np.random.default_rng(1).normal(0, 0.1, (d, d)))
    deformed = space.scaled(strain).vectors()
    np.testing.assert_allclose(deformed, np.asarray(space.vectors()) @ (np.eye(d) + np.asarray(strain)).T, rtol=1e-13)
    # dV/d strain = V * identity, exactly.
    slope = jax.grad(lambda e: space.scaled(e).volume())(jnp.zeros((d, d)))
    np.testing.assert_allclose(slope, space.volume() * np.eye(d), atol=1e-12)


def test_displacement_is_differentiable_by_the_cell():
    a, b = jnp.array([2.9, 0.1, 4.8]), jnp.array([0.2, 3.9, 0.3])
    slope = jax.jacfwd(lambda L: Orthorhombic(L).displacement(a, b))(jnp.array([3.0, 4.0, 5.0]))
    np.testing.assert_allclose(slope, np.diag([-1.0, 1.0, -1.0]))


def test_open_space():
    space = OpenSpace(dimensions=2)
    x = positions(space)
    assert space.wrap(x) is x
    np.testing.assert_array_equal(space.displacement(x, x[::-1]), x - x[::-1])
    assert space.volume() == jnp.inf
    assert not space.periodic


def test_float32_stays_float32_and_lengths_are_a_named_quantity():
    space = Orthorhombic(jnp.ones(3, jnp.float32))
    assert {a.dtype for a in (space.vectors(), space.volume(), space.wrap(jnp.ones((2, 3), jnp.float32)))} == {
        np.dtype("float32")
    }
    assert Triclinic(jnp.eye(3, dtype=jnp.float32)).plane_distances().dtype == jnp.float32


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Orthorhombic([3.0, 0.0, 3.0]), "Argument `lengths` must be positive"),
        (lambda: Orthorhombic(3.0), "Argument `lengths` must have shape"),
        (lambda: Triclinic([[1.0, 0, 0], [0, 1, 0], [1, 1, 0]]), "Argument `vectors` must span a volume"),
        (lambda: Triclinic([[1.0, 0, 0], [0, 1, 0]]), "Argument `vectors` must have shape"),
        (lambda: OpenSpace(dimensions=4), "Argument `dimensions` must be 2 or 3"),
    ],
)
def test_bad_cells(make, text):
    with pytest.raises(simkit.ArgumentError, match=text):
        make()
