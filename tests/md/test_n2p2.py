"""Potentials of n2p2 from files written here, against loops in NumPy; those it publishes are in benchmarks/n2p2_predictions.py."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import DataError, md

SETTINGS = """# a potential of two elements
number_of_elements 2
elements O H
cutoff_type 6 0.2            # (15 - 6x) x - 10 ...
scale_symmetry_functions
center_symmetry_functions
scale_min_short -0.5
scale_max_short 1.5
mean_energy -1.5
conv_energy 4.0
atom_energy O -0.25
global_hidden_layers_short 1
global_nodes_short 3
global_activation_short t l
"""
GAUSSIANS = """symfunction_short O 2 H 0.7 0.4 4.0
symfunction_short H 2 H 0.3 0.0 4.0
symfunction_short H 2 O 0.3 0.0 4.0
symfunction_short O 3 H H 0.05 -1.0 2.0 4.0
symfunction_short H 3 H O 0.05 1.0 1.0 4.0 0.3
symfunction_short H 9 O H 0.1 1.0 4.0 4.0
symfunction_short H 9 H H 0.1 -1.0 4.0 4.0 0.2
"""
OTHERS = """symfunction_short O 12 0.2 0.1 4.0
symfunction_short O 13 0.05 0.1 1.0 2.0 4.0
symfunction_short H 20 O -4.0 4.0 p2
symfunction_short H 20 H 0.5 3.5 e
symfunction_short O 21 H H -4.0 4.0 30.0 160.0 p1
symfunction_short H 22 O H 0.0 4.0 0.0 150.0 p3a
symfunction_short O 23 -4.0 4.0 c
symfunction_short O 24 -4.0 4.0 -90.0 90.0 p4
symfunction_short O 25 -4.0 4.0 90.0 270.0 p2
"""
ELEMENTS = ("H", "O")
CHARGES = {"H": 1.0, "O": 8.0}
SPECIES = np.array([0, 0, 1, 0, 1, 0])
PLACES = np.random.default_rng(3).uniform(0.0, 3.0, (6, 3))


def core(name, x):
    if name.endswith("a"):
        name, x = name[:-1], (2 - x) * x
    powers = {"p1": [2, -3, 0, 1], "p2": [-6, 15, -10, 0, 0, 1], "p3": [20, -70, 84, -35, 0, 0, 0, 1]}
    powers["p4"] = [-70, 315, -540, 420, -126, 0, 0, 0, 0, 1]
    if name in powers:
        return np.polyval(powers[name], x)
    return (np.cos(np.pi * x) + 1) / 2 if name == "c" else np.exp(1 - 1 / (1 - x**2))


def window(name, x, left, right):
    place = abs(x - (left + right) / 2) / ((right - left) / 2)
    return core(name, place) if place < 1 else 0.0


def ends(r):
    """Cutoff type 6 with an inner cutoff of 0.2 of 4.0."""
    return core("p2", max(r - 0.8, 0) / 3.2) if r < 4.0 else 0.0


def by_loops(line, i, position):
    """One symmetry function of one atom, from the formulas of Behler (2011) and of Bircher and others (2021)."""
    _, _, kind, *words = line.split()
    kind = int(kind)
    weighted, pairs = kind in (12, 13, 23, 24, 25), kind not in (2, 12, 20, 23)
    names = [] if weighted else words[: 1 + pairs]
    rest = words[len(names) :]
    numbers = [float(word) for word in (rest[:-1] if kind >= 20 else rest)]
    total, others = 0.0, [j for j in range(len(position)) if j != i]
    r = lambda a, b: np.linalg.norm(position[a] - position[b])
    name = lambda j: ELEMENTS[SPECIES[j]]
    if not pairs:
        for j in others:
            if weighted or name(j) == names[0]:
                z = CHARGES[name(j)] if weighted else 1.0
                if kind >= 20:
                    total += z * window(rest[-1], r(i, j), *numbers)
                else:
                    total += z * np.exp(-numbers[0] * (r(i, j) - numbers[1]) ** 2) * ends(r(i, j))
        return total
    for j in others:
        for k in others:
            if k <= j or not (weighted or sorted(names) == sorted([name(j), name(k)])):
                continue
            z = CHARGES[name(j)] * CHARGES[name(k)] if weighted else 1.0
            cosine = (position[j] - position[i]) @ (position[k] - position[i]) / r(i, j) / r(i, k)
            sides = [r(i, j), r(i, k)] + ([r(j, k)] if kind in (3, 13, 21, 24) else [])
            if kind >= 20:
                angle = np.degrees(np.arccos(cosine))
                part = window(rest[-1].removesuffix("a"), angle, *numbers[2:])
                part *= np.prod([window(rest[-1], s, *numbers[:2]) for s in sides])
            else:
                order = (0, 2, 3, 1) if kind == 13 else (0, 1, 2, 4)
                eta, spread, power, shift = [([*numbers, 0.0])[place] for place in order]
                part = 2 ** (1 - power) * (1 + spread * cosine) ** power
                part *= np.prod([np.exp(-eta * (s - shift) ** 2) * ends(s) for s in sides])
            total += z * part
    return total


def sorted_lines(text, element):
    """The order of the statistics: by type, then by cutoff, eta, shift, power and lambda; of compact ones by name and elements."""
    rank = {"H": 0, "O": 1}

    def key(line):
        _, _, kind, *words = line.split()
        kind = int(kind)
        names = [word for word in words if word in rank]
        rest = words[len(names) :]
        others = tuple(sorted(rank[n] for n in names))
        if kind >= 20:
            left, right, *angles = [float(word) for word in rest[:-1]]
            return kind, rest[-1], others, right, left, *angles
        numbers = [float(word) for word in rest]
        if kind in (2, 12):
            eta, shift, end = numbers
            return kind, end, eta, shift, 0.0, 0.0, others
        if kind == 13:
            eta, shift, spread, power, end = numbers
        else:
            eta, spread, power, end, shift = [*numbers, 0.0][:5]
        return kind, end, eta, shift, power, spread, others

    return sorted((line for line in text.splitlines() if line.split()[1] == element), key=key)


def written(folder, functions):
    """Files of a potential with random numbers, and these."""
    random = np.random.default_rng(1)
    folder.joinpath("input.nn").write_text(SETTINGS + functions)
    scaling, networks = ["# statistics"], []
    for e, name in enumerate(ELEMENTS):
        count = len(sorted_lines(functions, name))
        rows = np.sort(random.uniform(0, 2, (count, 3)), axis=1)[:, [0, 2, 1]]  # minimum, maximum, mean
        scaling += [f"{e + 1} {k + 1} {a!r} {b!r} {c!r} 0.1" for k, (a, b, c) in enumerate(rows.tolist())]
        layers = [(random.normal(size=s), random.normal(size=s[1])) for s in ((count, 3), (3, 1))]
        lines = []
        for depth, (weights, bias) in enumerate(layers):
            lines += [
                f"{w!r} a 1 {depth} {m + 1} {depth + 1} {n + 1}"
                for m, row in enumerate(weights.tolist())
                for n, w in enumerate(row)
            ]
            lines += [f"{b!r} b 1 {depth + 1} {n + 1}" for n, b in enumerate(bias.tolist())]
        folder.joinpath(f"weights.{int(CHARGES[name]):03d}.data").write_text("\n".join(lines))
        networks.append((rows, layers))
    folder.joinpath("scaling.data").write_text("\n".join(scaling))
    return networks


def energy_by_loops(functions, networks, position):
    total = 0.0
    for i, s in enumerate(SPECIES):
        rows, ((w1, b1), (w2, b2)) = networks[s]
        g = np.array([by_loops(line, i, position) for line in sorted_lines(functions, ELEMENTS[s])])
        x = -0.5 + 2.0 * (g - rows[:, 2]) / (rows[:, 1] - rows[:, 0])
        total += (np.tanh(x @ w1 + b1) @ w2 + b2)[0] / 4.0 - 1.5 - 0.25 * (ELEMENTS[s] == "O")
    return total


def system_of(folder, **units):
    potential = md.BehlerParrinello.from_table(md.read_n2p2(folder, ELEMENTS), **units)
    return md.Particles(potential, md.OpenSpace(), species=jnp.asarray(SPECIES))


@pytest.mark.parametrize("functions", [GAUSSIANS, OTHERS], ids=["gaussians", "others"])
def test_energy_and_forces_are_those_of_loops(tmp_path, functions):
    """Energies to rounding; forces to central differences of the loops, whose error is some 1e-10 of the third derivative."""
    networks = written(tmp_path, functions)
    system = system_of(tmp_path)
    atoms = md.Atoms(jnp.asarray(PLACES), jnp.zeros((6, 3)))
    found = system.prepared(atoms).gradients(atoms)
    assert float(found.energy) == pytest.approx(energy_by_loops(functions, networks, PLACES), rel=1e-12)
    for i, c in ((0, 0), (2, 1), (5, 2)):
        moved = [PLACES.copy(), PLACES.copy()]
        moved[0][i, c] += 1e-5
        moved[1][i, c] -= 1e-5
        up, down = (energy_by_loops(functions, networks, one) for one in moved)
        assert float(found.forces[i, c]) == pytest.approx((down - up) / 2e-5, abs=1e-7)


def test_other_units_and_derivatives_by_weights(tmp_path):
    """Twice the length and three times the energy; the slope by a weight is that of differences in the loops."""
    networks = written(tmp_path, GAUSSIANS)
    system = system_of(tmp_path, length=2.0, energy=3.0)
    atoms = md.Atoms(jnp.asarray(2 * PLACES), jnp.zeros((6, 3)))
    system = system.prepared(atoms)
    where = lambda s: s.potential.layers[1][0][0]

    @jax.jit
    def energy(weights, position):
        return eqx.tree_at(where, system, weights).energy(md.Atoms(position, 0 * position))

    plain = energy_by_loops(GAUSSIANS, networks, PLACES)
    value, slope = jax.value_and_grad(energy)(where(system), atoms.position)
    assert float(value) == pytest.approx(3 * plain, rel=1e-12)
    networks[1][1][0][0][0, 1] += 1e-6
    assert float(slope[0, 1]) == pytest.approx(3e6 * (energy_by_loops(GAUSSIANS, networks, PLACES) - plain), rel=1e-5)


@pytest.mark.parametrize(
    ("file", "change", "match"),
    [
        ("input.nn", lambda t: t.replace("O 3 H H", "O 5 H H"), "types 2, 3"),
        ("input.nn", lambda t: t.replace("elements O H", "elements O X"), "name elements"),
        ("input.nn", lambda t: t.replace("cutoff_type 6", "cutoff_type 9"), "0 to 8"),
        ("input.nn", lambda t: t + "use_electrostatics\n", "charges"),
        ("input.nn", lambda t: t.replace("t l", "t q"), "activations"),
        ("scaling.data", lambda t: t.rpartition("\n")[0], "all 2"),
        ("weights.001.data", lambda t: t.rpartition("\n")[0], "missing"),
        ("weights.001.data", lambda t: t.replace(" a 1 0 1 1 1", " a 1 0 9 1 1", 1), "of others"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, file, change, match):
    written(tmp_path, GAUSSIANS)
    path = tmp_path / file
    path.write_text(change(path.read_text()))
    with pytest.raises(DataError, match=match):
        md.read_n2p2(tmp_path, ELEMENTS)


def test_wrong_arguments(tmp_path):
    written(tmp_path, GAUSSIANS)
    with pytest.raises(simkit.ArgumentError, match="holds `C`"):
        md.read_n2p2(tmp_path, ["C"])
    table = md.read_n2p2(tmp_path, ELEMENTS)
    assert "H: 5" in repr(table)
    with pytest.raises(simkit.ArgumentError, match="positive"):
        md.BehlerParrinello.from_table(table, length=0.0)
    with pytest.raises(simkit.ArgumentError, match="NetworkTable"):
        md.BehlerParrinello.from_table("folder")  # pyright: ignore[reportArgumentType]
