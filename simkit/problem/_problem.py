"""Problem: data, unknowns and noise compiled to arrays."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._errors import ArgumentError, check_known
from .._types import Inputs, State
from ..core import (
    ParticleSystem,
    Setup,
    Start,
    StaticSystem,
    Status,
    System,
    Trajectory,
    as_float_array,
    started,
)
from ..engine import Fixed, Method, Varying, integrate, resolve
from ..solvers import Stepper
from ._closed import ClosedForm, closed_forms
from ._compile import check_arguments, check_outputs, experiment_setup, longest_step, padded_data, padded_times, refined
from ._describe import describe_prior, describe_step
from ._experiment import Condition, Experiment, Observable
from ._free import Free, unknown
from ._individual import Individual, Population, population_of, separated
from ._lean import lean_problem
from ._measure import measured
from ._measurement import AbstractMeasurement
from ._noise import AbstractNoise
from ._prior import StoredPrior
from ._protocol import AbstractProtocol
from ._table import Table, condition_table, each_element, stack, targets

Heads = dict[str, tuple[Float[Array, "experiments times ..."], AbstractNoise]]
"""Output name -> the predicted location of every datum and the noise model there, its leaves of the same shape."""

FORWARD_LIMIT = 30
"""Up to this many free parameters forward mode costs less than reverse mode, and needs no memory of the steps."""

FORWARD_LIMIT_FIELDS = 4
"""The same for fixed steps of a field, where a tangent costs a run and reverse mode some four, whatever is free."""

FIELD = 200
"""From so many numbers on a state is a field."""


class Problem(eqx.Module):
    """Data, unknowns and noise of one inference, compiled to arrays when it is made.

    Experiments are lanes of one batched solve and conditions an index table, so new data of the same shape never trace
    again. All methods are pure functions of `theta`, the free parameters in natural units in the order of `names`.

    **Arguments:**

    - `system`: the system; a `StaticSystem` for plain regression.
    - `experiments`: one `Experiment` or several.
    - `free`: name -> `Free`. A name that is a path, such as `growth`, `y0.hare` or `noise.hare.scale`, binds everywhere; any
        other must be used by some `set`. An `Individual` in place of a `Free` differs from individual to individual.
    - `noise`: output name -> noise model.
    - `y0`, `inputs`: initial state and inputs of the experiments that bring none of their own.
    - `set`: path -> a number or the name of a free parameter, for all experiments; an experiment's own `set` goes first.
    - `observables`: name -> a pure function of (system, trajectory), beside the system's outputs.
    - `solver`, `step`: as in `simulate`. They belong to the problem, since they define the likelihood.
    - `protocol`: what happens in each experiment, an `AbstractProtocol`; by default one simulation from the initial state.
    - `measurement`: how data come from states, an `AbstractMeasurement`; by default data are outputs and observables.

    **Raises:** an `UnknownNameError` with close matches, a `DataError` or an `ArgumentError`, each naming the experiment.
    """

    base: Setup  # y0 and inputs stacked by experiment
    stored: tuple[
        StoredPrior | None, ...
    ]  # in the order of `names`: a dict would come back from a pytree sorted by key
    table: Table
    bounds: Float[Array, "parameters 2"]  # natural units
    times: Float[Array, "experiments rows ..."]  # the start (unless static) and the data times, padded with the last
    data: dict[str, Float[Array, "experiments times ..."]]
    errors: dict[str, Float[Array, "experiments times ..."]]
    starts: Float[Array, " parameters"]  # NaN where a start is drawn
    method: Method
    longest: Float[Array, ""]  # the fixed step, at most this long; infinite where the step adapts
    protocol: AbstractProtocol | None
    measurement: AbstractMeasurement | None
    population: Population | None
    names: tuple[str, ...] = eqx.field(static=True)
    log: tuple[bool, ...] = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    observables: tuple[tuple[str, Observable], ...] = eqx.field(static=True)
    closed: tuple[ClosedForm, ...] = eqx.field(static=True)  # what a fit can solve in closed form
    lengths: tuple[int, ...] = eqx.field(static=True)  # data times by experiment, where they differ and observables ask

    def __init__(
        self,
        system: System,
        experiments: Experiment | Sequence[Experiment],
        *,
        free: Mapping[str, Free | Individual],
        noise: Mapping[str, AbstractNoise],
        y0: State = None,
        inputs: Inputs = None,
        set: Condition | None = None,
        observables: Mapping[str, Observable] | None = None,
        solver: Stepper | None = None,
        step: float | Varying | Fixed | None = None,
        protocol: AbstractProtocol | None = None,
        measurement: AbstractMeasurement | None = None,
    ):
        self.protocol, self.measurement = protocol, measurement
        experiments = [experiments] if isinstance(experiments, Experiment) else list(experiments)
        check_arguments(system, experiments, noise)
        static = isinstance(system, StaticSystem)
        setups = [experiment_setup(system, e, y0, inputs, noise, static) for e in experiments]
        if isinstance(system, ParticleSystem):
            system = system.prepared(started(setups[0].y0))
        self.labels = tuple(e.name for e in experiments)
        sets = [{**(set or {}), **e.set} for e in experiments]
        free, individuals = separated(each_element(setups[0], free))
        target = targets(setups[0], free, sets, [f"experiment `{name}`" for name in self.labels])
        metadata = {name: setups[0].metadata(target[name]) for name in free}
        found = [unknown(name, f, metadata[name].support) for name, f in free.items()]
        self.population, added = population_of(individuals, found, metadata, experiments)
        found += added
        self.names = tuple(u.name for u in found)
        self.log = tuple(u.log for u in found)
        self.stored = tuple(None if u.prior is None else StoredPrior.of(u.prior) for u in found)
        self.bounds = as_float_array(np.array([[u.lower, u.upper] for u in found]).reshape(-1, 2))
        self.starts = as_float_array(np.array([np.nan if u.start is None else u.start for u in found]))
        self.base = Setup(
            system,
            stack([s.y0 for s in setups], "initial states", experiments),
            stack([s.inputs for s in setups], "inputs", experiments),
            setups[0].noise,
        )
        table = condition_table(setups, experiments, tuple(free), sets)
        self.table = table if self.population is None else self.population.redirected(table)
        self.times = as_float_array(padded_times(experiments, static))
        self.data, self.errors = padded_data(experiments, self.times.shape[1] - (not static))
        self.observables = tuple((observables or {}).items())
        lengths = tuple(e.times.shape[0] for e in experiments)
        self.lengths = lengths if observables and min(lengths) < max(lengths) else ()
        longest = int(np.argmax([e.times.shape[0] for e in experiments]))
        self.method = resolve(
            system,
            setups[longest].y0,
            self._solve_times(longest, step, static),
            solver=solver,
            step=step,
            inputs=setups[longest].inputs,
        )
        self.longest = as_float_array(longest_step(self.method, np.asarray(self.times), static))
        self.closed = closed_forms(self)
        if measurement is None:  # which would be traced with all of a solve; `heads` checks it
            check_outputs(self)

    # ---- predictions ----

    def setup(self, theta: Float[Array, " parameters"], experiment: int | str = 0) -> Setup:
        """System, initial state, inputs and noise of one experiment at `theta`."""
        index = self._index(experiment)
        return self._base(index).put({path: values[index] for path, values in self._values(theta).items()})

    def _base(self, index: int) -> Setup:
        row = lambda tree: jax.tree.map(lambda x: x[index], tree)
        return Setup(self.base.system, row(self.base.y0), row(self.base.inputs), self.base.noise)

    def trajectories(self, theta: Float[Array, " parameters"]) -> Trajectory:
        """The trajectories of all experiments at their start and the times of the data, with a leading experiment axis."""
        return self._solve(theta)[1]

    def heads(self, theta: Float[Array, " parameters"]) -> tuple[Heads, Int[Array, " experiments"]]:
        """For every output with data the location and the noise model of every datum, and one status an experiment."""
        setups, trajectories = self._solve(theta)
        heads = self.compare(setups, trajectories)
        return heads, trajectories.status

    def compare(self, setups: Setup, trajectories: Trajectory) -> Heads:
        """For every output with data the location and the noise model of every datum, of a simulation at hand."""
        located, scales = self._located(setups, trajectories)
        spread = eqx.filter_vmap(lambda leaf, x: jnp.broadcast_to(leaf, x.shape))
        heads: Heads = {}
        for name in self.data:
            check_known(name, located, "measured quantity")
            location = located[name]
            noise = jax.tree.map(lambda leaf, x=location: spread(leaf, x), setups.noise[name])
            if name in scales:
                noise = eqx.tree_at(lambda n: n.scale, noise, noise.scale * scales[name])
            if name in self.errors:
                noise = eqx.tree_at(lambda n: n.scale, noise, noise.scale * self.errors[name])
            heads[name] = location, noise
        return heads

    def predict(self, theta: Float[Array, " parameters"], times: Any = None) -> dict[str, Array]:
        """Output name -> predicted values by experiment at `times`, by default at the times of the data.

        NaN from the time of a failure on.
        """
        asked = self if times is None else self.at(times)
        return asked._located(*asked._solve(theta), hold=False)[0]

    # ---- log densities ----

    def misfit(self, heads: Heads) -> Float[Array, ""]:
        """The negative log likelihood of all data that are not missing."""
        total = jnp.zeros((), self.times.dtype)
        for name, (location, noise) in heads.items():
            seen = jnp.isfinite(self.data[name])
            logp = noise.log_prob(jnp.where(seen, self.data[name], 1), jnp.where(seen, location, 1))
            total = total - jnp.sum(jnp.where(seen, logp, 0))
        return total

    def log_likelihood(self, theta: Float[Array, " parameters"]) -> tuple[Float[Array, ""], Int[Array, " experiments"]]:
        """The log likelihood and one status an experiment; minus infinity where a simulation failed, never NaN."""
        heads, status = self.heads(theta)
        value = -self.misfit(heads)
        return jnp.where(jnp.all(status == Status.OK) & jnp.isfinite(value), value, -jnp.inf), status

    def log_prior(self, theta: Float[Array, " parameters"]) -> Float[Array, ""]:
        """The log prior density; a parameter without a prior adds nothing."""
        count = len(self.names) if self.population is None else self.population.shared
        total = jnp.sum(-0.5 * theta[count:] ** 2 - 0.5 * math.log(2 * math.pi))
        for prior, x in zip(self.priors[:count], theta[:count], strict=True):
            total = total if prior is None else total + jnp.asarray(prior.log_prob(x), theta.dtype)
        return total

    def log_posterior(self, theta: Float[Array, " parameters"]) -> Float[Array, ""]:
        """Log likelihood plus log prior, up to a constant."""
        return self.log_likelihood(theta)[0] + self.log_prior(theta)

    # ---- coordinates of a fit ----

    def natural(self, z: Float[Array, "*batch parameters"]) -> Float[Array, "*batch parameters"]:
        """Fit coordinates -> natural units: the exponential where a parameter moves by its logarithm."""
        log = np.broadcast_to(np.array(self.log, bool), z.shape)
        return jnp.where(log, jnp.exp(jnp.where(log, z, 0)), z)

    def coordinates(self, theta: Float[Array, "*batch parameters"]) -> Float[Array, "*batch parameters"]:
        """Natural units -> fit coordinates."""
        log = np.broadcast_to(np.array(self.log, bool), theta.shape)
        return jnp.where(log, jnp.log(jnp.where(log, theta, 1)), theta)

    def coordinate_bounds(self) -> Float[Array, "parameters 2"]:
        """The bounds in the coordinates of a fit."""
        return self.coordinates(self.bounds.T).T

    # ---- variants ----

    def lean(self) -> "Problem":
        """The problem as compiled code takes it: without words, and with rows filled up to a length that others share.

        Every verb passes it on in place of the problem itself, so that data of another length, or an experiment of another
        name, compile nothing. Its log densities are those of the problem; its rows are not for showing.
        """
        return lean_problem(self)

    def until(self, fraction: Float[Array, ""] | float) -> "Problem":
        """The same problem, blind to data after `fraction` of each experiment's span.

        The shapes stay, so nothing is traced again. A static problem is returned whole.
        """
        if isinstance(self.base.system, StaticSystem):
            return self
        first, last = self.times[:, :1], self.times[:, -1:]
        seen = self.times[:, 1:] <= first + fraction * (last - first) * (1 + 1e-6)

        def hide(values: Array) -> Array:
            return jnp.where(seen.reshape(seen.shape + (1,) * (values.ndim - 2)), values, jnp.nan)

        return eqx.tree_at(lambda p: p.data, self, {name: hide(values) for name, values in self.data.items()})

    def at(self, times: Any) -> "Problem":
        """The same problem asked at other times, without data: for predictions.

        **Arguments:** `times`, shape `(times,)` for all experiments or `(experiments, times)`; not before an experiment's start,
        and known while tracing where steps are fixed.
        """
        # Where all is known in NumPy, since JAX would compile a program of its own for every number of times.
        numpy: Any = jnp if _traced(self.times, *jax.tree.leaves(times)) else np
        wanted = numpy.asarray(times, self.times.dtype)
        static = isinstance(self.base.system, StaticSystem)
        if wanted.ndim == self.times.ndim - 1:
            wanted = numpy.broadcast_to(wanted, (len(self.labels), *wanted.shape))
        first = self.times[:, :1] if numpy is jnp else np.asarray(self.times)[:, :1]
        rows = wanted if static else numpy.concatenate([first, wanted], axis=1)
        count = wanted.shape[1]
        empty = lambda x: jnp.asarray(np.full((x.shape[0], count, *x.shape[2:]), np.nan, x.dtype), x.dtype)
        data = {name: empty(x) for name, x in self.data.items()}
        method = self.method if static else refined(self.method, rows, self.longest, self.labels)
        asked = eqx.tree_at(
            lambda p: (p.times, p.data, p.errors, p.method, p.measurement),
            self,
            (
                jnp.asarray(rows, self.times.dtype),
                data,
                {},
                method,
                None if self.measurement is None else self.measurement.at(count),
            ),
            is_leaf=lambda node: node is None,
        )
        object.__setattr__(asked, "lengths", ())  # static, which `equinox.tree_at` does not replace
        return asked

    def with_data(self, data: Mapping[str, Any]) -> "Problem":
        """The same problem with other data of the same shape, by output name; what is missing stays missing."""
        for name in data:
            check_known(name, self.data, "output with data")
        new = {
            name: jnp.where(jnp.isfinite(old), jnp.asarray(data.get(name, old), old.dtype), old)
            for name, old in self.data.items()
        }
        return eqx.tree_at(lambda p: p.data, self, new)

    def simulate_data(self, theta: Float[Array, " parameters"], key: PRNGKeyArray) -> dict[str, Array]:
        """Random data at `theta`, in the shape of the problem's own: what `with_data` takes."""
        heads, _ = self.heads(theta)
        keys = jax.random.split(key, len(heads))
        return {
            name: noise.sample(k, location) for k, (name, (location, noise)) in zip(keys, heads.items(), strict=True)
        }

    # ---- description ----

    @property
    def data_count(self) -> int:
        """How many data are not missing."""
        return int(sum(np.isfinite(np.asarray(values)).sum() for values in self.data.values()))

    @property
    def priors(self) -> tuple[dist.Distribution | None, ...]:
        """The priors of the free parameters, in the order of `names`; None for a flat one."""
        return tuple(None if prior is None else prior.distribution() for prior in self.stored)

    @property
    def default_gradient(self) -> Literal["forward", "reverse"]:
        """Forward mode for few parameters, else reverse mode; for a population reverse mode, since deviations are many."""
        if self.population is not None:
            return "reverse"
        field = (
            isinstance(self.method.step, Fixed)
            and sum(math.prod(x.shape[1:]) for x in jax.tree.leaves(self._y0())) >= FIELD
        )
        return "forward" if len(self.names) <= (FORWARD_LIMIT_FIELDS if field else FORWARD_LIMIT) else "reverse"

    def _y0(self) -> Any:
        return jax.eval_shape(jax.vmap(started), self.base.y0) if isinstance(self.base.y0, Start) else self.base.y0

    def unit(self, name: str) -> str:
        """The unit of a free parameter."""
        own = None if self.population is None else self.population.unit(self.names.index(name))
        if own is not None:
            return own
        return self._base(0).metadata(self.target(name)).unit

    def target(self, name: str) -> str:
        """The path that a free parameter stands for: its own, or the first that some `set` gives it."""
        position = self.names.index(name)
        position = position if self.population is None else self.population.place(position)
        for path, (index, _) in self.table.items():
            if path == name or bool(np.any(np.asarray(index) == position)):
                return path
        raise AssertionError(name)

    def __repr__(self) -> str:
        if not isinstance(self.times, jax.Array) or _traced(self.times):
            return f"Problem(traced, parameters {self.names})"
        system = type(self.base.system).__name__
        lines = [
            f"Problem: {system}, {len(self.labels)} experiment(s), {self.data_count} data, {len(self.names)} unknowns"
        ]
        solver = "none" if self.method.solver is None else type(self.method.solver).__name__
        lines.append(f"  solver  {solver} ({self.method.reason}), {describe_step(self.method)}")
        for name, log, (lower, upper), prior in zip(
            self.names, self.log, np.asarray(self.bounds), self.priors, strict=True
        ):
            text = describe_prior(prior)
            lines.append(
                f"  {name:<20} prior {text}, in ({lower:g}, {upper:g}), moves {'by its logarithm' if log else 'linearly'}"
            )
        return "\n".join(lines)

    # ---- inside ----

    def _values(self, theta: Float[Array, " parameters"]) -> dict[str, Array]:
        if jnp.shape(theta) != (len(self.names),):
            raise ArgumentError(
                f"Argument `theta` must hold the {len(self.names)} free parameters {self.names}, but its shape is "
                f"{jnp.shape(theta)}."
            )

        def pick(index: Array, constant: Array) -> Array:
            if not self.names or constant.ndim > 1:
                return constant
            return jnp.where(index >= 0, theta[index].astype(constant.dtype), constant)

        theta = theta if self.population is None else self.population.extended(theta)
        return {path: pick(*row) for path, row in self.table.items()}

    def _solve(self, theta: Array) -> tuple[Setup, Trajectory]:
        """Setups and trajectories of all experiments, with a leading experiment axis."""

        def one(y0: Any, inputs: Any, times: Array, values: dict[str, Array]) -> tuple[Setup, Trajectory]:
            setup = Setup(self.base.system, y0, inputs, self.base.noise).put(values)
            setup = Setup(setup.system, started(setup.y0), setup.inputs, setup.noise)
            if self.protocol is not None:
                return self.protocol.run(setup, times, self.method)
            return setup, integrate(Setup(setup.system, setup.y0, setup.inputs), times, self.method)

        return eqx.filter_vmap(one)(self.base.y0, self.base.inputs, self.times, self._values(theta))

    def _located(
        self, setups: Setup, trajectories: Trajectory, hold: bool = True
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """What is measured by experiment, and the relative scales of its scatter; with `hold` no NaN of a failure gets here."""
        if self.measurement is not None:
            return self.measurement.locate(setups, trajectories, hold=hold)
        located = measured(setups, trajectories, self.observables, self.lengths, hold=hold)
        return {name: value for name, value in located.items() if name in self.data or not hold}, {}

    def _index(self, experiment: int | str) -> int:
        if isinstance(experiment, int):
            return experiment
        check_known(experiment, self.labels, "experiment")
        return self.labels.index(experiment)

    def _solve_times(self, longest: int, step: Any, static: bool) -> Any:
        """Times for choosing solver and step: of the experiment with most data; all windows where the step is fixed."""
        rows = np.asarray(self.times)
        if static or step is None or not isinstance(step, int | float | np.number):
            return rows[longest]
        windows = np.diff(rows, axis=1).max(axis=0)
        return np.concatenate([[0.0], np.cumsum(windows)]) + rows[longest, 0]


def _traced(*values: Any) -> bool:
    return any(isinstance(value, Tracer) for value in values)
