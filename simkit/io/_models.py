"""What a study file can name: models of systems, and what particles are made of."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from .. import fluids, md
from .._errors import ArgumentError
from ..core import System
from ..odes import MODELS as ODES

MODELS: Mapping[str, type[System]] = MappingProxyType(
    {**ODES, **fluids.MODELS, "particles": md.Particles, "second_virial": md.SecondVirial}
)
"""Every model by its name in study files."""

POTENTIALS: Mapping[str, Any] = MappingProxyType(
    {
        "lennard_jones": md.LennardJones,
        "weeks_chandler_andersen": md.WeeksChandlerAndersen,
        "morse": md.Morse,
        "buckingham": md.Buckingham,
        "soft_sphere": md.SoftSphere,
        "yukawa": md.Yukawa,
        "gaussian_core": md.GaussianCore,
        "coulomb_cut": md.CoulombCut,
        "coulomb_dsf": md.CoulombDSF,
        "tabulated": md.Tabulated,
        "harmonic_bond": md.HarmonicBond,
        "morse_bond": md.MorseBond,
        "fene_bond": md.FENEBond,
        "harmonic_angle": md.HarmonicAngle,
        "opls_dihedral": md.OPLSDihedral,
        "harmonic_trap": md.HarmonicTrap,
        "wall": md.Wall,
    }
)
"""Potentials whose arguments a table gives."""


class PotentialFile(NamedTuple):
    """How a file of a potential is read, given its path and the elements wanted, and what is made of its tables."""

    read: Callable[[Any, Any], Any]
    make: Callable[[Any], md.Potential]


POTENTIAL_FILES: Mapping[str, PotentialFile] = MappingProxyType(
    {
        "stillinger_weber": PotentialFile(md.read_stillinger_weber, md.StillingerWeber.from_table),
        "tersoff": PotentialFile(md.read_tersoff, md.Tersoff.from_table),
        "eam_alloy": PotentialFile(lambda path, elements: _chosen(md.read_setfl(path), elements), md.EAM.from_tables),
        "eam_fs": PotentialFile(
            lambda path, elements: _chosen(md.read_finnis_sinclair(path), elements), md.EAM.from_tables
        ),
    }
)
"""Potentials whose numbers a LAMMPS file holds."""

TRUNCATIONS: Mapping[str, Any] = MappingProxyType(
    {"truncated": md.Truncated, "shifted": md.Shifted, "force_shifted": md.ForceShifted, "switched": md.Switched}
)

DYNAMICS: Mapping[str, Any] = MappingProxyType(
    {
        "nve": md.NVE,
        "langevin": md.Langevin,
        "nose_hoover": md.NoseHoover,
        "stochastic_rescaling": md.StochasticRescaling,
        "andersen": md.Andersen,
        "brownian": md.Brownian,
        "berendsen": md.Berendsen,
        "mtk": md.MTK,
        "stochastic_cell_rescaling": md.StochasticCellRescaling,
    }
)

SPACES: Mapping[str, Any] = MappingProxyType(
    {"open": md.OpenSpace, "orthorhombic": md.Orthorhombic, "triclinic": md.Triclinic}
)

BUILDERS: Mapping[str, Callable[..., md.Configuration]] = MappingProxyType({"crystal": md.crystal, "liquid": md.liquid})


def _chosen(tables: md.EAMTables, elements: Any) -> md.EAMTables:
    """The tables of an EAM file, whose elements are the species in their order."""
    if tuple(elements) != tables.elements:
        raise ArgumentError(
            f"Argument `elements` must be those of the file in its order, {list(tables.elements)}, but it is {list(elements)}."
        )
    return tables
