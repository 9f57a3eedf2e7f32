"""EnsembleKalmanInversion: an ensemble from the priors to the posterior, by simulations without derivatives."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._doors import check_count
from .._errors import ArgumentError, SimulationError
from .._progress import Progress
from ..engine import awaited, note_trace, over_members
from ..linear import eigenvalues
from ..problem import LogNormal, Normal, Problem, named_parts
from ._dependent_model import has_residuals
from ._ensemble_fit import EnsembleFit
from ._inside import inside
from ._starts import check_drawable, check_left_out, drawn_starts


class EnsembleKalmanInversion(eqx.Module):
    r"""Ensemble Kalman inversion, for problems with normal residuals whose simulations have no derivatives, or costly ones.

    Members begin as draws of the priors. Each step lets the data count a little more: with residuals r of variance 1, the means
    $\bar x$, $\bar r$, and deviations A and B of N members over $\sqrt{N - 1}$, one row a member,

    $$\bar x \leftarrow \bar x - A^T (B B^T + \alpha I)^{-1} B\, \bar r, \qquad
    A \leftarrow (I + B B^T / \alpha)^{-1/2} A, \qquad \sum 1 / \alpha = 1$$

    with $1 / \alpha$ the larger of $M / 2 \bar\Phi$ and $\sqrt{M / 2\, \mathrm{var}\, \Phi}$, for M data and the misfits
    $\Phi = \tfrac12 |r|^2$ of the members. Where the model is linear and priors are normal, mean and covariance are those of the
    posterior, exactly for the sample mean and covariance of the first members. Elsewhere they are an approximation that no
    diagnostic here sees: of a posterior with several modes or a bent ridge little is right.

    All members are in the span of the first ones, so that N must exceed the number of directions that data determine.
    Parameters move in the coordinates of the fit; one with two bounds and no prior by the normal score of its place between
    them. Members whose simulation fails are replaced by random combinations of the others.

    **Arguments:** `members`: N; `max_steps`: the most steps.

    **Good values:** members five times the unknowns, or of fields some hundreds; a fit takes 5 to 20 steps, each a simulation a
    member. For fewer than some tens of parameters with derivatives `GaussNewton` is exact and cheaper.

    **Reference:** Iglesias, Law and Stuart (2013), Inverse Problems 29:045001, doi:10.1088/0266-5611/29/4/045001; Iglesias and
    Yang (2021), Inverse Problems 37:025008, doi:10.1088/1361-6420/abd29b, for the steps; Huang et al. (2022), Inverse Problems
    38:125006, doi:10.1088/1361-6420/ac99fa, for the transform in place of drawn noise.
    """

    members: int = eqx.field(static=True, default=100)
    max_steps: int = eqx.field(static=True, default=50)

    def __check_init__(self):
        check_count("members", self.members, least=3)
        check_count("max_steps", self.max_steps)


class Cycle(NamedTuple):
    """State of the loop."""

    x: Array
    power: Array
    step: Array
    failures: Array
    misfits: Array


def fit_ensemble(
    problem: Problem,
    method: EnsembleKalmanInversion,
    starts: Any,
    key: PRNGKeyArray,
    options: dict[str, Any],
    counter: Progress,
) -> EnsembleFit:
    """Fit by an ensemble that begins as draws of the priors.

    **Raises:** an `ArgumentError` for what does not go with it, a `SimulationError` where fewer than three members could be
    simulated.
    """
    check_left_out(options, "`EnsembleKalmanInversion`, which takes all data at once: leave it out.")
    if not isinstance(starts, int | np.integer):
        raise ArgumentError("`EnsembleKalmanInversion` begins with draws of the priors, so `starts` must be left out.")
    check_normal(problem)
    check_drawable(problem)
    counter.tell(f"{method.members} members from the priors to the posterior")
    lean = problem.lean()
    end, theta, members, value = awaited(_run(lean, method, key), "fit", f"of {method.members} members")
    steps, misfits = int(end.step), np.asarray(end.misfits)
    if not np.isfinite(misfits[steps]):
        raise SimulationError(
            f"Fewer than three of {method.members} draws of the priors could be simulated. Check the system with `simulate` at a "
            "value that you trust, then narrow the priors around it."
        )
    return EnsembleFit(
        problem.unknowns,
        tuple(problem.model.unit(block.offset, block.name) for block in problem.unknowns.blocks),
        problem.data_count,
        theta,
        members,
        tuple(misfits[: steps + 1].tolist()),
        float(end.power),
        method.members * (steps + 1),
        int(end.failures),
        float(value),
    )


def check_normal(problem: Problem) -> None:
    """Refuse a problem whose residuals are not normal with known scales.

    **Raises:** an `ArgumentError`.
    """
    if not has_residuals(problem):
        raise ArgumentError(
            "`EnsembleKalmanInversion` needs residuals, but the likelihood of this problem, "
            f"`{type(problem.likelihood).__name__}`, has none."
        )
    if problem.likelihood.independent:
        for name in problem.data:
            noise = problem.base.noise[name]
            if not isinstance(noise, Normal | LogNormal):
                raise ArgumentError(
                    f"`EnsembleKalmanInversion` needs `Normal` or `LogNormal` for every output, but `{name}` has "
                    f"{type(noise).__name__}. Take `GaussNewton()` or `LBFGS()`."
                )
    for path, (index, _) in problem.table.items():
        if path.startswith("noise.") and bool((np.asarray(index) >= 0).any()):
            raise ArgumentError(
                f"`EnsembleKalmanInversion` needs known scales of the noise, but `{path}` is free: fix it, or take `GaussNewton()`."
            )
    if problem.dataset.limits:
        raise ArgumentError("`EnsembleKalmanInversion` needs residuals that are normal, but some data are censored.")


@eqx.filter_jit
def _run(problem: Problem, method: EnsembleKalmanInversion, key: PRNGKeyArray) -> tuple[Cycle, Array, Array, Array]:
    """The last state of the loop, the estimate and the members in natural units, and the log likelihood at the estimate."""
    note_trace("fit", named_parts(problem) | {"method": method})
    for_draws, for_members = jax.random.split(key)
    bounds = problem.coordinate_bounds()
    flat = _flat(problem)
    lower, width = jnp.where(flat, bounds[:, 0], 0), jnp.where(flat, bounds[:, 1] - bounds[:, 0], 1)
    half = jnp.finfo(bounds.dtype).eps

    def back(x: Array) -> Array:
        within = lower + width * jax.scipy.special.ndtr(x)
        return inside(jnp.where(flat, within, x), bounds)

    z = drawn_starts(problem, for_draws, method.members)
    share = jnp.clip((z - lower[None]) / width[None], half, 1 - half)
    x = jnp.where(flat[None], jax.scipy.special.ndtri(jnp.where(flat[None], share, 0.5)), z)

    count = sum((jnp.sum(jnp.isfinite(y), dtype=int) for y in problem.data.values()), jnp.zeros((), int))

    def residuals(problem: Problem, x: Array) -> Array:
        found: Any = problem.residuals(problem.natural(back(x)))
        return found

    def step(carry: Cycle) -> Cycle:
        r = over_members(residuals, problem, carry.x)
        x, r, good = completed(carry.x, r, jax.random.fold_in(for_members, carry.step))
        return advanced(carry, x, r, good, count)

    def more(carry: Cycle) -> Array:
        usable = (carry.step == 0) | jnp.isfinite(carry.misfits[jnp.maximum(carry.step, 1) - 1])
        return (carry.power < 1) & (carry.step < method.max_steps) & usable

    zero = jnp.zeros((), int)
    begin = Cycle(x, jnp.zeros((), x.dtype), zero, zero, jnp.full((method.max_steps + 1,), jnp.inf, x.dtype))
    end = jax.lax.while_loop(more, step, begin)
    r = over_members(residuals, problem, end.x)
    _, r, good = completed(end.x, r, for_members)
    misfit = jnp.where(jnp.sum(good) > 2, jnp.mean(0.5 * jnp.sum(r**2, axis=1)), jnp.inf)
    end = end._replace(misfits=end.misfits.at[end.step].set(misfit), failures=end.failures + jnp.sum(~good))
    natural = lambda x: problem.natural(back(x))
    theta = natural(jnp.mean(end.x, axis=0))
    return end, theta, jax.vmap(natural)(end.x), problem.log_likelihood(theta)[0]


def _flat(problem: Problem) -> Array:
    """Tell of each number whether it lies between two bounds and has no prior."""
    bounded = jnp.isfinite(problem.bounds).all(axis=1)
    none = np.concatenate([np.full(block.size, prior is None) for block, prior in problem.unknowns.pairs])
    return bounded & jnp.asarray(none)


def completed(
    x: Float[Array, "members parameters"], r: Float[Array, "members residuals"], key: PRNGKeyArray
) -> tuple[Array, Array, Array]:
    """Members and residuals with those that failed replaced by random combinations of the others, and which did not fail."""
    good = jnp.isfinite(r).all(axis=1)
    count = jnp.maximum(jnp.sum(good), 2).astype(x.dtype)
    mean = lambda y: jnp.sum(jnp.where(good[:, None], y, 0), axis=0) / count
    apart = lambda y: jnp.where(good[:, None], y - mean(y)[None], 0)
    white = jax.random.normal(key, (x.shape[0], x.shape[0]), x.dtype) / jnp.sqrt(count - 1)
    filled = lambda y: jnp.where(good[:, None], y, mean(y)[None] + white @ apart(y))
    return filled(x), filled(r), good


def advanced(carry: Cycle, x: Array, r: Array, good: Array, data: Int[Array, ""]) -> Cycle:
    """The members after one step."""
    members = x.shape[0]
    misfit = 0.5 * jnp.sum(r**2, axis=1)
    middle, scatter = jnp.mean(misfit), jnp.var(misfit)
    half = 0.5 * data.astype(x.dtype)
    rate = jnp.maximum(half / middle, jnp.sqrt(half / jnp.where(scatter > 0, scatter, 1)))
    rate = jnp.minimum(jnp.where(scatter > 0, rate, 1), 1 - carry.power)
    mean, place = jnp.mean(x, axis=0), jnp.mean(r, axis=0)
    a, b = (x - mean[None]) / (members - 1) ** 0.5, (r - place[None]) / (members - 1) ** 0.5
    values, vectors = eigenvalues(rate * (b @ b.T))
    values = jnp.maximum(values, 0)
    # (B B^T + I / rate)^-1 = rate V (1 + values)^-1 V^T, and the transform is V (1 + values)^-1/2 V^T.
    pull = vectors @ ((vectors.T @ (b @ place)) * (rate / (1 + values)))
    turned = vectors @ ((vectors.T @ a) / jnp.sqrt(1 + values)[:, None])
    after = (mean - pull @ a)[None] + (members - 1) ** 0.5 * turned
    usable = (jnp.sum(good) > 2) & jnp.isfinite(after).all()
    # 1 - (1 - p) is p but for rounding, which would leave a step of rounding's size.
    power = jnp.where(rate >= 1 - carry.power, 1, carry.power + rate)
    return Cycle(
        jnp.where(usable, after, carry.x),
        jnp.where(usable, power, carry.power),
        carry.step + 1,
        carry.failures + jnp.sum(~good),
        carry.misfits.at[carry.step].set(jnp.where(usable, middle, jnp.inf)),
    )
