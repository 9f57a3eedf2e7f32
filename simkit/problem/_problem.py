"""Problem: data, unknowns and likelihood compiled to arrays."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import (
    REAL,
    ParticleSystem,
    Setup,
    StaticSystem,
    Status,
    StochasticSystem,
    System,
    Trajectory,
    as_float_array,
    started,
    traced,
)
from ..engine import Fixed, Method, Varying, resolve
from ..solvers import SolverLike
from ._choose_likelihood import likelihood_for
from ._closed_form import ClosedForm
from ._closed_search import closed_forms
from ._compile import asked_times, check_arguments, check_outputs, longest_step, refined, solve_times
from ._condition_table import Table, condition_table, each_element, shapes_of, targets
from ._dataset import Dataset, covariates_of, padded_data, padded_times
from ._dependence import GaussianCopula, joints_of
from ._derived import Function, derived_of
from ._describe import describe_problem
from ._experiment import Condition, Experiment, Observable
from ._field_prior import AbstractFieldPrior
from ._forward import ForwardModel, Heads
from ._free import Free, unknown
from ._individual import Individual, Population, population_of, separated
from ._kinds import as_experiments, check_kinds
from ._lean import lean_parts
from ._likelihood import AbstractLikelihood, misfit, or_failed
from ._measurement import AbstractMeasurement
from ._noise import AbstractNoise
from ._occasions import with_occasions
from ._protocol import AbstractProtocol
from ._setups import check_events, experiment_setups, stacked_setups
from ._state_sizes import settled
from ._unknowns import Unknowns, blocks_of

FORWARD_LIMIT = 30
"""Up to this many free parameters forward mode costs less than reverse mode, and needs no memory of the steps."""

FORWARD_LIMIT_FIELDS = 4
"""The same for fixed steps of a field, where a tangent costs a run and reverse mode some four, whatever is free."""


class Problem(eqx.Module):
    """Data, unknowns and likelihood of one inference, compiled to arrays when it is made.

    Experiments are lanes of one batched solve and conditions an index table, so new data of the same shape never trace
    again. All methods are pure functions of `theta`, the free parameters in natural units in the order of `names`.

    **Arguments:**

    - `system`: the system; a `StaticSystem` for plain regression.
    - `experiments`: one `Experiment` or several.
    - `free`: name -> `Free`. A name that is a path, such as `growth`, `y0.hare` or `noise.hare.scale`, binds everywhere; any
        other must be used by some `set`. An `Individual` in place of a `Free` differs from individual to individual.
    - `noise`: output name -> noise model.
    - `y0`, `inputs`, `events`: initial state, inputs and events of the experiments that bring none of their own.
    - `set`: path -> a number or the name of a free parameter, for all experiments; an experiment's own `set` goes first.
    - `observables`: name -> a pure function of (system, trajectory), beside the system's outputs.
    - `solver`, `step`: as in `simulate`. They belong to the problem, since they define the likelihood.
    - `protocol`: what happens in each experiment, an `AbstractProtocol`; by default one simulation from the initial state.
    - `measurement`: how data come from states, an `AbstractMeasurement`; by default data are outputs and observables.
    - `derived`: name -> a function of a mapping of the free parameters, whose number stands where a free parameter could.
    - `dependence`: a `GaussianCopula` or several, where the priors of some unknowns are correlated.
    - `likelihood`: the density of the data, an `AbstractLikelihood`; by default each datum scatters for itself, as its noise model
        says, around one deterministic simulation.

    **Raises:** an `UnknownNameError` with close matches, a `DataError` or an `ArgumentError`, each naming the experiment.
    """

    unknowns: Unknowns
    model: ForwardModel
    dataset: Dataset
    likelihood: AbstractLikelihood
    closed: tuple[ClosedForm, ...] = eqx.field(static=True)  # what a fit can solve in closed form

    def __init__(
        self,
        system: System,
        experiments: Experiment | Sequence[Experiment],
        *,
        free: Mapping[str, Free | Individual],
        noise: Mapping[str, AbstractNoise] | None = None,
        y0: State = None,
        inputs: Inputs = None,
        events: Any = None,
        set: Condition | None = None,
        observables: Mapping[str, Observable] | None = None,
        solver: SolverLike | None = None,
        step: float | Varying | Fixed | None = None,
        protocol: AbstractProtocol | None = None,
        measurement: AbstractMeasurement | None = None,
        likelihood: AbstractLikelihood | None = None,
        dependence: GaussianCopula | Sequence[GaussianCopula] | None = None,
        derived: Mapping[str, Function] | None = None,
    ):
        noise = {} if noise is None else noise
        named = {"free": free, "noise": noise, "set": set, "observables": observables, "protocol": protocol}
        check_kinds(system, experiments, named | {"measurement": measurement, "likelihood": likelihood})
        experiments = as_experiments(experiments)
        likelihood = likelihood_for(system, noise, experiments, likelihood)
        check_arguments(system, experiments, noise, free, likelihood)
        static = isinstance(system, StaticSystem)
        plain = protocol is None and measurement is None and likelihood.independent
        setups = experiment_setups(system, experiments, y0, inputs, events, noise, plain)
        if isinstance(system, ParticleSystem):
            system = system.prepared(started(setups[0].y0))
        labels = tuple(e.name for e in experiments)
        sets = [{**(set or {}), **e.set} for e in experiments]
        free, individuals = separated(each_element(setups[0], free))
        if individuals and not likelihood.sequential:
            raise ArgumentError(
                f"An `Individual` needs the distribution of each datum given those before it, which "
                f"`{type(likelihood).__name__}` does not state: write one `Free` for each individual."
            )
        shapes = shapes_of(setups[0], free)
        following = derived_of(derived, shapes, bool(individuals))
        target = targets(setups[0], free, sets, [f"experiment `{name}`" for name in labels], following)
        metadata = {name: setups[0].metadata(path) for name, path in target.items()}
        supports = dict.fromkeys(free, REAL) | {name: found.support for name, found in metadata.items()}
        found = [unknown(name, f, supports[name], shapes[name]) for name, f in free.items()]
        population, added = population_of(individuals, found, metadata, experiments)
        blocks = blocks_of(found)
        table = condition_table(setups, experiments, blocks, sets, following)
        joints = joints_of(dependence, found, blocks, population is not None)
        found += added
        plain_data = plain and not observables
        system, setups, table = with_occasions(system, setups, experiments, population, table, plain_data)
        self.unknowns = Unknowns.of(found, None if population is None else population.shared, joints)
        base = stacked_setups(system, setups, experiments)
        times = as_float_array(padded_times(experiments, static))
        lengths = tuple(e.times.shape[0] for e in experiments)
        values, errors, limits = padded_data(experiments, times.shape[1] - (not static))
        asked = lengths if observables and min(lengths) < max(lengths) else ()
        self.dataset = Dataset(times, values, errors, labels, asked, limits, covariates_of(experiments))
        longest = int(np.argmax(lengths))
        if isinstance(system, StochasticSystem) and solver is None and step is None:
            method = Method(None, Fixed(), "left to the likelihood")
        else:
            rows = solve_times(np.asarray(times), longest, step, static)
            start, driven = setups[longest].y0, setups[longest].inputs
            method = resolve(system, start, rows, solver=solver, step=step, inputs=driven)
        check_events(setups[0], protocol is not None)
        model = ForwardModel(
            base,
            table,
            method,
            as_float_array(longest_step(method, np.asarray(times), static)),
            protocol,
            measurement,
            population,
            self.unknowns.blocks,
            tuple((observables or {}).items()),
            following,
        )
        self.model = dataclasses.replace(model, method=settled(model, self.dataset, found))
        self.likelihood = likelihood
        self.closed = closed_forms(self.unknowns, self.model, limits) if likelihood.independent else ()
        likelihood.check(self.model, self.dataset)
        if likelihood.independent and measurement is None:  # which `heads` checks, when all of a solve is traced
            check_outputs(self.model, self.dataset)

    # ---- predictions ----

    def setup(self, theta: Float[Array, " parameters"], experiment: int | str = 0) -> Setup:
        """System, initial state, inputs and noise of one experiment at `theta`."""
        return self.model.setup(theta, self.dataset.index(experiment))

    def trajectories(self, theta: Float[Array, " parameters"]) -> Trajectory:
        """The trajectories of all experiments at their start and the times of the data, with a leading experiment axis."""
        return self.model.solve(theta, self.times)[1]

    def heads(self, theta: Float[Array, " parameters"]) -> tuple[Heads, Int[Array, " experiments"]]:
        """Return for every output with data the location and the noise model of every datum, and one status an experiment."""
        return self.model.heads(theta, self.dataset)

    def compare(self, setups: Setup, trajectories: Trajectory) -> Heads:
        """Return for every output with data the location and the noise model of every datum, of a given simulation."""
        return self.model.compare(setups, trajectories, self.dataset)

    def predict(
        self, theta: Float[Array, " parameters"], times: ArrayLike | Sequence[Any] | None = None
    ) -> dict[str, Array]:
        """Output name -> predicted values by experiment at `times`, by default at the times of the data.

        NaN from the time of a failure on.
        """
        asked = self if times is None else self.at(times)
        return asked.model.located(*asked.model.solve(theta, asked.times), asked.dataset, hold=False)[0]

    # ---- log densities ----

    def misfit(self, heads: Heads) -> Float[Array, ""]:
        """The negative log likelihood of all data that are not missing."""
        return misfit(heads, self.dataset)

    def log_likelihood(self, theta: Float[Array, " parameters"]) -> tuple[Float[Array, ""], Int[Array, " experiments"]]:
        """The log likelihood and one status an experiment; minus infinity where a simulation failed, with NaN gradients."""
        found = self.likelihood.log_prob(theta, self.model, self.dataset)
        if isinstance(found, tuple):
            value, status = found
        else:
            value, fine = jnp.sum(found), jnp.isfinite(found)
            status = jnp.broadcast_to(jnp.where(fine, Status.OK, Status.NON_FINITE), (len(self.labels),))
        return or_failed(value, theta, jnp.all(status == Status.OK) & jnp.isfinite(value)), status

    def log_prior(self, theta: Float[Array, " parameters"]) -> Float[Array, ""]:
        """The log prior density; a parameter without a prior adds nothing."""
        return self.unknowns.log_prior(theta)

    def log_posterior(self, theta: Float[Array, " parameters"]) -> Float[Array, ""]:
        """Log likelihood plus log prior, up to a constant."""
        return self.log_likelihood(theta)[0] + self.log_prior(theta)

    def residuals(self, theta: Float[Array, " parameters"]) -> Float[Array, " residuals"] | None:
        """Standardised residuals, where the likelihood has them, else None."""
        return self.likelihood.residuals(theta, self.model, self.dataset)

    def information(self, theta: Float[Array, " parameters"]) -> Float[Array, "parameters parameters"] | None:
        """The Fisher information of the data on the free parameters, where the likelihood knows it, else None."""
        return self.likelihood.information(theta, self.model, self.dataset)

    def derive(self, theta: Float[Array, " parameters"]) -> dict[str, Array]:
        """The derived numbers at `theta`, by name; none where the problem has none."""
        derived = self.model.derived
        return {} if derived is None else derived.values(theta, self.unknowns.blocks)

    # ---- coordinates of a fit ----

    def natural(self, z: Float[Array, "*batch parameters"]) -> Float[Array, "*batch parameters"]:
        """Fit coordinates -> natural units: the exponential where a parameter moves by its logarithm."""
        return self.unknowns.natural(z)

    def coordinates(self, theta: Float[Array, "*batch parameters"]) -> Float[Array, "*batch parameters"]:
        """Natural units -> fit coordinates."""
        return self.unknowns.coordinates(theta)

    def coordinate_bounds(self) -> Float[Array, "parameters 2"]:
        """The bounds in the coordinates of a fit."""
        return self.unknowns.coordinate_bounds()

    # ---- variants ----

    def with_parts(
        self,
        *,
        unknowns: Unknowns | None = None,
        model: ForwardModel | None = None,
        dataset: Dataset | None = None,
    ) -> "Problem":
        """The same problem with other parts; nothing is compiled again."""
        other = copy.copy(self)
        for name, part in (("unknowns", unknowns), ("model", model), ("dataset", dataset)):
            if part is not None:
                object.__setattr__(other, name, part)  # `dataclasses.replace` would go through `__init__`
        return other

    def lean(self) -> "Problem":
        """The problem as compiled code takes it: without words, and with rows filled up to a length that others share.

        Every verb passes it on in place of the problem itself, so that data of another length, or an experiment of another
        name, compile nothing. Its log densities are those of the problem; its rows are not for showing.
        """
        model, dataset = lean_parts(self.model, self.dataset, self.likelihood.independent)
        return self.with_parts(model=model, dataset=dataset)

    def until(self, fraction: Float[Array, ""] | float) -> "Problem":
        """The same problem, blind to data after `fraction` of each experiment's span.

        The shapes stay, so nothing is traced again. A static problem is returned whole.
        """
        if isinstance(self.base.system, StaticSystem):
            return self
        return self.with_parts(dataset=self.dataset.until(fraction))

    def at(self, times: ArrayLike | Sequence[Any]) -> "Problem":
        """The same problem asked at other times, without data: for predictions.

        **Arguments:** `times`, shape `(times,)` for all experiments or `(experiments, times)`; not before an experiment's start,
        and known while tracing where steps are fixed.
        """
        # Where all is known in NumPy, since JAX would compile a program of its own for every number of times.
        numpy: Any = jnp if traced(self.times, times) else np
        wanted: Any = asked_times(times, numpy, self.times.dtype)
        static = isinstance(self.base.system, StaticSystem)
        if wanted.ndim == self.times.ndim - 1:
            wanted = numpy.broadcast_to(wanted, (len(self.labels), *wanted.shape))
        first = self.times[:, :1] if numpy is jnp else np.asarray(self.times)[:, :1]
        rows = wanted if static else numpy.concatenate([first, wanted], axis=1)
        model = dataclasses.replace(
            self.model,
            method=self.method if static else refined(self.method, rows, self.model.longest, self.labels),
            protocol=None if self.protocol is None else self.protocol.at_other_times(),
            measurement=None if self.measurement is None else self.measurement.at(wanted.shape[1]),
        )
        return self.with_parts(model=model, dataset=self.dataset.emptied(rows, wanted.shape[1]))

    def with_data(self, data: Mapping[str, Any]) -> "Problem":
        """The same problem with other data of the same shape (leading axes of length 1 may be left out), by output name."""
        return self.with_parts(dataset=self.dataset.filled_with(data))

    def simulate_data(self, theta: Float[Array, " parameters"], key: PRNGKeyArray) -> dict[str, Array]:
        """Random data at `theta`, in the shape of the problem's own: what `with_data` takes."""
        found = self.likelihood.sample(key, theta, self.model, self.dataset)
        if found is None:
            raise ArgumentError(
                f"The likelihood `{type(self.likelihood).__name__}` must have a method `sample` for random data, but it has none."
            )
        return found

    # ---- description ----

    @property
    def base(self) -> Setup:
        """System and noise models, and initial states and inputs by experiment, as they were given."""
        return self.model.base

    @property
    def table(self) -> Table:
        """Path -> which free parameter, or which constant, stands there in each experiment."""
        return self.model.table

    @property
    def method(self) -> Method:
        """Solver and step."""
        return self.model.method

    @property
    def protocol(self) -> AbstractProtocol | None:
        """Events of each experiment; None for one simulation from the initial state."""
        return self.model.protocol

    @property
    def measurement(self) -> AbstractMeasurement | None:
        """Observation model; None where data are outputs and observables."""
        return self.model.measurement

    @property
    def population(self) -> Population | None:
        """Individuals, and how their parameters follow from those of the population."""
        return self.model.population

    @property
    def observables(self) -> tuple[tuple[str, Observable], ...]:
        """Observables by name."""
        return self.model.observables

    @property
    def times(self) -> Float[Array, "experiments rows ..."]:
        """The start, unless nothing moves in time, and the times of the data, by experiment."""
        return self.dataset.times

    @property
    def data(self) -> dict[str, Float[Array, "experiments times ..."]]:
        """Output name -> data by experiment, NaN where one is missing."""
        return self.dataset.values

    @property
    def errors(self) -> dict[str, Float[Array, "experiments times ..."]]:
        """Output name -> known relative sizes of the scatter."""
        return self.dataset.errors

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the experiments."""
        return self.dataset.labels

    @property
    def size(self) -> int:
        """Number of all free parameters, of an array each of its elements."""
        return self.unknowns.size

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the free parameters, such as `rates.3` in an array."""
        return self.unknowns.names

    @property
    def log(self) -> tuple[bool, ...]:
        """Parameters that a fit moves by their logarithm."""
        return self.unknowns.log

    @property
    def bounds(self) -> Float[Array, "parameters 2"]:
        """The bounds in natural units."""
        return self.unknowns.bounds

    @property
    def starts(self) -> Float[Array, " parameters"]:
        """The given starts in natural units; NaN where one is drawn."""
        return self.unknowns.starts

    @property
    def priors(self) -> tuple[dist.Distribution | AbstractFieldPrior | None, ...]:
        """The priors of the free parameters, in the order of `names`; None for a flat one."""
        return self.unknowns.priors

    @property
    def data_count(self) -> int:
        """Number of data that are not missing."""
        return self.dataset.count

    @property
    def default_gradient(self) -> Literal["forward", "reverse"]:
        """Forward mode for few parameters, else reverse mode; for a population reverse mode, since deviations are many."""
        if self.population is not None:
            return "reverse"
        limit = FORWARD_LIMIT_FIELDS if self.model.is_field else FORWARD_LIMIT
        return "forward" if self.size <= limit else "reverse"

    @property
    def units(self) -> tuple[str, ...]:
        """The units of the free parameters, in the order of `names`."""
        return self.model.units()

    def unit(self, name: str) -> str:
        """The unit of a free parameter."""
        return self.model.unit(self.names.index(name), name)

    def target(self, name: str) -> str:
        """The path that a free parameter stands for: its own, or the first that some `set` gives it."""
        return self.model.target(self.names.index(name), name)

    def __repr__(self) -> str:
        if not isinstance(self.times, jax.Array) or traced(self.times):
            return f"Problem(traced, parameters {tuple(block.name for block in self.unknowns.blocks)})"
        likelihood = None if self.likelihood.independent else type(self.likelihood).__name__
        return describe_problem(self.model, self.dataset, self.unknowns, likelihood)
