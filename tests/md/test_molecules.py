"""Molecules without a box: derivatives under vmap, fits, and dihedrals that have no angle."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md

LINE = np.array([[0.0, 0.0, 0.0], [0.1, 0.2, 0.3], [0.2, 0.4, 0.6], [0.3, 0.5, 0.7]])
DIHEDRAL = [[0, 1, 2, 3]]


def test_energies_of_several_molecules_have_derivatives():
    """By a parameter of the potential, under vmap in all modes: the sum of those of each."""
    y0 = md.Atoms(jnp.array([[0.0, 0, 0], [1.05, 0, 0]]), jnp.zeros((2, 3)))
    system = md.Particles(md.LennardJones(cutoff=3.0), md.OpenSpace()).prepared(y0)
    several = jax.tree.map(lambda a: jnp.stack([a, 1.01 * a]), y0)

    def energy(sigma, y):
        put = eqx.tree_at(lambda s: s.potential.sigma, system, sigma)
        return put.outputs(0.0, y, None)["potential_energy"]

    def exact(sigma):
        """4 ((s/r)^12 - (s/r)^6), summed, and its first and second derivative at sigma 1."""
        r = np.array([1.05, 1.01 * 1.05])
        return [np.sum(4 * (a * r**-12.0 - b * r**-6.0)) for a, b in ((1, 1), (12, 6), (132, 30))]

    total = lambda sigma: jax.vmap(lambda y: energy(sigma, y))(several).sum()
    one = jnp.asarray(1.0)
    found = [total(one), jax.grad(total)(one), jax.hessian(total)(one)]
    # Rounding of sums of terms up to 60: 1e-12 relative.
    np.testing.assert_allclose(found, exact(1.0), rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.grad(total))(one), found[1], rtol=1e-12)
    np.testing.assert_allclose(jax.jvp(total, (one,), (one,))[1], found[1], rtol=1e-12)


def test_a_molecule_without_a_box_is_fitted():
    """The bond's stiffness from the kinetic energy of a vibration."""
    atoms = md.Atoms(jnp.array([[0.0, 0, 0], [1.2, 0, 0]]), jnp.zeros((2, 3)))
    system = md.Particles(md.HarmonicBond([[0, 1]], 4.0, 1.0), md.OpenSpace())
    times = np.linspace(0.0, 2.0, 9)
    # Half the bond's amplitude each: the kinetic energy of x = 0.2 cos(w t) with w^2 = 2 k / m.
    kinetic = 0.5 * 0.5 * (0.2 * np.sqrt(8.0) * np.sin(np.sqrt(8.0) * times)) ** 2
    data = simkit.Experiment("vibration", times, {"kinetic_energy": kinetic}, y0=atoms)
    free = {"potential.stiffness": simkit.Free(bounds=(2.0, 8.0), start=3.5)}
    problem = simkit.Problem(system, data, free=free, noise={"kinetic_energy": simkit.noise.Normal(0.001)}, step=0.02)
    fit = simkit.fit(problem, starts=1, horizons=(1.0,))
    # Velocity Verlet with this step has a frequency that is w^2 h^2 / 24 = 1.3e-4 too high, so a stiffness 2.7e-4 too low.
    np.testing.assert_allclose(fit.estimate, [4.0], rtol=5e-4)


@pytest.mark.parametrize(
    ("potential", "energy"),
    [
        (md.PeriodicDihedral(DIHEDRAL, 2.0, 3, 0.3), 2.0),
        (md.HarmonicImproper(DIHEDRAL, 2.0, 0.3), 0.09),
        (md.RyckaertBellemans(DIHEDRAL, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 1.0),
        (md.OPLSDihedral(DIHEDRAL, [1.0, 2.0, 3.0, 4.0]), 4.0),
    ],
    ids=lambda x: type(x).__name__,
)
def test_three_atoms_in_a_line_have_a_finite_energy_and_no_force(potential, energy):
    """Cosines of multiples of an angle that is not there are 0, as in LAMMPS; of an improper the angle is 0, as in GROMACS."""
    x = jnp.asarray(LINE)
    of = lambda x: potential.term(md.OpenSpace(), x[jnp.array(DIHEDRAL)])[0]
    value, slope = jax.value_and_grad(of)(x)
    np.testing.assert_allclose(value, energy, rtol=1e-15)
    np.testing.assert_array_equal(slope, 0.0)
    assert np.isfinite(jax.hessian(of)(x)).all()
    # A bend of 1e-6, far above rounding, has an angle: energies of terms with it are those of a larger bend along the same line.
    bend = jnp.zeros((4, 3)).at[0, 0].set(1.0)
    np.testing.assert_allclose(of(x + 1e-6 * bend), of(x + 1e-3 * bend), rtol=1e-2)


def test_positions_in_another_unit_are_told_before_the_run():
    start = md.crystal("fcc", 3.5 * 2**0.5, 2)
    atoms = md.Atoms(start.position, jnp.zeros_like(start.position))
    system = md.Particles(md.LennardJones(3.405, 0.24, cutoff=4.5), start.space)
    assert system.prepared(atoms).plan is not None
    small = jax.tree.map(lambda x: 0.1 * x, (atoms, start.space))
    wrong = md.Particles(md.LennardJones(3.405, 0.24, cutoff=4.5), small[1])
    with pytest.raises(simkit.ArgumentError, match=r"`sigma` of LennardJones is 3\.4, 9\.7.* times.* nanometres"):
        simkit.simulate(wrong, small[0], [0.0, 1.0], step=0.001)
    pair = md.Atoms(jnp.array([[0.0, 0, 0], [0.11, 0, 0]]), jnp.zeros((2, 3)))
    bonded = md.Particles(md.HarmonicBond([[0, 1]], 300.0, 1.1), md.OpenSpace())
    with pytest.raises(simkit.ArgumentError, match=r"most bonds are 0\.11 long, and `length` of HarmonicBond is 1\.1"):
        bonded.prepared(pair)


def test_species_of_no_diameter_mix_by_the_sixth_power():
    x = jnp.array([[0.0, 0, 0], [1.1, 0, 0], [0.3, 0.4, 0.2]])
    atoms, kinds = md.Atoms(x, jnp.zeros((3, 3))), jnp.array([0, 0, 1])

    def energy(sigma, epsilon):
        potential = md.LennardJones(sigma, epsilon, mixing="sixth-power")
        return md.Particles(potential, md.OpenSpace(), species=kinds).prepared(atoms).energy(atoms)

    value = energy(jnp.array([1.0, 0.0]), jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(value, 4 * (1.1**-12 - 1.1**-6), rtol=1e-12)  # a few roundings
