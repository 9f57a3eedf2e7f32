"""Gauss-Newton with conjugate gradients: fits of fields, without matrices over the unknowns."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..engine import awaited, note_trace
from ..problem import Problem, named_parts
from ._carried import carried
from ._gauss_newton_cg import GaussNewtonCG
from ._inside import inside, margin
from ._linearised import Linearised, linearised
from ._local_model import objective
from ._method import CONVERGED, FAILED, LIMIT, STALLED

SHRUNK, GROWN = 0.25, 0.75
"""Gains, relative to those that the local model promised, below which a radius shrinks and above which it grows."""

ACCEPTED = 1e-4
"""Part of the promised gain from which on a step is taken."""

SMALLEST = 1e-10
"""Radius, relative to the first one, below which steps gain nothing any more."""

FORCING = 0.1
"""Residual of conjugate gradients near the minimum, relative to the gradient."""

ENOUGH, SHARP = 5, 0.1
"""Steps of so many products or more teach the preconditioner their Ritz pairs, if residuals are below this part of their values."""


class Stepped(NamedTuple):
    """A step from one place, and what was found there; `ratio` of the gain to the one that the model promised."""

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


class Known(NamedTuple):
    r"""Directions that earlier steps have found: $F = \prod_i (I - c_i v_i v_i^T)$, the root of a preconditioner.

    - `rows`, `cuts`: v and c, of which the last, up to `max_products`, are 0.
    - `filled`: how many there are.
    """

    rows: Float[Array, "products parameters"]
    cuts: Float[Array, " products"]
    filled: int

    @classmethod
    def of(cls, size: int, dtype: DTypeLike, method: GaussNewtonCG) -> "Known":
        """Room for the directions of a fit of so many numbers."""
        return cls(jnp.zeros((method.max_products, size), dtype), jnp.zeros((method.max_products,), dtype), 0)

    def after(self, rows: Array, cuts: Array) -> "Known":
        """The same room behind directions that are known."""
        found = jnp.concatenate([rows, self.rows]), jnp.concatenate([cuts, self.cuts])
        return Known(*found, self.filled + len(cuts))

    def more(self, step: Stepped) -> "Known":
        """Add the Ritz pairs of a step of conjugate gradients, from the coefficients of its Lanczos process."""
        count = int(step.products)
        lengths, shares = (np.asarray(x, float)[:count] for x in (step.lengths, step.shares))
        beside = np.sqrt(shares) / lengths
        values, vectors = _eigenpairs(1 / lengths + np.append(0.0, shares[:-1] / lengths[:-1]), beside[:-1])
        good = (np.abs(beside[-1] * vectors[-1]) < SHARP * values) & (values > 1 + SHARP)
        chosen = np.flatnonzero(good)[::-1][: len(self.cuts) - self.filled]
        if not chosen.size:
            return self
        rows = jnp.asarray(vectors[:, chosen].T, step.basis.dtype) @ step.basis[:count]
        cuts, end = jnp.asarray(1 - 1 / np.sqrt(values[chosen]), rows.dtype), self.filled + len(chosen)
        return Known(self.rows.at[self.filled : end].set(rows), self.cuts.at[self.filled : end].set(cuts), end)


class Descent(NamedTuple):
    """End of a descent, and what it took; `gradients`: norms relative to the first, by step."""

    z: Array
    value: float
    status: int
    gradients: list[float]
    products: int
    runs: int
    linearisations: int
    failures: int
    chi_squared: float
    log_likelihood: float
    known: Known
    coarse: int
    first: float


def descend(
    problem: Problem,
    coarse: Problem | None,
    method: GaussNewtonCG,
    z: Array,
    known: Known,
    reference: float,
    progress: bool,
) -> Descent:
    """Descend from one place to a minimum; each step is one program on the device.

    - `coarse`: the problem that makes the products, until its steps gain too little.
    - `reference`: norm of an earlier gradient, to which those here are relative if it is larger than the first.
    """
    dtype = z.dtype
    eps, tiny = float(jnp.finfo(dtype).eps), float(jnp.finfo(dtype).tiny)
    tolerance = max(float(method.tolerance), 100 * eps)
    radius, first, forcing = np.inf, None, 0.5
    unit: float | None = None
    gradients: list[float] = []
    products = runs = failures = elsewhere = 0
    status, last = LIMIT, None
    for count in range(method.max_steps + 1):
        # In white coordinates no curvature is below 1: the minimum is at most as many standard errors away as the gradient is long.
        target = tolerance * max(1.0, first or 0.0)
        numbers = (jnp.asarray(x, dtype) for x in (radius, forcing, target))
        step = awaited(
            _stepped(problem, coarse, method.max_products, z, (*known[:2], jnp.asarray(known.filled)), *numbers),
            "fit",
            f"step {count + 1} of conjugate gradients",
        )
        last = step
        gradient, value, trial = float(step.gradient), float(step.value), float(step.trial)
        products, runs = products + int(step.products), runs + 1
        elsewhere += 0 if coarse is None else int(step.products)
        if first is None and not np.isfinite(value):
            status = FAILED
            break
        first = max(gradient, reference) if first is None else first
        gradients.append(gradient / first if first > 0 else 0.0)
        if progress:
            print(f"step {count}: objective {value:.8g}, gradient {gradients[-1]:.2e}, {products} products")
        if gradient <= tolerance * max(1.0, first):
            status = CONVERGED
            break
        if count == method.max_steps:
            break
        promised, length = float(step.promised), float(step.length)
        unit = length if unit is None else unit
        # Below the rounding of the objective a difference says nothing: the model is trusted.
        rounding = 10 * eps * (1 + abs(value))
        ratio = 1.0 if np.isfinite(trial) and promised < rounding else (value - trial) / max(promised, tiny)
        failures += not np.isfinite(trial)
        if ratio < SHRUNK or not np.isfinite(ratio):
            radius = np.inf if coarse is not None else SHRUNK * length
            coarse = None
        elif ratio > GROWN and length > 0.9 * radius:
            radius = 2 * radius
        if np.isfinite(ratio) and ratio > ACCEPTED:
            z = step.place
            # Eisenstat and Walker: as precise as the gradient has become small, and no more than a tenth at once.
            if ratio > GROWN and length < 0.9 * radius and int(step.products) >= ENOUGH:
                found = known.more(step)
                # The preconditioner sets what a length is.
                radius = np.inf if found.filled > known.filled else radius
                known = found
            forcing = min(0.5, max(FORCING, gradients[-1] ** 0.5)) if gradients[-1] > 1e-2 else FORCING
        elif radius < SMALLEST * unit:
            status = STALLED
            break
    assert last is not None
    return Descent(
        z,
        float(last.value),
        status,
        gradients,
        products,
        2 * runs - (status == CONVERGED),
        runs,
        failures,
        float(last.chi_squared),
        float(last.log_likelihood),
        known,
        elsewhere,
        first or 0.0,
    )


@eqx.filter_jit
def _stepped(
    problem: Problem,
    coarse: Problem | None,
    most: int,
    z: Array,
    known: tuple[Array, Array, Array],
    radius: Array,
    forcing: Array,
    target: Array,
) -> Stepped:
    note_trace("fit, conjugate gradients", named_parts(problem) | {"max_products": most, "coarse": coarse is not None})
    model, bounds = linearised(problem, z), problem.coordinate_bounds()
    sizes = white_sizes(model.curvature)
    informed = lambda q: white_information(model, sizes, q)
    if coarse is not None:
        down, up = (lambda v: carried(v, problem.unknowns, coarse)), (lambda v: carried(v, coarse.unknowns, problem))
        inner = linearised(coarse, down(z))
        scales = white_sizes(inner.curvature)
        informed = lambda q: up(white_information(inner, scales, down(q)))
    # The prior's part is 1 in white coordinates.
    of_all = lambda q: informed(q) + jnp.where(model.curvature > 0, q, 0)
    gap = 2 * margin(bounds)
    on = ((z <= bounds[:, 0] + gap[:, 0]) & (model.gradient > 0)) | (
        (z >= bounds[:, 1] - gap[:, 1]) & (model.gradient < 0)
    )
    gradient = jnp.where(on, 0, model.gradient * sizes)
    norm = jnp.linalg.norm(gradient)
    forward = lambda q: _shortened(known, q, reverse=True)
    back = lambda v: _shortened(known, v, reverse=False)
    product = lambda q: back(jnp.where(on, 0, of_all(jnp.where(on, 0, forward(q)))))
    turned = back(gradient)
    goal = jnp.maximum(forcing, 0.3 * target / jnp.maximum(norm, jnp.finfo(z.dtype).tiny)) * jnp.linalg.norm(turned)
    end = _conjugate(product, turned, radius, jnp.where(norm <= target, jnp.inf, goal), most)
    step = jnp.where(on, 0, forward(end["step"]))
    # All of the step up to the nearest bound.
    place = z + sizes * step
    reach = jnp.where(
        place > bounds[:, 1], bounds[:, 1] - z, jnp.where(place < bounds[:, 0], bounds[:, 0] - z, jnp.inf)
    )
    moved = jnp.where(sizes * step == 0, 1, jnp.abs(sizes * step))
    share = jnp.minimum(1, jnp.min(jnp.abs(reach) / moved))
    place = jnp.where(on, z, inside(z + share * sizes * step, bounds))
    promised = -share * (turned @ end["step"]) - 0.5 * share**2 * (end["step"] @ end["turned"])
    # Where the gradient is small enough nobody asks for a step.
    far = norm > target
    trial = jax.lax.cond(far, lambda: objective(place, problem), lambda: jnp.full_like(norm, jnp.inf))
    length = share * jnp.linalg.norm(end["step"])
    told = model.chi_squared, model.log_likelihood, end["basis"], end["lengths"], end["shares"]
    return Stepped(place, model.value, trial, promised, norm, length, end["count"], *told)


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
    """
    diagonal, beside, basis, sizes = awaited(_lanczos(problem, z, modes, key), "fit", "directions of the uncertainty")
    values, vectors = _eigenpairs(np.asarray(diagonal, float), np.asarray(beside, float)[:-1])
    turned = jnp.asarray(vectors.T[::-1].copy(), basis.dtype) @ basis
    return jnp.asarray(np.maximum(values[::-1], 0).copy(), basis.dtype), turned, sizes


def _eigenpairs(diagonal: np.ndarray, beside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
        for _ in range(2):
            w = w - basis.T @ (basis @ w)
        norm = jnp.linalg.norm(w)
        unit = jnp.where(norm > 0, w / jnp.where(norm > 0, norm, 1), 0)
        return basis.at[i + 1].set(unit), diagonal, beside.at[i].set(norm)

    basis = jnp.zeros((modes + 1, z.size), z.dtype).at[0].set(first / jnp.linalg.norm(first))
    empty = jnp.zeros((modes,), z.dtype)
    basis, diagonal, beside = jax.lax.fori_loop(0, modes, body, (basis, empty, empty))
    return diagonal, beside, basis[:-1], sizes
