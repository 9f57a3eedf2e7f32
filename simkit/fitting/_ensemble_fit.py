"""Result of ensemble Kalman inversion: an estimate and an ensemble around it."""

import equinox as eqx
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._errors import ArgumentError
from ._block_fit import AbstractBlockFit

SHOWN = 20
"""Number of unknowns that a result prints at most."""


class EnsembleFit(AbstractBlockFit):
    """The mean of an ensemble of parameters that went from the priors to the posterior, and the ensemble.

    - `unknowns`: names, shapes, priors and bounds of the unknowns; `units`: their units; `data_count`: the number of data.
    - `estimate`: shape `(parameters,)`, natural units, of the mean of the members in the coordinates in which they moved;
        `fit["name"]` is that of one unknown in its shape.
    - `members`: shape `(members, parameters)`, natural units: near to draws of the posterior where the model is nearly linear over
        the posterior; `predict` takes them.
    - `misfits`: half the sum of squared residuals, in the mean over members, before each step and at the end.
    - `reached`: the power of the likelihood that was reached; 1 for the posterior.
    - `simulations`, `failures`: how many of them, and how many failed.
    - `log_likelihood`: at the estimate.
    """

    members: Float[Array, "members parameters"]
    misfits: tuple[float, ...] = eqx.field(static=True)
    reached: float = eqx.field(static=True)
    simulations: int = eqx.field(static=True)
    failures: int = eqx.field(static=True)
    log_likelihood: float = eqx.field(static=True)

    def standard_error(self, name: str) -> Float[Array, "..."]:
        """The standard deviation of an unknown over the members, in its shape and natural units."""
        block = self._block(name)
        return jnp.std(self.members[:, block.span], axis=0, ddof=1).reshape(block.shape)

    def interval(self, name: str, level: float = 0.9) -> Float[Array, "... 2"]:
        """The interval of each number of an unknown between two quantiles of the members."""
        if not 0 < level < 1:
            raise ArgumentError(f"Argument `level` must lie between 0 and 1, but it is {level}.")
        block, tail = self._block(name), 0.5 * (1 - level)
        ends = jnp.quantile(self.members[:, block.span], jnp.array([tail, 1 - tail], self.members.dtype), axis=0)
        return ends.T.reshape(*block.shape, 2)

    def __repr__(self) -> str:
        if isinstance(self.estimate, jax.core.Tracer):
            return "EnsembleFit(traced)"
        count, size = self.members.shape
        lines = [
            f"EnsembleFit: {count} members, {size} unknowns, {self.data_count} data",
            f"  misfit {self.misfits[0]:.4g} at the priors, {self.misfits[-1]:.4g} after {len(self.misfits) - 1} steps; "
            f"{self.simulations} simulations, {self.failures} failed; log likelihood {self.log_likelihood:.6g}",
        ]
        for place, block in enumerate(self.unknowns.blocks[:SHOWN]):
            lines.append(self._line(place, np.asarray(self.members)[:, block.span].std(axis=0, ddof=1)))
        if len(self.unknowns.blocks) > SHOWN:
            lines.append(f"  and {len(self.unknowns.blocks) - SHOWN} more")
        if self.reached < 1:
            lines.append(
                f"  warning: the likelihood counted with a power of {self.reached:.2g} only. Raise `max_steps`."
            )
        if count <= size:
            lines.append(
                "  warning: no more members than unknowns: errors are too small in directions that the members leave out."
            )
        return "\n".join(lines)
