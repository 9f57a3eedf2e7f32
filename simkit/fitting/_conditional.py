"""Conditional modes: the deviations of each individual and of its groups, given the numbers of the population."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..core import Status
from ..problem import Population, Problem, weighted
from ._levels import solved, summed, units_of


class Conditional(eqx.Module):
    r"""The negative log density $g_i$ of the data and the deviations $\eta_i$ of every individual, but for a constant.

    Deviations of a group belong to $\eta_i$ of each of its members, which have equal shares of their density: sums over individuals
    are those of the whole.

    - `value`, `gradient`: $g_i$ and its gradient by $\eta_i$.
    - `information`: Fisher information of the data on $\eta_i$ plus that of the deviations, which is 1.
    - `chi_squared`: the sum of squared standardised residuals. `good`: whether all simulations ended.
    """

    value: Float[Array, " individual"]
    gradient: Float[Array, "individual effect"]
    information: Float[Array, "individual effect effect"]
    chi_squared: Float[Array, ""]
    good: Bool[Array, " individual"]


def conditional(
    problem: Problem, z: Float[Array, " parameters"], deviations: Float[Array, "individual effect"]
) -> Conditional:
    """Return the conditional mode at `z`, in the coordinates of the fit, from these deviations in place of those in `z`.

    Individuals do not depend on each other given their groups, so one forward-mode tangent an effect serves all of them.
    """
    population: Population = problem.population  # pyright: ignore
    count, shares = deviations.shape[1], jnp.asarray(population.shares, z.dtype)

    def run(shift: Array) -> Any:
        theta = problem.natural(population.with_deviations(z, deviations + shift[None]))
        heads, status = problem.heads(theta)
        heads = problem.likelihood.conditional(heads, problem.dataset)
        return heads, (heads, status)

    jacobian, (heads, status) = jax.jacfwd(run, has_aux=True)(jnp.zeros(count, z.dtype))
    slopes = jax.grad(lambda heads: problem.misfit(heads))(heads)
    rows = status.shape[0]
    value, gradient = jnp.zeros(rows, z.dtype), jnp.zeros((rows, count), z.dtype)
    information, chi_squared = jnp.zeros((rows, count, count), z.dtype), jnp.zeros((), z.dtype)
    for name, (location, noise) in heads.items():
        seen = jnp.isfinite(problem.data[name])
        value = value - _rows(problem.dataset.log_density(name, location, noise)).sum(axis=1)
        found = problem.dataset.information(name, location, noise)
        pulls, sensitivities = jax.tree.leaves(slopes[name]), jax.tree.leaves(jacobian[name])
        blocks = [jnp.where(seen[..., None], block, 0).reshape(rows, -1, count) for block in sensitivities]
        for i, block in enumerate(blocks):
            gradient = gradient + jnp.einsum("ed,edk->ek", _rows(jnp.where(seen, pulls[i], 0)), block)
            for j, other in enumerate(blocks):
                entry = found.entry(i, j)
                if entry is not None:
                    weight = _rows(jnp.where(seen, jnp.broadcast_to(entry, seen.shape), 0))
                    information = information + jnp.einsum("ed,edk,edl->ekl", weight, block, other)
        _, scaled, _ = weighted(found, seen, pulls, sensitivities)
        chi_squared = chi_squared + jnp.sum(scaled[0] ** 2)
    owner = jnp.asarray(np.array(population.rows)[None] == np.arange(len(population.labels))[:, None])
    own = owner.astype(z.dtype)
    value = jnp.where(owner, jnp.where(status == Status.OK, value, jnp.inf)[None], 0).sum(axis=1)
    value = value + 0.5 * jnp.sum(shares * deviations**2, axis=1)
    gradient = own @ gradient + shares * deviations
    information = jnp.einsum("ie,ekl->ikl", own, information) + jax.vmap(jnp.diag)(shares)
    good = jnp.isfinite(value) & jnp.isfinite(gradient).all(axis=1) & jnp.isfinite(information).all(axis=(1, 2))
    return Conditional(
        jnp.where(good, value, jnp.inf),
        jnp.where(good[:, None], gradient, 0),
        jnp.where(good[:, None, None], information, jnp.eye(count, dtype=z.dtype)[None]),
        chi_squared,
        good,
    )


def _rows(values: Array) -> Array:
    return values.reshape(values.shape[0], -1)


def modes(
    problem: Problem, z: Float[Array, " parameters"], deviations: Float[Array, "individual effect"], max_steps: int
) -> tuple[Float[Array, "individual effect"], Conditional]:
    """The most probable deviations of every individual, by Levenberg and Marquardt's method for all of them together.

    Where there are groups, the members of an outermost group take a step together or not at all.
    """
    population: Population = problem.population  # pyright: ignore
    eps, shares = jnp.finfo(z.dtype).eps, jax.vmap(jnp.diag)(jnp.asarray(population.shares, z.dtype))
    together = lambda values: summed(population, values)[units_of(population)] if population.levels else values

    def body(state: dict[str, Any]) -> dict[str, Any]:
        at, damping, now = state["at"], state["damping"], state["now"]
        damped = now.information + damping[:, None, None] * shares
        place = at - solved(population, damped, now.gradient[..., None])[..., 0]
        new = conditional(problem, z, place)
        value, before = together(new.value), together(jnp.where(now.good, now.value, 0))
        fine, known = together((~new.good).astype(int)) == 0, together((~now.good).astype(int)) == 0
        room = 16 * eps * (1 + jnp.abs(jnp.where(known, before, 0)))
        better = fine & (~known | (value <= before + room))
        pick = lambda a, b: jnp.where(better.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)
        kept = Conditional(
            pick(new.value, now.value),
            pick(new.gradient, now.gradient),
            pick(new.information, now.information),
            new.chi_squared,
            pick(new.good, now.good),
        )
        step = solved(population, kept.information, kept.gradient[..., None])[..., 0]
        decrement = jnp.sqrt(jnp.maximum(together(jnp.sum(kept.gradient * step, axis=-1)), 0))
        return {
            "at": pick(place, at),
            "now": kept,
            "damping": jnp.where(better, 0.1 * damping, jnp.maximum(10 * damping, 1e-2)),
            "small": kept.good & (decrement < 1e3 * jnp.sqrt(eps) * 1e-3),
            "count": state["count"] + 1,
        }

    zero = 0 * z[0] + jnp.zeros(deviations.shape[0], z.dtype)
    start = Conditional(
        zero + jnp.inf,
        zero[:, None] + 0 * deviations,
        zero[:, None, None] + shares,
        zero[0],
        zero > 0,
    )
    begin = {
        "at": deviations + zero[:, None],
        "now": start,
        "damping": zero,
        "small": zero > 0,
        "count": jnp.zeros((), int),
    }
    goes_on = lambda state: (~jnp.all(state["small"])) & (state["count"] < max_steps)
    end = jax.lax.while_loop(goes_on, body, begin)
    return end["at"], end["now"]
