"""EAM, Stillinger-Weber, Tersoff and networks: derivatives by everything, runs, batches, and what they refuse."""

import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md

FILES = pathlib.Path(__file__).parents[2] / "data" / "md" / "many_body"
LAMMPS = json.loads((FILES / "lammps.json").read_text())
ELEMENTS = ["Xa", "Yb"]


class Messages(eqx.Module):
    """Two rounds of messages between neighbours."""

    embed: jax.Array
    mix: eqx.nn.MLP
    read: eqx.nn.MLP
    cutoff: float = eqx.field(static=True)

    def __init__(self, key, cutoff):
        keys = jax.random.split(key, 3)
        self.embed = jax.random.normal(keys[0], (2, 4))
        self.mix = eqx.nn.MLP(5, 4, 8, 1, jax.nn.silu, key=keys[1])
        self.read = eqx.nn.MLP(4, "scalar", 8, 1, jax.nn.silu, key=keys[2])
        self.cutoff = cutoff

    def __call__(self, view):
        state = self.embed[view.species]
        near = jnp.where(view.mask, (1 - (view.distance / self.cutoff) ** 2) ** 3, 0.0)
        for _ in range(2):
            heard = jnp.concatenate([view.gather(state), view.distance[..., None] / self.cutoff], -1)
            state = state + jnp.sum(near[..., None] * jax.vmap(jax.vmap(self.mix))(heard), 1)
        return jnp.sum(jax.vmap(self.read)(state))


POTENTIALS = {
    "eam": ("fcc thin", lambda: md.EAM.from_tables(md.read_finnis_sinclair(FILES / "binary.eam.fs"))),
    "sw": (
        "diamond thin",
        lambda: md.StillingerWeber.from_table(md.read_stillinger_weber(FILES / "binary.sw", ELEMENTS)),
    ),
    "tersoff": (
        "diamond thin",
        lambda: md.Tersoff.from_table(md.read_tersoff(FILES / "binary.tersoff", ELEMENTS)),
    ),
    "messages": (
        "diamond thin",
        lambda: md.ManyBodyFunction(Messages(jax.random.key(0), 3.5), cutoff=3.5, species_count=2),
    ),
}


def prepared(name):
    crystal, potential = POTENTIALS[name]
    held = LAMMPS["crystals"][crystal]
    space, x = md.Triclinic(held["cell"]), jnp.asarray(held["position"])
    return potential(), space, x, jnp.asarray(held["species"], jnp.int32)


@pytest.mark.parametrize("name", ["sw", *(pytest.param(k, marks=pytest.mark.long) for k in POTENTIALS if k != "sw")])
def test_derivatives_by_everything(name):
    """Forward and reverse against central differences along one direction for each array, in a cell thinner than the cutoff.

    Differences with a step of 1e-5 are good to 1e-10 in the third derivative and 1e-10 in rounding; 1e-6 is asked for.
    """
    potential, space, x, species = prepared(name)
    plan = md.plan_neighbours(potential, space, x)
    neighbours = eqx.filter_jit(plan.build)(space, x)
    floats, rest = eqx.partition(potential, eqx.is_inexact_array)

    def energy(z):
        return md.energy(eqx.combine(z[0], rest), z[1], z[2], neighbours, plan, species=species)

    value, back = jax.jit(energy), jax.jit(jax.grad(energy))
    ahead = jax.jit(lambda z, v: jax.jvp(energy, (z,), (v,))[1])
    z = floats, space, x
    leaves, tree = jax.tree.flatten(z)
    gradient = jax.tree.leaves(back(z))
    random = np.random.default_rng(0)
    for k, leaf in enumerate(leaves):
        if name == "tersoff" and leaf is potential.m:
            continue  # 1 or 3
        along = jnp.asarray(random.normal(size=leaf.shape)) * jnp.abs(leaf).max().clip(0.1)
        along = [along if i == k else jnp.zeros_like(a) for i, a in enumerate(leaves)]
        h = 1e-5
        moved = [value(tree.unflatten([a + s * h * v for a, v in zip(leaves, along, strict=True)])) for s in (1, -1)]
        difference = (moved[0] - moved[1]) / (2 * h)
        scale = 1e-6 * max(abs(float(difference)), 1e-2)
        np.testing.assert_allclose(jnp.vdot(gradient[k], along[k]), difference, rtol=0, atol=scale, err_msg=f"leaf {k}")
        np.testing.assert_allclose(ahead(z, tree.unflatten(along)), difference, rtol=0, atol=scale)


def silicon(cells=2, skin=0.3, **options):
    start = md.crystal("diamond", 5.431, (cells,) * 3)
    system = md.Particles(md.StillingerWeber(**options), start.space, 28.085 * 1.0364269e-4, units=md.METAL, skin=skin)
    momentum = md.maxwell_boltzmann(jax.random.key(1), system.masses(start.position)[:, 0], 600.0 * md.METAL.boltzmann)
    return system, md.Atoms(start.position, momentum)


@pytest.mark.slow
def test_energy_is_conserved_and_lists_are_made_anew():
    """Silicon at 600 K for 0.3 ps with steps of 1 fs, where (omega h)^2 / 8 is 1e-3 for the fastest vibrations."""
    system, y0 = silicon(skin=0.1)
    system = system.prepared(y0)
    run = simkit.simulate(system, y0, np.linspace(0.0, 0.3, 4), step=0.001)
    energies = [float(system.invariants(0.0, jax.tree.map(lambda a, k=k: a[k], run.ys))["energy"]) for k in range(4)]
    kinetic = float(system.outputs(0.0, y0, None)["kinetic_energy"])
    assert np.ptp(energies[1:]) < 1e-3 * kinetic
    assert np.ptp(energies) < 2e-3 * kinetic
    assert int(run.lists.built) > 1


@pytest.mark.long
def test_the_derivative_of_a_run_keeps_positions_alone():
    """By lambda after 30 steps, against differences; what reverse mode stores does not grow with the lists."""
    system, y0 = silicon()
    system = system.prepared(y0)

    def loss(strength, steps=30):
        put = simkit.core.Setup(system, y0, None).put({"potential.strength": strength})
        end = simkit.simulate(put.system, put.y0, [0.0, steps * 0.001], step=0.001, on_failure="mark").final()
        return jnp.sum((end.position - y0.position) ** 2)

    value, both = jax.jit(loss), jax.jit(jax.value_and_grad(loss)).lower(21.0).compile()
    difference = (value(21.0 + 1e-3) - value(21.0 - 1e-3)) / 2e-3
    np.testing.assert_allclose(both(21.0)[1], difference, rtol=1e-6)
    longer = jax.jit(jax.value_and_grad(lambda s: loss(s, 130))).lower(21.0).compile()
    grown = longer.memory_analysis().temp_size_in_bytes - both.memory_analysis().temp_size_in_bytes
    assert grown / (100 * len(y0.position)) < 64  # positions and momenta are 48


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batches_of_gradients(dtype):
    potential, space, x, species = prepared("eam")
    potential, space, x = simkit.cast((potential, space, x), jnp.dtype(dtype))
    plan = md.plan_neighbours(potential, space, x)

    def total(x, scale):
        scaled = eqx.tree_at(lambda p: p.pair, potential, scale * potential.pair)
        return md.energy(scaled, space, x, plan.build(space, x), plan, species=species)

    many = jnp.stack([x, x + 0.1]), jnp.asarray([1.0, 1.1], dtype)
    found = jax.jit(jax.vmap(jax.grad(total, (0, 1))))(*many)
    single = jax.jit(jax.grad(total, (0, 1)))
    tolerance = 1e-11 if dtype == "float64" else 2e-4  # of sums of 400 terms of both signs
    for k in range(2):
        for a, b in zip(found, single(many[0][k], many[1][k]), strict=True):
            assert a.dtype == jnp.dtype(dtype)
            np.testing.assert_allclose(a[k], b, rtol=0, atol=tolerance * float(jnp.abs(b).max()))


def test_bad_input():
    tables = md.read_setfl(FILES / "binary.eam.alloy")
    weber = md.read_stillinger_weber(FILES / "binary.sw", ELEMENTS)
    with pytest.raises(simkit.ArgumentError, match="`tables` must be an `EAMTables`, but is a `ThreeBodyTable`"):
        md.EAM.from_tables(weber)
    with pytest.raises(
        simkit.ArgumentError, match="must be a `ThreeBodyTable` of `read_tersoff`, but is one of epsilon"
    ):
        md.Tersoff.from_table(weber)
    with pytest.raises(simkit.ArgumentError, match="of `read_stillinger_weber`, but is a `EAMTables`"):
        md.StillingerWeber.from_table(tables)
    with pytest.raises(simkit.ArgumentError, match="one element each"):
        md.mixed_tables([tables])
    with pytest.raises(simkit.ArgumentError, match="at least 5 of each"):
        md.EAM(np.ones((1, 3)), np.ones((1, 1, 9)), np.ones((1, 1, 9)), density_step=1, distance_step=1, cutoff=5)
    with pytest.raises(simkit.DataError, match=r"The potential file `binary\.sw` .* of another style"):
        md.read_tersoff(FILES / "binary.sw", ELEMENTS)
    with pytest.raises(simkit.ArgumentError, match="`cutoff` must be given where the parameters are traced"):
        jax.jit(lambda a: md.StillingerWeber(a=a).epsilon)(1.8)
    with pytest.raises(simkit.ArgumentError, match="one number of species"):
        md.StillingerWeber(np.ones((2, 2)))
    start = md.crystal("fcc", 4.0, 2)
    system = md.Particles(md.EAM.from_tables(tables), start.space, species=jnp.full(32, 2, jnp.int32))
    with pytest.raises(simkit.ArgumentError, match="parameters for 2 species, but atom 0"):
        system.prepared(md.Atoms(start.position, start.position))
