"""Free-energy profiles along a collective variable."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._doors import check_kind
from ..._errors import ArgumentError
from ...core import full_products, traced
from ._estimate import Estimate, as_floats, difference_of, errors_of
from ._mbar import FreeEnergies


class Profile(eqx.Module):
    r"""A free-energy profile over $k_B T$.

    - `edges`, `centres`: of the bins.
    - `free_energy`: $-\ln p(\xi)$ with the mean density of each bin, less that of the lowest; infinite in a bin without samples.
    - `error`: the standard error of the difference to the lowest bin.
    - `covariance`: that of the differences to the lowest bin, shape (bins, bins).
    """

    edges: Float[Array, " edges"]
    free_energy: Float[Array, " bins"]
    covariance: Float[Array, "bins bins"]

    @property
    def centres(self) -> Float[Array, " bins"]:
        """The middles of the bins."""
        return 0.5 * (self.edges[1:] + self.edges[:-1])

    @property
    def error(self) -> Float[Array, " bins"]:
        """Standard errors of `free_energy`."""
        return errors_of(self.covariance)

    def difference(self, first: int, second: int) -> Estimate:
        """The free energy of the second bin less that of the first, over $k_B T$."""
        return difference_of(self.free_energy, self.covariance, first, second)

    def __repr__(self) -> str:
        if traced(self):
            return "Profile(traced)"
        span = f"{len(self.free_energy)} bins from {float(self.edges[0]):.4g} to {float(self.edges[-1]):.4g}"
        finite = np.asarray(self.free_energy)[np.isfinite(np.asarray(self.free_energy))]
        if not len(finite):
            return f"Free-energy profile over k_B T: {span}, without a frame in any of them"
        top, errors = finite.max(), np.asarray(self.error)
        worst = errors[np.isfinite(errors)].max(initial=0.0)
        return f"Free-energy profile over k_B T: {span}, up to {top:.4g}, errors up to {worst:.2g}"


@full_products
def free_energy_profile(
    free_energies: FreeEnergies,
    values: ArrayLike,
    edges: ArrayLike | Sequence[float],
    *,
    reduced_energy: ArrayLike = 0.0,
) -> Profile:
    r"""The free energy along a collective variable, $F(\xi) = -k_B T \ln p(\xi)$, from weighted samples of many states.

    **Arguments:**

    - `free_energies`: what `mbar` found.
    - `values`: the variable at every sample, in the order of the reduced energies.
    - `edges`: of the bins, increasing. Bins as wide as the samples' resolution asks for: the free energy is that of the mean
        density of a bin.
    - `reduced_energy`: of the state that the profile is of, as of `FreeEnergies.weights`; by default that without umbrellas.

    **Returns:** a `Profile` over $k_B T$. Errors are by blocks of what samples contribute, so that they hold for correlated ones.

    **Raises:** an `ArgumentError` for shapes that do not fit, and edges that do not increase.

    **Source:** Shirts and Chodera (2008), doi:10.1063/1.2978177.

    ```python
    import jax
    import jax.numpy as jnp
    from simkit import md
    centres = jnp.array([-1.0, 0.0, 1.0])
    # A free particle under springs: samples are normal about the centres.
    samples = (centres[:, None] + jax.random.normal(jax.random.key(0), (3, 400))).ravel()
    found = md.mbar(0.5 * (samples[None] - centres[:, None]) ** 2, [400, 400, 400])
    print(md.free_energy_profile(found, samples, jnp.linspace(-2.0, 2.0, 9)))
    ```
    """
    check_kind("free_energies", free_energies, FreeEnergies, "what `mbar` returns", "Call `md.mbar(...)` first.")
    values, edges = as_floats("values", values), as_floats("edges", edges)
    if edges.ndim != 1 or len(edges) < 2 or (not traced(edges) and not bool(jnp.all(jnp.diff(edges) > 0))):
        raise ArgumentError("Argument `edges` must be at least two increasing numbers, but they are not.")
    if values.shape != free_energies.worth.shape:
        raise ArgumentError(
            f"Argument `values` must be one number for each of the {free_energies.worth.shape[0]} samples, but its shape is "
            f"{values.shape}. Give the variable at the samples of all states."
        )
    return _binned(free_energies, values, edges.astype(values.dtype), reduced_energy)


@eqx.filter_jit
def _binned(found: FreeEnergies, values: Array, edges: Array, reduced_energy: ArrayLike) -> Profile:
    inside = (values[:, None] >= edges[None, :-1]) & (values[:, None] < edges[None, 1:])
    weights = found.weights(reduced_energy)
    inside = inside.astype(weights.dtype)
    share = weights @ inside
    free = -jnp.log(share / jnp.diff(edges).astype(share.dtype))
    lowest = jnp.argmin(free)
    some = share > 0
    relative = inside / jnp.where(some, share, 1)[None]
    away = (weights / found.worth)[:, None] * (relative - jnp.take(relative, lowest, axis=1)[:, None])
    covariance = found.covariance_of(away)
    known = some[:, None] & some[None]
    return Profile(edges, free - free[lowest], jnp.where(known, covariance, jnp.nan))
