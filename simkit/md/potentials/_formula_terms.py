"""Potentials whose energies are formulas as text: of bonded terms, of single atoms, of pairs."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PyTree

from ..._errors import ArgumentError
from ...core import as_float_array
from ..space._space import Space
from ._bonded import BondedPotential, angle_between, as_indices, check_terms, dihedral_angle, length, picked, some_angle
from ._external import ExternalField
from ._formula import Formula, Function
from ._lanes import Lanes, lanes_of, mark_of
from ._many_body import AtomView
from ._potential import PairPotential, tabled, with_slope
from ._surroundings import taken
from ._truncation import Truncated, Truncation

Numbers = Mapping[str, ArrayLike | Sequence[Any]]
Indices = ArrayLike | Sequence[Any]


def as_formula(text: "str | Formula") -> Formula:
    return text if isinstance(text, Formula) else Formula(text)


def as_numbers(values: Numbers | None) -> dict[str, Array]:
    return {name: as_float_array(value) for name, value in (values or {}).items()}


class FormulaTerms(BondedPotential):
    r"""Terms of two or more named atoms whose energy is a formula.

    **Arguments:**

    - `formula`: text, such as `"k*(r - r0)^2/2"`. Two atoms have the distance `r`; three the angle `theta` at the second; four the
        dihedral angle `theta`, between $-\pi$ and $\pi$, 0 being cis. Any number has `distance(p1, p2)`, `angle(p1, p2, p3)`,
        `dihedral(p1, p2, p3, p4)` and coordinates `x1`, `y1`, `z1`, those of the images nearest to the first atom.
    - `atoms`: shape (terms, atoms of a term), counted from 0. Other atoms are other `FormulaTerms`, or `dataclasses.replace`: with
        `eqx.tree_at` many pairs would keep their layout, and give NaN.
    - `parameters`: numbers by name, each one for all terms, or one a term, or one a kind.
    - `kind`: shape (terms,), which row of the parameters a term takes.

    Angles in radians, `^` is a power; definitions follow after semicolons.

    **Raises:** an `ArgumentError` for a formula that cannot be read, and for a name that has no number.

    ```python
    import simkit

    quartic = simkit.md.FormulaTerms("k*x^2*(1 - 2*x); x = r - r0", [[0, 1]], {"k": 100.0, "r0": 1.0})
    ```
    """

    formula: Formula = eqx.field(static=True)
    atoms: Int[Array, "terms size"]
    parameters: dict[str, Array]
    kind: Int[Array, " terms"] | None = None
    lanes: tuple[Lanes, ...] = eqx.field(init=False)
    """Layout of pairs that are most of those inside many molecules, by which they are summed in open space; else empty."""
    laid: Array | None = eqx.field(init=False)
    """The mark that tells whether the layout is still that of `atoms`."""

    def __init__(
        self, formula: str | Formula, atoms: Indices, parameters: Numbers | None = None, kind: Indices | None = None
    ):
        self.formula, self.atoms, self.parameters = as_formula(formula), as_indices(atoms), as_numbers(parameters)
        self.kind = None if kind is None else as_indices(kind)
        check_terms(self, self.atoms, self.size)
        known = {"r", "theta", *(f"{c}{k + 1}" for c in "xyzp" for k in range(self.size))}
        check_names(self.formula, {*self.parameters, *known})
        plain = self.size == 2 and self.formula.names <= {"r", *self.parameters}
        self.lanes = lanes_of(self.atoms) if plain else ()
        self.laid = mark_of(self.atoms) if self.lanes else None

    def of_distance(self, r: Array, values: Mapping[str, Array]) -> Array:
        """Energies of pairs by their distances and the values of their parameters."""
        return self.formula({**values, "r": r})

    def spread(self, place: Int[Array, "*places"]) -> dict[str, Array]:
        """The parameters of the terms at these places; numbers for all stay numbers."""
        rows = lambda values, at: values if values.ndim == 0 else taken(values, at)
        at = jnp.minimum(place, len(self.atoms) - 1)
        at = at if self.kind is None else taken(self.kind, at)
        return {name: rows(value, at) for name, value in self.parameters.items()}

    @property
    def size(self) -> int:
        return self.atoms.shape[-1]

    def term(self, space: Space, position: Float[Array, "terms size d"]) -> Float[Array, " terms"]:
        rows = [position[:, k] for k in range(self.size)]
        first = rows[0]
        places = [first, *(first + space.displacement(row, first) for row in rows[1:])]
        apart = lambda a, b: length(space.displacement(a, b))
        bent = lambda a, b, c: angle_between(space.displacement(a, b), space.displacement(c, b))
        turned = lambda *points: _signed_angle(space, jnp.stack(points, axis=1))
        functions: dict[str, Function] = {"distance": apart, "angle": bent, "dihedral": turned}
        values: dict[str, Any] = {name: self.each(value) for name, value in self.parameters.items()}
        values |= {f"p{k + 1}": row for k, row in enumerate(rows)}
        values |= {
            f"{c}{k + 1}": place[:, i] for k, place in enumerate(places) for i, c in zip(range(3), "xyz", strict=True)
        }
        if self.size == 2:
            values["r"] = lambda: apart(*rows)
        elif self.size == 3:
            values["theta"] = lambda: bent(*rows)
        elif self.size == 4:
            values["theta"] = lambda: turned(*rows)
        return jnp.broadcast_to(self.formula(values, functions), self.atoms.shape[:1])


def _signed_angle(space: Space, position: Array) -> Array:
    some, sine, cosine = some_angle(*dihedral_angle(space, position))
    return jnp.where(some, jnp.arctan2(sine, cosine), 0)


class FormulaField(ExternalField):
    """Single atoms whose energy is a formula of their place.

    **Arguments:**

    - `formula`: text in `x`, `y`, `z`, the coordinates as they are, not wrapped into a cell, and
        `periodicdistance(x, y, z, x0, y0, z0)` to the nearest image.
    - `atoms`: which atoms feel it, shape (some,); None for all.
    - `parameters`: numbers by name, each one for all of these atoms, or one an atom.

    **Raises:** as `FormulaTerms`.

    ```python
    import simkit

    slab = simkit.md.FormulaField("k*max(0, abs(z) - w)^2", parameters={"k": 50.0, "w": 3.0})
    ```
    """

    formula: Formula = eqx.field(static=True)
    atoms: Int[Array, " some"] | None
    parameters: dict[str, Array]

    def __init__(self, formula: str | Formula, atoms: Indices | None = None, parameters: Numbers | None = None):
        self.formula, self.parameters = as_formula(formula), as_numbers(parameters)
        self.atoms = None if atoms is None else as_indices(atoms)
        check_names(self.formula, {*self.parameters, "x", "y", "z"})

    def each(self, view: AtomView) -> Array:
        position = view.position if self.atoms is None else picked(view.position, self.atoms)

        def near(*numbers: ArrayLike) -> Array:
            place, centre = (
                jnp.stack(jnp.broadcast_arrays(*part, position[:, 0])[:3], axis=-1)
                for part in (numbers[:3], numbers[3:])
            )
            return length(view.space.displacement(place, centre))

        values = dict(zip("xyz", position.T, strict=False)) | self.parameters
        found = self.formula(values, {"periodicdistance": near})
        found = jnp.broadcast_to(found, position.shape[:1]).astype(position.dtype)
        return found if self.atoms is None else jnp.zeros(len(view.position), position.dtype).at[self.atoms].add(found)


class FormulaPair(PairPotential):
    r"""All pairs within a cutoff, with an energy that is a formula of their distance.

    **Arguments:**

    - `formula`: text in the distance `r`, in `a1` and `a2` for a parameter `a` of the two atoms' species, in tables by their names,
        and in the constants. It must not change where the atoms are exchanged.
    - `parameters`: by name one number a species, of shape (species,), or a symmetric table (species, species).
    - `constants`: single numbers by name.
    - `cutoff`, `truncation`: where and how the interaction ends.
    - `charged`: static; the formula is multiplied by the product of the two charges.
    - `functions`: further functions by name, such as tables over species; they are not differentiable.

    Parts of the formula without `r`, such as mixing rules, are computed once for each pair of species.

    **Raises:** as `FormulaTerms`.

    ```python
    import simkit

    mie = simkit.md.FormulaPair("c*(1/r^14 - 1/r^6)", constants={"c": 4.0}, cutoff=3.0)
    ```
    """

    formula: Formula = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    constant_names: tuple[str, ...] = eqx.field(static=True)
    parameters: tuple[Array, ...]
    constants: tuple[Array, ...]
    cutoff: float = eqx.field(static=True)
    truncation: Truncation
    functions: tuple[tuple[str, Function], ...] = eqx.field(static=True)
    by_charge: bool = eqx.field(static=True)

    def __init__(
        self,
        formula: str | Formula,
        parameters: Numbers | None = None,
        constants: Numbers | None = None,
        cutoff: float = 2.5,
        truncation: Truncation | None = None,
        functions: Mapping[str, Function] | None = None,
        charged: bool = False,
    ):
        self.formula = as_formula(formula)
        given, fixed = as_numbers(parameters), as_numbers(constants)
        self.names, self.parameters = tuple(given), tuple(given.values())
        self.constant_names, self.constants = tuple(fixed), tuple(fixed.values())
        self.cutoff, self.truncation = float(cutoff), Truncated() if truncation is None else truncation
        self.functions, self.by_charge = tuple((functions or {}).items()), bool(charged)
        for name, value in given.items():
            if value.ndim != 1 and not (value.ndim == 2 and value.shape[0] == value.shape[1]):
                raise ArgumentError(
                    f"Argument `parameters` must give one number a species, or a table (species, species), but `{name}` has the "
                    f"shape {value.shape}. Single numbers are `constants`."
                )
        by_species = {name + which for name, value in given.items() if value.ndim == 1 for which in "12"}
        check_names(self.formula, {"r", *fixed, *by_species, *(name for name, v in given.items() if v.ndim == 2)})

    @property
    def charged(self) -> bool:
        return self.by_charge

    def coefficients(self) -> Any:
        values: dict[str, Array] = dict(zip(self.constant_names, self.constants, strict=True))
        for name, value in zip(self.names, self.parameters, strict=True):
            if value.ndim == 2:
                values[name] = (value + value.T) / 2
                continue
            shape = (len(value), len(value))
            values |= {
                name + "1": jnp.broadcast_to(value[:, None], shape),
                name + "2": jnp.broadcast_to(value[None], shape),
            }
        _, parts = self.formula.split(["r"])
        return {name: tabled(as_float_array(part(values, dict(self.functions)))) for name, part in parts.items()}

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        whole, _ = self.formula.split(["r"])

        def energy(r2: Array) -> Array:
            found = whole({"r": jnp.sqrt(r2), **coefficients}, dict(self.functions))
            shape = jnp.broadcast_shapes(jnp.shape(found), r2.shape)  # a tail asks one distance of all pairs of species
            return jnp.broadcast_to(found, shape).astype(r2.dtype)

        return with_slope(energy, r2)


def check_names(formula: Formula, known: set[str]) -> None:
    """Refuse a formula that uses names without a number."""
    missing = sorted(formula.names - known)
    if missing:
        raise ArgumentError(
            f"Argument `parameters` must have every name that the formula `{formula.text}` uses, but has not `{missing[0]}`. It "
            f"knows {', '.join(sorted(known))}."
        )
