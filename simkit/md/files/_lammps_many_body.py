"""Many-body pair styles of LAMMPS, whose numbers stand in files of their own."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..._errors import ArgumentError
from ..potentials._axilrod_teller import AxilrodTeller
from ..potentials._eam_mixing import mixed_tables
from ..potentials._embedded_atom import EAM
from ..potentials._harmonic_triples import HarmonicTriples
from ..potentials._many_body import AtomicPotential
from ..potentials._on_species import OnSpecies
from ..potentials._second_moment import SecondMoment
from ..potentials._snap import SNAP
from ..potentials._stillinger_weber import StillingerWeber
from ..potentials._tersoff import Tersoff
from ..potentials._tersoff_variants import ModifiedTersoff, TersoffZBL
from ..potentials._vashishta import Vashishta
from ..space._units import Units, convert
from ._eam_files import EAMTables, read_finnis_sinclair, read_funcfl, read_setfl
from ._lammps_words import numbers_in, types_in
from ._snap_files import SnapTable, mliap_table, snap_table
from ._three_body_files import (
    ThreeBodyTable,
    read_nb3b,
    read_stillinger_weber,
    read_tersoff,
    read_tersoff_mod,
    read_tersoff_zbl,
    read_vashishta,
)

FROM_FILES: Mapping[str, tuple[Callable[..., ThreeBodyTable], Callable[..., AtomicPotential], tuple[str, ...]]] = {
    "sw": (read_stillinger_weber, StillingerWeber.from_table, ("epsilon",)),
    "tersoff": (read_tersoff, Tersoff.from_table, ("A", "B")),
    "tersoff/mod": (read_tersoff_mod, ModifiedTersoff.from_table, ("A", "B")),
    "tersoff/mod/c": (partial(read_tersoff_mod, constant=True), ModifiedTersoff.from_table, ("A", "B", "c0")),
    "tersoff/zbl": (read_tersoff_zbl, TersoffZBL.from_table, ("A", "B")),
    "nb3b/harmonic": (read_nb3b, HarmonicTriples.from_table, ("stiffness",)),
    "vashishta": (read_vashishta, Vashishta.from_table, ("H", "D", "W", "B")),
}
"""Three-body styles: how files are read, the potential of their tables, and which of their numbers are energies."""

BY_TYPES = ("atm", "smatb", "smatb/single")
"""Many-body styles whose numbers stand in lines of types."""

MANY_BODY = ("eam", "eam/alloy", "eam/fs", "snap", "mliap", *BY_TYPES, *FROM_FILES)
CHARGED = ("tersoff/zbl", "vashishta")
"""Styles that take Coulomb's constant."""


def _settings(words: Sequence[str]) -> dict[str, float]:
    """Settings behind a style: `shift` of Tersoff's, and `threebody` of `sw`, as 0 or 1.

    **Raises:** an `ArgumentError` for others.
    """
    name, *settings = words
    if name.startswith("tersoff") and len(settings) == 2 and settings[0] == "shift":
        return {"shift": numbers_in("pair_style", settings[1:])[0]}
    if name == "sw" and settings in (["threebody", "on"], ["threebody", "off"]):
        return {"threebody": float(settings[1] == "on")}
    if name == "mliap":
        _files_of_mliap(settings)
        return {}
    if name == "atm":
        return dict(zip(("cutoff", "triple_cutoff"), _cutoffs(settings), strict=True))
    if settings:
        raise ArgumentError(
            f"The pair style {name} must stand without settings, but is followed by `{' '.join(settings)}`."
        )
    return {}


FILES = {"snap": 2, "mliap": 0}
"""Files in the line of coefficients, where these are not one."""


def species_of_types(words: Sequence[str], lines: Sequence[Sequence[str]], types: int) -> tuple[list[str], np.ndarray]:
    """The elements of a many-body style, or the files of the style `eam`, each once; and which of them each type is.

    A type that takes no part, `NULL` in a hybrid style, is -1.

    **Raises:** an `ArgumentError` for settings behind the style, and for lines of another form than the style has.
    """
    name = words[0]
    _settings(words)  # refuses what it does not know
    head = 2 + FILES.get(name, 1)
    if name in BY_TYPES:
        given = [str(i) for i in range(types)]
    elif name == "eam":
        given = _files(lines, types)
    elif len(lines) != 1 or list(lines[0][:2]) != ["*", "*"] or len(lines[0]) != types + head:
        raise ArgumentError(
            f"`pair_coeff` of the style {name} must be one line of `* *`, {('no file', 'a file', 'two files')[head - 2]} and an "
            f"element for each of {types} types, but is `{'; '.join(' '.join(line) for line in lines)}`."
        )
    else:
        given = list(lines[0][head:])
    once = list(dict.fromkeys(one for one in given if one != "NULL"))
    return once, np.array([once.index(one) if one != "NULL" else -1 for one in given])


def on_types(words: Sequence[str], lines: Sequence[Sequence[str]], some: np.ndarray, units: Units) -> AtomicPotential:
    """The potential of a many-body style between the pairs of types `some`, where other styles act between the rest."""
    name, types = words[0], len(some)
    if name == "eam":
        given = _files(lines, types, lone=True)
        once = list(dict.fromkeys(one for one in given if one))
        places = np.array([once.index(one) if one else -1 for one in given])
        potential = _scaled_eam(mixed_tables([read_funcfl(path) for path in once]), units)
    else:
        lines = lines if name in BY_TYPES else [["*", "*", *line[2:]] for line in lines]
        once, places = species_of_types(words, lines, types)
        potential = many_body_potential(words, lines, types, units)
    here = places >= 0
    whole = bool(some[np.ix_(here, here)].all())
    if whole and here.all() and (len(once) == 1 or places.tolist() == list(range(len(once)))):
        return potential
    return OnSpecies(potential, tuple(places.tolist()), pairs=None if whole else some)


def many_body_potential(
    words: Sequence[str], lines: Sequence[Sequence[str]], types: int, units: Units
) -> AtomicPotential:
    """The potential of a many-body style; its species are those of `species_of_types`."""
    name = words[0]
    once, _ = species_of_types(words, lines, types)
    if name == "atm":
        return _axilrod_teller(words, lines, types)
    if name in BY_TYPES:
        return _second_moment(name, lines, types)
    if name == "eam":
        return _scaled_eam(mixed_tables([read_funcfl(path) for path in once]), units)
    if name == "snap":
        return _snap(snap_table(lines[0][2], lines[0][3], once), units)
    if name == "mliap":
        kind, model, descriptor = _files_of_mliap(words[1:])
        return _snap(mliap_table(model, descriptor, once, quadratic=kind == "quadratic"), units)
    path = Path(lines[0][2])
    if name in ("eam/alloy", "eam/fs"):
        tables = (read_setfl if name == "eam/alloy" else read_finnis_sinclair)(path)
        return _scaled_eam(_chosen(tables, once), units)
    read, potential, energies = FROM_FILES[name]
    table, settings = read(path, once), _settings(words)
    factor = _factor(table.units, units)
    values = {key: value * (factor if key in energies else 1.0) for key, value in table.values.items()}
    if settings.pop("threebody", 1.0) == 0:
        values["lambda"] = 0 * values["lambda"]
    constant = {"constant": float(units.coulomb)} if name in CHARGED else {}
    return potential(dataclasses.replace(table, values=values, units=units), **settings, **constant)


def _snap(table: SnapTable, units: Units) -> SNAP:
    return SNAP.from_table(table, energy=_factor(table.units, units))


def _files_of_mliap(settings: Sequence[str]) -> tuple[str, str, str]:
    """The kind of model and the two files of the style `mliap`.

    **Raises:** an `ArgumentError` for models and descriptors that are not known.
    """
    if (
        len(settings) != 6
        or settings[0] != "model"
        or settings[1] not in ("linear", "quadratic")
        or settings[3:5] != ["descriptor", "sna"]
    ):
        raise ArgumentError(
            "The pair style mliap must be followed by `model linear FILE descriptor sna FILE`, or `quadratic` in place of "
            f"`linear`, but is followed by `{' '.join(settings)}`."
        )
    return settings[1], settings[2], settings[5]


def _cutoffs(settings: Sequence[str]) -> list[float]:
    if len(settings) != 2:
        raise ArgumentError(
            f"The pair style atm must stand with a cutoff and a cutoff of triples, but stands with `{' '.join(settings)}`."
        )
    return numbers_in("pair_style", settings)


def _axilrod_teller(words: Sequence[str], lines: Sequence[Sequence[str]], types: int) -> AxilrodTeller:
    """Numbers of triples of types in ascending order, those of others in lines with ranges left out, as in LAMMPS."""
    table, given = np.zeros((types, types, types)), np.zeros((types, types), bool)
    for line in lines:
        if len(line) != 4:
            raise ArgumentError(
                "A line of `pair_coeff` of the style atm must hold three types and a strength, but one holds "
                f"`{' '.join(line)}`."
            )
        first, second, third = named = [types_in(word, types) for word in line[:3]]
        if any(not 0 <= one < types for some in named for one in some):
            raise ArgumentError(
                f"Types must be between 1 and {types}, but a line of `pair_coeff` holds `{' '.join(line)}`."
            )
        (strength,) = numbers_in("pair_coeff", line[3:])
        ordered = [(i, j) for i in first for j in second if i <= j]
        for i, j in ordered:
            given[i, j] = given[j, i] = True
            for k in third:
                if k >= j:
                    for triple in itertools.permutations((i, j, k)):
                        table[triple] = strength
        if not any(k >= j for _, j in ordered for k in third):
            raise ArgumentError(
                f"A line of `pair_coeff` of the style atm must name types in ascending order, but one holds `{' '.join(line)}`."
            )
    if not given.all():
        i, j = np.argwhere(~given)[0] + 1
        raise ArgumentError(
            f"`pair_coeff` of the style atm must give a strength to types {i} and {j} and a third, but gives none. Write one of 0."
        )
    return AxilrodTeller(table.reshape(()) if types == 1 else table, **_settings(words))


def _second_moment(name: str, lines: Sequence[Sequence[str]], types: int) -> SecondMoment:
    table, given = np.zeros((7, types, types)), np.zeros((types, types), bool)
    for first, second, *rest in lines:
        numbers = numbers_in("pair_coeff", rest)
        if len(numbers) != 7:
            raise ArgumentError(
                f"A line of `pair_coeff` of the style {name} must hold R0, p, q, A, xi, Rcs and Rc, but holds {len(numbers)} "
                "numbers."
            )
        for i in types_in(first, types):
            for j in types_in(second, types):
                table[:, i, j] = table[:, j, i] = numbers
                given[i, j] = given[j, i] = True
    if not given.all():
        i, j = np.argwhere(~given)[0] + 1
        raise ArgumentError(f"`pair_coeff` of the style {name} must give numbers to types {i} and {j}, but gives none.")
    return SecondMoment(*(part.reshape(()) if types == 1 else part for part in table))


def _factor(given: Units, wanted: Units) -> float:
    return 1.0 if given == wanted else float(convert(1.0, "energy", given, wanted))


def _files(lines: Sequence[Sequence[str]], types: int, lone: bool = False) -> list[str]:
    """The file of each type of the style `eam`; with `lone` an empty name where there is none."""
    found: dict[int, str] = {}
    for first, second, *rest in lines:
        for i in types_in(first, types):
            if i in types_in(second, types) and len(rest) == 1:
                found[i] = rest[0]
    without = [i + 1 for i in range(types) if i not in found]
    if without and not (lone and found):
        raise ArgumentError(
            f"`pair_coeff` of the style eam must give a file to type {without[0]} and itself, but gives none."
        )
    return [found.get(i, "") for i in range(types)]


def _chosen(tables: EAMTables, elements: Sequence[str]) -> EAMTables:
    """The tables of a file for the elements of the types."""
    unknown = [element for element in elements if element not in tables.elements]
    if unknown:
        raise ArgumentError(
            f"`pair_coeff` must name elements of the file, {', '.join(tables.elements)}, but names {unknown[0]}."
        )
    place = np.array([tables.elements.index(element) for element in elements])
    pick = lambda values: tuple(values[k] for k in place)
    return dataclasses.replace(
        tables,
        elements=tuple(elements),
        atomic_numbers=pick(tables.atomic_numbers),
        masses=pick(tables.masses),
        lattice_constants=pick(tables.lattice_constants),
        lattices=pick(tables.lattices),
        embedding=tables.embedding[place],
        density=tables.density[np.ix_(place, place)],
        pair=tables.pair[np.ix_(place, place)],
    )


def _scaled_eam(tables: EAMTables, units: Units) -> EAM:
    """The potential in the units of the commands; lengths are Angstrom in both."""
    factor = _factor(tables.units, units)
    scaled = dataclasses.replace(tables, embedding=tables.embedding * factor, pair=tables.pair * factor)
    return EAM.from_tables(scaled)
