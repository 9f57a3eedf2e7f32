"""Result of a fit of fields: the estimate, and a low-rank normal approximation of the posterior."""

from statistics import NormalDist

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_count
from .._errors import ArgumentError
from ..problem import AbstractFieldPrior
from ._block_fit import AbstractBlockFit
from ._fit_result import UNFINISHED


class FieldFit(AbstractBlockFit):
    r"""The most probable values of many unknowns, and what is known of their uncertainty.

    The posterior near the estimate is taken as normal in white coordinates, with the covariance

    $$I - V \frac{\Lambda}{1 + \Lambda} V^T$$

    where $V, \Lambda$ are the leading eigenpairs of the data's information there. It neglects the directions that were left out, in
    which the prior stands in place of the posterior (intervals are too wide, never too narrow), what is not normal, second
    derivatives of the simulation, and errors of the model and of the numbers of prior and noise.

    - `unknowns`: names, shapes, priors and bounds of the unknowns; `units`: their units; `data_count`: the number of data.
    - `estimate`: shape `(parameters,)`, natural units; `fit["name"]` is that of one unknown in its shape.
    - `z`: the same in the coordinates of the fit, white for fields.
    - `objective`: the negative log density that the fit made least, of a positive field that of its logarithm.
    - `gradients`: its norm in white coordinates at each step, relative to `first`.
    - `first`: the norm at the start; of a fit that began with an earlier one, that at the start of the earlier one if it is larger.
    - `status`: 0 converged, 1 stopped before, 2 no simulation ended, 3 stopped since steps gained nothing.
    - `products`, `simulations`, `linearisations`: products of the information with a vector (one tangent and one adjoint solve
        each), and solves with and without derivatives; of the products `modes` were for the uncertainty.
    - `coarse`: of the products, those of a coarser problem.
    - `failures`: failed simulations met on the way.
    - `eigenvalues`, `vectors`: shapes `(modes,)` and `(modes, parameters)`, in white coordinates.
    - `deviations`: shape `(parameters,)`, those of the prior in the coordinates of the fit, 1 in white ones.
    - `directions`, `cuts`: shapes `(found, parameters)` and `(found,)`, the preconditioner $\prod_i (I - c_i v_i v_i^T)$ that the
        steps have made, with which `GaussNewtonCG(known=...)` begins.
    - `before`: gradients on coarser grids, of `FieldLBFGS`.
    """

    z: Float[Array, " parameters"]
    objective: float = eqx.field(static=True)
    log_likelihood: float = eqx.field(static=True)
    chi_squared: float = eqx.field(static=True)
    gradients: tuple[float, ...] = eqx.field(static=True)
    first: float = eqx.field(static=True)
    status: int = eqx.field(static=True)
    products: int = eqx.field(static=True)
    coarse: int = eqx.field(static=True)
    simulations: int = eqx.field(static=True)
    linearisations: int = eqx.field(static=True)
    failures: int = eqx.field(static=True)
    method: str = eqx.field(static=True)
    eigenvalues: Float[Array, " modes"]
    vectors: Float[Array, "modes parameters"]
    deviations: Float[Array, " parameters"]
    directions: Float[Array, "found parameters"]
    cuts: Float[Array, " found"]
    before: int = eqx.field(static=True, default=0)

    def standard_error(self, name: str) -> Float[Array, "..."]:
        """The standard deviation of an unknown in natural units, in its shape; of a positive one to first order."""
        found = self._part(self._spread(), name)
        return found * self[name] if self._block(name).log else found

    def interval(self, name: str, level: float = 0.9) -> Float[Array, "... 2"]:
        """The interval of each number of an unknown in natural units, normal in its logarithm where it moves by that."""
        if not 0 < level < 1:
            raise ArgumentError(f"Argument `level` must lie between 0 and 1, but it is {level}.")
        width, spread = NormalDist().inv_cdf(0.5 + level / 2), self._part(self._spread(), name)
        block = self._block(name)
        centre = jnp.log(self[name]) if block.log else self[name]
        ends = jnp.stack([centre - width * spread, centre + width * spread], axis=-1)
        if block.log:
            return jnp.exp(ends)
        lower, upper = self.unknowns.bounds[block.offset]
        return jnp.clip(ends, lower, upper)

    def draws(self, key: PRNGKeyArray, count: int) -> Float[Array, "draws parameters"]:
        """Draws of the normal approximation, natural units, for `predict`; cut off at bounds."""
        check_count("count", count)
        self._check_modes()
        white = jax.random.normal(key, (count, self.z.size), self.z.dtype)
        shrunk = 1 - 1 / jnp.sqrt(1 + self.eigenvalues)
        white = white - ((white @ self.vectors.T) * shrunk[None]) @ self.vectors
        found = jax.vmap(self.unknowns.natural)(self.z[None] + self.deviations[None] * white)
        return jnp.clip(found, self.unknowns.bounds[None, :, 0], self.unknowns.bounds[None, :, 1])

    def covariance(self) -> Float[Array, "parameters parameters"]:
        """The covariance in the coordinates of the fit, a matrix: for a few hundred unknowns."""
        known = self.eigenvalues / (1 + self.eigenvalues)
        white = jnp.eye(self.z.size, dtype=self.z.dtype) - (self.vectors.T * known[None]) @ self.vectors
        return self.deviations[:, None] * white * self.deviations[None]

    def _spread(self) -> Array:
        """Standard deviations in natural units, or of logarithms."""
        self._check_modes()
        known, parts = self.eigenvalues / (1 + self.eigenvalues), []
        for block, prior in self.unknowns.pairs:
            own = self.vectors[:, block.span]
            if isinstance(prior, AbstractFieldPrior):
                fields = prior.root(own.reshape(-1, *block.shape)).reshape(own.shape)
                variance = prior.variance(block.shape, own.dtype).ravel() - known @ fields**2
            else:
                variance = self.deviations[block.span] ** 2 * (1 - known @ own**2)
            parts.append(jnp.sqrt(jnp.maximum(variance, 0)))
        return jnp.concatenate(parts)

    def _check_modes(self) -> None:
        if not self.eigenvalues.size:
            raise ArgumentError(
                "This fit knows no uncertainty, since its method was not asked for it. Take `simkit.GaussNewtonCG(modes=100)`."
            )

    def __repr__(self) -> str:
        if isinstance(self.estimate, jax.core.Tracer):
            return "FieldFit(traced)"
        modes = self.eigenvalues.size
        lines = [
            f"FieldFit: {self.method}, {self.z.size} unknowns, {self.data_count} data",
            f"  log likelihood {self.log_likelihood:.6g}, chi-squared {self.chi_squared:.6g}, objective {self.objective:.6g}",
            f"  gradient {self.gradients[-1]:.1e} of the first after {len(self.gradients) - 1} steps; {self.linearisations} "
            f"linearisations, {self.simulations - self.linearisations} simulations, {self.products} products"
            + f", {self.coarse} of them on the coarser grid" * bool(self.coarse)
            + f"; {self.before} linearisations on coarser grids before" * bool(self.before),
        ]
        spread = np.asarray(self._spread()) if modes else None
        for place, block in enumerate(self.unknowns.blocks):
            errors = None
            if spread is not None:
                errors = spread[block.span] * (np.asarray(self.estimate)[block.span] if block.log else 1)
            lines.append(self._line(place, errors))
        if modes:
            lines.append(
                f"  uncertainty by {modes} directions, {int((np.asarray(self.eigenvalues) > 1).sum())} of them known better by the "
                "data than by the prior; it neglects the others"
            )
            if float(self.eigenvalues[-1]) > 1:
                lines.append("  warning: more directions are known by the data. Raise `modes`; intervals are too wide.")
        if self.status in UNFINISHED:
            lines.append(f"  warning: {UNFINISHED[self.status]}")
        return "\n".join(lines)
