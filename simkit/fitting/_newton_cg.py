"""Gauss-Newton steps by conjugate gradients, as programs on the device, without matrices over the unknowns."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..engine import awaited, note_trace
from ..problem import Problem, named_parts
from ._carried import carried
from ._inside import inside, on_bounds, share_inside
from ._linearised import Linearised, linearised
from ._local_model import objective

MORE = 8
"""Steps of Lanczos' method beyond the directions that are kept, without which the last of these are mixtures of several."""


class Stepped(NamedTuple):
    """A step from one place, and what was found there; `promised` is the gain by the model, `trial` the value at its end."""

    place: Float[Array, " parameters"]
    value: Float[Array, ""]
    trial: Float[Array, ""]
    promised: Float[Array, ""]
    gradient: Float[Array, ""]
    length: Float[Array, ""]
    products: Int[Array, ""]
    chi_squared: Float[Array, ""]
    log_likelihood: Float[Array, ""]
    basis: Float[Array, "products parameters"]
    lengths: Float[Array, " products"]
    shares: Float[Array, " products"]


@eqx.filter_jit
def stepped(
    problem: Problem,
    coarse: Problem | None,
    most: int,
    z: Array,
    known: tuple[Array, Array, Array],
    numbers: tuple[Array, Array, Array],
) -> Stepped:
    """Step from one place.

    - `coarse`: the problem that makes the products. The step is then judged by the next gradient, without a simulation of its own.
    - `known`: rows, cuts and number of the directions of the preconditioner.
    - `numbers`: radius, residual of conjugate gradients relative to the gradient, and the norm of a gradient that is small enough.
    """
    note_trace("fit, conjugate gradients", named_parts(problem) | {"max_products": most, "coarse": coarse is not None})
    radius, forcing, target = numbers
    model = linearised(problem, z)
    sizes = white_sizes(model.curvature)
    informed = lambda q: white_information(model, sizes, q)
    if coarse is not None:
        down, up = (lambda v: carried(v, problem.unknowns, coarse)), (lambda v: carried(v, coarse.unknowns, problem))
        inner = linearised(coarse, down(z))
        scales = white_sizes(inner.curvature)
        informed = lambda q: up(white_information(inner, scales, down(q)))
    # The prior's part is 1 in white coordinates.
    of_all = lambda q: informed(q) + jnp.where(model.curvature > 0, q, 0)
    bounds = problem.coordinate_bounds()
    on = on_bounds(z, model.gradient, bounds)
    gradient = jnp.where(on, 0, model.gradient * sizes)
    norm = jnp.linalg.norm(gradient)
    forward = lambda q: _shortened(known, q, reverse=True)
    back = lambda v: _shortened(known, v, reverse=False)
    product = lambda q: back(jnp.where(on, 0, of_all(jnp.where(on, 0, forward(q)))))
    least = jnp.maximum(forcing, 0.3 * target / jnp.maximum(norm, jnp.finfo(z.dtype).tiny))
    turned = back(gradient)
    # Where the gradient is small enough nobody asks for a step.
    far = norm > target
    goal = jnp.where(far, least * jnp.linalg.norm(turned), jnp.inf)
    end = _conjugate(product, turned, radius, goal, most)
    step = jnp.where(on, 0, forward(end["step"]))
    share = share_inside(z, sizes * step, bounds)
    place = jnp.where(on, z, inside(z + share * sizes * step, bounds))
    promised = -share * (turned @ end["step"]) - 0.5 * share**2 * (end["step"] @ end["turned"])
    trial = jnp.full_like(norm, jnp.inf)
    if coarse is None:
        trial = jax.lax.cond(far, lambda: objective(place, problem), lambda: trial)
    told = model.chi_squared, model.log_likelihood, end["basis"], end["lengths"], end["shares"]
    return Stepped(place, model.value, trial, promised, norm, share * jnp.linalg.norm(end["step"]), end["count"], *told)


def _shortened(known: tuple[Array, Array, Array], q: Array, reverse: bool) -> Array:
    """The root of the preconditioner, or its transpose, times a vector."""
    rows, cuts, filled = known

    def one(i: Any, q: Array) -> Array:
        place = filled - 1 - i if reverse else i
        return q - cuts[place] * (rows[place] @ q) * rows[place]

    return jax.lax.fori_loop(0, filled, one, q)


def white_sizes(curvature: Array) -> Float[Array, " parameters"]:
    """The standard deviations of the prior in the coordinates of a fit, 1 where it is flat: 1 of white coordinates."""
    known = curvature > 0
    return jnp.where(known, 1 / jnp.sqrt(jnp.where(known, curvature, 1)), 1)


def white_information(model: Linearised, sizes: Array, v: Array) -> Float[Array, " parameters"]:
    """A vector times the information of the data, in coordinates in which the prior's is 1."""
    return sizes * model.product(sizes * v)


def _conjugate(product: Any, gradient: Array, radius: Array, goal: Array, most: int) -> dict[str, Array]:
    """Minimise g p + p H p / 2 inside a ball (Steihaug): the step, H times it, the number of products, and the Lanczos process.

    Residuals are kept, and each new one made orthogonal to them: in floating point numbers they would lose that.
    """

    def live(state: dict[str, Array]) -> Bool[Array, ""]:
        return ~state["done"] & (jnp.linalg.norm(state["rest"]) > goal) & (state["count"] < most)

    def body(state: dict[str, Array]) -> dict[str, Array]:
        p, rest, d = state["step"], state["rest"], state["direction"]
        turned = product(d)
        curve, square = d @ turned, rest @ rest
        length = square / jnp.where(curve > 0, curve, 1)
        out = (curve <= 0) | (jnp.linalg.norm(p + length * d) >= radius)
        # To the edge of the ball: |p + t d| = radius, without cancellation.
        a, b = d @ d, p @ d
        left = jnp.where(jnp.isfinite(radius), radius, 1) ** 2 - p @ p
        edge = jnp.maximum(left, 0) / (b + jnp.sqrt(jnp.maximum(b * b + a * jnp.maximum(left, 0), 0)))
        t = jnp.where(out, edge, length)
        basis = state["basis"].at[state["count"]].set(state["sign"] * rest / jnp.sqrt(square))
        new = rest + t * turned
        # Row by row: of all that there is room for, most are 0 still.
        apart = lambda i, v, basis=basis: v - (basis[i] @ v) * basis[i]
        new = jax.lax.fori_loop(0, state["count"] + 1, apart, new)
        share = (new @ new) / square
        return {
            "basis": basis,
            "lengths": state["lengths"].at[state["count"]].set(t),
            "shares": state["shares"].at[state["count"]].set(share),
            "sign": -state["sign"],
            "step": p + t * d,
            "turned": state["turned"] + t * turned,
            "rest": new,
            "direction": -new + share * d,
            "count": state["count"] + 1,
            "done": out,
        }

    nothing = jnp.zeros_like(gradient)
    start = {
        "basis": jnp.zeros((most, gradient.size), gradient.dtype),
        "lengths": jnp.zeros((most,), gradient.dtype),
        "shares": jnp.zeros((most,), gradient.dtype),
        "sign": jnp.ones((), gradient.dtype),
        "step": nothing,
        "turned": nothing,
        "rest": gradient,
        "direction": -gradient,
        "count": jnp.zeros((), int),
        "done": jnp.zeros((), bool),
    }
    return jax.lax.while_loop(live, body, start)


def low_rank(
    problem: Problem, z: Array, modes: int, key: PRNGKeyArray
) -> tuple[Float[Array, " modes"], Float[Array, "modes parameters"], Float[Array, " parameters"]]:
    r"""Eigenvalues and vectors of the data's information in white coordinates, by Lanczos' method, and the prior's deviations.

    All vectors are kept and made orthogonal to each other, twice. The Ritz pairs of a Krylov space never say more than the whole.
    Where the space is exhausted, as after as many directions as there are data, it goes on from a new random vector.
    """
    steps = min(modes + MORE, z.size)
    diagonal, beside, basis, sizes = awaited(_lanczos(problem, z, steps, key), "fit", "directions of the uncertainty")
    values, vectors = eigenpairs(np.asarray(diagonal, float), np.asarray(beside, float)[:-1])
    turned = jnp.asarray(vectors.T[::-1][:modes].copy(), basis.dtype) @ basis
    return jnp.asarray(np.maximum(values[::-1][:modes], 0).copy(), basis.dtype), turned, sizes


def eigenpairs(diagonal: np.ndarray, beside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, ascending, and vectors of a symmetric tridiagonal matrix."""
    return np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))


@eqx.filter_jit
def _lanczos(problem: Problem, z: Array, modes: int, key: PRNGKeyArray) -> tuple[Array, Array, Array, Array]:
    note_trace("fit, uncertainty", named_parts(problem) | {"modes": modes})
    model = linearised(problem, z)
    sizes = white_sizes(model.curvature)
    first = jax.random.normal(key, z.shape, z.dtype)

    def body(i: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        basis, diagonal, beside = state
        q = basis[i]
        w = white_information(model, sizes, q)
        diagonal = diagonal.at[i].set(q @ w)
        w = apart(basis, apart(basis, w))
        norm = jnp.linalg.norm(w)
        # What rounding leaves has no direction of its own: divided by its length it would lie along those that are there.
        fresh = jax.random.normal(jax.random.fold_in(key, i), z.shape, z.dtype)
        there = norm > 16 * jnp.finfo(z.dtype).eps * jnp.max(jnp.abs(diagonal))
        unit = apart(
            basis, jnp.where(there, w / jnp.where(there, norm, 1), apart(basis, fresh / jnp.linalg.norm(fresh)))
        )
        length = jnp.linalg.norm(unit)
        room = length > jnp.finfo(z.dtype).eps ** 0.5
        unit = apart(basis, jnp.where(room, unit / jnp.where(room, length, 1), 0))
        return basis.at[i + 1].set(unit), diagonal, beside.at[i].set(jnp.where(there, norm, 0))

    apart = lambda basis, v: v - basis.T @ (basis @ v)
    basis = jnp.zeros((modes + 1, z.size), z.dtype).at[0].set(first / jnp.linalg.norm(first))
    empty = jnp.zeros((modes,), z.dtype)
    basis, diagonal, beside = jax.lax.fori_loop(0, modes, body, (basis, empty, empty))
    return diagonal, beside, basis[:-1], sizes
