"""design: the doses, inputs and times from which most is expected."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_count, check_key, check_mapping, check_progress
from .._errors import ArgumentError, SimulationError
from .._progress import Progress, Say
from ..core import StaticSystem, full_products
from ..engine import Fixed, note_trace
from ..problem import Problem, check_problem, named_parts
from ._information_gain import Gain, bounds_of, check_gain, expected_information, pool

TIMES = "times"
"""The name under which the times of the data are designed."""

RATE = 0.1
"""First rate of the steps, in parts of the width between bounds; it falls to 0 along a cosine."""

FIRST, SECOND = 0.9, 0.99
"""Memory of the mean of the slopes and of their squares, as shares that stay from step to step."""


class Design(eqx.Module):
    """The best of several designs, each improved by stochastic gradients.

    - `values`: what was designed -> its best value, shape `(experiments, ...)`; for `times` shape `(experiments, times)`.
    - `gain`: the expected information of the best design, a `Gain`; `before`: that of the problem as it was, None where it could
        not be simulated.
    - `gains`: shape `(starts,)`, the lower bounds of all designs, best first.
    """

    values: dict[str, Array]
    gain: Gain
    before: Gain | None
    gains: Float[Array, " starts"]

    def problem(self, problem: Problem) -> Problem:
        """The problem with the design put in: to draw data from (`simulate_data`), and to fit data of (`with_data`)."""
        check_problem(problem)
        return _placed(problem, self.values)

    def __repr__(self) -> str:
        lines = ["Design: what to measure, by expected information"]
        for name, values in self.values.items():
            lines += [f"  {name}: {np.array2string(row, precision=4)}" for row in np.asarray(values)]
        lines.append(f"  expected: {self.gain}")
        if self.before is not None:
            lines.append(f"  as it was: {self.before}")
        lines.append("  starts ended at " + ", ".join(f"{x:.3f}" for x in np.asarray(self.gains)))
        return "\n".join(lines)


@full_products
def design(
    problem: Problem,
    over: Mapping[str, Any],
    *,
    steps: int = 150,
    draws: int = 100,
    starts: int = 4,
    known: Any = None,
    key: PRNGKeyArray | None = None,
    progress: Say = None,
) -> Design:
    r"""Find the doses, inputs and times from which most is expected to be learnt about the unknowns, over the prior.

    The design d maximises the lower bound of `expected_information` by stochastic gradients (Adam): data are drawn as
    $y(\theta, d, \epsilon)$, so that the bound has a derivative by d through simulation and noise, and every step has fresh draws.
    Designs are compared at the end by one larger set of draws that all share.

    **Arguments:**

    - `problem`: a problem whose unknowns have priors. Values of its data are not read, only what is measured where.
    - `over`: what is designed -> `(lower, upper)`: the path of a number or array that is no unknown, such as `y0.substrate` or
        `inputs.drug.values`, for each experiment by itself; `times` for the times of the data, or the predictors of a static
        system.
    - `steps`, `draws`: how many steps, and draws of the prior for each. `starts`: how many designs are improved together.
    - `known`: the `Posterior` of earlier data, in place of the prior.
    - `key`, `progress`: as in `fit`.

    **Returns:** a `Design`: `values`, `gain`, `problem(problem)`. **Raises:** an `ArgumentError` for unknown or free paths, for
    data without a derivative (counts, grades), and for times of fixed steps; a `SimulationError` where most draws cannot be
    simulated.

    **Good values:** the defaults for up to ten numbers. For counts compare designs by `expected_information`. Where the gain nears
    the logarithm of `draws`, more of them.

    ```python
    import numpy as np
    import numpyro.distributions as dist
    import simkit

    line = simkit.odes.from_response(lambda x, p: p["level"] + p["slope"] * x, {"level": 0.0, "slope": 1.0})
    problem = simkit.Problem(
        line,
        simkit.Experiment("line", [-0.5, 0.1, 0.3, 0.4], {"y": np.zeros(4)}),
        free={"level": simkit.Free(dist.Normal(0.0, 1.0)), "slope": simkit.Free(dist.Normal(0.0, 2.0))},
        noise={"y": simkit.noise.Normal(0.5)},
    )
    print(simkit.expected_information(problem))
    print(simkit.design(problem, {"times": (-1.0, 1.0)}))
    ```

    **Reference:** Foster et al. (2020), A unified stochastic gradient approach to designing Bayesian-optimal experiments, AISTATS,
    arXiv:1911.00294.
    """
    check_gain(problem)
    check_mapping("over", over, "bounds for each number to design", '{"y0.substrate": (0.0, 10.0)}')
    for name, count, least in (("steps", steps, 1), ("draws", draws, 4), ("starts", starts, 1)):
        check_count(name, count, least=least)
    check_key(key)
    check_progress(progress)
    key = jax.random.key(0) if key is None else key
    box = {name: _bounds(problem, name, ends) for name, ends in over.items()}
    if not box:
        raise ArgumentError("Argument `over` must name something to design, but it is empty.")
    _check_derivatives(problem)
    with Progress(None, 0, progress, verb="design") as counter:
        counter.tell(f"{starts} designs, {steps} steps of {draws} simulations each")
        flat, unravel = _spread(box, jax.random.fold_in(key, 0), starts)
        z = pool(problem, known, jax.random.fold_in(key, 1), max(10 * draws, 1000))
        ends = _improved(problem, flat, unravel, z, jax.random.fold_in(key, 2), steps, draws)
        if not np.isfinite(np.asarray(ends)).all():
            raise SimulationError(
                "The derivative of the expected information by the design was not finite on the way. Narrow the bounds of `over`, "
                "or the priors, to where the system simulates."
            )
        shared = {"draws": max(1000, draws), "known": known, "key": jax.random.fold_in(key, 3)}
        found = [unravel(end) for end in ends]
        gains = [expected_information(_placed(problem, values), **shared) for values in found]
        order = np.argsort([-float(gain.lower) for gain in gains], kind="stable")
        try:
            before: Gain | None = expected_information(problem, **shared)
        except SimulationError:
            before = None
    best = int(order[0])
    return Design(found[best], gains[best], before, jnp.stack([gains[i].lower for i in order]))


def _bounds(problem: Problem, name: str, ends: Any) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of one thing to design, each of its shape."""
    if (
        not (isinstance(ends, tuple | list) and len(ends) == 2 and all(np.isfinite(x) for x in ends))
        or not ends[0] < ends[1]
    ):
        raise ArgumentError(f"The bounds of `{name}` must be two finite numbers (lower, upper), but they are {ends!r}.")
    if name == TIMES:
        static = isinstance(problem.base.system, StaticSystem)
        if isinstance(problem.method.step, Fixed) and not static:
            raise ArgumentError(
                "Times can be designed where steps adapt, but those of this problem are fixed: give `step=Adaptive()`."
            )
        if not all(np.isfinite(np.asarray(values)).all() for values in problem.data.values()):
            raise ArgumentError(
                "Times can be designed where each output is measured at each time, but data are missing: leave them out."
            )
        shape = problem.times.shape if static else problem.times[:, 1:].shape
        first = -np.inf if static else float(np.max(np.asarray(problem.times)[:, 0]))
        if ends[0] < first:
            raise ArgumentError(
                f"Times must not lie before the start of the experiments at {first:g}, but the lower bound is {ends[0]:g}."
            )
    else:
        setup = problem.model.base_setup(0)
        setup.locate(name, "quantity to design")
        index = np.asarray(problem.table[name][0]) if name in problem.table else np.zeros(0)
        if (index >= 0).any():
            raise ArgumentError(
                f"`{name}` is free, so it cannot be designed: name an input, a start or another constant."
            )
        shape = (len(problem.labels), *jnp.shape(setup.get(name)))
    return np.full(shape, float(ends[0])), np.full(shape, float(ends[1]))


def _check_derivatives(problem: Problem) -> None:
    """Refuse data whose draws have no derivative by the location."""
    for name in problem.data:
        if (domain := problem.base.noise[name].domain) not in ("real", "positive"):
            raise ArgumentError(
                f"The data `{name}` are of the kind `{domain}`, whose draws have no derivative by the design. Compare designs by "
                "`simkit.expected_information`."
            )


def _placed(problem: Problem, values: Mapping[str, Any]) -> Problem:
    """The problem with a design put in."""
    table, dataset = dict(problem.table), problem.dataset
    for name, value in values.items():
        if name == TIMES:
            own = jnp.asarray(value, problem.times.dtype)
            if not isinstance(problem.base.system, StaticSystem):
                own = jnp.concatenate([problem.times[:, :1], jnp.sort(own, axis=1)], axis=1)
            dataset = eqx.tree_at(lambda d: d.times, dataset, own)
        else:
            known = problem.model.base_setup(0).get(name)
            # With the types of a table that was compiled, so that a designed problem takes the programs of the one before.
            none = jnp.full(len(problem.labels), -1, jnp.asarray(0).dtype)
            table[name] = none, jnp.asarray(value, known.dtype)
    model = eqx.tree_at(lambda m: m.table, problem.model, table, is_leaf=lambda x: x is problem.model.table)
    return problem.with_parts(model=model, dataset=dataset)


def _spread(box: dict[str, tuple[np.ndarray, np.ndarray]], key: PRNGKeyArray, starts: int) -> tuple[Array, Any]:
    """Designs drawn evenly in parts of the width between bounds, and the map from these parts to values by name."""
    sizes = {name: lower.size for name, (lower, _) in box.items()}
    cuts = np.cumsum(list(sizes.values()))[:-1]

    def unravel(flat: Array) -> dict[str, Array]:
        found = {}
        for (name, (lower, upper)), part in zip(box.items(), jnp.split(flat, cuts), strict=True):
            width = jnp.asarray(upper - lower, flat.dtype)
            value = jnp.asarray(lower, flat.dtype) + width * part.reshape(lower.shape)
            found[name] = jnp.sort(value, axis=1) if name == TIMES and value.ndim == 2 else value
        return found

    return jax.random.uniform(key, (starts, sum(sizes.values()))), unravel


def _improved(
    problem: Problem, flat: Array, unravel: Any, z: Array, key: PRNGKeyArray, steps: int, draws: int
) -> Float[Array, "starts numbers"]:
    """The designs after all steps, in parts of the width between bounds."""

    @eqx.filter_jit
    def run(problem: Problem, flat: Array, z: Array, key: PRNGKeyArray) -> Array:
        note_trace("design", named_parts(problem) | {"designs": flat, "draws": z})

        def cost(part: Array, z: Array, key: PRNGKeyArray) -> Array:
            found = bounds_of(_placed(problem, unravel(part)), z, key)
            return -jnp.sum(found.lower) / jnp.maximum(jnp.sum(found.good), 1).astype(part.dtype)

        slope = jax.jacfwd(cost) if flat.shape[1] <= draws else jax.grad(cost)

        def one(part: Array, key: PRNGKeyArray) -> Array:
            def step(carry: Any, key: PRNGKeyArray) -> tuple[Any, None]:
                part, mean, square, count = carry
                rows = jax.random.choice(key, len(z), (draws,), replace=False)
                found = slope(part, z[rows], jax.random.fold_in(key, 1))
                # Adam (Kingma & Ba 2015, arXiv:1412.6980), whose sizes need no scale: steps are parts of a width.
                mean, square = FIRST * mean + (1 - FIRST) * found, SECOND * square + (1 - SECOND) * found**2
                root = jnp.sqrt(square / (1 - SECOND**count))
                rate = RATE * 0.5 * (1 + jnp.cos(jnp.pi * count / steps))
                move = rate * mean / (1 - FIRST**count) / jnp.where(root > 0, root, 1)
                return (jnp.clip(part - move, 0, 1), mean, square, count + 1), None

            begin = part, 0 * part, 0 * part, jnp.ones((), part.dtype)
            return jax.lax.scan(step, begin, jax.random.split(key, steps))[0][0]

        return jax.vmap(one)(flat, jax.random.split(key, len(flat)))

    return run(problem, flat, z, key)
