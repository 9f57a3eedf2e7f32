"""Momenta of a temperature."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._errors import ArgumentError
from ...core import as_float_array
from ..observables import degrees_of_freedom, temperature


def maxwell_boltzmann(
    key: Array,
    mass: Float[Array, " atoms"],
    target: ArrayLike,
    *,
    dimensions: int = 3,
    boltzmann: float = 1.0,
    exact: bool = False,
) -> Float[Array, "atoms d"]:
    r"""Momenta of the Maxwell-Boltzmann distribution, with total momentum zero.

    $$p_{ic} \sim \mathcal{N}(0,\, m_i k_B T), \qquad p_i \to p_i - \frac{m_i}{M} \sum_j p_j$$

    so that the velocity of the centre of mass is taken from all alike: what remains has the distribution under the constraint.

    **Arguments:**

    - `key`: a JAX key; the same one gives the same momenta.
    - `mass`: shape (atoms,), positive, as the simulation counts it.
    - `target`: the temperature T, at least 0; differentiable.
    - `boltzmann`: the Boltzmann constant, `units.boltzmann`.
    - `exact`: whether to scale the momenta so that the `temperature` of these d N - d degrees of freedom is T to
        rounding; otherwise it fluctuates as it does in the canonical ensemble.

    **Returns:** momenta, shape (atoms, d).

    **Raises:** an `ArgumentError` for a mass that is not positive, a negative temperature, or an exact one of a single atom.

    ```python
    import jax
    import jax.numpy as jnp
    from simkit.md import METAL, maxwell_boltzmann
    mass = METAL.inside(jnp.full(256, 39.948), "mass")
    print(maxwell_boltzmann(jax.random.key(0), mass, 94.4, boltzmann=METAL.boltzmann).std())
    ```
    """
    mass = as_float_array(mass)
    target = as_float_array(target).astype(mass.dtype)
    _check(mass, target, exact)
    width = jnp.sqrt(mass * boltzmann) * jnp.sqrt(target)
    momentum = width[:, None] * jax.random.normal(key, (mass.shape[0], dimensions), mass.dtype)
    share = (mass / jnp.sum(mass))[:, None]
    # Twice: what the first time leaves to rounding is gone after the second.
    for _ in range(2):
        momentum = momentum - share * jnp.sum(momentum, axis=0, keepdims=True)
    if exact:
        freedom = degrees_of_freedom(mass.shape[0], dimensions)
        found = temperature(momentum, mass, freedom=freedom, boltzmann=boltzmann)
        hot = found > 0
        momentum = momentum * jnp.where(hot, jnp.sqrt(target / jnp.where(hot, found, 1.0)), 1.0)
    return momentum


def _check(mass: Array, target: Array, exact: bool) -> None:
    if exact and mass.shape[0] < 2:
        raise ArgumentError(
            "Argument `mass` must be of at least 2 atoms for an exact temperature, but with total momentum zero a single "
            "atom rests."
        )
    for name, value, good in (("mass", mass, "positive"), ("target", target, "at least 0")):
        if isinstance(value, Tracer):
            continue
        values = np.asarray(value)
        bad = values <= 0 if name == "mass" else values < 0
        if bad.any() or not np.isfinite(values).all():
            raise ArgumentError(
                f"Argument `{name}` must be {good} and finite, but there is {values[bad | ~np.isfinite(values)].flat[0]}."
            )
