"""Particles whose numbers do not fit are refused in words, before anything is compiled."""

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md

START = md.crystal("fcc", 1.7, 2)
X = np.asarray(START.position)
LJ = md.LennardJones(cutoff=1.6)


def given(position=X, momentum=None, *, potential=LJ, **options):
    system = md.Particles(potential, START.space, **options)
    return system.prepared(md.Atoms(position, 0 * position if momentum is None else momentum))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: given(X[:, :2]), r"`position` must have the shape \(atoms, 3\) .* but it has \(32, 2\)"),
        (lambda: given(X.ravel()), r"`position` must have the shape .* \(96,\)"),
        (lambda: given(X, X[1:]), r"`momentum` must have the shape \(32, 3\)"),
        (lambda: given(mass=np.ones(5)), "`mass` must have one entry for each of 32 atoms"),
        (lambda: given(mass=np.r_[np.ones(31), 0.0]), r"`mass` must be positive, but that of atom 31"),
        (lambda: given(mass=-1.0), "`mass` of Particles must not be negative, but it is -1"),
        (lambda: given(charge=np.ones(3)), "`charge` must have one entry for each of 32 atoms"),
        (lambda: given(species=np.full(32, 0.5)), "`species` must be whole numbers"),
        (lambda: given(potential=md.LennardJones(-1.0)), r"`potential.sigma` of Particles must not be negative"),
        (lambda: given(potential=md.LennardJones(cutoff=-1.0)), "`cutoff` of LennardJones must be positive"),
        (lambda: given(dynamics=md.Langevin(-1.0, 1.0)), r"`dynamics.temperature` of Particles must not be negative"),
        (lambda: given(precision="float16"), '`precision` must be "float32", "float64" or None'),
        (lambda: given(precision="mixed"), "is what other programs call mixed"),
        (
            lambda: given(X.astype(np.float32)),
            r'`potential.sigma` is in double. Take `simkit.cast\(system, "float32"\)`',
        ),
        (lambda: given(X, (0 * X).astype(np.float32)), "one float type, but they are float64 and float32"),
    ],
)
def test_what_does_not_fit_is_named(build, message):
    with pytest.raises(simkit.ArgumentError, match=message):
        build()


def test_atoms_in_single_precision_go_with_a_system_in_it():
    system = md.Particles(LJ, START.space)
    atoms = simkit.cast(md.Atoms(X, 0 * X), "float32")
    assert simkit.cast(system, "float32").prepared(atoms).energy(atoms).dtype == jnp.float32
