"""Particles: atoms, their potential, the space they live in, and how they move."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from .._doors import check_kind
from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import POSITIVE, SYSTEMS, Example, ParticleSystem, driven, full_products, quantity, tracing
from ._blow_up import check_apart, describe
from ._builders import crystal
from ._given import check_given, check_sense
from ._scale import check_scale
from .dynamics._constraint import Constraint, check_constraints, constraints_of, held_count
from .dynamics._dynamics import Body, CellDynamics, Dynamics, Pull
from .dynamics._momenta import maxwell_boltzmann
from .dynamics._nve import NVE
from .dynamics._respa import RESPA
from .neighbours._box_sums import check_boxes, doubled_kinetic_of_boxes
from .neighbours._energy import Gradients, check_species, energy, forces, gradients
from .neighbours._neighbours import NeighbourPlan, Neighbours, plan_neighbours, widest
from .potentials._ewald import check_neutral
from .potentials._external import ExternalField
from .potentials._lennard_jones import LennardJones
from .potentials._potential import Potential, Sum, parts
from .space._atoms import Atoms
from .space._boxes import Boxes
from .space._space import Orthorhombic, Space, Triclinic
from .space._units import REDUCED, Units
from .space._virtual_sites import VirtualSites


class Lists(eqx.Module):
    """The neighbours in use, the room that any needed so far, and how often they were found anew."""

    neighbours: Neighbours
    need: Any
    built: Array


class Tally(eqx.Module):
    """Statistics of the neighbour lists of a run: the capacity that they needed, and how often they were made."""

    need: Any
    built: Array


@SYSTEMS.named("particles")
class Particles(ParticleSystem):
    r"""Atoms under a potential in a space: $m \ddot x_i = -\partial U / \partial x_i$, or with a thermostat's dynamics.

    **Arguments:**

    - `potential`: the energy; potentials add with `+`.
    - `space`: `OpenSpace()`, `Orthorhombic(lengths)` or `Triclinic(vectors)`.
    - `mass`: a number, or one an atom; positive.
    - `dynamics`: `NVE()`, `Langevin(temperature, friction)`, `NoseHoover(temperature, period)`,
        `StochasticRescaling(temperature, relaxation)`, `Andersen(temperature, rate)`, `Brownian(temperature, friction)`; with a
        cell that moves `MTK(...)`, `StochasticCellRescaling(...)`.
    - `species`, `charge`: one whole number and one number an atom, where the potential asks for them.
    - `constraints`: `Constraints(pairs, lengths)`, `RigidWater(atoms, bond, angle)`, `RigidBodies(atoms, position, mass)`, or a
        tuple of them that share no atoms.
    - `units`: what the numbers mean; only its Boltzmann and Coulomb constants enter.
    - `skin`: what the list of neighbours reaches beyond the cutoff. More is rebuilt less often and holds more idle pairs.
    - `exclusions`: pairs of atoms that pair potentials leave out, shape (pairs, 2); `excluded_pairs(bonds)` makes them.
    - `sites`: `VirtualSites(parents, weights)`, places without a mass that atoms carry along.
    - `precision`: the float type of distances and pair energies, by default that of the positions; sums keep the positions' own.

    State: `Atoms(position, momentum)`, at constant pressure with the `cell`. Steps are fixed; a good one is a fiftieth of the
    fastest period, 0.005 for a Lennard-Jones fluid.

    ```python
    import jax
    import simkit
    from simkit import md
    start = md.crystal("fcc", 1.68, (4, 4, 4))
    system = md.Particles(md.LennardJones(), start.space)
    momentum = md.maxwell_boltzmann(jax.random.key(0), system.masses(start.position)[:, 0], 1.44)
    run = simkit.simulate(system, md.Atoms(start.position, momentum), [0.0, 0.5, 1.0], step=0.005)
    print(run)
    ```
    """

    potential: Potential
    space: Space
    mass: Array = quantity(default=1.0, support=POSITIVE)
    dynamics: Dynamics = dataclasses.field(default_factory=NVE)
    species: Any = None
    charge: Any = None
    constraints: Any = None
    units: Units = eqx.field(static=True, default=REDUCED)
    skin: float = eqx.field(static=True, default=0.3)
    precision: Any = eqx.field(static=True, default=None)
    exclusions: Any = None
    sites: VirtualSites | None = None
    plan: NeighbourPlan | None = None

    def __check_init__(self):
        remedy = "Take one of `simkit.md`, such as "
        check_kind("potential", self.potential, Potential, "a potential", f"{remedy}`md.LennardJones()`.")
        check_kind("space", self.space, Space, "a space", f"{remedy}`md.Orthorhombic(lengths)` or `md.OpenSpace()`.")
        check_kind("dynamics", self.dynamics, Dynamics, "dynamics", f"{remedy}`md.NVE()`.")

    # ---- what a user asks ----

    def masses(self, position: Array) -> Array:
        """The mass of every atom, shape (atoms, 1)."""
        return jnp.broadcast_to(self.mass, position.shape[:1])[:, None]

    @eqx.filter_jit
    @full_products
    def gradients(self, atoms: Atoms) -> Gradients:
        """Potential energy, forces and virial of one state, with neighbours found anew."""
        return self.gradients_on(atoms, self.listed(atoms))

    @eqx.filter_jit
    @full_products
    def energy(self, atoms: Atoms) -> Array:
        """The potential energy of one state, with neighbours found anew."""
        return self.energy_on(atoms, self.listed(atoms))

    # ---- a system ----

    @full_products
    def vector_field(self, t: ArrayLike, y: Atoms, inputs: Inputs) -> Any:
        system = driven(self, inputs)
        slope = y.momentum / system.masses(y.position), system._forces_of(system.potential, y, system.listed(y))
        still = jax.tree.map(jnp.zeros_like, y)
        return eqx.tree_at(lambda y: (y.position, y.momentum), still, slope)

    @full_products
    def outputs(self, t: ArrayLike, y: Atoms, inputs: Inputs) -> dict[str, Array]:
        """Kinetic and potential energy, temperature; pressure in a cell; volume and mass density where it moves."""
        system = driven(self, inputs)
        found, body = system.gradients(y), system.body(y)
        doubled = system._doubled_kinetic(body, y)
        given = {
            "kinetic_energy": 0.5 * doubled,
            "potential_energy": found.energy,
            "temperature": doubled / (body.freedom * body.boltzmann),
        }
        if not self.space.periodic:
            return given
        volume = self.space_of(y).volume().astype(doubled.dtype)
        virial = found.virial
        for held in body.constraints:
            virial = virial + held.virial(body.space, body.mass, y.position, y.momentum, found.forces)
        given["pressure"] = (doubled - jnp.trace(virial, axis1=-2, axis2=-1)) / (self.space.dimensions * volume)
        if y.cell is None:
            return given
        real = True if y.real is None else y.real[:, None]
        return given | {"volume": volume, "density": jnp.sum(jnp.where(real, body.mass, 0)) / volume}

    def invariants(self, t: ArrayLike, y: Atoms) -> dict[str, Array]:
        body = self.body(y)
        kinetic = 0.5 * self._doubled_kinetic(body, y)
        total = kinetic + self.energy(y) + self.dynamics.stored(body, y)
        return (
            {"energy": total, "momentum": jnp.sum(y.momentum, axis=0)}
            if isinstance(self.dynamics, NVE) and self._alone
            else {"energy": total}
        )

    def encode(self, y: State) -> Any:
        if y.cell is None and isinstance(self.dynamics, CellDynamics):
            if not self.space.periodic:
                raise ArgumentError(
                    "Argument `dynamics` must keep the cell of an open space, which has none, but it holds a pressure constant. "
                    "Give a periodic `space`."
                )
            y = dataclasses.replace(y, cell=self.space.vectors().astype(y.position.dtype))
        if y.thermostat is None:
            y = dataclasses.replace(y, thermostat=self.dynamics.begun(self.body(y), y))
        return y

    @classmethod
    def example(cls) -> "Example[Particles]":
        start = crystal("fcc", 1.68, (4, 4, 4))
        system = cls(LennardJones(), start.space)
        momentum = maxwell_boltzmann(jax.random.key(0), jnp.ones(len(start.position), start.position.dtype), 1.44)
        return Example(system, Atoms(start.position, momentum), np.linspace(0.0, 1.0, 11))

    # ---- a particle system ----

    @property
    def smooth(self) -> bool:
        return isinstance(self.dynamics, NVE) and self.constraints is None

    @property
    def noisy(self) -> bool:
        return self.dynamics.noisy

    @property
    def inner_steps(self) -> int:
        return self.dynamics.steps if isinstance(self.dynamics, RESPA) else 1

    def prepared(self, y0: State) -> "Particles":
        check_given(self, y0)
        if self.plan is not None:
            return self
        check_sense(self)
        y0 = self.encode(y0)
        check_constraints(self._held(), self.dynamics, self.space_of(y0), self.masses(y0.position), y0.position)
        if tracing(self.space, y0.position, y0.cell, y0.count):
            raise ArgumentError(
                "Argument `system` must be prepared before a transformation such as `jit` or `vmap`, where no positions are "
                "known, but it is not. Call `system = system.prepared(y0)` once outside."
            )
        check_species(self.potential, self.species)
        check_boxes(self.space, self.potential, self.dynamics, self.constraints, self.exclusions)
        if not all(isinstance(part, ExternalField) for part in parts(self.potential)):
            check_apart(self.space_of(y0), y0.position if y0.real is None else y0.position[np.asarray(y0.real)])
        if y0.real is None:
            check_scale(self, self._rows(y0))
        if isinstance(self.dynamics, CellDynamics):
            y0 = dataclasses.replace(y0, position=y0.position * PRESSED, cell=y0.cell * PRESSED)
        check_neutral(self.potential, self.charge)
        plan = plan_neighbours(
            self.potential,
            self.space_of(y0),
            self._rows(y0),
            skin=self.skin,
            precision=self.precision,
            exclusions=self.exclusions,
            real=y0.real,
        )
        return dataclasses.replace(self, plan=plan)

    def limited(self) -> "Particles":
        return dataclasses.replace(self, plan=self._plan().limited())

    def enlarged(self, tally: Tally) -> "Particles":
        """The leading axes of a tally are those of the members of an ensemble."""
        members, leading = np.ravel(tally.built).size, tally.built.ndim
        rows = jax.tree.map(lambda x: x.reshape(members, *x.shape[leading:]), tally.need)
        needs = [jax.tree.map(lambda x, k=k: x[k], rows) for k in range(members)]
        need = functools.reduce(widest, needs)
        return dataclasses.replace(
            self, plan=self._plan().grown(_pressed(need) if isinstance(self.dynamics, CellDynamics) else need)
        )

    def listed(self, state: Atoms) -> Lists:
        neighbours = self._listed(state)
        return Lists(neighbours, neighbours.need, jnp.ones((), jnp.int32))

    def relisted(self, state: Atoms, lists: Lists) -> Lists:
        neighbours = self._listed(state)
        # A state that blew up needs nothing: what it seems to need has no bound.
        sound = jnp.isfinite(state.position).all()
        need = jax.tree.map(
            lambda new, old: jnp.where(sound, new, old), widest(lists.need, neighbours.need), lists.need
        )
        return Lists(neighbours, need, lists.built + 1)

    def outdated(self, state: Atoms, lists: Lists) -> Bool[Array, ""]:
        return self._plan().stale(lists.neighbours, self.space_of(state), self._rows(state))

    def tally(self, lists: Lists) -> Tally:
        return Tally(lists.need, lists.built)

    def fits(self, lists: Lists | Tally) -> Bool[Array, ""]:
        return self._plan().fits(lists.need)

    @full_products
    def forces(self, state: Atoms, lists: Lists) -> Any:
        if isinstance(self.dynamics, RESPA):
            return self._forces_in_turn(self.dynamics, state, lists)
        if not isinstance(self.dynamics, CellDynamics):
            return self._forces_of(self.potential, state, lists)
        found = self.gradients_on(state, lists)
        # A cell without forces would shrink further and further.
        valid = jnp.where(self.fits(lists), 1.0, jnp.nan).astype(found.forces.dtype)
        return Pull(found.forces, valid * found.virial)

    def opened(self, h: Array, state: Atoms, force: PyTree) -> Any:
        return self.dynamics.opened(self.body(state), h, state, force)

    def moved(self, h: Array, carry: Atoms, key: Array) -> Any:
        body = self.body(carry)
        # Farther than forces reach in one step: a run that blew up, whose numbers might stay finite.
        # Each atom by itself: XLA:CPU does not vectorise a greatest number, which took a twenty-fifth of a step.
        lost = (jnp.abs(h * carry.momentum / body.mass) > (self._plan().cutoff or np.inf)).any()
        momentum = jnp.where(lost, jnp.nan, carry.momentum)
        return _kept(carry, self.dynamics.moved(body, h, eqx.tree_at(lambda a: a.momentum, carry, momentum), key))

    def restores(self, state: Atoms) -> bool:
        # In single precision differences of positions tell too little of momenta.
        return self.smooth and state.position.dtype == jnp.float64

    def stored(self, carry: Atoms) -> Any:
        return carry.position

    def restored(self, h: Array, stored: Array, after: Array, begun: Atoms) -> Any:
        """A drift was a straight line: momenta are those that it took from one position to the next."""
        still = h == 0
        momentum = self.masses(stored) * (after - stored) / jnp.where(still, 1.0, h)
        momentum = jnp.where(still, begun.momentum, momentum)
        return eqx.tree_at(lambda a: (a.position, a.momentum), begun, (stored, momentum))

    def kicked(self, h: Array, carry: Atoms, force: PyTree, key: Array) -> Any:
        return _kept(carry, self.dynamics.kicked(self.body(carry), h, carry, force, key))

    def closed(self, h: Array, carry: Atoms, force: PyTree) -> Any:
        return self.dynamics.closed(self.body(carry), h, carry, force)

    def complaint(self, state: Atoms, h: float, start: float) -> str:
        return describe(self.prepared(state), state, h, start)

    # ---- with neighbours listed ----

    def energy_on(self, atoms: Atoms, lists: Lists) -> Array:
        """The potential energy with the neighbours listed."""
        return energy(*self._known(atoms), lists.neighbours, self._plan(), **self._kinds())

    def gradients_on(self, atoms: Atoms, lists: Lists) -> Gradients:
        """Energy, forces and virial with the neighbours listed."""
        found = gradients(*self._known(atoms), lists.neighbours, self._plan(), **self._kinds())
        if self.sites is None:
            return found
        at = self.space_of(atoms), atoms.position, found.forces
        return Gradients(found.energy, self.sites.on_atoms(*at), found.virial + self.sites.virial_excess(*at))

    def own_pressure(self, atoms: Atoms) -> float:
        """The size of the pressure of the atoms: the larger of the virial's and the kinetic part."""
        volume = float(np.min(np.asarray(self.space_of(atoms).volume())))
        kinetic = float(np.sum(np.asarray(self._doubled_kinetic(self.body(atoms), atoms)))) / self.space.dimensions
        return max(float(np.abs(np.asarray(self.gradients(atoms).virial)).max()), kinetic) / volume

    # ---- inside ----

    def _plan(self) -> NeighbourPlan:
        if self.plan is None:
            raise ArgumentError(
                "The system must be prepared for its neighbours, but is not: `system = system.prepared(y0)`."
            )
        return self.plan

    def _listed(self, atoms: Atoms) -> Neighbours:
        return self._plan().build(self.space_of(atoms), self._rows(atoms), atoms.real)

    def space_of(self, atoms: Atoms) -> Space:
        """The space of the moment."""
        if atoms.cell is None:
            return self.space
        moves = isinstance(self.dynamics, CellDynamics) and not self.dynamics.skews
        if isinstance(self.space, Orthorhombic) and moves:
            return Orthorhombic(jnp.diagonal(atoms.cell))
        return Triclinic(atoms.cell)

    def _known(self, atoms: Atoms) -> tuple[Potential, Space, Array]:
        return self.potential, self.space_of(atoms), self._rows(atoms)

    def _rows(self, atoms: Atoms) -> Array:
        """Positions of the atoms, and of the sites after them."""
        return atoms.position if self.sites is None else self.sites.placed(self.space_of(atoms), atoms.position)

    def _kinds(self) -> dict[str, Any]:
        return {"species": self.species, "charge": self.charge}

    @property
    def _alone(self) -> bool:
        """Tell whether no field moves the centre of mass."""
        return not any(isinstance(part, ExternalField) for part in parts(self.potential))

    def _doubled_kinetic(self, body: Body, atoms: Atoms) -> Array:
        """Twice the kinetic energy; of each cell, where there are several."""
        if isinstance(self.space, Boxes):
            return doubled_kinetic_of_boxes(self.space, body, self.dynamics, atoms)
        return self.dynamics.doubled_kinetic(body, atoms)

    def body(self, atoms: Atoms) -> Body:
        """Degrees of freedom without those of the centre of mass where nothing moves it; with friction or a field all of them."""
        (count, d), real = atoms.position.shape, atoms.real
        if isinstance(self.space, Boxes):
            count = jnp.asarray(self.space.counts, atoms.position.dtype)
        count = count if real is None else jnp.sum(real.astype(atoms.position.dtype))
        free = (count - 1) * d if self.dynamics.conserves_momentum and self._alone else count * d
        unheld = free
        for held in self._held():
            free = free - (held.count if real is None else held_count(held, real).astype(atoms.position.dtype))
        mass, space = self.masses(atoms.position), self.space_of(atoms)
        return Body(mass, space, self._held(), self.units.boltzmann, free, unheld, real)

    def _forces_of(self, potential: Potential, state: Atoms, lists: Lists) -> Array:
        _, space, position = self._known(state)
        found = forces(potential, space, position, lists.neighbours, self._plan(), **self._kinds())
        return found if self.sites is None else self.sites.on_atoms(space, state.position, found)

    def _forces_in_turn(self, dynamics: RESPA, state: Atoms, lists: Lists) -> Array:
        """The fast forces, and at every n-th step n times the slow ones."""
        terms = parts(self.potential)
        slow = {k for k in dynamics.slow if 0 <= k < len(terms)}
        if len(slow) != len(dynamics.slow) or len(slow) == len(terms):
            raise ArgumentError(
                f"Argument `slow` must be places of some of the {len(terms)} terms of the potential, but it is {dynamics.slow}. "
                "Sum fast and slow potentials, such as `fast + slow`, and give `slow=(1,)`."
            )
        fast = Sum(tuple(term for k, term in enumerate(terms) if k not in slow))
        rare = Sum(tuple(terms[k] for k in sorted(slow)))
        found = self._forces_of(fast, state, lists)
        push = lambda: dynamics.steps * self._forces_of(rare, state, lists)
        return found + jax.lax.cond(state.thermostat.count == 0, push, lambda: jnp.zeros_like(found))

    def _held(self) -> tuple[Constraint, ...]:
        return constraints_of(self.constraints)


def _kept(before: Atoms, after: Atoms) -> Atoms:
    """Keep padding rows, which are no atoms, in place."""
    if before.real is None:
        return after
    real = before.real[:, None]
    still = jnp.where(real, after.position, before.position), jnp.where(real, after.momentum, 0)
    return eqx.tree_at(lambda a: (a.position, a.momentum), after, still)


PRESSED = 0.95
"""Lists are planned for lengths this much shorter where the cell moves."""


def _pressed(need: PyTree) -> Any:
    """The need of a cell that goes on to shrink as far again."""
    shorter = lambda x: np.asarray(x) * np.asarray(PRESSED, x.dtype)
    more = lambda x: np.ceil(np.asarray(x) / PRESSED**3).astype(x.dtype)
    return jax.tree.map(lambda x: shorter(x) if jnp.issubdtype(x.dtype, jnp.floating) else more(x), need)
