"""Minima of the potential energy, of positions alone or of the cell too, and how they move with the potential's parameters."""

import dataclasses
import functools
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import zero_from_primal
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError, SimulationError
from ...core import Status, as_float_array, full_products, tracing
from ...engine import paired
from .._particles import Lists, Particles, Tally
from ..dynamics._nve import NVE
from ..space._atoms import Atoms
from ..space._boxes import check_one_cell
from ..space._space import Orthorhombic, Triclinic, determinant
from ._lbfgs import LBFGS
from ._minimiser import Minimiser


class Minimum(eqx.Module):
    """Result of `minimise`.

    - `atoms`: positions, resting, and the `cell` where it was relaxed; with derivatives by the system's numbers.
    - `energy`: the potential energy there, and P V where the cell was relaxed under a pressure P.
    - `largest_force`: of an atom or on the cell, as `tolerance` measures it.
    - `steps`, `status`: how often the energy was computed, and how the search ended.
    """

    atoms: Atoms
    energy: Array
    largest_force: Array
    steps: Array
    status: Array
    lists: Tally
    method: str = eqx.field(static=True)

    def __repr__(self) -> str:
        if isinstance(self.status, jax.core.Tracer) or np.ndim(self.status):
            return f"Minimum by {self.method}"
        ended = "found" if int(self.status) == 0 else f"not found ({Status(int(self.status)).name})"
        return (
            f"Minimum by {self.method}: {ended} in {int(self.steps)} steps, energy {float(self.energy):.10g}, largest force "
            f"{float(self.largest_force):.2g}"
        )


@full_products
def minimise(
    system: Particles,
    atoms: Atoms,
    *,
    method: Minimiser | None = None,
    tolerance: float = 1e-6,
    max_steps: int = 5000,
    cell: bool = False,
    pressure: ArrayLike = 0.0,
    on_failure: Literal["raise", "mark"] = "raise",
) -> Minimum:
    r"""The nearest minimum of the potential energy, with lists of neighbours kept and made anew as in a run.

    Where the cell is relaxed too, it is that of the enthalpy $U + P V$ over positions and cell.

    Derivatives of positions, cell and energy by the numbers of the system are those of the implicit function theorem,

    $$\frac{dx}{d\theta} = -\left(\frac{\partial^2 U}{\partial x^2}\right)^{-1} \frac{\partial^2 U}{\partial x\, \partial\theta}$$

    by conjugate gradients with products of the Hessian, whatever way the search took; forward and reverse mode. The start has none.

    **Arguments:**

    - `system`, `atoms`: where to begin; momenta are not looked at.
    - `method`: `LBFGS()`, the default, or `FIRE()`.
    - `tolerance`: on the largest force of an atom. That on the cell is its derivative by the strain over $\sqrt{N} (V/N)^{1/d}$,
        which makes the two alike.
    - `max_steps`: how often the energy may be computed.
    - `cell`: whether edges and angles of the cell are relaxed, too, under `pressure`.
    - `on_failure`: "raise" a `SimulationError`, or "mark" it in the status; always marked under a transformation.

    **Good values:** a tolerance of 1e-6 of a typical force for energies, 1e-9 for second derivatives.

    **Raises:** an `ArgumentError` for constraints, and for a cell to be relaxed in an open space.

    ```python
    import simkit
    from simkit import md
    simkit.enable_x64()
    start = md.crystal("fcc", 1.6, (3, 3, 3))
    system = md.Particles(md.LennardJones(), start.space)
    print(md.minimise(system, md.Atoms(start.position, 0 * start.position), cell=True))
    ```
    """
    method = LBFGS() if method is None else method
    if system.constraints is not None:
        raise ArgumentError("Argument `system` must have no constraints to be minimised, but it has. Leave them out.")
    check_one_cell(system.space)
    if on_failure not in ("raise", "mark"):
        raise ArgumentError(f'Argument `on_failure` must be "raise" or "mark", but it is {on_failure!r}.')
    position = as_float_array(atoms.position)
    begin = Atoms(position, jnp.zeros_like(position), None, atoms.cell, atoms.count)
    system = dataclasses.replace(system, dynamics=NVE())
    if cell:
        system, begin = _loose(system, begin)
    if system.plan is None:
        system = system.prepared(begin)
    pressure = jnp.asarray(pressure, position.dtype)
    system = system if tracing(system, begin, pressure) else system.limited()
    while True:
        found = _minimum(system, begin, method, pressure, float(tolerance), int(max_steps), bool(cell))
        if isinstance(found.status, jax.core.Tracer):
            return found
        if not np.any(np.asarray(found.status) == int(Status.NO_ROOM)):
            break
        system = system.enlarged(found.lists)
    if on_failure == "raise" and found.status != 0:
        raise SimulationError(
            f"No minimum was found: {found!r}. Raise `max_steps`, loosen `tolerance`, which rounding bounds, or look for "
            "overlapping atoms at the start."
        )
    return found


def _loose(system: Particles, atoms: Atoms) -> tuple[Particles, Atoms]:
    """The system in a cell of any angles, and atoms that have it."""
    if not system.space.periodic:
        raise ArgumentError("Argument `cell` must be False in open space, which has no cell, but it is True.")
    vectors = system.space.vectors() if atoms.cell is None else atoms.cell
    plan = system.plan
    right = plan is not None and plan.pairs is not None and not plan.pairs.skewed
    if isinstance(system.space, Orthorhombic) and right:
        if isinstance(vectors, jax.core.Tracer) or isinstance(atoms.position, jax.core.Tracer):
            raise ArgumentError(
                "Argument `system` must be in a triclinic space for its cell to be relaxed under a transformation such as `jit`, "
                "but it was prepared for right angles. Give `space=Triclinic(space.vectors())` and prepare it."
            )
        plan = None
    system = dataclasses.replace(system, space=Triclinic(vectors), plan=plan)
    return system, Atoms(atoms.position, atoms.momentum, None, vectors.astype(atoms.position.dtype), atoms.count)


class Asked(NamedTuple):
    """Static arguments of a search: hashable, so that they are known while derivatives are taken."""

    static: Any
    method: Minimiser
    tolerance: float
    max_steps: int
    cell: bool


@eqx.filter_jit
def _minimum(
    system: Particles, atoms: Atoms, method: Minimiser, pressure: Array, tolerance: float, max_steps: int, cell: bool
) -> Minimum:
    floats, others = eqx.partition((system, atoms), eqx.is_inexact_array)
    fixed, static = eqx.partition(others, eqx.is_array)
    leaves, treedef = jax.tree.flatten(static)
    asked = Asked((tuple(leaves), treedef), method, tolerance, max_steps, cell)
    point, (lists, steps, status, force) = _searched(asked, (floats, pressure), fixed)
    system, atoms, pressure = _whole(asked, (floats, pressure), fixed)
    found = _placed(system, atoms, point, cell)
    total = _energy(system, found, lists, pressure, cell)
    return Minimum(found, total, force, steps, status, system.tally(lists), method.name)


def _whole(asked: Asked, floats: PyTree, fixed: PyTree) -> tuple[Particles, Atoms, Array]:
    leaves, treedef = asked.static
    system, atoms = eqx.combine(floats[0], fixed, jax.tree.unflatten(treedef, leaves))
    return system, atoms, floats[1]


def _scale(atoms: Atoms) -> Array:
    """Return the factor by which a strain is multiplied to be as stiff as the displacement of an atom."""
    count, d = atoms.position.shape
    volume = jax.lax.stop_gradient(jnp.abs(determinant(atoms.cell)))
    return (float(count) ** 0.5 * (volume / count) ** (1 / d)).astype(atoms.position.dtype)


def _placed(system: Particles, atoms: Atoms, point: Array, cell: bool) -> Atoms:
    """Atoms and cell at a point of the search: positions before the strain, and the strain."""
    count, d = atoms.position.shape
    position = point[: count * d].reshape(count, d)
    if not cell:
        return Atoms(position, jnp.zeros_like(position), None, atoms.cell, atoms.count)
    strain = point[count * d :].reshape(d, d) / _scale(atoms)
    stretch = jnp.eye(d, dtype=point.dtype) + 0.5 * (strain + strain.T)
    stretched = lambda x: jnp.matmul(x, stretch, precision="highest")
    return Atoms(stretched(position), jnp.zeros_like(position), None, stretched(atoms.cell), atoms.count)


def _energy(system: Particles, atoms: Atoms, lists: Lists, pressure: Array, cell: bool) -> Array:
    found = system.energy_on(atoms, lists)
    return found + pressure * jnp.abs(determinant(atoms.cell)) if cell else found


def _measured(atoms: Atoms, slope: Array) -> Array:
    """The largest force of an atom, or on the cell."""
    count, d = atoms.position.shape
    force = jnp.max(jnp.sqrt(jnp.sum(slope[: count * d].reshape(count, d) ** 2, axis=1)))
    return jnp.maximum(force, jnp.max(jnp.abs(slope[count * d :]), initial=0.0))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _searched(asked: Asked, floats: PyTree, fixed: PyTree) -> tuple[Array, tuple[Any, Array, Array, Array]]:
    """The point where the search ended; the lists there, evaluations, status and the largest force."""
    system, atoms, pressure = _whole(asked, floats, fixed)
    count, d = atoms.position.shape
    extra = d * d if asked.cell else 0
    begin = jnp.concatenate([atoms.position.ravel(), jnp.zeros(extra, atoms.position.dtype)])
    weight = np.concatenate([np.ones(count * d), np.full(extra, count**-0.5)])
    weight = jnp.asarray(weight, begin.dtype)
    slopes = jax.value_and_grad(
        lambda point, lists: _energy(system, _placed(system, atoms, point, asked.cell), lists, pressure, asked.cell)
    )

    def looked(point: Array, lists: Lists) -> tuple[Array, Array, Any]:
        there = _placed(system, atoms, point, asked.cell)
        renew = system.outdated(there, lists)
        lists = jax.lax.cond(renew, lambda: system.relisted(there, lists), lambda: lists)
        return *slopes(point, lists), lists

    def going(state: PyTree) -> Array:
        search, _, steps = state
        return (steps < asked.max_steps) & (_measured(atoms, search.slope) > asked.tolerance)

    def step(state: PyTree) -> Any:
        search, lists, steps = state
        trial, search = asked.method.proposed(search, weight)
        found, slope, lists = looked(trial, lists)
        return asked.method.judged(search, trial, found, slope, weight), lists, steps + 1

    found, slope, lists = looked(begin, system.listed(_placed(system, atoms, begin, asked.cell)))
    search = asked.method.begun(begin, found, slope, weight)
    search, lists, steps = jax.lax.while_loop(going, step, (search, lists, jnp.ones((), jnp.int32)))
    # The lists of the last trial may be those of another point than the best.
    there = _placed(system, atoms, search.point, asked.cell)
    lists = system.relisted(there, lists)
    force = _measured(atoms, search.slope)
    ended = jnp.where(jnp.isfinite(force), int(Status.STEP_LIMIT), int(Status.NON_FINITE))
    status = jnp.where(force <= asked.tolerance, int(Status.OK), ended)
    status = jnp.where(system.fits(lists), status, int(Status.NO_ROOM))
    return search.point, (lists, steps, status, force)


@_searched.defjvp
def _searched_jvp(asked: Asked, primals: PyTree, tangents: PyTree) -> Any:
    floats, fixed = primals
    point, rest = _searched(asked, floats, fixed)
    lists = jax.lax.stop_gradient(rest[0])
    slope = functools.partial(_slope, asked, fixed=fixed, lists=lists)
    right = jax.jvp(lambda floats: slope(point=point, floats=floats), (floats,), (tangents[0],))[1]
    solve = functools.partial(_solved, asked)
    moved = paired(solve, solve, (point, floats, fixed, lists), right)
    return (point, rest), (-moved, jax.tree.map(zero_from_primal, rest))


def _slope(asked: Asked, point: Array, floats: PyTree, fixed: PyTree, lists: Lists) -> Array:
    system, atoms, pressure = _whole(asked, floats, fixed)
    return jax.grad(
        lambda point: _energy(system, _placed(system, atoms, point, asked.cell), lists, pressure, asked.cell)
    )(point)


def _solved(asked: Asked, known: PyTree, right: Array) -> Array:
    """The inverse Hessian times a vector."""
    point, floats, fixed, lists = known
    count, d = floats[0][1].position.shape
    alone = _whole(asked, floats, fixed)[0]._alone

    def centred(v: Array) -> Array:
        """Remove the common displacement of all atoms, which costs no energy unless a field holds them."""
        if not alone:
            return v
        moved = v[: count * d].reshape(count, d)
        return jnp.concatenate([(moved - jnp.mean(moved, axis=0, keepdims=True)).ravel(), v[count * d :]])

    slope = lambda point: _slope(asked, point, floats, fixed, lists)
    product = lambda v: centred(jax.jvp(slope, (point,), (v,))[1])
    accuracy = 1e-13 if point.dtype == jnp.float64 else 1e-6
    return jax.scipy.sparse.linalg.cg(product, centred(right), tol=accuracy, maxiter=5 * point.size)[0]
