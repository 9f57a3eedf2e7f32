"""PEtab's observation model: formulas of states, parameters and numbers that belong to a single row."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..core import Setup, Status, Trajectory
from ..networks import TIME, Formulas
from ..problem import AbstractMeasurement, ClosedForm


@dataclasses.dataclass(frozen=True)
class Head:
    """The formulas of one observable: nodes of location and scale, the names that its rows give values to, and a factor of the
    scale (that between decadic and natural logarithms)."""

    name: str
    location: int
    scale: int
    overrides: tuple[str, ...]
    factor: float


class TableMeasurement(AbstractMeasurement):
    """Observables of a PEtab problem.

    - `heads`: the observables; `formulas` the graph of their formulas; `parameters` the names that rows may refer to.
    - `closed`: what a fit can solve in closed form.
    - `index`, `constants`: by observable, what its rows say: the place of a name in `parameters`, or -1 and a number.
    """

    index: dict[str, Int[Array, "experiments rows overrides"]]
    constants: dict[str, Float[Array, "experiments rows overrides"]]
    heads: tuple[Head, ...] = eqx.field(static=True)
    formulas: Formulas = eqx.field(static=True)
    parameters: tuple[str, ...] = eqx.field(static=True)
    closed: tuple[ClosedForm, ...] = eqx.field(static=True)

    @property
    def closed_forms(self) -> tuple[ClosedForm, ...]:
        return self.closed

    def locate(
        self, setups: Setup, trajectories: Trajectory, *, hold: bool
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        ok = (trajectories.status == Status.OK)[:, None]
        held = lambda y: jnp.where(ok, y[:, 1:], 1) if hold else y[:, 1:]
        states = {name: held(y) for name, y in trajectories.ys.items()}
        known = {name: value[:, None] for name, value in setups.system.parameters.items()}
        rows = trajectories.times[:, 1:]
        vector = jnp.concatenate([known[name] for name in self.parameters], axis=1) if self.parameters else None

        def lookup(name: str) -> Any:
            if name == TIME:
                return rows
            return own[name] if name in own else states[name] if name in states else known[name]

        own: dict[str, Array] = {}
        for head in self.heads:
            own.update(self._of_rows(head, vector))
        nodes = [node for head in self.heads for node in (head.location, head.scale)]
        found = iter(self.formulas.evaluate(nodes, lookup))
        locations, scales = {}, {}
        for head in self.heads:
            spread = lambda x: jnp.broadcast_to(jnp.asarray(x, rows.dtype), rows.shape)
            locations[head.name] = spread(next(found))
            scales[head.name] = head.factor * spread(next(found))
        return locations, scales

    def _of_rows(self, head: Head, vector: Array | None) -> dict[str, Array]:
        """The values of what the rows of an observable give, by name."""
        if not head.overrides:
            return {}
        index, constants = self.index[head.name], self.constants[head.name]
        if vector is not None:
            picked = jnp.take_along_axis(vector, jnp.maximum(index, 0).reshape(index.shape[0], -1), axis=1)
            constants = jnp.where(index >= 0, picked.reshape(index.shape), constants)
        return {name: constants[..., i] for i, name in enumerate(head.overrides)}

    def filled(self, more: int) -> "TableMeasurement":
        return self._with_rows(lambda x: jnp.asarray(np.pad(np.asarray(x), [(0, 0), (0, more), (0, 0)], mode="edge")))

    def at(self, count: int) -> "TableMeasurement":
        return self._with_rows(lambda x: jnp.repeat(x[:, :1], count, axis=1))

    def _with_rows(self, change: Callable[[Array], Array]) -> "TableMeasurement":
        changed = lambda values: {name: change(x) for name, x in values.items()}
        return TableMeasurement(
            changed(self.index), changed(self.constants), self.heads, self.formulas, self.parameters, self.closed
        )


def rows_of(
    given: Mapping[tuple[int, int], tuple[str | float, ...]],
    shape: tuple[int, int, int],
    places: Mapping[str, int],
) -> tuple[np.ndarray, np.ndarray]:
    """Index and constants of an observable's rows; a row without a datum has those of a neighbour, for predictions."""
    index, constants = np.full(shape, -2), np.ones(shape)
    for (experiment, row), values in given.items():
        for i, value in enumerate(values):
            named = isinstance(value, str)
            index[experiment, row, i] = places[value] if named else -1
            constants[experiment, row, i] = 1.0 if named else value
    seen = np.argwhere((index != -2).all(axis=2)) if shape[2] else np.zeros((0, 2), int)
    for experiment, row in np.argwhere((index == -2).any(axis=2)):
        distance = np.abs(seen[:, 1] - row) + (seen[:, 0] != experiment) * shape[1]
        near = tuple(seen[np.argmin(distance)])
        index[experiment, row], constants[experiment, row] = index[near], constants[near]
    return index, constants
