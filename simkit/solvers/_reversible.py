"""Algebraically reversible steps made of an explicit method."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from .._errors import ArgumentError
from .._types import State, Time
from ..core import System, SystemTerm
from ._explicit import AbstractExplicitRungeKutta, weighted_stages
from ._registry import SOLVERS
from ._stepper import Step, Stepper, straight
from ._tsit5 import Tsit5


@SOLVERS.named("reversible")
class Reversible(Stepper):
    r"""Steps that can be undone, made of an explicit method: reverse mode keeps no step, it goes back over them.

    With the increment $\Psi_h(t, y)$ of one step of `inner`, a second state z beside y, equal to it at the start, and the coupling
    $\lambda$:

    $$y_{n+1} = \lambda y_n + (1 - \lambda) z_n + \Psi_h(t_n, z_n), \qquad z_{n+1} = z_n - \Psi_{-h}(t_{n+1}, y_{n+1})$$

    These are of the order of `inner`, cost twice its evaluations, and are solved for $z_n$ and then $y_n$ without an equation.
    Reverse mode therefore starts from the end of each window between two save times and reconstructs the states before it: what
    it holds does not grow with the number of steps between save times. The gradient is that of the steps taken, as by
    `gradient=Checkpointed(...)` with this solver, to a rounding error that grows over a window by $\lambda^{-n}$ in n steps,
    and by what the system itself contracts. Where the start that is reconstructed differs from the true one by more than the
    square root of the float type's rounding, relative to its largest number, the gradient is NaN: save more often, which starts
    the reconstruction anew, or take `gradient=Checkpointed(...)` or `OnDisk(...)`.

    **Arguments:**

    - `inner`: an explicit Runge-Kutta method, by default `Tsit5()`.
    - `coupling`: $\lambda$, above 0 and at most 1. Good values: 0.999 (the default); 0.99 over fewer than a thousand steps of a
        stiffer system: the smaller, the larger the region of stability, which is smaller than that of `inner` in any case.

    It serves fixed steps of what explicit methods serve: plain, separable and transport systems. Systems that dissipate
    by a factor of more than the inverse of the rounding between two save times cannot be reconstructed, which is so of
    viscous flows on fine grids.

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
        return y

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
        y1 = self.mixed(y0, memory, self.increment(term, t0, t1, h, memory))
        z1 = jax.tree.map(lambda z, down: z - down, memory, self.increment(term, t1, t0, -h, y1))
        return Step(y1, None, {"y0": y0, "y1": y1}, z1)

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)
