"""The pair styles of an input of LAMMPS as potentials, with those of hybrid styles and with pairs that are near along bonds."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError, check_known
from ..potentials._coulomb import CoulombCut
from ..potentials._dispersion import DispersionScreened, dispersion_sum
from ..potentials._ewald import CoulombScreened, ewald_sum
from ..potentials._listed_pairs import ListedPairs
from ..potentials._potential import PairPotential, Potential, parts
from ..potentials._slab import SlabCorrection
from ..space._space import Space
from ..space._units import Units
from ._lammps_commands import Commands
from ._lammps_data import LammpsData
from ._lammps_many_body import MANY_BODY, many_body_potential, on_types, species_of_types
from ._lammps_own_pairs import at_ends, lepton_pairs
from ._lammps_pair_styles import CHARMM_STYLES, DISPERSION, LONG, PAIR_STYLES, PARTS
from ._lammps_pairs import (
    FLAGGED,
    PairPart,
    charge_potential,
    long_dispersion,
    long_potentials,
    pair_part,
    pair_potential,
)
from ._lammps_sites import TIP4P, Sites
from ._lammps_tables import TABLE_WORDS, table_pairs
from ._lammps_words import types_in

DISPERSED = ("ewald/disp", "pppm/disp", "pppm/disp/tip4p")
"""Styles that sum waves of dispersion, too."""

KSPACE = (
    *DISPERSED,
    "ewald",
    "ewald/electrode",
    "pppm/electrode",
    "pppm/tip4p",
    "pppm",
    "pppm/cg",
    "pppm/stagger",
    "msm",
    "msm/cg",
)
"""Ways of LAMMPS to sum waves of charges: one energy, by several programs."""

Found = list[tuple[str, Potential]]


class Near(NamedTuple):
    """Pairs of atoms that are near along bonds.

    - `groups`: pairs with their weights of Lennard-Jones and of Coulomb.
    - `left_out`: tell whether potentials of all pairs leave them out, so that they come with their weights; else they come with
        what the weights lack of 1, as only the nearest image of a pair is weighted.
    """

    groups: Sequence[tuple[np.ndarray, tuple[float, float]]]
    left_out: bool

    @property
    def pairs(self) -> np.ndarray:
        return np.concatenate([pairs for pairs, _ in self.groups]) if self.groups else np.zeros((0, 2), int)

    def weighted(self, name: str, potential: PairPotential, which: int, lacking: bool = False) -> Found:
        """The term of these pairs alone: with weight `which`, or with what it lacks of 1."""
        less = 1.0 if lacking or not self.left_out else 0.0
        some = [(pairs, weights[which] - less) for pairs, weights in self.groups if weights[which] != less]
        return _listed(name, potential, some)

    def whole(self, name: str, potential: PairPotential) -> Found:
        """The term that brings back pairs which all pairs leave out."""
        return _listed(name, potential, [(pairs, 1.0) for pairs, _ in self.groups]) if self.left_out else []


def _listed(name: str, potential: PairPotential, some: Sequence[tuple[np.ndarray, float]]) -> Found:
    if not some:
        return []
    scale: Array = jnp.asarray(np.concatenate([np.full(len(pairs), weight) for pairs, weight in some]))
    return [(f"{name}_special", ListedPairs(potential, np.concatenate([pairs for pairs, _ in some]), scale=scale))]  # pyright: ignore


class Share(NamedTuple):
    """One style of an input: its words, its lines of coefficients, and the pairs of types that it acts between."""

    words: Sequence[str]
    lines: list[list[str]]
    some: np.ndarray


def shares_of(said: Commands, data: LammpsData) -> list[Share]:
    """The styles of an input with what is theirs; one where the pair style is no hybrid."""
    words, types = said.pair, len(data.mass)
    lines = said.lines.get("pair", [])
    if words[0] not in ("hybrid", "hybrid/overlay"):
        file = [[line[0], *line] for line in data.coefficients.get("pair", []) if len(line) > 1]
        return [Share(words, [*file, *lines], np.ones((types, types), bool))]
    styles = _hybrid_styles(words[1:])
    taken = np.zeros((len(styles), types, types), bool)
    said_lines: list[list[list[str]]] = [[] for _ in styles]
    known = np.zeros((types, types), bool)
    for first, second, name, *rest in lines:
        places = [(min(i, j), max(i, j)) for i in types_in(first, types) for j in types_in(second, types)]
        which, rest = (None, rest) if name == "none" else _which(styles, name, rest)
        if which is not None:
            places = _both_mapped(styles[which], rest, types, places)
        for i, j in places:
            known[i, j] = known[j, i] = True
            if words[0] == "hybrid" or which is None:
                taken[:, i, j] = taken[:, j, i] = False
            if which is not None:
                taken[which, i, j] = taken[which, j, i] = True
        if which is not None:
            said_lines[which].append([first, second, *rest])
    for k in range(len(styles)):  # pairs without a line are mixed where both types are of one style
        own = np.diagonal(taken[k])
        taken[k] |= ~known & own[:, None] & own[None]
    if not (known | taken.any(axis=0)).all():
        i, j = np.argwhere(~(known | taken.any(axis=0)))[0] + 1
        raise ArgumentError(f"`pair_coeff` of a hybrid style must give a style to types {i} and {j}, but gives none.")
    return [Share(style, own, mask) for style, own, mask in zip(styles, said_lines, taken, strict=True)]


SETTINGS = ("shift", "threebody", "on", "off")
"""Words behind a many-body style that begin with a letter."""


def _hybrid_styles(words: Sequence[str]) -> list[list[str]]:
    """The styles of a hybrid one with their settings."""
    known = (*PARTS, *FLAGGED, *TIP4P, *MANY_BODY, "lepton", "table", "zero", "none")
    styles: list[list[str]] = []
    for word in words:
        last = styles[-1] if styles else [""]
        inside = (last[0] == "mliap" and len(last) < 7) or (last[0] in MANY_BODY and word in SETTINGS)
        inside = inside or (last[0] == "table" and word in TABLE_WORDS)
        if not styles or word in known or (word[0].isalpha() and not inside):
            check_known(word, known, "pair style of LAMMPS in a hybrid style")
            styles.append([])
        styles[-1].append(word)
    return styles


def _which(styles: Sequence[Sequence[str]], name: str, rest: list[str]) -> tuple[int, list[str]]:
    """The style of a hybrid that a line names, and the rest of its words."""
    same = [k for k, style in enumerate(styles) if style[0] == name]
    if not same:
        raise ArgumentError(
            f"A line of `pair_coeff` must name one of the styles {[style[0] for style in styles]}, but names {name}."
        )
    return (same[0], rest) if len(same) == 1 else (same[int(rest[0]) - 1], rest[1:])


def _both_mapped(
    style: Sequence[str], rest: Sequence[str], types: int, places: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Pairs of types that a line gives to a style: of a many-body one without the types that it calls NULL."""
    if style[0] not in MANY_BODY or "NULL" not in rest:
        return places
    mapped = species_of_types(style, [["*", "*", *rest]], types)[1] >= 0
    return [(i, j) for i, j in places if mapped[i] and mapped[j]]


Ends = tuple[np.ndarray, np.ndarray]
"""Pairs at the ends of dihedrals with their weights."""


def pair_terms(data: LammpsData, said: Commands, units: Units, space: Space, near: Near, ends: Ends) -> Found:
    """The potentials of the pair styles."""
    if len(ends[1]) and not any(word.startswith(CHARMM_STYLES) for word in said.pair):
        raise ArgumentError(
            "The weights of 1-4 pairs in `dihedral_coeff` must stand with a pair style of CHARMM, such as "
            "`lj/charmm/coul/charmm`, but there is none. Write 0 where they have none."
        )
    if not said.pair or said.pair[0] in ("zero", "none"):
        return []
    if said.pair[0] in MANY_BODY:
        _alone(said.pair[0], near)
        if any("NULL" in line for line in said.lines.get("pair", [])):
            raise ArgumentError(
                f"The pair style {said.pair[0]} must have an element for each type, but a line of `pair_coeff` holds `NULL`. Write "
                f"`pair_style hybrid {said.pair[0]} zero 1.0` where some types have no energy."
            )
        return [("many_body", many_body_potential(said.pair, said.lines.get("pair", []), len(data.mass), units))]
    found: Found = []
    for share in shares_of(said, data):
        if share.words[0] in MANY_BODY:
            _alone(share.words[0], near)
            found.append(("many_body", on_types(share.words, share.lines, share.some, units)))
            continue
        if share.words[0] == "lepton" and share.some.any():
            for own in lepton_pairs(
                share.words, share.lines, len(data.mass), said.modify, float(units.coulomb), share.some
            ):
                found += [("pairs", own), *near.weighted("pairs", own, 0)]
            continue
        if share.words[0] == "table" and share.some.any():
            one = table_pairs(share.words, share.lines, share.some, said.units)
            found += [("pairs", one), *near.weighted("pairs", one, 0)]
            continue
        if share.words[0] not in ("zero", "none") and share.some.any():
            sites = Sites(share.words, data, said)
            part = pair_part(sites.words)
            if len(sites.frames) and part.charged == "coul/cut":
                part = part._replace(charged="coul/cut/global")
            found += _of_share(share, part, data, said, units, space, near, sites)
            if part.own in CHARMM_STYLES and len(ends[1]):
                constant = charmm_constant(part, said, units)
                both = at_ends(part, share.lines, len(data.mass), said.modify, constant, share.some)
                found += [(name, ListedPairs(one, ends[0], scale=jnp.asarray(ends[1]))) for name, one in both]  # pyright: ignore
    return found


def _alone(name: str, near: Near) -> None:
    if near.groups:
        raise ArgumentError(
            f"The pair style {name} must be that of atoms without bonds, or with `special_bonds lj/coul 1 1 1`, but "
            "pairs near along bonds have other weights."
        )


def cutoff_of(found: Found) -> float:
    """The largest cutoff of the potentials of all pairs."""
    return max((term.cutoff for _, term in found if isinstance(term, PairPotential)), default=0.0)


def _of_share(
    share: Share,
    part: PairPart,
    data: LammpsData,
    said: Commands,
    units: Units,
    space: Space,
    near: Near,
    sites: Sites,
) -> Found:
    found: Found = []
    constant, types = charmm_constant(part, said, units), len(data.mass)
    if part.own in DISPERSION:
        found += _dispersion(share, part, said, space, near)
    elif part.own is not None and said.modify.get("compute") != "no":
        some = share.some & sites.with_pairs(types)
        own = pair_potential(part.own, share.lines, types, part.numbers, said.modify, some, _nuclear(part.own, units))
        weighted = near.weighted("pairs", own, 0) if PAIR_STYLES[part.own].special else near.whole("pairs", own)
        found += [("pairs", own), *weighted]
    if part.charged is None:
        return found
    if data.charge is None:
        raise ArgumentError(f"The pair style {share.words[0]} needs charges, but the atoms of the file have none.")
    if len(sites.frames):
        near = near._replace(left_out=False)  # a sum over sites takes all pairs
    charges = _charges(share, part, said, constant, space, near)
    return found + [(name, sites.moved(name, potential)) for name, potential in charges]


def _charges(share: Share, part: PairPart, said: Commands, constant: float, space: Space, near: Near) -> Found:
    """The terms of charges."""
    if part.charged == "coul/long" or part.charged in LONG:
        if not share.some.all():
            raise ArgumentError(f"The pair style {part.charged} must act between all types, but does not.")
        return _long(share, part, said, constant, space, near)
    if part.charged == "coul/exclude":  # what weights leave off, and no more
        return near.weighted("coulomb", _bare(constant), 1, lacking=True)
    inside = charge_potential(part, share.lines, constant, share.some, said.modify)
    found: Found = [("coulomb", inside)]
    if part.charged == "coul/dsf":  # LAMMPS takes what weights leave off from the bare interaction
        return found + near.whole("coulomb", inside) + near.weighted("coulomb", _bare(constant), 1, lacking=True)
    return found + near.weighted("coulomb", inside, 1)


def charmm_constant(part: PairPart, said: Commands, units: Units) -> float:
    """Coulomb's constant; the styles `charmmfsw` take CHARMM's in real units."""
    return 332.0716 if part.own == "lj/charmmfsw" and said.units == "real" else float(units.coulomb)


def _nuclear(name: str, units: Units) -> float:
    return float(units.coulomb) if name == "zbl" else 1.0


def _long(share: Share, part: PairPart, said: Commands, constant: float, space: Space, near: Near) -> Found:
    """The parts of an Ewald sum; one of them alone where the other is switched off."""
    name = share.words[0]
    if not said.kspace:
        raise ArgumentError(f"The pair style {name} needs a `kspace_style`, but there is none.")
    check_known(said.kspace[0], KSPACE, "kspace style of LAMMPS")
    alone, damping = [one.get("compute") == "no" for one in (said.waves, said.modify)], said.waves.get("gewald")
    # Two parts of MSM add up to the sum of Ewald; alone they are others.
    msm, own = part.charged == "coul/msm", part.charged in LONG
    if (msm or said.kspace[0][:3] == "msm") and (alone[1] or not msm):
        raise ArgumentError(
            "The kspace style msm must stand with a pair style such as coul/msm whose energies are computed."
        )
    own = own and (alone[0] or not msm)
    whole = ewald_sum(
        space,
        part.charge_numbers["rc"],
        tolerance=float(said.kspace[1]),
        constant=constant,
        excluded=near.pairs if near.left_out and near.groups and not any(alone) and not own else None,
        damping=None if damping is None else float(damping),
    )
    inside, waves = parts(whole)
    assert isinstance(inside, CoulombScreened)
    bare: PairPotential = _bare(constant)
    summed: Found = [] if alone[0] else [("coulomb", waves)]
    if said.open and summed:
        summed.append(("coulomb", SlabCorrection(constant=constant)))  # pyright: ignore[reportArgumentType]
    if alone[1]:
        return summed
    if own:
        types = len(share.some)
        inside, bare = long_potentials(part, share.lines, constant, types, said.modify, float(inside.damping))
    if alone[0] or own:
        lacking = near.weighted("coulomb", bare, 1, lacking=True)
        return [("coulomb", inside), *summed, *near.whole("coulomb", inside), *lacking]
    return [("coulomb", inside), *summed, *near.weighted("coulomb", bare, 1)]


def _dispersion(share: Share, part: PairPart, said: Commands, space: Space, near: Near) -> Found:
    """A style whose attraction has no cutoff, with its waves; one of them alone where the other is switched off."""
    kspace = said.kspace or ["none"]
    check_known(kspace[0], DISPERSED, f"kspace style of LAMMPS for {share.words[0]}")
    if not share.some.all():
        raise ArgumentError(f"The pair style {share.words[0]} must act between all types, but does not.")
    no_waves, no_pairs = [one.get("compute") == "no" for one in (said.waves, said.modify)]
    usual = said.waves.get("gewald") if kspace[0] == "ewald/disp" else None
    given = said.waves.get("gewald/disp", usual)
    if (no_waves or no_pairs) and given is None:
        raise ArgumentError("`kspace_modify` must give `gewald/disp` where waves or pairs stand alone, but does not.")
    whole = lambda strength, excluded: dispersion_sum(
        space,
        part.numbers["rc"],
        strength,
        tolerance=float(kspace[1]),
        excluded=excluded,
        damping=None if given is None else float(given),
    )
    screened = parts(whole(1.0, None))[0]
    assert isinstance(screened, DispersionScreened)
    damping = float(screened.damping)
    by_type = kspace[0] == "ewald/disp"
    inside, bare, strength = long_dispersion(part, share.lines, len(share.some), said.modify, damping, by_type)
    alone = no_waves or no_pairs
    waves = parts(whole(strength, near.pairs if near.left_out and near.groups and not alone else None))[1]
    summed: Found = [] if no_waves else [("dispersion", waves)]
    if no_pairs:
        return summed
    if alone:
        return [("pairs", inside), *near.whole("pairs", inside), *near.weighted("pairs", bare, 0, lacking=True)]
    return [("pairs", inside), *summed, *near.weighted("pairs", bare, 0)]


def _bare(constant: float) -> PairPotential:
    return CoulombCut(constant=constant, cutoff=np.inf)  # pyright: ignore
