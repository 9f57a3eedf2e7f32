"""Sparse fits: a path of strengths, all descents of which go together, models fitted again, and the choice among them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._errors import ArgumentError, SimulationError, UnknownNameError, close_matches
from .._progress import Progress, Say
from ..engine import awaited, note_trace, over_members
from ..problem import Problem, check_fixed, named_parts, with_fixed
from ._fit_result import FitResult
from ._gauss_newton import GaussNewton
from ._method import End
from ._proximal import Descent, Penalty, descend
from ._runs import run
from ._sparse import Sparse
from ._sparse_result import SparseFit
from ._stored import blocks
from ._subsets import every_subset

DECADES = 3.0
"""Decades of strengths below that at which everything has vanished."""

ABOVE = 1e-6
"""Share by which the first strength lies above that at which everything just vanishes."""

EXCHANGES = 5
"""Most rounds in which a strength begins again from what another one found."""

TOGETHER = 8
"""Number of models that are fitted again in one call."""

DISTINCT = 1e-3
"""An estimate so near to its target, in standard errors, weighs no more than one at that distance."""

Fit = Callable[..., FitResult]


class _Path(NamedTuple):
    """Places in the coordinates of the fit, one a strength, the negative log posterior there, and whether it settled."""

    z: np.ndarray
    value: np.ndarray
    settled: np.ndarray


class _Model(NamedTuple):
    """A model fitted again: its place, and the likelihood there."""

    z: np.ndarray
    log_likelihood: float


def fit_sparse(problem: Problem, method: Sparse, own: Fit, again: Fit, key: PRNGKeyArray, progress: Say) -> SparseFit:
    """Fit by `Sparse`; `own` fits all unknowns of a problem as `fit` was asked to, `again` those of another from one start.

    **Raises:** an `ArgumentError` for unknowns that cannot vanish, a `SimulationError` where the model in which all do fails.
    """
    places, target = _targets(problem, method)
    if isinstance(method.by, int) and not problem.likelihood.independent:
        raise ArgumentError(
            "Cross-validation leaves out single data, but those of this likelihood depend on each other: choose by `bic` or `aicc`."
        )
    full = own(problem, key)
    lean, dtype = problem.lean(), problem.times.dtype
    with Progress(None, 0, progress, verb="fit") as counter:
        if method.search == "all":
            counter.tell(f"{2 ** len(places)} models of {len(places)} unknowns that may vanish")
            every = every_subset(lean, full, places, target, key)
            strengths, cost, penalty = np.full(len(every.active), np.nan), 0.0, None
            path, active = _Path(every.z, every.value, every.settled), every.active
            ends = zip(every.z, every.log_likelihood, strict=True)
            rows = map(tuple, active.tolist())
            models = {row: _Model(z, float(value)) for row, (z, value) in zip(rows, ends, strict=True)}
        else:
            z = np.asarray(full.z, float)
            weight = _weights(problem, method, full, places, target)
            none = _emptied(lean, full, places, target)
            strengths = _strengths(method, none, weight, places)
            counter.tell(f"{len(strengths)} strengths from {strengths[0]:.3g}, {len(places)} unknowns that may vanish")
            penalty = _penalties(method, strengths, weight, target, dtype)
            begins = np.repeat([z, np.asarray(none.z, float)[0]], len(strengths), axis=0)
            path = _along(lean, method, penalty, begins)
            active = path.z[:, places] != target[places]
            models = _refitted(lean, path, active, places, target)
            cost = np.asarray(jax.vmap(Penalty.value)(penalty, jnp.asarray(path.z, dtype)))
        if isinstance(method.by, int):
            assert penalty is not None
            score = _left_out(problem, method, penalty, path, key)
        else:
            score = np.array([_criterion(problem, method.by, models[tuple(row)], row) for row in active.tolist()])
    if not np.isfinite(score).any():
        raise SimulationError(
            "No model on the path has a finite criterion. Give all unknowns bounds in which the system simulates, or more data."
        )
    chosen = int(np.nanargmin(np.where(np.isfinite(score), score, np.inf)))
    best = models[tuple(active[chosen].tolist())]
    names, given = [problem.names[i] for i in places], np.asarray(problem.natural(jnp.asarray(target, dtype)))[places]
    gone = {name: float(x) for name, x, left in zip(names, given, active[chosen], strict=True) if not left}
    natural = lambda z: problem.natural(jnp.asarray(z, dtype))
    return SparseFit(
        jnp.asarray(strengths, dtype),
        natural(path.z),
        jnp.asarray(path.value + cost, dtype),
        jnp.asarray(path.settled),
        jnp.asarray(active),
        natural(np.stack([models[tuple(row)].z for row in active.tolist()])),
        jnp.asarray([models[tuple(row)].log_likelihood for row in active.tolist()], dtype),
        jnp.asarray(score, dtype),
        _final(problem, gone, natural(best.z), again, key),
        full,
        tuple(names),
        tuple(float(x) for x in given),
        chosen,
        method.by.upper().replace("AICC", "AICc") if isinstance(method.by, str) else f"{method.by} folds",
        method.name,
    )


def _targets(problem: Problem, method: Sparse) -> tuple[np.ndarray, np.ndarray]:
    """The places of the unknowns that may vanish, and the targets of all in the coordinates of the fit, 0 for the others."""
    asked = dict(method.targets)
    if len(method.names) == 1 and method.names[0] not in problem.names:
        raise UnknownNameError(
            f"`Sparse` was asked for one unknown, `{method.names[0]}`, but there is no free parameter of that name. Several names "
            f'are a list, such as `simkit.Sparse(["a", "b"])`. {close_matches(method.names[0], problem.names)}'
        )
    check_fixed(problem, dict.fromkeys(method.names))
    places, target = [], np.zeros(problem.size)
    for name in method.names:
        place = problem.names.index(name)
        if problem.log[place] and name not in asked:
            raise ArgumentError(
                f"`{name}` moves by its logarithm, so it is never 0: give `Sparse` a target of it, such as "
                f'`targets={{"{name}": 1.0}}`, or free it with `Free(transform="linear")`.'
            )
        check_fixed(problem, {name: asked.get(name, 0.0)})
        places.append(place)
        target[place] = np.log(float(asked[name])) if problem.log[place] else float(asked.get(name, 0.0))
    return np.array(places), target


def _weights(problem: Problem, method: Sparse, full: FitResult, places: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The weights of all coordinates, 0 for what is not penalised."""
    weight = np.zeros(problem.size)
    if method.weights == "adaptive":
        size = np.where(np.array(problem.log, bool), np.asarray(full.estimate, float), 1)
        error = np.asarray(full.standard_error, float) / size
        least = np.maximum(
            np.where(np.isfinite(error), DISTINCT * error, 0), float(jnp.finfo(full.z.dtype).tiny) ** 0.25
        )
        weight[places] = 1 / np.maximum(np.abs(np.asarray(full.z, float) - target), least)[places]
    else:
        given = dict.fromkeys(method.names, 1.0) if method.weights == "equal" else dict(method.weights)
        weight[places] = [given[problem.names[i]] for i in places]
    return weight


def _emptied(lean: Problem, full: FitResult, places: np.ndarray, target: np.ndarray) -> End:
    """The fit with everything at its target that may vanish, the others as good as they get."""
    z = np.asarray(lean.coordinates(full.thetas), float)
    best = z[:: max(1, len(z) // TOGETHER)][:TOGETHER]
    best = best[np.minimum(np.arange(TOGETHER), len(best) - 1)]
    best[:, places] = target[places]
    held = np.zeros(best.shape, bool)
    held[:, places] = True
    end = run(lean, GaussNewton(), 1.0, best, held)
    value = np.asarray(end.model.value)
    if not np.isfinite(value).any():
        raise SimulationError(
            "No simulation ended with all unknowns of `Sparse` at their targets, or derivatives there were not finite. Leave out "
            "of `names` what the system cannot do without."
        )
    order = np.argsort(value)
    return jax.tree.map(lambda x: np.asarray(x)[order], end)


def _strengths(method: Sparse, none: End, weight: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The path, whose first strength just holds everything at its target, and 0 at its end."""
    if method.strengths is not None:
        return np.append(method.strengths, 0.0)
    model = none.model
    slope = np.abs(np.asarray(model.pull[0]) @ np.asarray(model.rows[0]) + np.asarray(model.slope[0]))[places]
    most = float(np.max(slope / weight[places])) / method.l1_ratio
    if not most > 0:
        raise ArgumentError(
            "The likelihood must depend on some of the unknowns in `names` where all are at their targets, but its derivative by "
            "each is 0 there. Give `strengths`, or other targets."
        )
    # At the knot itself rounding decides whether one of them leaves its target.
    most *= 1 + max(ABOVE, float(jnp.finfo(none.z.dtype).eps) ** 0.5)
    return np.append(most * np.logspace(0, -DECADES, method.count), 0.0)


def _penalties(method: Sparse, strengths: np.ndarray, weight: np.ndarray, target: np.ndarray, dtype: Any) -> Penalty:
    own = method.l1_ratio * strengths[:, None] * weight
    ridge = (1 - method.l1_ratio) * strengths[:, None] * weight**2
    place = np.broadcast_to(target, own.shape)
    return Penalty(*(jnp.asarray(x, dtype) for x in (own, ridge, place)))


def _along(lean: Problem, method: Sparse, penalty: Penalty, begins: np.ndarray) -> _Path:
    """The best place at each strength, of two descents, and then of those that others found better ones for."""
    count = len(penalty.weight)
    twice = jax.tree.map(lambda x: jnp.concatenate([x, x]), penalty)
    cost = lambda z: np.stack(
        [
            np.asarray(jax.vmap(Penalty.value, (0, None))(penalty, place))
            for place in jnp.asarray(z, penalty.weight.dtype)
        ],
        axis=1,
    )
    best: _Path | None = None
    for _ in range(EXCHANGES):
        end = _descents(lean, method, twice, begins)
        rows = [end] if best is None else [end, best]
        z, value, settled = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        total = np.where(np.isfinite(value), value, np.inf)[None] + cost(z)
        # Where nothing is gained a strength keeps the place that was found for it.
        own = np.arange(len(z))[None] % count == np.arange(count)[:, None]
        mine = np.argmin(np.where(own, total, np.inf), axis=1)
        rounding = 1e-9 * (1 + np.abs(total[np.arange(count), mine]))
        others = np.argmin(total, axis=1)
        better = total[np.arange(count), others] < total[np.arange(count), mine] - rounding
        best = _Path(z[mine], value[mine], settled[mine])
        if not better.any():
            break
        begins = np.concatenate([np.where(better[:, None], z[others], best.z), best.z])
    assert best is not None
    return best


def _descents(lean: Problem, method: Sparse, penalty: Penalty, begins: np.ndarray, steps: int | None = None) -> _Path:
    dtype = penalty.weight.dtype
    limits = jnp.asarray(method.max_steps if steps is None else steps, int), jnp.asarray(method.tolerance, dtype)
    end = awaited(_descend(lean, penalty, jnp.asarray(begins, dtype), *limits), "fit", f"at {len(begins)} strengths")
    value = np.where(np.asarray(end.model.good), np.asarray(end.model.value, float), np.inf)
    return _Path(np.asarray(end.z, float), value, np.asarray(end.converged))


@eqx.filter_jit
def _descend(problem: Problem, penalty: Penalty, z: Array, steps: Array, tolerance: Array) -> Descent:
    note_trace("fit, sparse", named_parts(problem) | {"starts": z})

    def one(shared: tuple[Problem, Array, Array], lane: tuple[Penalty, Array]) -> Descent:
        problem, steps, tolerance = shared
        return descend(problem, *lane, steps, tolerance)

    return over_members(one, (problem, steps, tolerance), (penalty, z))


def _refitted(
    lean: Problem, path: _Path, active: np.ndarray, places: np.ndarray, target: np.ndarray
) -> dict[tuple[bool, ...], _Model]:
    """Every model of the path fitted again without the penalty, from where it came with the least objective."""
    rows: dict[tuple[bool, ...], int] = {}
    for i in np.argsort(path.value, kind="stable"):
        rows.setdefault(tuple(active[i].tolist()), int(i))
    z, held = path.z[list(rows.values())], np.zeros((len(rows), lean.size), bool)
    held[:, places] = ~np.array(list(rows))
    z = np.where(held, target, z)
    found: list[_Model] = []
    for block in blocks(len(z), TOGETHER):
        end = run(lean, GaussNewton(), 1.0, z[block], held[block])
        value, penalty = np.asarray(end.model.value, float), np.asarray(end.model.penalty, float)
        ends = zip(np.asarray(end.z, float), penalty - value, strict=True)
        found += [_Model(place, float(likelihood)) for place, likelihood in ends]
    return dict(zip(rows, found, strict=False))


def _criterion(problem: Problem, by: str, model: _Model, active: list[bool]) -> float:
    """AIC, AICc or BIC of a model."""
    count, size = problem.size - len(active) + sum(active), problem.data_count
    if by == "bic":
        return count * np.log(size) - 2 * model.log_likelihood
    more = 0.0
    if by == "aicc":
        more = 2 * count * (count + 1) / (size - count - 1) if size > count + 1 else np.inf
    return 2 * count - 2 * model.log_likelihood + more


def _left_out(problem: Problem, method: Sparse, penalty: Penalty, path: _Path, key: PRNGKeyArray) -> np.ndarray:
    """The negative log likelihood of data that were left out, summed over the folds, at each strength."""
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
    count, folds, total = problem.data_count, int(method.by), np.zeros(len(path.z))
    if folds > count:
        raise ArgumentError(f"Argument `by` must be at most the number of data, {count}, but it is {folds} folds.")
    fold_of = random.permutation(np.arange(count) % folds)
    twice = jax.tree.map(lambda x: jnp.concatenate([x, x]), penalty)
    for fold in range(folds):
        kept, other = (_with(problem, mask).lean() for mask in (fold_of != fold, fold_of == fold))
        z = _descents(kept, method, twice, np.concatenate([path.z, path.z])).z
        # One step of nothing is an evaluation, by the same program.
        value = _descents(other, method, twice, z, steps=1).value[: len(path.z)]
        prior = np.asarray(jax.vmap(problem.unknowns.log_prior_at)(jnp.asarray(z, penalty.weight.dtype)))[: len(path.z)]
        total += value + prior
    return total


def _with(problem: Problem, mask: np.ndarray) -> Problem:
    """The problem with some of its data alone."""
    values, first = {}, 0
    for name, known in problem.data.items():
        new = np.array(known)
        seen = np.isfinite(new)
        own = mask[first : first + int(seen.sum())]
        new[seen] = np.where(own, new[seen], np.nan)
        values[name], first = jnp.asarray(new, known.dtype), first + len(own)
    dataset = eqx.tree_at(lambda d: d.values, problem.dataset, values)
    return problem.with_parts(dataset=dataset)


def _final(problem: Problem, gone: dict[str, float], theta: Array, again: Fit, key: PRNGKeyArray) -> FitResult | None:
    """The fit of the chosen model from where it was fitted again."""
    reduced = with_fixed(problem, gone)
    if not reduced.size:
        return None
    left = np.array([name not in gone for name in problem.names])
    start = np.clip(np.asarray(theta)[left], np.asarray(reduced.bounds)[:, 0], np.asarray(reduced.bounds)[:, 1])
    return again(reduced, start, key)
