"""predict: what a posterior, or a prior, says about data."""

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._budget import Within, budgeted
from .._doors import check_count, check_key, check_progress, shown
from .._errors import ArgumentError, check_known
from .._progress import Progress, Say
from ..core import RandomSystem, Status, data_frame, full_products, traced
from ..engine import awaited, note_trace, over_members
from ..fitting import kept_work
from ..problem import Problem, check_problem, named_parts
from ..stores import kept_part
from ._posterior import Posterior

BLOCK = 64
"""Draws that are predicted and stored together."""


class Prediction(eqx.Module):
    """Predicted curves and predicted data, one for every draw.

    - `times`: shape `(experiment, time)`; for a static system the predictors.
    - `curves`: output name -> predicted locations, shape `(draw, experiment, time, ...)`; for a likelihood of one's own that
        draws data these data.
    - `samples`: the same with the scatter of new data. Both are NaN where a simulation failed.
    - `failed`: how many simulations failed.
    """

    times: Float[Array, "experiment time ..."]
    curves: dict[str, Float[Array, "draw experiment time ..."]]
    samples: dict[str, Float[Array, "draw experiment time ..."]]
    failed: Int[Array, ""]
    labels: tuple[str, ...] = eqx.field(static=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The outputs that are predicted."""
        return tuple(self.curves)

    def band(self, name: str, level: float = 0.9, noisy: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lower end, median and upper end of the central interval at every time, of new data or (not noisy) of the curve."""
        check_known(name, self.names, "predicted output")
        if not 0 < level < 1:
            raise ArgumentError(f"Argument `level` must lie between 0 and 1, but it is {level!r}.")
        values = np.asarray((self.samples if noisy else self.curves)[name])
        good = values[np.isfinite(values.reshape(values.shape[0], -1)).all(axis=1)]
        if not len(good):
            raise ArgumentError("No draw could be simulated at these times, so there is no band. Shorten the horizon.")
        lower, middle, upper = np.quantile(good, [0.5 - level / 2, 0.5, 0.5 + level / 2], axis=0)
        return lower, middle, upper

    def to_frame(self, level: float = 0.9) -> Any:
        """Return the bands as a `pandas.DataFrame`: a row for each experiment, output and time, with lower, median and upper.

        The ends are those of new data; `curve_lower`, `curve_median` and `curve_upper` those of the model.

        **Raises:** a `MissingPackageError` where pandas is not installed, and as `band`.
        """
        parts = []
        for name in self.names:
            ends = [*self.band(name, level), *self.band(name, level, noisy=False)]
            if ends[0].ndim != 2:
                raise ArgumentError(f"The output `{name}` must be a number to stand in a table, but it is an array.")
            rows, count = ends[0].shape
            heads = ("lower", "median", "upper", "curve_lower", "curve_median", "curve_upper")
            parts.append(
                {
                    "experiment": np.repeat(np.asarray(self.labels, object), count),
                    "output": np.full(rows * count, name, object),
                    "time": np.asarray(self.times).ravel(),
                    **{head: values.ravel() for head, values in zip(heads, ends, strict=True)},
                }
            )
        return data_frame({head: np.concatenate([part[head] for part in parts]) for head in parts[0]}, "to_frame")

    def __repr__(self) -> str:
        if isinstance(self.times, Tracer):
            return f"Prediction(traced, outputs {self.names})"
        draws = next(iter(self.curves.values())).shape[0]
        failed = f", {int(self.failed)} simulations failed" if int(self.failed) else ""
        return (
            f"Prediction: {', '.join(self.names)} at {self.times.shape[1]} times in {len(self.labels)} experiment(s) from {draws} "
            f"draws{failed}"
        )


@full_products
def predict(
    problem: Problem,
    draws: Posterior | Float[Array, "draws parameters"] | np.ndarray,
    times: ArrayLike | Sequence[Any] | None = None,
    *,
    key: PRNGKeyArray | None = None,
    count: int = 400,
    store: str | Path | None = None,
    within: Within = None,
    progress: Say = None,
) -> Prediction:
    """Predictive distribution of the outputs with data, from draws of the posterior or of the prior (`prior_draws`).

    **Arguments:**

    - `draws`: a posterior, or an array of shape `(draws, parameters)` in natural units. The posterior may be that of another
        problem with the same parameters: individuals of a population that it does not know are drawn from the population, so that
        a problem with experiments of new individuals predicts them.
    - `times`: shape `(times,)` for all experiments or `(experiments, times)`; by default those of the data. They may run
        past the data, and must not begin before an experiment's start.
    - `key`: for the scatter of new data; by default a fixed one. The scatter of an experiment follows its name and that of the
        output, so that it is the same whichever other experiments and outputs there are.
    - `count`: at most this many draws are used, spread evenly over the posterior.
    - `store`: a folder that keeps every 64 draws once they are predicted, so that the same call goes on after a crash.
    - `within`: seconds, or words such as "2 h": no more draws begin than end in that time, and the others are left out.
    - `progress`: the time that it takes, on terminals and in notebooks by default; True, False or a function as in `fit`.
    """
    check_problem(problem)
    check_key(key)
    check_count("count", count)
    check_progress(progress)
    key = jax.random.key(0) if key is None else key
    theta = _drawn(problem, draws, key)
    if theta.ndim != 2 or theta.shape[1] != problem.size:
        raise ArgumentError(f"Argument `draws` must have the shape (draws, {problem.size}), but it has {theta.shape}.")
    if theta.shape[0] > count:
        theta = theta[np.linspace(0, theta.shape[0] - 1, count).round().astype(int)]
    asked = problem if times is None else problem.at(times)
    _check_predictable(asked)
    experiments = jnp.asarray(_words(problem.labels))
    with Progress(None, 0, False if traced((asked, theta)) else progress, verb="predict") as counter:
        counter.tell(f"{theta.shape[0]} draws")
        operands = asked.lean(), theta, jax.random.split(key, theta.shape[0]), experiments
        if store is None and within is None:
            found = awaited(_predict(*operands), "predict", f"for {theta.shape[0]} draws")
        else:
            if traced((asked, theta)):
                raise ArgumentError(
                    "Arguments `store` and `within` must be left out inside transformations such as `jit`."
                )
            with (
                kept_work(store, "prediction", asked, {"draws": theta, "key": key}, {"draws": BLOCK}) as held,
                budgeted(within),
            ):
                found = _in_blocks(*operands, held, counter)
        curves, samples, status = found
    rows = next(iter(asked.data.values())).shape[1]
    curves, samples = jax.tree.map(lambda x: _cut(x, np.s_[:, :, :rows]), (curves, samples))
    failed = jnp.sum(status != Status.OK)
    return Prediction(_cut(asked.times, np.s_[:, -rows:]), curves, samples, failed, problem.labels)


def _drawn(problem: Problem, draws: object, key: PRNGKeyArray) -> Array:
    """The draws as free parameters of this problem; deviations of individuals that are new are drawn."""
    if not isinstance(draws, Posterior):
        try:
            return jnp.asarray(draws, problem.bounds.dtype)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"Argument `draws` must be a posterior or an array of shape (draws, {problem.size}), but it is "
                f"{shown(draws)}."
            ) from error
    theta = draws.flat()
    if draws.names == problem.names:
        return theta
    places = {name: i for i, name in enumerate(draws.names)}
    shared = problem.size if problem.population is None else problem.population.shared
    for name in problem.names[:shared]:
        check_known(name, places, "parameter of these draws")
    new = [name for name in problem.names[shared:] if name not in places]
    fresh = jax.random.normal(jax.random.fold_in(key, len(places)), (len(theta), len(new)), theta.dtype)
    columns = dict(zip(new, fresh.T, strict=True)) | {name: theta[:, i] for name, i in places.items()}
    return jnp.stack([columns[name] for name in problem.names], axis=1)


def _samples(problem: Problem) -> bool:
    """Tell whether a likelihood draws data by itself."""
    likelihood, theta = problem.likelihood, jnp.ones((problem.size,), problem.bounds.dtype)
    drawn = lambda theta: likelihood.sample(jax.random.key(0), theta, problem.model, problem.dataset)
    return not likelihood.independent and jax.eval_shape(drawn, theta) is not None


def _check_predictable(problem: Problem) -> None:
    """Refuse a likelihood that does not say how data would scatter."""
    if problem.likelihood.independent or _samples(problem):
        return
    missing = [name for name in problem.data if name not in problem.base.noise]
    if missing or isinstance(problem.base.system, RandomSystem):
        raise ArgumentError(
            f"`predict` needs random data, but the likelihood `{type(problem.likelihood).__name__}` has no method `sample`, and no "
            "deterministic simulation with a noise model for each output stands in for it. Give the likelihood that method."
        )


def _words(names: Iterable[str]) -> np.ndarray:
    """Names as numbers, the same in every process."""
    return np.array([zlib.crc32(name.encode()) for name in names], np.uint32)


def _cut(values: Array, part: tuple[slice, ...]) -> Array:
    """A part of an array, taken in NumPy where it can be: JAX would compile a program of its own for every length."""
    return values[part] if isinstance(values, Tracer) else jnp.asarray(np.asarray(values)[part], values.dtype)


def _in_blocks(problem: Problem, theta: Array, keys: Array, experiments: Array, held: Any, counter: Progress) -> Any:
    """The predictions of blocks of draws, each read from a journal where it has it.

    Each block is spread over all draws, so that those that are there when the time is up are too; one that is not full repeats its
    last draw.
    """
    count, size = theta.shape[0], held.settings["draws"]
    blocks, parts, places, done = -(-count // size), [], [], 0
    held.plan("draws", "draws", count, size)
    for i in range(blocks):
        own = np.arange(i, count, blocks)
        rows = np.concatenate([own, np.full(size - own.size, own[-1])])
        operands = problem, theta[rows], keys[rows], experiments
        wait = lambda found, i=i: awaited(found, "predict", f"for block {i} of draws")
        found = kept_part(held, f"draws-{i:08d}", _predict, *operands, wait=wait)
        if found is None:
            continue
        parts.append(jax.tree.map(lambda x, own=own: x[: own.size], found))
        places.append(own)
        done += own.size
        counter.tell(f"{done} of {count} draws")
    order = np.argsort(np.concatenate(places))
    return jax.tree.map(lambda *parts: jnp.concatenate(parts)[order], *parts)


@eqx.filter_jit
def _predict(problem: Problem, theta: Array, keys: Array, experiments: Array) -> Any:
    note_trace("predict", named_parts(problem) | {"draws": theta})

    def one(problem: Problem, member: tuple[Array, PRNGKeyArray]) -> Any:
        theta, key = member
        if _samples(problem):
            drawn = problem.simulate_data(theta, key)
            if problem.likelihood.sequential:
                heads, status = problem.heads(theta)
                held = lambda x: jnp.where((status == Status.OK).reshape((-1,) + (1,) * (x.ndim - 1)), x, jnp.nan)
                return {k: held(x) for k, (x, _) in heads.items()}, {k: held(x) for k, x in drawn.items()}, status
            fine = [jnp.isfinite(x).reshape(len(experiments), -1).all(axis=1) for x in drawn.values()]
            return drawn, drawn, jnp.where(jnp.stack(fine).all(axis=0), Status.OK, Status.NON_FINITE)
        heads, status = problem.heads(theta)
        curves, samples = {}, {}
        for word, (name, (location, noise)) in zip(_words(heads), heads.items(), strict=True):
            own = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.fold_in(key, word), experiments)
            ok = (status == Status.OK).reshape((-1,) + (1,) * (location.ndim - 1))
            curves[name] = jnp.where(ok, location, jnp.nan)
            samples[name] = jnp.where(ok, jax.vmap(lambda n, k, x: n.sample(k, x))(noise, own, location), jnp.nan)
        return curves, samples, status

    return over_members(one, problem, (theta, keys))
