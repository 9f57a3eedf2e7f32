"""The verb `train`."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from .._budget import Budget, Within, budgeted
from .._doors import check_count, check_key, check_kind, check_progress, shown
from .._errors import ArgumentError, SimulationError
from .._progress import Progress, Say
from ..core import traced
from ..engine import awaited, note_trace
from ..problem import Problem
from ..stores import Journal, describe, journal, packed, unpacked
from ._result import Training

RATE = 1e-3
"""The rate of Adam where no optimiser is given."""
KIND = "training"


class Learner(NamedTuple):
    """The parts that change while a model learns.

    - `arrays`: the parts of the model that learn; `memory`: that of the optimiser.
    """

    arrays: PyTree
    memory: PyTree


class Task(NamedTuple):
    """The parts that stay the same.

    - `rest`: the model without the parts that learn.
    - `batch`: rows of the data in a step; None for all of them.
    """

    loss: Callable[..., Any]
    optimiser: optax.GradientTransformation
    rest: PyTree
    data: PyTree
    batch: int | None
    key: PRNGKeyArray


def train(
    model: Any,
    loss: Callable[..., Any],
    data: Any = None,
    *,
    optimiser: optax.GradientTransformation | None = None,
    steps: int = 1000,
    batch: int | None = None,
    parts: Callable[[Any], Any] | None = None,
    held_out: float | Any = 0.0,
    every: int = 100,
    patience: int | None = None,
    key: PRNGKeyArray | None = None,
    store: str | Path | None = None,
    within: Within = None,
    progress: Say = None,
) -> Training:
    """Train the parts of a model that learn, by gradient steps on a loss over batches of data.

    A model is any pytree: a system with a neural network in a field, a network, a dictionary of arrays. The steps run in one
    compiled loop, `every` at a time; an interrupted run with a `store` is called again as before and gives the same bits.

    **Arguments:**

    - `model`: where to start; all of its float arrays learn, or those that `parts` names.
    - `loss`: a function (model, rows) -> a number, or (model) without data. `rows` are some rows of the data. A parameter named
        `key` receives a random key of each step.
    - `data`: a pytree of arrays with one leading axis, such as trajectories or configurations.
    - `optimiser`: an Optax transformation, with its schedule; `optax.adam(1e-3)` by default. Those that look at the loss, too, such
        as `optax.lbfgs()`, receive that of the rows of the step.
    - `steps`: how many gradient steps.
    - `batch`: rows in a step, drawn without repeats until all have had their turn; all rows by default.
    - `parts`: model -> what learns, such as `lambda system: system.network`.
    - `held_out`: the share of rows on which the model is judged and not trained, such as 0.1, or other data to judge it by. The
        best model on them is returned.
    - `every`: steps between two looks at the data held out, two lines of progress, and two files in the store.
    - `patience`: training stops after so many looks without a better model; never by default.
    - `key`: a random key, for batches, rows held out, and losses that draw.
    - `store`: a folder that keeps where training stands.
    - `within`: the time that this call may take, such as "2 h", "30 min" or seconds. It ends with the last `every` steps that are
        expected to be finished by then, and at least those; with a `store` the same call goes on later, to the same bits.
    - `progress`: steps, rate, time left and loss, on terminals and in notebooks by default; True to print everywhere, False
        not at all, or a function that is given each line.

    **Returns:** a `Training`, with the model and the losses.

    **Raises:** an `ArgumentError` for arguments that cannot work, a `StoreError` where the folder holds another training, a
    `SimulationError` where the loss or its gradient stops being finite.

    ```python
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import simkit
    x = jnp.linspace(-1.0, 1.0, 200)[:, None]
    network = eqx.nn.MLP(1, 1, 16, 2, key=jax.random.key(0))
    misfit = lambda network, rows: jnp.mean((jax.vmap(network)(rows[0]) - rows[1]) ** 2)
    found = simkit.train(network, misfit, (x, jnp.sin(3 * x)), batch=32, steps=500, key=jax.random.key(1))
    print(found)
    ```
    """
    if isinstance(model, Problem):
        raise ArgumentError(
            "Argument `model` must be a model, but it is a Problem. A Problem is fitted: "
            "`simkit.fit(problem, method=simkit.Optimiser(optax.adam(0.05)))`."
        )
    if not callable(loss):
        raise ArgumentError(f"Argument `loss` must be a function (model, rows) -> a number, but it is {shown(loss)}.")
    _check_untraced((model, data, held_out, key))
    check_key(key)
    check_progress(progress)
    for name, value in (("steps", steps), ("every", every)):
        check_count(name, value)
    if patience is not None:
        check_count("patience", patience)
    rule = optax.adam(RATE) if optimiser is None else optimiser
    check_kind("optimiser", rule, optax.GradientTransformation, "an Optax transformation", "Write `optax.adam(1e-3)`.")
    rows = _rows("data", data)
    draws = "key" in inspect.signature(loss).parameters
    known, judged = _held_out(data, rows, held_out, key)
    count = _rows("data", known)
    if batch is not None:
        check_count("batch", batch)
        if count is None or batch > count:
            raise ArgumentError(
                f"Argument `batch` must be at most the number of rows that are trained on, {count}, but is {batch}."
            )
    if key is None and (draws or batch not in (None, count)):
        raise ArgumentError(
            "Argument `key` must be a random key, such as `jax.random.key(0)`, where batches or losses are drawn."
        )
    arrays, rest = eqx.partition(model, _learning(model, parts))
    if not jax.tree.leaves(arrays):
        raise ArgumentError("Argument `model` must have float arrays that learn, but it has none. See `parts`.")
    task = Task(
        loss, rule, rest, known, None if batch in (None, count) else batch, jax.random.key(0) if key is None else key
    )
    _check_loss(task, arrays, draws)
    definition = {
        "model": model,
        "loss": loss,
        "data": data,
        "batch": batch,
        "held_out": held_out,
        "parts": parts,
        "key": key,
        "optimiser": rule,
        "every": every,
    }
    plan = Plan(steps, every, patience)
    with budgeted(within) as budget, _kept(store, definition) as held:
        return _run(task, Learner(arrays, rule.init(arrays)), judged, draws, plan, held, progress, budget)


class Plan(NamedTuple):
    """Numbers of steps, of steps between two looks, and of looks without a better model."""

    steps: int
    every: int
    patience: int | None


def _run(
    task: Task,
    begin: Learner,
    judged: Any,
    draws: bool,
    plan: Plan,
    held: Journal | None,
    progress: Say,
    budget: Budget,
) -> Training:
    """Train block by block, from what a store holds on."""
    learner, best = begin, begin.arrays
    losses: list[np.ndarray] = []
    judge = lambda arrays: float(
        awaited(_judged(task, arrays, judged, draws), "train", "while data held out were looked at")
    )
    scores = [] if judged is None else [judge(begin.arrays)]
    stopped, done, index = "", 0, 0
    whole = lambda arrays: eqx.combine(arrays, task.rest)

    def so_far() -> Training:
        ends = np.minimum(np.arange(len(scores)) * plan.every, done)
        known = np.concatenate(losses)
        return Training(whole(best), whole(learner.arrays), known, ends, np.asarray(scores), stopped, budget.cut)

    if held is not None:
        held.plan("block", "steps", plan.steps, plan.every)
    with Progress(plan.steps, 0, progress, "steps") as counter:
        while done < plan.steps:
            size = min(plan.every, plan.steps - done)
            kept = None if held is None else held.read(f"block-{index:06d}")
            if kept is not None and len(kept["losses"]) == size:
                like = {"learner": begin, "best": begin.arrays}
                back = unpacked(kept, like)
                learner, best = back["learner"], back["best"]
                found, score = kept["losses"], None if judged is None else float(kept["score"])
            elif not budget.has_room():
                stopped = "the time of `within` was up" + ("" if held is None else "; the same call goes on")
                break
            else:
                learner, told = _steps(task, learner, jnp.asarray(done, jnp.int32), size, draws)
                _check_untraced(told)
                found, sloped = map(np.asarray, awaited(told, "train", f"after {done} steps"))
                _check_finite(found, sloped, done)
                score = None if judged is None else judge(learner.arrays)
                best = learner.arrays if score is None or score < min(scores) else best
            losses.append(found)
            scores += [] if score is None else [score]
            if held is not None and kept is None:
                content = {
                    "learner": learner,
                    "best": best,
                    "losses": found,
                    "score": np.asarray(np.nan if score is None else score),
                }
                held.write(f"block-{index:06d}", packed(content))
            done, index = done + size, index + 1
            counter.add(
                size, detail=f"loss {found[-1]:.4g}" if score is None else f"best {min(scores):.4g} on data held out"
            )
            if counter.watched:
                counter.watch(None, so_far())
            since = len(scores) - 1 - int(np.argmin(scores)) if scores else 0
            if plan.patience is not None and since >= plan.patience:
                stopped = f"no better model on the data held out in the last {since} looks"
                break
    return so_far()


@eqx.filter_jit
def _steps(
    task: Task, learner: Learner, first: Int[Array, ""], count: int, draws: bool
) -> tuple[Learner, tuple[Array, Array]]:
    """Take so many steps; tell the loss of each and whether its gradient left the model finite."""
    note_trace("train", {"model": learner.arrays, "data": task.data})
    rows = _rows("data", task.data)
    rule = optax.with_extra_args_support(task.optimiser)
    finite = lambda tree: jnp.all(jnp.asarray([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]))

    def one(learner: Learner, number: Array) -> tuple[Learner, tuple[Array, Array]]:
        picked = task.data if task.batch is None else _picked(task, rows, number)
        lost = lambda arrays: _loss(task, arrays, picked, number, draws)
        value, slope = jax.value_and_grad(lost)(learner.arrays)
        # For a complex parameter JAX returns dL/dx - i dL/dy; the way uphill is its conjugate.
        slope = jax.tree.map(lambda x: jnp.conj(x) if jnp.iscomplexobj(x) else x, slope)
        with jax.numpy_dtype_promotion("standard"):
            more = {"value": value, "grad": slope, "value_fn": lost}
            update, memory = rule.update(slope, learner.memory, learner.arrays, **more)
            arrays = optax.apply_updates(learner.arrays, update)
        form = lambda new, old: jax.tree.map(lambda a, b: jnp.asarray(a, jnp.result_type(b)), new, old)
        # An optimiser may leave out slopes that are not finite; then the model stays so.
        good = finite(slope) | finite(arrays)
        return Learner(form(arrays, learner.arrays), form(memory, learner.memory)), (value, good)

    return jax.lax.scan(one, learner, first + jnp.arange(count, dtype=jnp.int32))


def _picked(task: Task, rows: int | None, number: Array) -> Any:
    """The rows of a step: consecutive ones of a permutation of all, another one in each epoch."""
    assert rows is not None
    assert task.batch is not None
    turns = rows // task.batch
    order = jax.random.permutation(jax.random.fold_in(jax.random.fold_in(task.key, 0), number // turns), rows)
    here = jax.lax.dynamic_slice_in_dim(order, (number % turns) * task.batch, task.batch)
    return jax.tree.map(lambda x: jnp.asarray(x)[here], task.data)


def _loss(task: Task, arrays: PyTree, rows: Any, number: Array, draws: bool) -> Array:
    given = () if rows is None else (rows,)
    more = {"key": jax.random.fold_in(jax.random.fold_in(task.key, 1), number)} if draws else {}
    found = task.loss(eqx.combine(arrays, task.rest), *given, **more)
    if not eqx.is_array_like(found):
        raise ArgumentError(f"Argument `loss` must return one real number, but it returns {shown(found)}. Take a mean.")
    return jnp.asarray(found)


@eqx.filter_jit
def _judged(task: Task, arrays: PyTree, judged: Any, draws: bool) -> Array:
    note_trace("train", {"model": arrays, "held_out": judged})
    return _loss(task, arrays, judged, jnp.asarray(0), draws)


def _check_loss(task: Task, arrays: PyTree, draws: bool) -> None:
    """Refuse losses that are no number."""
    rows = None if task.data is None else jax.tree.map(lambda x: x[: task.batch], task.data)
    form = jax.eval_shape(lambda arrays, rows: _loss(task, arrays, rows, jnp.asarray(0), draws), arrays, rows)
    if form.shape != () or not jnp.issubdtype(form.dtype, jnp.floating):
        raise ArgumentError(
            f"Argument `loss` must return one real number, but it returns {form.dtype}{list(form.shape)}. Take a mean."
        )


def _check_untraced(tree: Any) -> None:
    if traced(tree):
        raise ArgumentError(
            "`train` looks at the loss between steps, so it cannot be called inside of a transformation such as `jit`, `vmap` or "
            "`grad`. Call it outside."
        )


def _check_finite(losses: np.ndarray, sloped: np.ndarray, done: int) -> None:
    """Refuse losses that are not finite, and gradients that make the model NaN; a step tells its loss first."""
    good = np.isfinite(losses)
    if not sloped.all() and good[: int(np.argmin(sloped)) + 1].all():
        raise SimulationError(
            f"The gradient stopped being finite at step {done + int(np.argmin(sloped))} (the loss is finite): a function with an "
            "infinite slope, such as sqrt or abs at 0. Keep its argument away from there, or take its square."
        )
    if not good.all():
        raise SimulationError(
            f"The loss stopped being finite at step {done + int(np.argmin(good))}, so the model would be NaN from there on. Take a "
            "smaller rate, or clip gradients by `optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))`. Solves that fail "
            "inside of a loss are NaN: `Trajectory.filled` leaves members out."
        )


def _learning(model: Any, parts: Callable[[Any], Any] | None) -> PyTree:
    """Mark the leaves that learn."""
    if parts is None:
        return jax.tree.map(eqx.is_inexact_array, model)
    try:
        marked = jax.tree.map(eqx.is_inexact_array, parts(model))
        return eqx.tree_at(parts, jax.tree.map(lambda _: False, model), marked)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        fields = list(getattr(type(model), "__dataclass_fields__", {}))
        held = f" The model has {', '.join(f'`{name}`' for name in fields[:12])}." if fields else ""
        told = f"raises {type(error).__name__}" if isinstance(error, AttributeError | LookupError) else "does not"
        raise ArgumentError(
            "Argument `parts` must return parts of the model, such as `lambda system: system.network`, but it "
            f"{told}.{held}"
        ) from error


def _rows(name: str, data: Any) -> int | None:
    """The number of rows of data; None without data."""
    for leaf in jax.tree.leaves(data):
        kind = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
        if isinstance(kind, np.dtype) and kind.kind in "OUSMmV":
            raise ArgumentError(f"Argument `{name}` must hold arrays of numbers, but one is of the type {kind}.")
    leaves = [np.shape(leaf) for leaf in jax.tree.leaves(data)]
    if not leaves:
        return None
    counts = {shape[0] if shape else None for shape in leaves}
    if len(counts) != 1 or None in counts:
        raise ArgumentError(
            f"Argument `{name}` must hold arrays with one leading axis, that of the rows, but their shapes are "
            f"{', '.join(map(str, leaves[:5]))}."
        )
    return counts.pop()


def _held_out(data: Any, rows: int | None, held_out: Any, key: PRNGKeyArray | None) -> tuple[Any, Any]:
    """The data to learn from, and those to judge by; None where there are none."""
    data = jax.tree.map(jnp.asarray, data)
    if not isinstance(held_out, int | float) or isinstance(held_out, bool):
        _rows("held_out", held_out)
        return data, jax.tree.map(jnp.asarray, held_out)
    if held_out == 0:
        return data, None
    count = round(rows * held_out) if rows is not None and 0 < held_out < 1 else 0
    if rows is None or key is None or not 0 < count < rows:
        raise ArgumentError(
            "Argument `held_out` must be a share of the rows between 0 and 1 that leaves some on both sides, which needs `data` "
            f"and a `key`, or other data, but it is {shown(held_out)}."
        )
    order = jax.random.permutation(jax.random.fold_in(key, 2), rows)
    take = lambda which: jax.tree.map(lambda x: x[which], data)
    return take(order[count:]), take(order[:count])


@contextlib.contextmanager
def _kept(store: str | Path | None, definition: dict[str, Any]) -> Iterator[Journal | None]:
    if store is None:
        yield None
        return
    check_kind("store", store, str | Path, "the name of a folder", 'Write `store="my_training"`.')
    with journal(store, KIND, describe(definition), {}) as held:
        yield held
