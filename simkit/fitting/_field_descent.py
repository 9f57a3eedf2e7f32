"""Descents of fits of fields: steps on the device, judged one by one, and what they teach the next ones."""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from .._progress import Progress
from ..engine import awaited
from ..problem import Problem
from ._gauss_newton_cg import GaussNewtonCG
from ._method import CONVERGED, FAILED, LIMIT, STALLED
from ._newton_cg import Stepped, eigenpairs, stepped

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


class Known(NamedTuple):
    r"""Directions that earlier steps have found: $F = \prod_i (I - c_i v_i v_i^T)$, the root of a preconditioner.

    - `rows`, `cuts`: v and c, of which the last, up to `max_products`, are 0.
    - `filled`: how many there are.
    """

    rows: Float[Array, "products parameters"]
    cuts: Float[Array, " products"]
    filled: int

    @classmethod
    def of(cls, size: int, dtype: DTypeLike, most: int) -> "Known":
        """Room for at most so many directions of a fit of so many numbers."""
        return cls(jnp.zeros((most, size), dtype), jnp.zeros((most,), dtype), 0)

    def after(self, rows: Array, cuts: Array) -> "Known":
        """The same room behind directions that are known."""
        found = jnp.concatenate([rows, self.rows]), jnp.concatenate([cuts, self.cuts])
        return Known(*found, self.filled + len(cuts))

    def more(self, step: Stepped) -> "Known":
        """Add the Ritz pairs of a step of conjugate gradients, from the coefficients of its Lanczos process."""
        count = int(step.products)
        lengths, shares = (np.asarray(x, float)[:count] for x in (step.lengths, step.shares))
        beside = np.sqrt(shares) / lengths
        values, vectors = eigenpairs(1 / lengths + np.append(0.0, shares[:-1] / lengths[:-1]), beside[:-1])
        good = (np.abs(beside[-1] * vectors[-1]) < SHARP * values) & (values > 1 + SHARP)
        chosen = np.flatnonzero(good)[::-1][: len(self.cuts) - self.filled]
        if not chosen.size:
            return self
        rows = jnp.asarray(vectors[:, chosen].T, step.basis.dtype) @ step.basis[:count]
        cuts, end = jnp.asarray(1 - 1 / np.sqrt(values[chosen]), rows.dtype), self.filled + len(chosen)
        return Known(self.rows.at[self.filled : end].set(rows), self.cuts.at[self.filled : end].set(cuts), end)


class Descent(NamedTuple):
    """End of a descent, and what it took; `gradients`: relative to the first, by step; `before`: those on coarser grids."""

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
    before: int = 0


@dataclasses.dataclass
class _Way:
    """State of a descent between two steps."""

    problem: Problem
    coarse: Problem | None
    method: GaussNewtonCG
    z: Array
    known: Known
    target: float = 0.0
    first: float | None = None
    radius: float = np.inf
    forcing: float = 0.5
    unit: float | None = None
    last: Stepped | None = None
    waiting: tuple[Array, Stepped] | None = None
    gradients: list[float] = dataclasses.field(default_factory=list)
    products: int = 0
    runs: int = 0
    trials: int = 0
    failures: int = 0
    elsewhere: int = 0

    def look(self) -> Stepped:
        """Run the program of a step at the present place."""
        dtype = self.z.dtype
        radius, forcing, target = (jnp.asarray(x, dtype) for x in (self.radius, self.forcing, self.target))
        known = (*self.known[:2], jnp.asarray(self.known.filled))
        step = awaited(
            stepped(self.problem, self.coarse, self.method.max_products, self.z, known, (radius, forcing, target)),
            "fit",
            f"step {self.runs + 1} of conjugate gradients",
        )
        self.last, self.runs = step, self.runs + 1
        self.products += int(step.products)
        self.elsewhere += 0 if self.coarse is None else int(step.products)
        return step

    def went_back(self, step: Stepped) -> bool:
        """Judge a step of the coarser problem, of which the value at its end is known now, and undo a bad one."""
        if self.waiting is None:
            return False
        (z, before), self.waiting = self.waiting, None
        ratio = self.ratio(before, float(step.value))
        if np.isfinite(ratio) and ratio >= SHRUNK:
            return False
        self.failures += not np.isfinite(float(step.value))
        self.z, self.last, self.coarse, self.radius = z, before, None, np.inf
        return True

    def ratio(self, step: Stepped, trial: float) -> float:
        """The gain of a step relative to the promised one."""
        eps, tiny = (float(getattr(jnp.finfo(self.z.dtype), name)) for name in ("eps", "tiny"))
        promised, value = float(step.promised), float(step.value)
        # Below the rounding of the objective a difference says nothing: the model is trusted.
        rounding = 10 * eps * (1 + abs(value))
        return 1.0 if np.isfinite(trial) and promised < rounding else (value - trial) / max(promised, tiny)

    def learn(self, step: Stepped, ratio: float) -> None:
        """Keep the directions that a good step has found, and say how precise the next one is to be."""
        length = float(step.length)
        # Eisenstat and Walker: as precise as the gradient has become small, and no more than a tenth at once.
        if ratio > GROWN and length < 0.9 * self.radius and int(step.products) >= ENOUGH:
            found = self.known.more(step)
            # The preconditioner sets what a length is.
            self.radius = np.inf if found.filled > self.known.filled else self.radius
            self.known = found
        self.forcing = min(0.5, max(FORCING, self.gradients[-1] ** 0.5)) if self.gradients[-1] > 1e-2 else FORCING

    def move(self, step: Stepped) -> bool:
        """Go on from a step; False where steps gain nothing any more."""
        if self.coarse is not None:
            self.waiting, self.z = (self.z, step), step.place
            self.learn(step, 1.0)
            return True
        self.trials += 1
        trial, length = float(step.trial), float(step.length)
        self.unit = length if self.unit is None else self.unit
        ratio = self.ratio(step, trial)
        self.failures += not np.isfinite(trial)
        if ratio < SHRUNK or not np.isfinite(ratio):
            self.radius = SHRUNK * length
        elif ratio > GROWN and length > 0.9 * self.radius:
            self.radius = 2 * self.radius
        if np.isfinite(ratio) and ratio > ACCEPTED:
            self.z = step.place
            self.learn(step, ratio)
            return True
        return not self.radius < SMALLEST * self.unit


def descend(
    problem: Problem,
    coarse: Problem | None,
    method: GaussNewtonCG,
    z: Array,
    known: Known,
    reference: float,
    counter: Progress,
) -> Descent:
    """Descend from one place to a minimum; each step is one program on the device.

    - `coarse`: the problem that makes the products, until its steps gain too little.
    - `reference`: norm of an earlier gradient, to which those here are relative if it is larger than the first.
    """
    tolerance = max(float(method.tolerance), 100 * float(jnp.finfo(z.dtype).eps))
    way = _Way(problem, coarse, method, z, known)
    way.target, status = tolerance * max(1.0, reference), LIMIT
    for count in range(method.max_steps + 1):
        step = way.look()
        gradient, value = float(step.gradient), float(step.value)
        if way.first is None and not np.isfinite(value):
            status = FAILED
            break
        if way.went_back(step):
            continue
        way.first = max(gradient, reference) if way.first is None else way.first
        # In white coordinates no curvature is below 1: the minimum is at most as many standard errors away as the gradient is long.
        way.target = tolerance * max(1.0, way.first)
        way.gradients.append(gradient / way.first if way.first > 0 else 0.0)
        counter.tell(f"step {count}: objective {value:.8g}, gradient {way.gradients[-1]:.2e}, {way.products} products")
        if gradient <= way.target:
            status = CONVERGED
            break
        if count < method.max_steps and not way.move(step):
            status = STALLED
            break
    last = way.last
    assert last is not None
    return Descent(
        way.z,
        float(last.value),
        status,
        way.gradients,
        way.products,
        way.runs + way.trials,
        way.runs,
        way.failures,
        float(last.chi_squared),
        float(last.log_likelihood),
        way.known,
        way.elsewhere,
        way.first or 0.0,
    )
