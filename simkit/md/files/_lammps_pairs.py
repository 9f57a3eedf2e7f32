"""Pair potentials from the pair styles of LAMMPS and their coefficients."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._errors import ArgumentError, check_known
from ..potentials._buckingham import Buckingham
from ..potentials._coulomb import CoulombCut, CoulombDSF
from ..potentials._formula import Formula
from ..potentials._formula_terms import FormulaPair
from ..potentials._gaussian import GaussianCore
from ..potentials._lennard_jones import LennardJones
from ..potentials._morse import Morse
from ..potentials._potential import PairPotential
from ..potentials._truncation import ForceShifted, Shifted, Truncated, Truncation
from ..potentials._yukawa import Yukawa
from ._lammps_pair_styles import (
    CHARGES,
    CHARMM_STYLES,
    DISPERSION,
    LONG,
    MIXED,
    PAIR_STYLES,
    PARTS,
    PairStyle,
)
from ._lammps_words import numbers_in, types_in

OWN_RULES = {"geometric": "geometric", "arithmetic": "lorentz-berthelot", "sixthpower": "sixth-power"}
"""Mixing rules of LAMMPS -> those of `LennardJones`."""

SMOOTH = {"lj/smooth/linear", "morse/smooth/linear"}
"""Styles whose energy and force are shifted to 0 at the cutoff."""


OF_PAIRS = {"coul/cut", "coul/debye", "coul/cut/soft"}
"""Styles of charges whose cutoff a line of `pair_coeff` can give: the one of the line is that of both parts."""


BEHIND = (("width",), ("s6", "d"))
"""Numbers of `pair_style` that stand behind its cutoffs."""

OWN, CHARGED = 1, 2
"""The owner of a number of `pair_style`: the part without charges, the part of charges; both are a sum."""


class PairPart(NamedTuple):
    """A pair style as an input gives it: its part without charges, its part of charges, and numbers of each by name.

    - `own`, `charged`: names of the parts, None where there is none.
    - `numbers`: of the first part, with its cutoff `rc`, NaN where the style has none.
    - `charge_numbers`: of the part of charges.
    """

    own: str | None
    charged: str | None
    numbers: dict[str, float]
    charge_numbers: dict[str, float]


def pair_part(words: Sequence[str]) -> PairPart:
    """The parts of a pair style and their numbers."""
    name, *values = words
    check_known(name, (*PARTS, *FLAGGED), "pair style of LAMMPS")
    first, second = PARTS[name] if name in PARTS else _flagged(name, values[:2])
    values = values if name in PARTS else values[2:]
    numbers = numbers_in("pair_style", values)
    own = PAIR_STYLES[first].arguments if first else ()
    charged = {**CHARGES, **LONG}[second].arguments if second else ()
    if not numbers and first in ("lj/cubic", "harmonic/cut"):
        return PairPart(first, None, {"rc": np.nan}, {})
    if own in BEHIND:
        numbers = [*numbers[-len(own) :], *numbers[: -len(own)]]
    both = (OWN | CHARGED, own[0]) if own and own[0] == "n" and charged else None
    if own == charged == ("ri",):
        order = [(OWN, "ri"), (OWN, "rc"), (CHARGED, "ri"), (CHARGED, "rc")]
        numbers = numbers * 2 if len(numbers) == 2 else numbers
    else:
        order = [(OWN, one) for one in own] + [(CHARGED, one) for one in charged]
        if both:
            order = [both, (OWN, "alpha"), (CHARGED, "alpha"), *((OWN, one) for one in own[2:])]
        order += [(OWN, "rc")] * bool(first) + [(CHARGED, "rc")] * bool(second)
        if first and second and len(numbers) == len(order) - 1:
            numbers = [*numbers, numbers[-1]]
    if len(numbers) != len(order):
        raise ArgumentError(
            f"`pair_style` of the style {name} must be followed by {', '.join(one for _, one in order)}, but is "
            f"`{' '.join(words)}`."
        )
    of = lambda part: {one: value for (whose, one), value in zip(order, numbers, strict=True) if whose & part}
    if first == "lj/relres" and not 0 < numbers[0] < numbers[1] <= numbers[2] < numbers[3]:
        raise ArgumentError(
            f"`pair_style` of the style {name} must give its cutoffs in order, but is `{' '.join(words)}`."
        )
    return PairPart(first, second, of(OWN), of(CHARGED))


FLAGGED = {"lj/long/coul/long": ("lj/long", "lj/cut"), "buck/long/coul/long": ("buck/long", "buck")}
"""Styles of which words say how far each part reaches -> their parts without charges, without a cutoff and with one."""


def _flagged(name: str, words: Sequence[str]) -> tuple[str | None, str | None]:
    """The parts of such a style."""
    known = (("long", "cut", "off"), ("long", "off"))
    if len(words) != 2 or words[0] not in known[0] or words[1] not in known[1]:
        raise ArgumentError(
            f"`pair_style` of the style {name} must be followed by long, cut or off, and by long or off, but is by "
            f"`{' '.join(words)}`."
        )
    whole, cut = FLAGGED[name]
    return {"long": whole, "cut": cut, "off": None}[words[0]], "coul/long" if words[1] == "long" else None


class PairTable(NamedTuple):
    """Numbers of all pairs of types: by name (types, types), the cutoffs, and which pairs have lines."""

    numbers: dict[str, np.ndarray]
    cutoff: np.ndarray
    given: np.ndarray


def pair_table(name: str, style: PairStyle, lines: Sequence[Sequence[str]], types: int, cutoff: float) -> PairTable:
    """The numbers that `pair_coeff` gives to pairs of types."""
    width, size = len(style.names), (types, types)
    table, given, reach = np.zeros((width, *size)), np.zeros(size, bool), np.full(size, cutoff)
    for line in [line[:4] for line in lines] if name in CHARMM_STYLES and _all_near(lines) else lines:
        values = _values(style, line[2:])
        if not width <= len(values) <= width + 1:
            raise ArgumentError(
                f"A line of `pair_coeff` of the style {name} must hold {', '.join(style.names) or 'no numbers'} and perhaps a "
                f"cutoff, but is `{' '.join(line)}`."
            )
        for i in types_in(line[0], types):
            for j in types_in(line[1], types):
                if i > j and "*" not in line[0] + line[1]:
                    raise ArgumentError(
                        f"A line of `pair_coeff` must name the smaller type first, but is `{' '.join(line)}`."
                    )
                if i > j:
                    continue
                table[:, i, j] = table[:, j, i] = values[:width]
                reach[i, j] = reach[j, i] = values[width] if len(values) > width else cutoff
                given[i, j] = given[j, i] = True
    return PairTable(dict(zip(style.names, table, strict=True)), reach, given)


def _all_near(lines: Sequence[Sequence[str]]) -> bool:
    """Tell whether lines hold two numbers, or four with those of pairs three bonds apart."""
    return all(len(line) in (4, 6) for line in lines)


def _values(style: PairStyle, words: Sequence[str]) -> list[float]:
    """The numbers of a line, with those that words stand for; what no word says is said by the empty one."""
    known = {word for word in words if word in style.words}
    said = [number for word in words if word in known for number in style.words[word]]
    plain = numbers_in("pair_coeff", [word for word in words if word not in known])
    if "" not in style.words:
        return [*said, *plain]
    return [*plain[: len(style.names) - 1], *(said or style.words[""]), *plain[len(style.names) - 1 :]]


def mixed(name: str, style: PairStyle, table: PairTable, modify: Mapping[str, str], some: np.ndarray) -> PairTable:
    """The same with the numbers of pairs of types that have no line, mixed from those of each type; `some` are asked for."""
    types, missing = len(some), some & ~table.given
    lone = [i + 1 for i in range(types) if missing[i, i]]
    if lone:
        raise ArgumentError(
            f"`pair_coeff` of the style {name} must give numbers to all types, but gives none to type {lone[0]} and itself."
        )
    if missing.any() and not style.mixed and style.names:
        i, j = np.argwhere(missing)[0] + 1
        raise ArgumentError(f"`pair_coeff` of the style {name} must give numbers to types {i} and {j}, but gives none.")
    rule = style.rule or modify.get("mix", style.usual)
    check_known(rule, MIXED, "mixing rule of LAMMPS")
    own = {key: np.diagonal(value) for key, value in table.numbers.items()}
    reach = np.diagonal(table.cutoff)
    sizes = next((own[key] for key, kind in zip(style.names, style.mixed) if kind == "distance"), np.ones(types))

    def by_rule(s: np.ndarray) -> np.ndarray:
        # Equal lengths stay equal to the last bit, which the root of a sum of powers does not keep on every processor.
        return np.where(s[:, None] == s[None], s[:, None], MIXED[rule](1.0, 1.0, s[:, None], s[None])[1])

    def energies(e: np.ndarray) -> np.ndarray:
        signs = set(np.sign(e[np.diagonal(some)])) - {0.0}
        if len(signs) > 1:
            raise ArgumentError(
                f"`pair_coeff` of the style {name} must give numbers to types of different signs, but does not."
            )
        return max(signs, default=1.0) * MIXED[rule](abs(e)[:, None], abs(e)[None], sizes[:, None], sizes[None])[0]

    ways = {
        "energy": energies,
        "distance": by_rule,
        "mean": lambda v: (v[:, None] + v[None]) / 2,
        "decay": lambda v: 1 / by_rule(1 / np.sqrt(v)) ** 2,
        "smaller": lambda v: np.minimum(v[:, None], v[None]),
        "larger": lambda v: np.maximum(v[:, None], v[None]),
    }
    with np.errstate(invalid="ignore", divide="ignore"):
        full = {
            key: np.where(missing, ways[kind](own[key]), table.numbers[key])
            for key, kind in zip(style.names, style.mixed, strict=False)
            if missing.any() and kind != "norm"
        }
        norms = [key for key, kind in zip(style.names, style.mixed, strict=False) if kind == "norm"]
        full |= {
            key: np.hypot(own[key][:, None], own[key][None]) for key in norms
        }  # of two Gaussians, whatever a line says
        cutoff = np.where(missing, by_rule(reach), table.cutoff)
    return PairTable(table.numbers | full, cutoff, table.given | missing)


def pair_potential(
    name: str,
    lines: Sequence[Sequence[str]],
    types: int,
    numbers: Mapping[str, float],
    modify: Mapping[str, str],
    some: np.ndarray | None = None,
    coulomb: float = 1.0,
) -> PairPotential:
    """The potential of a pair style without charges.

    **Arguments:** `some`: the pairs of types that take part, by default all. `coulomb`: Coulomb's constant.
    """
    style, everyone = PAIR_STYLES[name], np.ones((types, types), bool)
    wanted = everyone if some is None else some
    table = mixed(name, style, pair_table(name, style, lines, types, numbers["rc"]), modify, wanted)
    reach = np.where(wanted, np.broadcast_to(_reach(style, table), wanted.shape), 0)
    if (reach == reach[0, 0]).all() and style.reach == "rc":
        own = _own_potential(name, table, float(reach[0, 0]), numbers, modify, lines)
        if own is not None:
            return own
    return formula_potential(name, style, table, reach, numbers, modify, coulomb)


def _reach(style: PairStyle, table: PairTable) -> np.ndarray:
    return np.asarray(Formula(style.reach)({**table.numbers, "rc": table.cutoff}), float)


def formula_potential(
    name: str,
    style: PairStyle,
    table: PairTable,
    reach: np.ndarray,
    numbers: Mapping[str, float],
    modify: Mapping[str, str],
    coulomb: float,
    charged: bool = False,
) -> FormulaPair:
    """A pair style as the formula of its table; pairs of types end at their own `reach`."""
    one = (reach == reach[0, 0]).all()
    truncation = _truncation(name, modify)
    tail = isinstance(truncation, Truncated) and truncation.with_tail
    if (isinstance(truncation, Shifted) or tail) and (style.reach != "rc" or "ri" in style.arguments):
        raise ArgumentError(
            f"`pair_modify` must not shift the pair style {name} nor add a tail, as it ends in its own way, but does."
        )
    first, *definitions = style.formula.split(";")
    if not one:
        if isinstance(truncation, ForceShifted) or tail:
            raise ArgumentError(
                f"The pair style {name} must have one cutoff where it has a tail or ends smoothly, but has several."
            )
        if isinstance(truncation, Shifted):
            lost, more = _at_reach(first, definitions)
            first, definitions, truncation = f"({first}) - ({lost})", [*definitions, *more], Truncated()
        first = f"select(step(reach_ - r), {first}, 0)"
    text = ";".join([first, *definitions])
    given = {**table.numbers, "rc": table.cutoff, "reach_": reach}
    named = Formula(text).names
    # What lies beyond its own reach may be any number, but a finite one.
    safe: dict[str, Any] = {
        key: value if key == "reach_" else np.where(reach > 0, value, 1.0)
        for key, value in given.items()
        if key in named
    }
    if one and "rc" in safe and (table.cutoff == table.cutoff[0, 0]).all():
        safe["rc"] = None
    constants: dict[str, Any] = {**numbers, "rc": reach[0, 0], "COULOMB": coulomb}
    constants = {key: value for key, value in constants.items() if key in named and safe.get(key) is None}
    safe = {key: value for key, value in safe.items() if value is not None}
    return FormulaPair(text, safe, constants, float(reach.max()), truncation, charged=charged)


def _at_reach(first: str, definitions: Sequence[str]) -> tuple[str, list[str]]:
    """The formula at its cutoff, with definitions of other names."""
    names = [part.partition("=")[0].strip() for part in definitions]
    word = re.compile(rf"\b({'|'.join(['r', *names])})\b")
    there = lambda text: word.sub(lambda found: "reach_" if found[1] == "r" else f"{found[1]}_there", text)
    return there(first), [there(part) for part in definitions]


def _own_potential(
    name: str,
    table: PairTable,
    cutoff: float,
    numbers: Mapping[str, float],
    modify: Mapping[str, str],
    lines: Sequence[Sequence[str]],
) -> PairPotential | None:
    """The potential of a style that has a class; None where it has none."""
    ends: Any = {"cutoff": cutoff, "truncation": _truncation(name, modify)}
    rows: Any = tuple(table.numbers.values())
    if name in ("lj/cut", "lj/smooth/linear"):
        epsilon, sigma = rows
        if len(epsilon) > 1 and all(line[0] == line[1] and "*" not in line[0] for line in lines):
            rule: Any = OWN_RULES[modify.get("mix", "geometric")]
            return LennardJones(np.diagonal(sigma).copy(), np.diagonal(epsilon).copy(), mixing=rule, **ends)  # pyright: ignore[reportArgumentType]
        return LennardJones(sigma, epsilon, **ends)
    if name in ("morse", "morse/smooth/linear"):
        return Morse(*rows, **ends)
    if name == "buck":
        return Buckingham(*rows, **ends)
    if name == "yukawa":
        return Yukawa(*rows, numbers["kappa"], **ends)  # pyright: ignore
    if name == "gauss":
        both: Any = (-rows[0], 1 / np.sqrt(rows[1]))
        return GaussianCore(*both, **ends)  # pyright: ignore[reportArgumentType]
    return None


def _truncation(name: str, modify: Mapping[str, str]) -> Truncation:
    shift, tail = modify.get("shift", "no") == "yes", modify.get("tail", "no") == "yes"
    if name in SMOOTH:
        return ForceShifted()
    if shift and tail:
        raise ArgumentError("`pair_modify` must not both shift and add a tail, but does.")
    return Shifted() if shift else Truncated(tail=tail)


def charge_potential(
    part: PairPart, lines: Sequence[Sequence[str]], constant: float, some: np.ndarray, modify: Mapping[str, str]
) -> PairPotential:
    """The potential of the charges of a pair style, but for `coul/long`; `some` pairs of types take part."""
    name, numbers, types = str(part.charged), part.charge_numbers, len(some)
    style, cutoff = CHARGES[name], numbers["rc"]
    if part.own is None:
        table = pair_table(name, style, lines, types, cutoff)
    else:
        table = pair_table(part.own, PAIR_STYLES[part.own], lines, types, cutoff)
        reach = table.cutoff if name in OF_PAIRS else np.full((types, types), cutoff)
        table = PairTable({key: table.numbers[key] for key in style.names}, reach, table.given)
    table = mixed(name, style, table, modify, some)
    reach = np.where(some, table.cutoff, 0)
    whole = (reach == cutoff).all()
    fixed: Any = {"constant": constant, "cutoff": cutoff}
    if name in ("coul/cut", "coul/cut/global") and whole:
        return CoulombCut(**fixed)
    if name == "coul/dsf":
        if not whole:
            raise ArgumentError("The pair style coul/dsf must have one cutoff between all types, but has not.")
        damping: Any = numbers["damping"]
        return CoulombDSF(damping=damping, **fixed)
    return formula_potential(name, style, table, reach, numbers, {}, constant, charged=True)


def long_potentials(
    part: PairPart,
    lines: Sequence[Sequence[str]],
    constant: float,
    types: int,
    modify: Mapping[str, str],
    damping: float,
) -> tuple[PairPotential, PairPotential]:
    """The part within the cutoff of charges whose waves are summed, and their bare interaction."""
    name, cutoff = str(part.charged), part.charge_numbers["rc"]
    style = LONG[name]
    first = PairStyle(style.bare, style.names, style.mixed, style.arguments)
    whole = PAIR_STYLES[part.own] if part.own is not None else first
    table = pair_table(part.own or name, whole, lines, types, cutoff)
    everyone = np.ones((types, types), bool)
    chosen = PairTable({key: table.numbers[key] for key in style.names}, np.full((types, types), cutoff), table.given)
    table = mixed(name, first, chosen, modify, everyone)
    numbers = {**part.charge_numbers, "GEWALD": damping}
    inside, bare = (
        formula_potential(
            name, first._replace(formula=text), table, np.full((types, types), reach), numbers, {}, constant, True
        )
        for text, reach in ((f"{style.bare} - {style.damped}", cutoff), (style.bare, np.inf))
    )
    return inside, bare


def long_dispersion(
    part: PairPart, lines: Sequence[Sequence[str]], types: int, modify: Mapping[str, str], damping: float, by_type: bool
) -> tuple[PairPotential, PairPotential, np.ndarray]:
    """The part within the cutoff of a style whose attraction has none, the bare interaction, and what r^6 divides in waves.

    **Arguments:** `by_type`: waves take numbers mixed from those of each type, whatever lines say of two types.
    """
    name, cutoff = str(part.own), part.numbers["rc"]
    style, (damped, strength) = PAIR_STYLES[name], DISPERSION[name]
    table = mixed(name, style, pair_table(name, style, lines, types, cutoff), modify, np.ones((types, types), bool))
    if not (table.cutoff == cutoff).all():
        raise ArgumentError(f"The pair style {name} must have one cutoff between all types, but has several.")
    inside, bare = (
        formula_potential(
            name, style._replace(formula=text), table, np.full((types, types), reach), {"GEWALD": damping}, modify, 1.0
        )
        for text, reach in ((damped, cutoff), (style.formula, np.inf))
    )
    if by_type and style.mixed:
        alone = PairTable(table.numbers, table.cutoff, np.eye(types, dtype=bool))
        table = mixed(name, style, alone, modify, np.ones((types, types), bool))
    whole = np.broadcast_to(np.asarray(Formula(strength)(table.numbers)), (types, types))
    own = np.sqrt(np.diagonal(whole))
    return inside, bare, whole if style.mixed or not by_type else own[:, None] * own[None]
