"""Forward model of a problem: from free parameters to trajectories, and to the distribution of every datum."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._errors import ArgumentError, check_known
from .._types import Inputs, State
from ..core import RandomSystem, Setup, Start, Trajectory, started
from ..engine import Fixed, Method, Options, integrate
from ._condition_table import Table
from ._dataset import Dataset
from ._derived import Derived
from ._experiment import Observable
from ._individual import Population
from ._measure import measured
from ._measurement import AbstractMeasurement
from ._noise import AbstractNoise, multiplied
from ._protocol import AbstractProtocol
from ._unknowns import Block, names_of, size_of

Heads = dict[str, tuple[Float[Array, "experiments times ..."], AbstractNoise]]
"""Output name -> the predicted location of every datum and the noise model there, its leaves of the same shape."""

MOST_NAMED = 20
"""A message names so many unknowns at most."""

FIELD = 200
"""Number of elements from which on a state counts as a field."""


class ForwardModel(eqx.Module):
    """The experiments of a problem as functions of its free parameters.

    - `base`: system and noise models, and initial states and inputs with a leading experiment axis.
    - `table`: path -> which free parameter, or which constant, stands there in each experiment.
    - `method`: solver and step; `longest`: the fixed step, at most this long; infinite where the step adapts.
    - `protocol`, `measurement`, `observables`: as arguments of `Problem`.
    - `population`: how parameters of individuals follow from the free ones; `derived`: other numbers that do.
    """

    base: Setup
    table: Table
    method: Method
    longest: Float[Array, ""]
    protocol: AbstractProtocol | None
    measurement: AbstractMeasurement | None
    population: Population | None
    blocks: tuple[Block, ...] = eqx.field(static=True)
    observables: tuple[tuple[str, Observable], ...] = eqx.field(static=True)
    derived: Derived | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the free parameters."""
        return names_of(self.blocks)

    def values(self, theta: Float[Array, " parameters"]) -> dict[str, Array]:
        """Path -> value in each experiment."""
        size = size_of(self.blocks)
        if jnp.shape(theta) != (size,):
            named = ", ".join(block.name for block in self.blocks[:MOST_NAMED]) + ", ..." * (
                len(self.blocks) > MOST_NAMED
            )
            raise ArgumentError(
                f"Argument `theta` must hold the {size} free parameters ({named}), but its shape is {jnp.shape(theta)}."
            )

        def pick(index: Array, constant: Array) -> Array:
            count = math.prod(constant.shape[1:])
            if not size or count > theta.size:
                return constant
            if constant.ndim == 1:
                index = index if self.derived is None else self.derived.places(index, size)
                return jnp.where(index >= 0, theta[index].astype(constant.dtype), constant)
            own = jax.vmap(lambda first: jax.lax.dynamic_slice_in_dim(theta, jnp.maximum(first, 0), count))(index)
            known = jnp.expand_dims(index >= 0, tuple(range(1, constant.ndim)))
            return jnp.where(known, own.reshape(constant.shape).astype(constant.dtype), constant)

        theta = theta if self.population is None else self.population.extended(theta)
        theta = theta if self.derived is None else self.derived.extended(theta, self.blocks)
        return {path: pick(*row) for path, row in self.table.items()}

    def base_setup(self, index: int | Int[Array, ""]) -> Setup:
        """System, initial state, inputs and noise of one experiment as they were given."""
        row = lambda tree: jax.tree.map(lambda x: x[index], tree)
        base = self.base
        return Setup(base.system, row(base.y0), row(base.inputs), base.noise, row_of(base.events, index))

    def setup(self, theta: Float[Array, " parameters"], index: int | Int[Array, ""]) -> Setup:
        """System, initial state, inputs and noise of one experiment at `theta`."""
        return self.base_setup(index).put({path: values[index] for path, values in self.values(theta).items()})

    def setups(self, theta: Float[Array, " parameters"]) -> Setup:
        """The setups of all experiments at `theta`, with a leading experiment axis; nothing is simulated."""

        def one(y0: State, inputs: Inputs, events: Any, values: dict[str, Array]) -> Setup:
            setup = Setup(self.base.system, y0, inputs, self.base.noise, events).put(values)
            return Setup(setup.system, started(setup.y0), setup.inputs, setup.noise)

        return eqx.filter_vmap(one)(self.base.y0, self.base.inputs, self.base.events, self.values(theta))

    def solve(
        self, theta: Float[Array, " parameters"], times: Array, options: Options = Options()
    ) -> tuple[Setup, Trajectory]:
        """Setups and trajectories of all experiments, with a leading experiment axis."""
        if isinstance(self.base.system, RandomSystem):
            raise ArgumentError(
                f"A problem with the random system `{type(self.base.system).__name__}` has no trajectories of its own, since "
                "they are random: its likelihood is computed without them. Take `simulate` with a `key`."
            )

        def one(
            y0: State, inputs: Inputs, events: Any, times: Array, values: dict[str, Array]
        ) -> tuple[Setup, Trajectory]:
            put = Setup(self.base.system, y0, inputs, self.base.noise, events).put(values)
            setup = Setup(put.system, started(put.y0), put.inputs, put.noise)
            if self.protocol is not None:
                return self.protocol.run(setup, times, self.method)
            alone = Setup(setup.system, setup.y0, setup.inputs, None, put.events)
            return setup, integrate(alone, times, self.method, options=options)

        base = self.base
        return eqx.filter_vmap(one)(base.y0, base.inputs, base.events, times, self.values(theta))

    def located(
        self, setups: Setup, trajectories: Trajectory, data: Dataset, hold: bool = True
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the predictions by experiment, and the relative scales of their scatter; `hold` keeps NaN of failures out."""
        if self.measurement is not None:
            return self.measurement.locate(setups, trajectories, hold=hold)
        located = measured(setups, trajectories, self.observables, data.lengths, hold=hold)
        return {name: value for name, value in located.items() if name in data.values or not hold}, {}

    def compare(self, setups: Setup, trajectories: Trajectory, data: Dataset) -> Heads:
        """Return for every output with data the location and the noise model of every datum, of a given simulation."""
        located, scales = self.located(setups, trajectories, data)
        spread = eqx.filter_vmap(lambda leaf, x: jnp.broadcast_to(leaf, x.shape))
        heads: Heads = {}
        for name in data.values:
            check_known(name, located, "measured quantity")
            check_known(name, setups.noise, "noise model for the output")
            location = located[name]
            noise = jax.tree.map(lambda leaf, x=location: spread(leaf, x), setups.noise[name])
            if name in scales:
                noise = eqx.tree_at(lambda n: n.scale, noise, noise.scale * scales[name])
            if name in data.errors:
                noise = multiplied(noise, data.errors[name])
            heads[name] = location, noise
        return heads

    def heads(
        self, theta: Float[Array, " parameters"], data: Dataset, options: Options = Options()
    ) -> tuple[Heads, Int[Array, " experiments"]]:
        """Return for every output with data the location and the noise model of every datum, and one status an experiment."""
        setups, trajectories = self.solve(theta, data.times, options)
        heads = self.compare(setups, trajectories, data)
        return heads, trajectories.status

    def start_shapes(self) -> Any:
        """The initial states, or their shapes where other numbers make them."""
        return jax.eval_shape(jax.vmap(started), self.base.y0) if isinstance(self.base.y0, Start) else self.base.y0

    @property
    def is_field(self) -> bool:
        """Tell whether states have so many elements, and steps are fixed, that a tangent costs a run."""
        count = lambda: sum(math.prod(x.shape[1:]) for x in jax.tree.leaves(self.start_shapes()))
        return isinstance(self.method.step, Fixed) and count() >= FIELD

    def unit(self, position: int, name: str) -> str:
        """The unit of a free parameter."""
        own = None if self.population is None else self.population.unit(position)
        if own is not None:
            return own
        path = self.target(position, name)
        return "" if path not in self.table else self.base_setup(0).metadata(path).unit

    def target(self, position: int, name: str) -> str:
        """The path that a free parameter stands for: its own, or the first that some `set` gives it; else its name alone."""
        place = position if self.population is None else self.population.place(position)
        for path, (index, constant) in self.table.items():
            first, count = np.asarray(index), math.prod(constant.shape[1:])
            if path == name or bool(np.any((first >= 0) & (first <= place) & (place < first + count))):
                return path
        return name

    def units(self) -> tuple[str, ...]:
        """The units of all free parameters; those of an array are one."""
        found: list[str] = []
        for block in self.blocks:
            found += [self.unit(block.offset, block.name)] * block.size
        return tuple(found)


def row_of(events: Any, index: Any) -> Any:
    """The events of one experiment, from those of all with a leading axis."""
    return jax.tree.map(lambda x: x[index] if eqx.is_array(x) else x, events)
