"""Lyapunov exponents: the rate at which neighbouring trajectories separate."""

import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..._errors import ArgumentError
from ...core import full_products, traced
from ...engine import Fixed, resolve, simulate
from .._particles import Particles
from ..space._atoms import Atoms


class LyapunovExponent(eqx.Module):
    """`exponent`, the largest one; `error`, the standard error by the scatter of its windows; `times`, shape (windows + 1,), and
    `growth`, of the same shape, the logarithm of what a small displacement has become."""

    exponent: Float[Array, ""]
    error: Float[Array, ""]
    times: Float[Array, " times"]
    growth: Float[Array, " times"]

    def horizon(self, growth: float = 100.0) -> Float[Array, ""]:
        """The time in which a small displacement grows by this factor; infinite where it does not grow."""
        grows = self.exponent > 0
        time = jnp.log(growth).astype(self.exponent.dtype) / jnp.where(grows, self.exponent, 1.0)
        return jnp.where(grows, time, jnp.inf)

    def __repr__(self) -> str:
        if traced(self):
            return "LyapunovExponent(traced)"
        return f"Lyapunov exponent {float(self.exponent):.4g} +- {float(self.error):.2g}, horizon {float(self.horizon()):.4g}"


@full_products
def lyapunov_exponent(
    system: Particles,
    atoms: Atoms,
    times: ArrayLike | Sequence[float],
    *,
    step: float | Fixed,
    key: PRNGKeyArray | None = None,
    discard: float = 0.25,
) -> LyapunovExponent:
    r"""The largest Lyapunov exponent over a finite time, by the tangent of the run.

    $$\lambda = \frac{1}{t} \ln \frac{|\delta(t)|}{|\delta(0)|}$$

    for a small displacement $\delta$ of positions and momenta, which is scaled back to length one at every time. Under a thermostat
    both trajectories meet the same noise. Derivatives through a run grow at this rate: `horizon()` says how long they are bounded.

    **Arguments:**

    - `system`, `atoms`, `times`, `step`, `key`: as of `simulate`; the displacement is scaled back at the
        `times`, shape (windows + 1,).
    - `discard`: the share of the windows at the beginning in which the displacement turns towards the fastest growth.

    **Good values:** windows of 0.1 to 0.5 units of time, some twenty of them, from a state of equilibrium.

    **Returns:** a `LyapunovExponent`; it has no derivatives.

    **Raises:** an `ArgumentError` for fewer than two times, or a `discard` outside of [0, 1).

    **Source:** Benettin, Galgani, Giorgilli and Strelcyn (1980), doi:10.1007/BF02128236.

    ```python
    import jax, numpy as np, simkit
    from simkit import md
    start = md.crystal("fcc", 1.8, 2)
    fluid = md.Particles(md.LennardJones(cutoff=1.7, truncation=md.ForceShifted()), start.space)
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jax.numpy.ones(32), 2.0))
    print(md.lyapunov_exponent(fluid, atoms, np.arange(9) * 0.1, step=0.005))
    ```
    """
    if np.ndim(times) != 1 or np.shape(times)[0] < 2:
        raise ArgumentError(f"Argument `times` must be at least two times, but its shape is {np.shape(times)}.")
    if not 0 <= discard < 1:
        raise ArgumentError(f"Argument `discard` must be in [0, 1), but it is {discard}.")
    system = system.prepared(atoms)
    fixed = resolve(system, atoms, times, step=step).step
    assert isinstance(fixed, Fixed)
    return _grown(lax.stop_gradient(system), lax.stop_gradient(atoms), jnp.asarray(times), fixed, key, discard)


@eqx.filter_jit
def _grown(
    system: Particles, atoms: Atoms, times: Array, step: Fixed, key: PRNGKeyArray | None, discard: float
) -> LyapunovExponent:
    state = system.encode(atoms)
    dtype = atoms.position.dtype
    times = times.astype(dtype)
    leaves, structure = jax.tree.flatten(state)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    tangents = [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]

    def window(carried: tuple[Any, Any], ends: tuple[Array, Array]) -> tuple[tuple[Any, Any], Array]:
        state, tangent = carried
        run = lambda y: simulate(system, y, jnp.stack(ends), step=step, key=key).final()
        state, tangent = jax.jvp(run, (state,), (tangent,))
        tangent, size = _scaled(tangent)
        return (state, tangent), jnp.log(size)

    begun = state, _scaled(jax.tree.unflatten(structure, tangents))[0]
    _, logs = lax.scan(window, begun, (times[:-1], times[1:]))
    growth = jnp.concatenate([jnp.zeros(1, dtype), jnp.cumsum(logs)])
    first = int(discard * logs.shape[0])
    lengths = jnp.diff(times)[first:]
    rates, whole = logs[first:] / lengths, jnp.sum(lengths)
    exponent = jnp.sum(logs[first:]) / whole
    scatter = jnp.sum(lengths * (rates - exponent) ** 2) / whole
    return LyapunovExponent(exponent, jnp.sqrt(scatter / max(rates.shape[0] - 1, 1)), times, growth)


def _scaled(tangent: PyTree) -> tuple[Any, Array]:
    """The tangent at length one, and its length."""
    squares = [jnp.sum(leaf**2) for leaf in jax.tree.leaves(tangent)]
    size = jnp.sqrt(functools.reduce(jnp.add, squares))
    return jax.tree.map(lambda x: x / size.astype(x.dtype), tangent), size
