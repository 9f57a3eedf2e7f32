"""Claim: n2p2's own tests of predictions with published potentials are met: energies and forces to rounding.

Cases are the five structures of CompPhysVienna/n2p2, test/cpp/ExamplePrediction.h, with their potentials in examples/nnp-predict.
The tester of n2p2 allows 2.2e-13 in its units; large sums round to some 1e-11 of energies of 3e4. Run:
`N2P2=folder python benchmarks/n2p2_predictions.py`, ten minutes of one core; names behind it run these alone.
"""

import os
import pathlib
import re
import sys
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

import simkit
from simkit import md

ALLOWED = 1000 * np.finfo(float).eps
"""What n2p2's tester allows of forces, and of energies with room for the rounding of their sum."""


def references(folder: pathlib.Path) -> dict[str, tuple[float, np.ndarray]]:
    """Energy and forces by name."""
    found = {}
    for part in (folder / "test/cpp/ExamplePrediction.h").read_text().split('ExamplePrediction("')[1:]:
        energy = re.search(r"energy = ([-\dE.+]+)", part)
        if energy is not None:
            rows = [[float(x) for x in row.split(",")] for row in re.findall(r"Vec3D\(([^)]*)\)", part)]
            found[part.partition('"')[0]] = float(energy[1]), np.array(rows)
    return found


def structure(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Lattice vectors, places and elements of the one structure of a file."""
    rows = [line.split() for line in path.read_text().splitlines()]
    numbers = lambda name: np.array([[float(x) for x in row[1:4]] for row in rows if row and row[0] == name])
    return numbers("lattice"), numbers("atom"), [row[4] for row in rows if row and row[0] == "atom"]


def case(folder: pathlib.Path, name: str, energy: float, forces: np.ndarray) -> tuple[float, float]:
    """Differences of the energy, relative, and of the largest force."""
    where = folder / "examples/nnp-predict" / name
    vectors, position, names = structure(where / "input.data")
    elements = sorted(set(names))
    potential = md.BehlerParrinello.from_table(md.read_n2p2(where, elements))
    space = md.space_from_vectors(vectors) if len(vectors) else md.OpenSpace()
    species = jnp.array([elements.index(one) for one in names])
    atoms = md.Atoms(jnp.asarray(position), jnp.zeros(position.shape))
    found = md.Particles(potential, space, species=species).prepared(atoms).gradients(atoms)
    return abs(float(found.energy) - energy) / abs(energy), float(np.abs(np.asarray(found.forces) - forces).max())


def main(chosen: Sequence[str] = ()) -> dict[str, float]:
    simkit.enable_x64()
    folder, right = pathlib.Path(os.environ["N2P2"]), 0
    known = references(folder)
    for name in chosen or known:
        energy, force = case(folder, name, *known[name])
        good = energy < ALLOWED and force < ALLOWED
        right += good
        print(f"{name}: {'right' if good else 'wrong'}: energy {energy:.1e} relative, forces {force:.1e}", flush=True)
    return {"n2p2_predictions_right": right}


if __name__ == "__main__":
    main(sys.argv[1:])
