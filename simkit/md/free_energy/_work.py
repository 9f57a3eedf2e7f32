"""Free energies from work: switching between two states at any speed."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..._doors import check_function, check_key, check_kind
from ..._errors import ArgumentError
from ...core import full_products, traced
from ...engine import Fixed, simulate
from .._particles import Particles
from ..averages._lanes import check_status, in_lanes
from ..space._atoms import Atoms
from ._estimate import Estimate, as_floats
from ._mbar import mbar
from ._states import prepared, reduced_potential, with_plan

FEWEST = 8
"""Fewest works that must make up an average for its error: the inverse of the sum of their squared weights."""


@full_products
def jarzynski(work: ArrayLike) -> Estimate:
    r"""The free energy difference from the work of many switches: $\Delta f = -\ln \langle e^{-w} \rangle$.

    The average is one over rare small works: it is biased by about half the variance of $e^{-w}$ over its squared mean and the
    number of switches, and needs works that scatter by no more than a few $k_B T$. `bar` of both directions needs far fewer.

    **Arguments:** `work`: of independent switches that began in equilibrium, over $k_B T$, shape (switches,), at least 2.

    **Returns:** an `Estimate` over $k_B T$, with the error of first order; NaN where fewer than 8 works make up the average, of
    which no error is known.

    **Source:** Jarzynski (1997), Physical Review Letters 78:2690, doi:10.1103/PhysRevLett.78.2690.

    ```python
    import jax
    from simkit import md
    # Work with variance 1 and mean 1: by the normal distribution the difference is 1 - 1 / 2.
    print(md.jarzynski(1.0 + jax.random.normal(jax.random.key(0), (4000,))))
    ```
    """
    work = _works("work", work)
    count = work.shape[0]
    value = jnp.log(jnp.asarray(float(count), work.dtype)) - jax.nn.logsumexp(-work)
    weights = jax.nn.softmax(-lax.stop_gradient(work))
    error = jnp.sqrt(jnp.sum((weights - 1 / count) ** 2) * (count / (count - 1)))
    counted = 1 / jnp.sum(weights**2)
    return Estimate(value, jnp.where(counted >= FEWEST, error, jnp.nan))


@full_products
def bar(forward: ArrayLike, reverse: ArrayLike) -> Estimate:
    r"""The free energy difference from works of switches in both directions: Bennett's acceptance ratio, by Crooks' theorem

    $$\sum_{i=1}^{N_F} \frac{1}{1 + (N_F / N_R)\, e^{w_i^F - \Delta f}}
    = \sum_{j=1}^{N_R} \frac{1}{1 + (N_R / N_F)\, e^{w_j^R + \Delta f}}$$

    **Arguments:** `forward`, `reverse`: works over $k_B T$ of independent switches from equilibrium, from the first state to
    the second and back, shape (switches,), at least 2 each. Of instant switches they are differences of energies.

    **Returns:** an `Estimate` of the free energy of the second state less that of the first, over $k_B T$.

    **Raises:** an `ArgumentError` where the works do not overlap.

    **Source:** Bennett (1976), Journal of Computational Physics 22:245, doi:10.1016/0021-9991(76)90078-4; Crooks (1999), Physical
    Review E 60:2721, doi:10.1103/PhysRevE.60.2721; Shirts, Bair, Hooker and Pande (2003), doi:10.1103/PhysRevLett.91.140601.

    ```python
    import jax
    from simkit import md
    keys = jax.random.split(jax.random.key(0))
    works = [mean + jax.random.normal(key, (500,)) for mean, key in zip((1.0, 0.0), keys)]
    print(md.bar(*works))
    ```
    """
    forward, reverse = _works("forward", forward), _works("reverse", reverse)
    # The energy of the second state relative to the first: what matters of a path is its work.
    there = jnp.concatenate([forward, -reverse])
    energies = jnp.stack([jnp.zeros_like(there), there])
    found = mbar(energies, [forward.shape[0], reverse.shape[0]], inefficiency=1.0)
    return found.difference(0, 1)


class Switches(eqx.Module):
    """Works of switches over k_B T, shape (switches,), and the states at their ends, with a leading axis."""

    work: Float[Array, " switches"]
    final: Atoms

    def __repr__(self) -> str:
        return f"Switches: {self.work.shape[0]} switches"


@full_products
def switch(
    family: Callable[[Any], Particles],
    parameters: PyTree,
    starts: Atoms,
    *,
    duration: float,
    step: float | Fixed,
    key: PRNGKeyArray,
) -> Switches:
    r"""Switch a system from one state to another through those in between, many times side by side, and measure the work.

    From each state to the next the energy of the atoms changes at once, which is work, $w = \sum_i u_{i+1}(x_i) - u_i(x_i)$, and
    then they move in the new state for a while, which is heat. Jarzynski's equality holds exactly but for the error of the step,
    however few the states are. A trap that moves pulls; a coupling that grows inserts.

    **Arguments:**

    - `family`: from one parameter to the particles in that state; with dynamics of the canonical ensemble at one temperature.
    - `parameters`: an array, or a pytree of arrays, with a leading axis: the states in the order in which they are gone through.
    - `starts`: states of equilibrium in the first of them, with a leading axis of switches.
    - `duration`: the time spent in each state; `step`: as of `simulate`; `key`: split for the switches.

    **Good values:** durations and states such that works scatter by one to two $k_B T$; some hundred switches in each direction.

    **Returns:** `Switches`, whose `work` is for `jarzynski`, or with one of the other direction for `bar`.

    ```python
    import jax
    import jax.numpy as jnp
    from simkit import md
    def trapped(place):
        centre = jnp.stack([place, jnp.zeros_like(place)])
        return md.Particles(md.HarmonicTrap(4.0, centre), md.OpenSpace(2), dynamics=md.Langevin(1.0, 1.0))
    starts = md.Atoms(0.5 * jax.random.normal(jax.random.key(0), (64, 1, 2)), jnp.zeros((64, 1, 2)))
    pulled = md.switch(trapped, jnp.linspace(0.0, 1.0, 6), starts, duration=0.4, step=0.05, key=jax.random.key(1))
    print(md.jarzynski(pulled.work))
    ```
    """
    check_function("family", family, ("parameter",))
    check_key(key, needed=True)
    check_kind("starts", starts, Atoms, "states of atoms", "Write `md.Atoms(position, momentum)`.")
    if jnp.ndim(starts.position) != 3:
        raise ArgumentError(
            "Argument `starts` must be states with a leading axis of switches, but its positions have the shape "
            f"{jnp.shape(starts.position)}."
        )
    count = starts.position.shape[0]
    parameters = jax.tree.map(jnp.asarray, parameters)
    states = jax.tree.leaves(parameters)[0].shape[0]
    starts = in_lanes(starts, count, "switches")
    times = (0.0, float(duration))
    ready, step = prepared(family, parameters, starts, times, step)
    work, final, status = _switched(
        family, parameters, starts, jax.random.split(key, count), ready, times, step, states
    )
    if not traced(status):
        check_status(status, "switch")
    return Switches(work, final)


@eqx.filter_jit
def _switched(
    family: Callable[[Any], Particles],
    parameters: PyTree,
    starts: Atoms,
    keys: Array,
    ready: Particles,
    times: tuple[float, float],
    step: Any,
    states: int,
) -> tuple[Array, Atoms, Array]:
    before = jax.tree.map(lambda x: x[:-1], parameters)
    after = jax.tree.map(lambda x: x[1:], parameters)

    def one(y0: Atoms, key: Array) -> tuple[Array, Atoms, Array]:
        def onward(carry: tuple[Atoms, Array, Array], given: Any) -> tuple[Any, None]:
            atoms, work, status = carry
            old, new, key = given
            there, here = (with_plan(family(p), ready.plan) for p in (new, old))
            work = work + reduced_potential(there, atoms) - reduced_potential(here, atoms)
            run = simulate(there, atoms, times, step=step, key=key, on_failure="mark")
            return (run.final(), work, jnp.maximum(status, jnp.asarray(run.status))), None

        begun = (ready.encode(y0), jnp.zeros((), y0.position.dtype), jnp.zeros((), jnp.int32))
        (atoms, work, status), _ = lax.scan(onward, begun, (before, after, jax.random.split(key, states - 1)))
        return work, atoms, status

    return jax.vmap(one)(starts, keys)


def _works(name: str, values: ArrayLike) -> Array:
    found = as_floats(name, values)
    if found.ndim != 1 or found.shape[0] < 2:
        raise ArgumentError(
            f"Argument `{name}` must be the works of at least 2 switches, but its shape is {found.shape}."
        )
    if not traced(found) and not bool(jnp.all(jnp.isfinite(found))):
        raise ArgumentError(f"Argument `{name}` must be finite, but it is not.")
    return found
