"""The triple-dipole energy: closed forms, lattice sums, permutations, and lines of LAMMPS (its own: test_lammps_force_styles)."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import simkit
from simkit import md

DATA = """three kinds in a row

3 atoms
3 atom types
0 20 xlo xhi
0 20 ylo yhi
0 20 zlo zhi

Masses

1 1.0
2 1.0
3 1.0

Atoms # atomic

1 1 5.0 5.0 5.0
2 2 6.2 5.0 5.0
3 3 5.5 6.1 5.3
"""


def trimer(x, y):
    """Atoms at both ends of a side of length 1 and at (x, y)."""
    return jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [x, y, 0.0]])


def energy_of(position, strength=1.0, **cutoffs):
    atoms = md.Atoms(position, jnp.zeros_like(position))
    return md.Particles(md.AxilrodTeller(strength, **cutoffs), md.OpenSpace()).prepared(atoms).energy(atoms)


def by_angles(position, strength=1.0):
    """The energy of three atoms from the lengths of their sides and the law of cosines."""
    x = np.asarray(position)
    a, b, c = (np.linalg.norm(x[i] - x[j]) for i, j in ((1, 2), (0, 2), (0, 1)))
    cosines = [(q**2 + r**2 - p**2) / (2 * q * r) for p, q, r in ((a, b, c), (b, c, a), (c, a, b))]
    return strength * (1 + 3 * np.prod(cosines)) / (a * b * c) ** 3


def test_triangles_and_rows():
    # Equilateral: 1 + 3/8. In a row with equal distances: (1 - 3) / 8.
    assert float(energy_of(trimer(0.5, 0.75**0.5), cutoff=2.5)) == pytest.approx(11 / 8, rel=1e-12)
    assert float(energy_of(trimer(2.0, 0.0), cutoff=2.5)) == pytest.approx(-1 / 4, rel=1e-12)
    for x, y in ((0.3, 1.2), (1.4, 0.2), (-0.5, 0.7)):
        assert float(energy_of(trimer(x, y), 0.3, cutoff=2.5)) == pytest.approx(by_angles(trimer(x, y), 0.3), rel=1e-12)


def test_single_precision_and_lengths_in_metres():
    position = jnp.asarray(trimer(0.3, 1.2), jnp.float32)
    atoms = md.Atoms(position, jnp.zeros_like(position))
    double = md.Particles(md.AxilrodTeller(0.3, cutoff=2.5), md.OpenSpace())
    found = simkit.cast(double, "float32").prepared(atoms).energy(atoms)
    assert found.dtype == jnp.float32
    assert float(found) == pytest.approx(by_angles(position, 0.3), rel=1e-5)
    assert float(energy_of(4e-10 * trimer(0.3, 1.2), 4e-10**9, cutoff=1e-9)) == pytest.approx(
        by_angles(trimer(0.3, 1.2)), rel=1e-12
    )


def test_both_cutoffs():
    x = trimer(0.3, 1.2)
    sides = sorted(float(jnp.linalg.norm(x[i] - x[j])) for i, j in itertools.combinations(range(3), 2))
    root = float(np.prod(sides)) ** (1 / 3)
    assert float(energy_of(x, cutoff=1.001 * sides[-1])) > 0
    assert float(energy_of(x, cutoff=0.999 * sides[-1])) == 0
    assert float(energy_of(x, cutoff=3.0, triple_cutoff=1.001 * root)) > 0
    assert float(energy_of(x, cutoff=3.0, triple_cutoff=0.999 * root)) == 0
    for wrong in ({"cutoff": 0.0}, {"cutoff": 1.0, "triple_cutoff": -1.0}):
        with pytest.raises(simkit.ArgumentError, match="positive lengths"):
            md.AxilrodTeller(1.0, **wrong)


def test_derivatives_to_second_order():
    position = jax.random.uniform(jax.random.key(0), (4, 3)) * 2.0
    strength = jnp.asarray(0.7)
    start = md.Atoms(position, jnp.zeros_like(position))
    ready = md.Particles(md.AxilrodTeller(0.7, cutoff=9.0), md.OpenSpace()).prepared(start)

    def energy(x, strength):
        return eqx.tree_at(lambda s: s.potential.strength, ready, strength).energy(md.Atoms(x, start.momentum))

    check_grads(energy, (position, strength), order=2, modes=["rev"], rtol=1e-4)


def test_lattice_sum_of_a_crystal():
    """The triples of a face-centred cubic crystal whose sides are below the cutoff, by loops over lattice points: a third of those
    of an atom belongs to it. With the cutoff they tend to 19.18 at a distance of 1 between neighbours; here they are 18.46."""
    cutoff = 2.3
    crystal = md.crystal("fcc", 2**0.5, 4)
    atoms = md.Atoms(crystal.position, 0 * crystal.position)
    system = md.Particles(md.AxilrodTeller(1.0, cutoff=cutoff), crystal.space).prepared(atoms)
    found = float(system.energy(atoms)) / len(crystal.position)
    near = [np.array(n) / 2**0.5 for n in itertools.product(range(-4, 5), repeat=3) if sum(n) % 2 == 0 and any(n)]
    near = np.array([x for x in near if np.linalg.norm(x) < cutoff])
    total = 0.0
    for one, other in itertools.combinations(near, 2):
        if np.linalg.norm(one - other) < cutoff:
            total += by_angles(np.array([np.zeros(3), one, other]))
    assert found == pytest.approx(total / 3, rel=1e-11)
    assert 18.46 < found < 18.47


def test_species_in_any_order():
    """Strengths by triples: each of six orders, and in tables without symmetry their mean."""
    rng = np.random.default_rng(0)
    table = rng.uniform(0.5, 1.5, (3, 3, 3))
    position = trimer(0.3, 1.2)
    for order in itertools.permutations(range(3)):
        atoms = md.Atoms(position, jnp.zeros_like(position))
        kinds = jnp.array(order, jnp.int32)
        system = md.Particles(md.AxilrodTeller(table, cutoff=2.5), md.OpenSpace(), species=kinds).prepared(atoms)
        mean = np.mean([table[one] for one in itertools.permutations(range(3))])
        assert float(system.energy(atoms)) == pytest.approx(by_angles(position, mean), rel=1e-12)


def model_of(tmp_path, lines, style="atm 4.5 2.5"):
    path = tmp_path / "three.data"
    path.write_text(DATA)
    return md.read_lammps(path, f"units lj\npair_style {style}\n{lines}")


def test_lines_of_lammps(tmp_path):
    """Later lines replace earlier ones; three types in a line are set in all orders, ranges only in ascending order."""
    model = model_of(tmp_path, "pair_coeff * * * 0.25\npair_coeff 1 2 3 0.1")
    found = float(model.system.prepared(model.start).energy(model.start))
    assert found == pytest.approx(by_angles(model.start.position, 0.1), rel=1e-12)
    table = np.asarray(model.term("many_body").strength)
    assert all(table[order] == 0.1 for order in itertools.permutations(range(3)))
    assert (table == 0.25).sum() == 27 - 6
    # Beside pairs; types whose lines name no third have none.
    text = "pair_coeff * * lj/cut 1.0 1.0\npair_coeff * * atm * 0.0\npair_coeff 1 2 atm 2 0.3"
    both = model_of(tmp_path, text, "hybrid/overlay lj/cut 6.5 atm 4.5 2.5")
    alone = model_of(tmp_path, "pair_coeff * * 1.0 1.0", "lj/cut 6.5")
    energies = [float(m.system.prepared(m.start).energy(m.start)) for m in (both, alone)]
    assert energies[0] == pytest.approx(energies[1], rel=1e-12)


@pytest.mark.parametrize(
    ("style", "lines", "match"),
    [
        ("atm 4.5", "pair_coeff * * * 0.25", "a cutoff and a cutoff of triples"),
        ("atm 4.5 2.5", "pair_coeff * * 0.25", "three types and a strength"),
        ("atm 4.5 2.5", "pair_coeff 1 2 1 0.25", "ascending order"),
        ("atm 4.5 2.5", "pair_coeff 1 * * 0.25", "types 2 and 2"),
        (
            "hybrid/overlay lj/cut 3.0 atm 4.5 2.5",
            "pair_coeff * * lj/cut 1 1\npair_coeff 1 1 atm 1 0.2",
            "types 1 and 2",
        ),
        ("atm 4.5 2.5", "pair_coeff * * 9 0.25", "between 1 and 3"),
    ],
)
def test_lines_that_are_refused(tmp_path, style, lines, match):
    with pytest.raises(simkit.ArgumentError, match=match):
        model_of(tmp_path, lines, style)
