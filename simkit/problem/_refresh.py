"""Draws of a sampled system, made anew where the parameters of a problem ask for them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_key
from .._errors import ArgumentError
from ..core import SampledSystem, Setup
from ._density_of_states import DensityOfStates
from ._given_problem import check_problem
from ._problem import Problem


def refresh(problem: Problem, thetas: ArrayLike | Sequence[Any], *, key: PRNGKeyArray | None = None) -> Problem:
    """The problem with draws at these parameters, where its outputs are averages over draws (`md.EquilibriumAverages`).

    `fit` and `sample` do so themselves. Other verbs take the problem as it is: give them one that was refreshed at the
    estimate of a fit.

    **Arguments:**

    - `problem`: a problem of a system that draws.
    - `thetas`: shape `(parameters,)`, or `(references, parameters)` for draws of several references, weighted as one mixture; in
        natural units, in the order of `problem.names`.
    - `key`: a random key; `jax.random.key(0)` by default.

    **Returns:** a `Problem` like the one given.

    **Raises:** an `ArgumentError` for a system that does not draw.

    ```python
    import jax, simkit
    from simkit import md
    trap = md.Particles(md.HarmonicTrap(1.0, [0.0, 0.0, 0.0]), md.OpenSpace(3), dynamics=md.Langevin(1.0, 2.0))
    atoms = md.Atoms(jax.numpy.zeros((8, 3)), jax.numpy.zeros((8, 3)))
    averages = md.EquilibriumAverages(trap, atoms, {"e": "potential_energy"}, times=jax.numpy.arange(100.0), step=0.1, discard=5)
    free = {"particles.dynamics.temperature": simkit.Free(bounds=(0.2, 5.0), start=1.0)}
    data = simkit.Experiment("trap", [0.0], {"e": [12.0]})
    problem = simkit.Problem(averages, data, free=free, noise={"e": simkit.noise.Normal(0.5)})
    problem = simkit.refresh(problem, [1.0], key=jax.random.key(0))
    print(problem.predict(jax.numpy.array([1.0])))
    ```
    """
    check_problem(problem, drawn=False)
    check_key(key)
    system = problem.base.system
    if not isinstance(system, SampledSystem):
        raise ArgumentError(
            f"Argument `problem` must have a system that draws, such as `md.EquilibriumAverages`, but its system is "
            f"`{type(system).__name__}`."
        )
    references = jnp.asarray(thetas, problem.times.dtype)
    if references.shape[-1:] != (problem.size,) or references.ndim not in (1, 2):
        raise ArgumentError(
            f"Argument `thetas` must have the shape (references, {problem.size}), but it is {references.shape}."
        )
    key = jax.random.key(0) if key is None else key
    rows = references.reshape(-1, problem.size)
    states = []
    for i in range(len(problem.labels)):
        systems = [problem.setup(theta, i).system for theta in rows]
        y0 = problem.model.base_setup(i).y0
        system, state = system.drawn(y0, systems, jax.random.fold_in(key, i))
        states.append(state)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    base = problem.base
    base = Setup(system, stacked, base.inputs, base.noise, base.events)
    return problem.with_parts(model=dataclasses.replace(problem.model, base=base))


def effective_shares(problem: Problem, theta: Array) -> Float[np.ndarray, " experiments"]:
    """Number of draws that count at these parameters, over those of one reference, by experiment; NaN where none were made."""
    found = []
    for i in range(len(problem.labels)):
        setup = problem.setup(theta, i)
        found.append(float(setup.system.effective_share(setup.y0)))
    return np.array(found)


def errors_of_draws(problem: Problem, theta: Array, covariance: Array) -> Float[np.ndarray, " parameters"]:
    r"""Standard errors of an estimate that come from the finite number of draws.

    An output that is off by $\delta$ moves the estimate by $C J^T W \delta$, with the covariance $C$ of the estimate, the Jacobian
    $J$ of the outputs and the Fisher information $W$ of the data on them.

    **Arguments:** `theta`, `covariance`: of the estimate, in natural units.
    """
    if isinstance(problem.likelihood, DensityOfStates):
        return problem.likelihood.errors_of_draws(theta, problem.model, problem.dataset, covariance)

    slopes, heads = _slopes(problem, theta)
    total = np.zeros(problem.size)
    for i in range(len(problem.labels)):
        setup, factors = problem.setup(theta, i), {}
        for name, (location, noise) in heads.items():
            known = problem.dataset.information(name, location, noise).entry(0, 0)
            assert known is not None  # that of a location is never zero for all values
            seen = jnp.isfinite(problem.data[name][i])
            worth = jnp.where(seen, jnp.broadcast_to(known, location.shape)[i], 0.0)
            factors[name] = jnp.einsum("pq,r...q->p...", covariance, slopes[name][i] * worth[..., None])
        total += np.asarray(setup.system.errors(setup.y0, factors), float) ** 2
    return np.sqrt(total)


@eqx.filter_jit
def _slopes(problem: Problem, theta: Array) -> tuple[dict[str, Array], Any]:
    """The derivatives of the locations of all outputs by the parameters, and what data are compared with."""

    def located(theta: Array) -> Any:
        heads = problem.heads(theta)[0]
        return {name: location for name, (location, _) in heads.items()}, heads

    return jax.jacfwd(located, has_aux=True)(theta)


def without_limit(problem: Problem) -> Problem:
    """The problem of a sampled system, whose outputs are no NaN where few draws count."""
    base = problem.base
    base = Setup(base.system.without_limit(), base.y0, base.inputs, base.noise, base.events)
    return problem.with_parts(model=dataclasses.replace(problem.model, base=base))
