"""A thousand molecules of 20 to 60 atoms, each another one: energies and forces of all in one state, beside OpenMM one by one."""

import itertools
import subprocess

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import md

MOLECULES = 1000
OPENMM = ["openmm", "numpy"]
BOND, ANGLE, TORSION = (2.5e5, 0.153), (500.0, 1.95), 3.0
"""kJ/mol, nm and radians: those of a chain of carbon."""
SIGMA, EPSILON, CHARGE, COULOMB = 0.34, 0.45, 0.1, 138.935458


def tree(random: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Places and terms of a branched molecule, which does not cross itself."""
    count = int(random.integers(20, 61))
    position, parent, degree = [np.zeros(3)], [-1], [0]
    while len(position) < count:
        own = int(random.integers(len(position)))
        step = random.normal(size=3)
        new = position[own] + 0.153 * step / np.linalg.norm(step)
        apart = np.linalg.norm(np.array(position) - new, axis=1)
        if degree[own] < 4 and np.delete(apart, own).min(initial=1.0) > 0.2:
            position.append(new)
            parent.append(own)
            degree[own] += 1
            degree.append(1)
    bonds = np.array([(p, k) for k, p in enumerate(parent) if p >= 0])
    near: list[set[int]] = [set() for _ in range(count)]
    for a, b in bonds:
        near[a].add(int(b))
        near[b].add(int(a))
    angles = [(a, j, c) for j in range(count) for a, c in itertools.combinations(sorted(near[j]), 2)]
    torsions = [(a, int(j), int(k), d) for j, k in bonds for a in near[j] - {k} for d in near[k] - {j} if a != d]
    close = {frozenset(pair) for pair in bonds.tolist()} | {frozenset((a, c)) for a, _, c in angles}
    pairs = [pair for pair in itertools.combinations(range(count), 2) if frozenset(pair) not in close]
    shape = lambda rows, size: np.array(rows, int).reshape(-1, size)
    terms = {"bonds": bonds, "angles": shape(angles, 3), "torsions": shape(torsions, 4), "pairs": shape(pairs, 2)}
    return np.array(position), terms


def molecules() -> dict[str, float]:
    """Energies and forces at the start, float64 and float32, with OpenMM's contexts made before anything is timed."""
    random = np.random.default_rng(0)
    made = [tree(random) for _ in range(MOLECULES)]
    sizes = np.array([len(position) for position, _ in made])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    position = np.concatenate(
        [own + np.array([10.0 * k, 0.0, 0.0]) for k, (own, _) in enumerate(made)]
    )  # out of each other's way
    joined = {
        name: np.concatenate([terms[name] + start for (_, terms), start in zip(made, first, strict=True)])
        for name in made[0][1]
    }
    charge = np.where(np.arange(len(position)) % 2, CHARGE, -CHARGE)
    arrays = {"position": position, "charge": charge, "sizes": sizes, **joined}
    rows, table = replicas(*made[int(np.argmin(np.abs(sizes - 41)))])
    ours = {}
    for dtype in ("float64", "float32"):
        system = simkit.cast(system_of(joined, charge), jnp.dtype(dtype))
        atoms = simkit.cast(md.Atoms(jnp.asarray(position), jnp.zeros(position.shape)), jnp.dtype(dtype))
        system = system.prepared(atoms)
        both = jax.jit(lambda atoms, system=system: system.gradients(atoms))
        ours[dtype] = np.asarray(both(atoms).forces)
        spent = _harness.compare({"ours": lambda both=both, atoms=atoms: both(atoms).forces}, samples=5)["ours"].minimum
        rows[f"molecules_us_{dtype}"] = 1e6 * spent / MOLECULES
        table.append([f"simkit, all in one state, {dtype}", f"{1e6 * spent / MOLECULES:.1f}", ""])
    options = {"bond": BOND, "angle": ANGLE, "torsion": TORSION, "sigma": SIGMA, "epsilon": EPSILON, "samples": 3}
    try:
        theirs, spent_by = _harness.run_peer("openmm", OPENMM, "openmm_molecules.py", arrays, options)
    except subprocess.CalledProcessError as error:
        print(f"OpenMM did not run here ({error}): its rows are left out.", flush=True)
        return rows
    scale = np.abs(theirs["force"]).max()
    apart = float(np.abs(ours["float64"] - theirs["force"]).max() / scale)
    print(f"{MOLECULES} molecules, {len(position)} atoms, {len(joined['pairs'])} pairs: forces differ by {apart:.1e}")
    assert apart < 1e-6
    for name, seconds in spent_by.items():
        table.append([f"OpenMM one by one, {name}", f"{1e6 * seconds / MOLECULES:.1f}", ""])
        for dtype in ours:
            for kind in ("molecules", "replicas"):
                rows[f"{kind}_{dtype}_vs_openmm_{name}"] = 1e6 * seconds / MOLECULES / rows[f"{kind}_us_{dtype}"]
    _harness.print_table("energies and forces of molecules", ["", "CPU us a molecule", ""], table)
    return rows


def replicas(position: np.ndarray, terms: dict[str, np.ndarray]) -> tuple[dict[str, float], list[list[str]]]:
    """As many conformers of one molecule, whose terms name the same atoms: `vmap` over a hundred, one hundred after the other."""
    charge = np.where(np.arange(len(position)) % 2, CHARGE, -CHARGE)
    moved = position + 0.003 * np.random.default_rng(1).normal(size=(MOLECULES, *position.shape))
    rows, table = {}, []
    for dtype in ("float64", "float32"):
        kind = jnp.dtype(dtype)
        system = simkit.cast(system_of(terms, charge), kind)
        system = system.prepared(simkit.cast(md.Atoms(jnp.asarray(position), jnp.zeros(position.shape)), kind))
        forces = lambda x, system=system: system.gradients(md.Atoms(x, jnp.zeros_like(x))).forces
        several = jax.jit(lambda x, forces=forces: jax.lax.map(forces, x, batch_size=100))
        x = jnp.asarray(moved, kind)
        apart = np.abs(np.asarray(several(x)[-1]) - np.asarray(forces(x[-1]))).max() / np.abs(forces(x[-1])).max()
        assert apart < 1e4 * jnp.finfo(kind).eps
        spent = _harness.compare({"ours": lambda several=several, x=x: several(x)}, samples=5)["ours"].minimum
        rows[f"replicas_us_{dtype}"] = 1e6 * spent / MOLECULES
        table.append(
            [f"simkit, conformers of one of {len(position)} atoms, {dtype}", f"{1e6 * spent / MOLECULES:.1f}", ""]
        )
    return rows, table


def system_of(terms: dict[str, np.ndarray], charge: np.ndarray) -> md.Particles:
    pairs = terms["pairs"]
    parts = [
        md.HarmonicBond(terms["bonds"], *BOND),
        md.HarmonicAngle(terms["angles"], *ANGLE),
        md.PeriodicDihedral(terms["torsions"], TORSION, 3),
        md.FormulaTerms(
            "4*e*(s6*s6 - s6) + q/r; s6 = (s/r)^6",
            pairs,
            {"e": EPSILON, "s": SIGMA, "q": COULOMB * charge[pairs[:, 0]] * charge[pairs[:, 1]]},
        ),
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return md.Particles(total, md.OpenSpace())
