"""Potentials that are not sums over pairs: lists, derivatives by everything, in every space; overflow; padding."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_systems import configuration, species_and_charges

import simkit
from simkit import md
from simkit.core import quantity
from simkit.md.neighbours import _atom_lists

energy, forces, gradients = eqx.filter_jit(md.energy), eqx.filter_jit(md.forces), eqx.filter_jit(md.gradients)
build = eqx.filter_jit(lambda plan, space, position: plan.build(space, position))


class Angular(md.ManyBodyPotential):
    """Pairs, and squared sums over the neighbours of an atom: of vectors, of charges as a pair sees them from both sides."""

    strength: jax.Array = quantity(1.3)
    by_species: jax.Array = quantity((1.0, 0.6))
    cutoff: float | None = eqx.field(static=True, default=1.9)

    @property
    def charged(self):
        return True

    @property
    def species_count(self):
        return 2

    def energy(self, view):
        r = view.distance
        near = jnp.where(view.mask, (1 - (r / self.cutoff) ** 2) ** 3, 0.0)
        scale = self.by_species[view.species]
        weight = near * view.gather(scale)
        bond = jnp.sum(weight[..., None] * view.displacement, 1)
        seen = near * view.charge[:, None]
        cross = jnp.sum(seen * near * view.gather(view.charge * scale) * scale[:, None])
        return self.strength * jnp.sum(bond**2 * scale[:, None]) + 0.3 * cross + jnp.sum(jnp.sqrt(0.1 + weight.sum(1)))


class Chain(md.ManyBodyPotential):
    """Springs between atoms with neighbouring numbers, and a field; no list of neighbours."""

    stiffness: jax.Array = quantity(2.0)
    cutoff: float | None = eqx.field(static=True, default=None)

    @property
    def charged(self):
        return True

    @property
    def species_count(self):
        return None

    def energy(self, view):
        apart = view.space.displacement(view.position[1:], view.position[:-1])
        field = jnp.sum(view.charge * jnp.sin(0.1 * view.position[:, 0]))
        return self.stiffness * jnp.sum(apart**2) + field + 0.01 * self.stiffness * view.position[2, 1] ** 2


def plain_angular(z, species, images):
    """`Angular` over all pairs and images, with nothing but automatic differentiation."""
    potential, space, x, charge = z
    images = jnp.asarray(images, float) @ space.vectors()
    apart = space.wrap(x)[None, :, None] + images[None, None] - space.wrap(x)[:, None, None]
    r2 = jnp.sum(apart**2, -1)
    inside = (r2 < potential.cutoff**2) & (r2 > 1e-20)
    near = jnp.where(inside, (1 - r2 / potential.cutoff**2) ** 3, 0.0)
    scale = potential.by_species[species]
    weight = near * scale[None, :, None]
    bond = jnp.einsum("ijm,ijmc->ic", weight, apart)
    cross = jnp.einsum("ijm,ijm,i,j->", near, near, charge * scale, charge * scale)
    return (
        potential.strength * jnp.sum(bond**2 * scale[:, None])
        + 0.3 * cross
        + jnp.sum(jnp.sqrt(0.1 + weight.sum((1, 2))))
    )


CASES = {
    "grid": ("orthorhombic", (6, 6, 6), 0),
    "skewed grid": ("triclinic", (5, 6, 5), 0),
    "thin": ("orthorhombic", (2, 1, 6), 0),
    "skewed and thin": ("triclinic", (2, 2, 1), 0),
    "open grid": ("open", (2, 3, 5), 0),
    "plane": ("orthorhombic", (6, 7), 0),
    "skewed plane": ("triclinic", (3, 2), 0),
    "all pairs": ("orthorhombic", (4, 4, 4), 600),
    "all pairs, skewed": ("triclinic", (7, 7, 7), 600),
    "all pairs, open": ("open", (3, 3, 4), 600),
}


def prepared(case, potential, monkeypatch, cell=None):
    kind, counts, dense = CASES[case]
    monkeypatch.setattr(_atom_lists, "DENSE_ATOMS", dense)
    space, x = configuration(kind, counts)
    plan = md.plan_neighbours(potential, space, x, skin=0.2)
    assert (plan.lists.grid is None) == (dense > 0), "the case is meant for the other way"
    neighbours = build(plan, space, x)
    assert plan.fits(neighbours.need)
    return space, x, plan, neighbours


def close(found, expected, tolerance):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(float(jnp.abs(b).max()), 1e-3))


QUICK = "open grid", "all pairs", "plane"
SLOW = [pytest.param(case, marks=pytest.mark.long) for case in CASES if case not in QUICK]


@pytest.mark.long
@pytest.mark.parametrize("case", [*QUICK, *SLOW])
def test_energy_gradient_and_hessian_by_everything(case, monkeypatch):
    """Rounding of sums of some thousand terms: 1e-13 of the largest entry; a decade more for second derivatives."""
    space, x, plan, neighbours = prepared(case, Angular(), monkeypatch)
    species, charge = species_and_charges(len(x))
    z = Angular(), space, x, charge

    def ours(z):
        return md.energy(z[0], z[1], z[2], neighbours, plan, species=species, charge=z[3])

    distances = np.asarray(space.plane_distances())
    ranges = [np.arange(-k, k + 1) for k in np.where(np.isfinite(distances), np.ceil(1.9 / distances), 0)]
    images = np.stack(np.meshgrid(*ranges, indexing="ij"), -1).reshape(-1, x.shape[1])

    def plain(z):
        return plain_angular(z, species, images)

    random = np.random.default_rng(2)
    towards = jax.tree.map(lambda a: jnp.asarray(random.normal(size=a.shape)), z)
    both = lambda f: jax.jit(lambda z: jax.jvp(jax.value_and_grad(f), (z,), (towards,)))
    found, expected = both(ours)(z), both(plain)(z)
    close(found[0], expected[0], 1e-12)
    close(found[1], expected[1], 1e-11)
    back = jax.jit(jax.grad(lambda z: sum(map(jnp.vdot, *map(jax.tree.leaves, (jax.grad(ours)(z), towards))))))(z)
    close(back, expected[1][1], 1e-11)


@pytest.mark.parametrize("case", [pytest.param("skewed and thin", marks=pytest.mark.slow), "all pairs"])
def test_forces_and_virial(case, monkeypatch):
    potential = Angular() + Chain() + md.LennardJones(cutoff=1.5)
    space, x, plan, neighbours = prepared(case, potential, monkeypatch)
    species, charge = species_and_charges(len(x))
    kinds = {"species": species, "charge": charge}
    found = gradients(potential, space, x, neighbours, plan, **kinds)

    def strained(strain, x):
        moved = x + x @ strain.T
        return md.energy(potential, space.scaled(strain), moved, neighbours, plan, **kinds)

    value, (virial, slope) = jax.jit(jax.value_and_grad(strained, (0, 1)))(jnp.zeros((x.shape[1],) * 2), x)
    close(found, (value, -slope, virial), 1e-12)
    alone = forces(potential, space, x, neighbours, plan, **kinds)
    close(alone, found.forces, 1e-13)


def test_a_potential_without_lists_has_no_plan_for_any():
    space, x = configuration("orthorhombic", (3, 3, 3))
    charge = species_and_charges(len(x))[1]
    plan = md.plan_neighbours(Chain(), space, x)
    assert plan.pairs is None
    assert plan.lists is None
    neighbours = build(plan, space, x)
    assert plan.fits(neighbours.need)
    assert not plan.stale(neighbours, space, x + 100.0)
    found = energy(Chain(), space, x, neighbours, plan, charge=charge)
    apart = space.displacement(x[1:], x[:-1])
    expected = 2 * jnp.sum(apart**2) + jnp.sum(charge * jnp.sin(0.1 * x[:, 0])) + 0.02 * x[2, 1] ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize(("kind", "precision"), [("float32", None), ("float64", "float32")])
def test_float_types(kind, precision):
    space, x = configuration("triclinic", (4, 4, 4))
    species, charge = species_and_charges(len(x))
    potential = Angular()

    def found(kind, precision):
        low = simkit.cast((potential, space, x, charge), jnp.dtype(kind))
        plan = md.plan_neighbours(*low[:3], precision=precision)
        return gradients(*low[:3], build(plan, *low[1:3]), plan, species=species, charge=low[3])

    low = found(kind, precision)
    assert {leaf.dtype for leaf in jax.tree.leaves(low)} == {np.dtype(kind)}
    close(low, found("float64", None), 5e-6)  # sums of some thousand terms with errors of 6e-8 each


@pytest.mark.slow
def test_a_batch_of_gradients(monkeypatch):
    space, x, plan, _ = prepared("open grid", Angular(), monkeypatch)
    species, charge = species_and_charges(len(x))
    many = jnp.stack([x, x + 0.05 * jnp.sin(x)])

    def loss(x, strength):
        potential = eqx.tree_at(lambda p: p.strength, Angular(), strength)
        force = md.forces(potential, space, x, plan.build(space, x), plan, species=species, charge=charge)
        return jnp.sum(jnp.sin(force))

    strengths = jnp.array([1.0, 1.5])
    found = jax.jit(jax.vmap(jax.grad(loss, (0, 1))))(many, strengths)
    single = jax.jit(jax.grad(loss, (0, 1)))
    for k in range(2):
        close([a[k] for a in found], list(single(many[k], strengths[k])), 1e-12)


def small_crystal():
    start = md.crystal("fcc", 1.6, (3, 3, 3))
    system = md.Particles(Angular(), start.space, species=jnp.zeros(108, jnp.int32), charge=jnp.zeros(108))
    momentum = md.maxwell_boltzmann(jax.random.key(0), jnp.ones(108), 0.5)
    return system, md.Atoms(start.position, momentum)


@pytest.mark.parametrize("dense", [0, pytest.param(600, marks=pytest.mark.long)])
def test_lists_that_overflow_are_made_again_with_more_room(dense, monkeypatch):
    monkeypatch.setattr(_atom_lists, "DENSE_ATOMS", dense)
    system, y0 = small_crystal()
    system = system.prepared(y0)
    lists = dataclasses.replace(system.plan.lists, row=5, cell=1)
    tight = dataclasses.replace(system, plan=dataclasses.replace(system.plan, lists=lists))
    expected = simkit.simulate(system, y0, [0.0, 0.05], step=0.005).final()
    found = simkit.simulate(tight, y0, [0.0, 0.05], step=0.005)
    assert found.status == 0
    np.testing.assert_allclose(found.final().position, expected.position, atol=1e-11)
    # Inside, what stands in has several times the room, and no more.
    spare = dataclasses.replace(system.plan.spare_lists, row=5)
    stuck = dataclasses.replace(tight, plan=dataclasses.replace(tight.plan, spare_lists=spare))
    inside = jax.jit(lambda y: simkit.simulate(stuck, y, [0.0, 0.05], step=0.005).status)(y0)
    assert inside == int(simkit.Status.NO_ROOM)


def test_a_cell_that_shrinks_voids_the_plan_and_a_new_one_fits():
    space, x = configuration("orthorhombic", (9, 8, 9))
    plan = md.plan_neighbours(Angular(), space, x).limited()
    thin = md.Orthorhombic(0.85 * space.lengths)
    need = build(plan, thin, 0.85 * x).need
    assert not plan.fits(need)
    grown = plan.grown(need)
    assert grown.lists.grid != plan.lists.grid
    assert grown.fits(build(grown, thin, 0.85 * x).need)


def test_bad_input():
    space, x = configuration("orthorhombic", (3, 3, 3))
    species, charge = species_and_charges(len(x))
    plan = md.plan_neighbours(Chain(), space, x)
    neighbours = build(plan, space, x)
    with pytest.raises(simkit.ArgumentError, match="`neighbours` must have the lists"):
        md.energy(Angular(), space, x, neighbours, plan, species=species, charge=charge)
    with pytest.raises(simkit.ArgumentError, match="Argument `charge` must be given"):
        md.energy(Chain(), space, x, neighbours, plan)
    with pytest.raises(simkit.ArgumentError, match="Argument `species` must be given"):
        md.energy(Angular(), space, x, neighbours, plan, charge=charge)
    system = md.Particles(Angular(), space, species=jnp.full(27, 2, jnp.int32), charge=charge)
    with pytest.raises(simkit.ArgumentError, match="parameters for 2 species, but atom 0"):
        system.prepared(md.Atoms(x, x))

    class Odd(md.Potential):
        @property
        def charged(self):
            return False

    with pytest.raises(simkit.ArgumentError, match="`Odd` is neither"):
        md.plan_neighbours(Odd(), space, x)
