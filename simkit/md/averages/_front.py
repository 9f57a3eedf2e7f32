"""One front for averages whose derivatives can be taken in several ways."""

from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from ..._errors import ArgumentError
from ...core import full_products, traced
from ...engine import Fixed, resolve
from .._particles import Particles
from ..space._atoms import Atoms
from ._average import EnsembleAverage, as_observable
from ._average_method import AverageMethod
from ._canonical import is_canonical
from ._lyapunov import lyapunov_exponent
from ._reweighting import Reweighting
from ._through_trajectory import TrajectoryGradient

PROBE = 400
"""Largest number of steps that are run to find the horizon."""


@full_products
def ensemble_average(
    system: Particles,
    y0: Atoms,
    observable: object,
    times: ArrayLike | Sequence[float],
    *,
    step: float | Fixed,
    key: PRNGKeyArray | None = None,
    method: AverageMethod | None = None,
    discard: int = 1,
) -> EnsembleAverage:
    r"""The average of an observable over the states of a run, with its error, and with derivatives by the numbers of the system.

    **Arguments:**

    - `system`, `y0`, `times`, `step`, `key`: as of `simulate`.
    - `observable`: a function of (system, atoms) that gives an array or a pytree of arrays, or the name of an output such as
        "pressure". It must be differentiable by positions where the method is `TrajectoryGradient`.
    - `method`: `TrajectoryGradient()`, `Reweighting()` or `LikelihoodRatio(memory)`; by default what `choose_method` says.
    - `discard`: how many of the first states are left out.

    **Returns:** an `EnsembleAverage`, which prints the value, its error, the method and whether to trust the derivative.
    Derivatives are those of its `value`.

    **Raises:** an `ArgumentError` for dynamics that the method does not take; inside a transformation for a system that is not
    prepared, or a choice that needs numbers.

    ```python
    import jax, simkit
    from simkit import md
    start = md.crystal("fcc", 1.8, 2)
    potential = md.LennardJones(cutoff=1.7, truncation=md.ForceShifted())
    fluid = md.Particles(potential, start.space, dynamics=md.Langevin(1.5, 1.0))
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jax.numpy.ones(32), 1.5))
    times = jax.numpy.linspace(0.0, 3.2, 65)
    print(md.ensemble_average(fluid, atoms, "pressure", times, step=0.005, key=jax.random.key(1), method=md.Reweighting()))
    ```
    """
    observable = as_observable(observable)
    if method is None:
        method = choose_method(system, y0, times, step=step, key=key)
    system = system.prepared(y0)
    fixed = resolve(system, y0, times, step=step).step
    assert isinstance(fixed, Fixed)
    return method.average(observable, system, y0, times, fixed, key, discard)


def choose_method(
    system: Particles,
    y0: Atoms,
    times: ArrayLike | Sequence[float],
    *,
    step: float | Fixed,
    key: PRNGKeyArray | None = None,
) -> AverageMethod:
    """Choose how to differentiate an average over a run: through the trajectory where it is no longer than its Lyapunov horizon,
    by reweighting where it is.

    Dynamics that do not draw from the canonical ensemble can only be differentiated through their trajectory. The horizon is looked
    for in at most 400 steps from the start, which should be a state of equilibrium.

    **Returns:** `TrajectoryGradient()` or `Reweighting()`.

    **Raises:** an `ArgumentError` inside a transformation, where the numbers that the choice depends on are not known.
    """
    if not is_canonical(system.dynamics):
        return TrajectoryGradient()
    if traced(system, y0, times):
        raise ArgumentError(
            "Argument `method` must be given inside a transformation such as `jit` or `grad`, where the horizon is not known, but "
            "it is None. Choose outside, `method = choose_method(system, y0, times, step=step, key=key)`, or give one."
        )
    known = np.asarray(times, float)
    fixed = resolve(system, y0, times, step=step).step
    assert isinstance(fixed, Fixed)
    length = float(np.max(np.diff(known))) / fixed.substeps
    duration = known[-1] - known[0]
    probe = np.linspace(known[0], known[0] + min(duration, PROBE * length), 21)
    found = lyapunov_exponent(system, y0, probe, step=length, key=key)
    method = TrajectoryGradient()
    return method if duration <= float(found.horizon(method.growth)) else Reweighting()
