"""Algebraically reversible steps made of an explicit method."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._errors import ArgumentError
from .._types import State, Time
from ..core import System, SystemTerm
from ._explicit import AbstractExplicitRungeKutta, weighted_stages
from ._registry import SOLVERS
from ._stepper import Step, Stepper, straight
from ._tsit5 import Tsit5

APART = 1e-3
"""The difference of both states, relative to the state, beyond which a run has failed."""


@SOLVERS.named("reversible")
class Reversible(Stepper):
    r"""Steps that can be undone, made of an explicit method: reverse mode keeps no step, it goes back over them.

    With the increment $\Psi_h(t, y)$ of one step of `inner`, a second state z beside y, equal to it at the start, and the coupling
    $\lambda$:

    $$y_{n+1} = \lambda y_n + (1 - \lambda) z_n + \Psi_h(t_n, z_n), \qquad z_{n+1} = z_n - \Psi_{-h}(t_{n+1}, y_{n+1})$$

    These are of the order of `inner`, cost twice its evaluations, and are solved for $z_n$ and then $y_n$ without an equation.
    Reverse mode therefore starts from the end of each window between two save times and reconstructs the states before it: what
    it holds does not grow with the number of steps between save times. The gradient is that of the steps taken, as by
    `gradient=Checkpointed(...)` with this solver.

    It is meant for systems that conserve or that turn back: oscillators, orbits, predators and prey, waves, Hamiltonian chaos,
    and damped ones over short runs. Both states stand for one solution. What they differ by is multiplied in each step by
    $\lambda e^{a h}$ where the system contracts at the rate a (for $y' = -a y$; for others the fastest contraction, averaged
    along the run), so that the condition is

    $$\lambda < e^{-a h}, \qquad \text{or else } n (a h + \ln \lambda) \text{ small over the } n \text{ steps of a run}$$

    Plain decay, approach to a steady state, dissipative chaos such as Lorenz's and viscous flows violate it after a few times
    1/a: a smaller `coupling` helps as far as the condition goes, others take `Checkpointed(...)` or `OnDisk(...)`. Three checks
    tell, each field of the state measured by the largest size that it had in the run so far:

    - a run fails with the status `NON_FINITE` where both states differ by more than a thousandth of the state;
    - the gradient is NaN where the start that is reconstructed differs from the true one by more than the square root of the
        float type's rounding (the rounding grows by $\lambda^{-n}$ in n steps of a window, and by what the system
        contracts): save more often, which starts the reconstruction anew, or record the steps;
    - the gradient is NaN where that by the start is the sum of cotangents of y and z that cancel to fewer than three digits.

    A field that starts or stays at zero would make any rounding an error, so a size counts at least a million roundings of the
    largest field: 2e-10 of it in float64, 0.1 in float32. In float64 units of fields may therefore differ by 1e9.

    **Arguments:**

    - `inner`: an explicit Runge-Kutta method, by default `Tsit5()`.
    - `coupling`: $\lambda$, above 0 and at most 1. Good values: 0.999 (the default); 0.99 over fewer than a thousand steps of a
        system that is damped: the smaller, the larger the region of stability, which is smaller than that of `inner` in any case.

    It serves fixed steps of what explicit methods serve: plain, separable and transport systems.

    **Raises:** an `ArgumentError` where `inner` is not explicit (an implicit or exponential step has no inverse of
    bounded size where the system is stiff) or the coupling lies outside.

    **Reference:** McCallum and Foster (2024), Efficient, accurate and stable gradients for neural ODEs, arXiv:2410.11648,
    equation 4 and algorithm 2.

    ```python
    import jax
    import simkit

    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    solver = simkit.solvers.Reversible(simkit.solvers.Tsit5())
    last = lambda y0: simkit.simulate(system, y0, times, solver=solver, step=0.05).final().hare
    print(jax.grad(last)(y0))
    ```
    """

    inner: Stepper = eqx.field(default_factory=Tsit5)
    coupling: float = eqx.field(static=True, default=0.999)

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False

    def __check_init__(self) -> None:
        if not isinstance(self.inner, AbstractExplicitRungeKutta):
            raise ArgumentError(
                f"Argument `inner` must be an explicit Runge-Kutta method, but it is {self.inner!r}: a step is undone by one of "
                "length -h, which amplifies without bound what an implicit or exponential step damps. Take `Tsit5()`, or for the "
                "gradient of such a method `gradient=Checkpointed(...)` or `OnDisk(...)`."
            )
        if isinstance(self.coupling, bool) or not isinstance(self.coupling, int | float) or not 0 < self.coupling <= 1:
            raise ArgumentError(
                f"Argument `coupling` must be a number above 0 and at most 1, but it is {self.coupling!r}; take 0.999."
            )

    @property
    def order(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The order of the explicit method."""
        return self.inner.order

    @property
    def evaluations(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Evaluations of the vector field in a step, twice those of the explicit method."""
        return 2 * self.inner.evaluations

    def init(self, term: SystemTerm, t: Time, y: State) -> Any:
        return y, jax.lax.stop_gradient(jax.tree.map(_largest, y))

    def increment(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y: State) -> Any:
        """The increment of one step of the explicit method from t0 to t1, of length h, which may be negative."""
        inner: Any = self.inner
        found = inner.advance(term, t0, t1, h, y, inner.init(term, t0, y))
        (total,) = weighted_stages(found.dense, np.asarray([inner.tableau.b]))
        return total

    def mixed(self, y: State, z: State, up: State) -> Any:
        """The next y, from both states and the increment of z."""
        a = self.coupling
        return jax.tree.map(lambda y, z, up: a * y + (1 - a) * z + up, y, z, up)

    def unmixed(self, y1: State, z: State, up: State) -> Any:
        """The y before, from the next one."""
        a = self.coupling
        return jax.tree.map(lambda y, z, up: (y - (1 - a) * z - up) / a, y1, z, up)

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        z0, sizes = memory
        y1 = self.mixed(y0, z0, self.increment(term, t0, t1, h, z0))
        z1 = jax.tree.map(lambda z, down: z - down, z0, self.increment(term, t1, t0, -h, y1))
        seen = jax.lax.stop_gradient((y1, z1))
        sizes = jax.tree.map(lambda size, y: jnp.maximum(size, _largest(y)), sizes, seen[0])
        good = _apart(*seen, sizes) <= APART * _share(seen[0], sizes)
        y1, z1 = jax.tree.map(lambda x: jnp.where(good, x, jnp.nan), (y1, z1))
        return Step(y1, None, {"y0": y0, "y1": y1}, (z1, sizes))

    def found_again(self, found: Any, true: Any, sizes: PyTree) -> Array:
        """Tell whether a reconstruction is as near to the truth as half the digits of the state."""
        half = float(jnp.finfo(_dtype(sizes)).eps) ** 0.5
        return jnp.maximum(*(_apart(a, b, sizes) for a, b in zip(found, true, strict=True))) <= half * _share(
            true[0], sizes
        )

    def kept_digits(self, by_y: Any, by_z: Any, sizes: PyTree) -> Array:
        """Tell whether the cotangents of both states, whose sum is that of the start, leave three digits of it."""
        weigh = lambda tree: _greatest(jax.tree.map(lambda x, size: _largest(x) * size, tree, sizes))
        both = weigh(jax.tree.map(jnp.add, by_y, by_z))
        return float(jnp.finfo(_dtype(sizes)).eps) * weigh(by_y) <= APART * both

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)


def _largest(x: Any) -> Array:
    """The largest size in an array."""
    return jnp.max(jnp.abs(x), initial=0)


def _greatest(tree: PyTree) -> Array:
    return jnp.max(jnp.stack(jax.tree.leaves(tree)))


def _dtype(sizes: PyTree) -> Any:
    return jnp.result_type(*jax.tree.leaves(sizes))


def _floored(sizes: PyTree) -> Any:
    """Sizes of fields, at least of what rounding of the largest one may put into a field that stays at zero."""
    floor = 1e3 * float(jnp.finfo(_dtype(sizes)).eps) / APART * _greatest(sizes)
    return jax.tree.map(lambda size: jnp.maximum(size, floor), sizes)


def _apart(y: State, z: State, sizes: PyTree) -> Array:
    """The largest difference of two states, each field by its own size."""
    gaps = jax.tree.map(lambda a, b, size: _over(_largest(a - b), size), y, z, _floored(sizes))
    return _greatest(gaps)


def _share(y: State, sizes: PyTree) -> Array:
    """The largest field of a state by the size that it had in the run: 1 unless the whole state has decayed."""
    return _greatest(jax.tree.map(lambda a, size: _over(_largest(a), size), y, _floored(sizes)))


def _over(x: Array, size: Array) -> Array:
    return jnp.where(size > 0, x / jnp.where(size > 0, size, 1), x)
