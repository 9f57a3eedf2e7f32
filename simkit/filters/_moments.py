"""Mean and covariance of a stochastic system as a system of differential equations."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .._types import Inputs, Time
from ..core import Common, PlainSystem, StochasticSystem, at_time, brownian_shape

LEAST = 1e-12
"""Least size of a number, as a share of what it was or of what others make of it."""

DOUBLINGS = 24
"""Number of times that a step doubles up to the whole span."""


class Moments(PlainSystem):
    r"""The first two moments of $dx = f\,dt + G\,dW$, closed by a linear expansion of f around the mean.

    $$\dot m = f(m), \qquad \dot P = A P + P A^T + G G^T, \qquad \dot\Phi = A \Phi, \qquad A = \frac{\partial f}{\partial x}(m)$$

    with the mean m, the covariance P and the derivative $\Phi$ of the mean by its start. They are exact where f is linear and G
    does not depend on the state. f is the drift in the sense of Ito: for a Stratonovich equation
    $f + \tfrac12 \sum_k \frac{\partial g_k}{\partial x} g_k$ with the columns g_k of G.

    **Arguments:** `system`; `like`: a state of it, whose numbers do not matter. $\Phi$ is integrated where the state has one.

    **Reference:** Jazwinski (1970), Stochastic Processes and Filtering Theory, section 9.3; Sarkka and Solin (2019), Applied
    Stochastic Differential Equations, section 9.1.
    """

    class State(eqx.Module):
        """Mean, covariance and transition matrix, flat."""

        mean: Float[Array, " n"]
        covariance: Float[Array, "n n"]
        transition: Float[Array, "n n"] | None = None

    system: StochasticSystem
    like: Any

    def flat_drift(self, t: Time, x: Float[Array, " n"], inputs: Inputs) -> Float[Array, " n"]:
        """The drift in the sense of Ito."""
        y = ravel_pytree(self.like)[1](x)
        drift = ravel_pytree(self.system.drift(t, y, inputs))[0]
        if self.system.interpretation == "ito" or self.system.noise_kind == "additive":
            return drift
        factors = self.factors(t, x, inputs)
        turned = jax.vmap(lambda k: jax.jvp(lambda x: self.factors(t, x, inputs)[:, k], (x,), (factors[:, k],))[1])(
            jnp.arange(factors.shape[1])
        )
        return drift + 0.5 * jnp.sum(turned, axis=0)

    def factors(self, t: Time, x: Float[Array, " n"], inputs: Inputs) -> Float[Array, "n m"]:
        """The matrix G, one column for each Wiener process."""
        y = ravel_pytree(self.like)[1](x)
        diffusion = self.system.diffusion(t, y, inputs)
        if isinstance(brownian_shape(self.system, t, y, inputs), Common):
            rows = [g.reshape(-1, g.shape[-1]).astype(x.dtype) for g in jax.tree.leaves(diffusion)]
            return jnp.concatenate(rows)
        return jnp.diag(ravel_pytree(diffusion)[0].astype(x.dtype))

    def sizes(self, y: Any, inputs: Inputs, t: Time, until: Time) -> Any:
        """Sizes of the numbers of a state until another time, for absolute tolerances; nothing here has derivatives.

        They are the least of those now and those then, by the linear system that moves around the mean now, its noise averaged
        over the span: in steps that double from a 2^24th of it. What is zero now has the size that it gets in the time in which
        the others change.
        """
        places = t + (until - t) * jnp.asarray([0.07, 0.33, 0.67, 0.93], y.mean.dtype)
        factors = jax.vmap(lambda t: self.factors(t, y.mean, at_time(inputs, t)))(places)
        slope = jax.jacfwd(lambda x: self.flat_drift(t, x, at_time(inputs, t)))(y.mean)
        drift, power = self.flat_drift(t, y.mean, at_time(inputs, t)), jnp.mean(factors @ factors.mT, axis=0)
        h = (until - t) / 2.0**DOUBLINGS
        rate = jnp.max(jnp.sum(jnp.abs(slope), axis=1))
        spread_of = lambda grown, power: jnp.sqrt(jnp.abs(jnp.diag(grown @ y.covariance @ grown.T + power)))

        def doubled(carry: Any, k: Array) -> tuple[Any, None]:
            grown, power, moved, early = carry
            early = jnp.where(rate * h * 2.0**k <= 1, spread_of(grown, power), early)
            return (grown @ grown, grown @ power @ grown.T + power, grown @ moved + moved, early), None

        unit = jnp.eye(y.mean.size, dtype=y.mean.dtype)
        grown = unit + h * slope + 0.5 * h**2 * slope @ slope
        begin = grown, h * power, h * drift + 0.5 * h**2 * slope @ drift, spread_of(grown, h * power)
        (grown, gained, moved, early), _ = jax.lax.scan(doubled, begin, jnp.arange(DOUBLINGS, dtype=y.mean.dtype))
        spread = jnp.sqrt(jnp.diag(y.covariance) + (until - t) * jnp.diag(power))
        spread = jnp.where(spread > LEAST * early, spread, early)
        later = spread_of(grown, gained)
        spread = jnp.where(jnp.isfinite(later) & (later > 0), jnp.minimum(spread, later), spread)
        mean, later = jnp.abs(y.mean), jnp.abs(y.mean + moved)
        mean = jnp.where(jnp.isfinite(later), jnp.minimum(mean, later), mean)
        # A mean that passes zero has at least a rounding error of where it was.
        mean = jnp.maximum(jnp.maximum(mean, LEAST * jnp.abs(y.mean)), spread)
        transition = None if y.transition is None else jnp.ones_like(y.covariance)
        return self.State(mean, spread[:, None] * spread[None], transition)

    def vector_field(self, t: Time, y: Any, inputs: Inputs) -> Any:
        drift = lambda x: self.flat_drift(t, x, inputs)
        slope, factors = jax.jacfwd(drift)(y.mean), self.factors(t, y.mean, inputs)
        turned = slope @ y.covariance
        transition = None if y.transition is None else slope @ y.transition
        return self.State(drift(y.mean), turned + turned.T + factors @ factors.T, transition)

    @classmethod
    def example(cls) -> Any:
        raise NotImplementedError("Moments of a stochastic system have no example of their own.")
