"""Strang splitting of coupled systems: each part is stepped by a stepper of its own, with steps of its own."""

from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._doors import check_count, check_entries, check_mapping
from .._errors import ArgumentError, check_known
from .._types import State, Time
from ..core import PlainCoupled, System, SystemTerm, apart, together, wired, wired_family
from ._rosenbrock import Rodas5P
from ._stepper import Step, Stepper, straight


class Strang(Stepper):
    r"""One step of a coupled system part by part, of order 2 in its length h:

    $$\Phi_h = \varphi^1_{h/2} \circ \cdots \circ \varphi^{n-1}_{h/2} \circ \varphi^n_h \circ \varphi^{n-1}_{h/2} \circ \cdots \circ
    \varphi^1_{h/2}$$

    where $\varphi^i$ follows part i while the states of the others are held. Its wires are evaluated at every stage, with its own
    state and time as they are there. The last part takes the whole step at once and the others two halves, so the one that costs
    most comes last. The step is symmetric, which makes it of order 2 if all parts are stepped with order 2 or more. A product of
    rates of two parts bounds h: it must resolve how fast the parts change each other, not how fast each is by itself.

    **Arguments:**

    - `steppers`: part -> stepper, in the order of the parts in a step; by default one that fits each part, `Tsit5()` for plain
        ones and those with a structure of their own last. A `SplitSystem` takes `ETDRK4()` or another one of its
        family, a grid `SSPRK3()` or `WRK3()`, a plain part `RK4()` or, where it is stiff by itself, `Rodas5P()`.
    - `substeps`: part -> number of its own steps in one step of the whole, 1 unless given. The parts that take halves take half
        of them in each, rounded up.

    Steps are fixed: `step=0.01` or `Fixed(substeps)`. It has no error estimate, so halve the step and compare. Between steps a
    straight line.

    **Raises:** an `ArgumentError` for steppers of several steps, and for those that do not serve their part.

    Strang (1968), SIAM J. Numer. Anal. 5:506, doi:10.1137/0705041; Hairer, Lubich and Wanner (2006), Geometric Numerical
    Integration, chapter II.5.

    ```python
    import simkit
    decay = simkit.from_function(lambda t, y, p, u: {"x": u["push"] - y["x"]}, {})
    pair = simkit.Coupled(
        {"a": decay, "b": decay},
        {
            "a.push": lambda system, t, y, outputs: 0.5 * y["b"]["x"],
            "b.push": lambda system, t, y, outputs: 0.5 * y["a"]["x"],
        },
    )
    solver = simkit.solvers.Strang({"a": simkit.solvers.RK4(), "b": simkit.solvers.RK4()}, substeps={"b": 2})
    run = simkit.simulate(pair, {"a": {"x": 1.0}, "b": {"x": 1.0}}, [0.0, 1.0], solver=solver, step=0.01)
    print(round(float(run.final()["a"]["x"]), 4))  # prints 0.6065
    ```
    """

    family: ClassVar[type[System]] = PlainCoupled
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    order: ClassVar[int] = 2
    steppers: dict[str, Stepper]
    sequence: tuple[tuple[str, int], ...] = eqx.field(static=True)

    def __init__(self, steppers: Mapping[str, Stepper] | None = None, *, substeps: Mapping[str, int] | None = None):
        example = '{"flow": simkit.solvers.ETDRK4(), "drops": simkit.solvers.RK4()}'
        if steppers is None:  # chosen where the parts are known
            for name, number in (substeps or {}).items():
                check_count(f'substeps["{name}"]', number)
            self.steppers, self.sequence = {}, tuple((substeps or {}).items())
            return
        check_mapping("steppers", steppers, "solvers", example)
        check_entries("steppers", steppers, Stepper, "a solver", "Take one of `simkit.solvers`, such as `RK4()`.")
        if not steppers:
            raise ArgumentError(f"Argument `steppers` must hold a solver for each part, such as `{example}`.")
        for name, number in (substeps or {}).items():
            check_known(name, steppers, "part with a stepper")
            check_count(f'substeps["{name}"]', number)
        for name, stepper in steppers.items():
            if stepper.multistep or stepper.order < 2 or isinstance(stepper, Strang):
                raise ArgumentError(
                    f"The stepper of `{name}` must take single steps of order 2 or more, but `{type(stepper).__name__}` does not. "
                    "`RK4()` serves plain parts."
                )
        self.steppers = dict(steppers)
        self.sequence = tuple((name, (substeps or {}).get(name, 1)) for name in steppers)

    @property
    def evaluations(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Evaluations of vector fields of the parts in one step."""
        if not self.steppers:
            return 0
        *halves, (last, number) = self.sequence
        halved = sum(2 * -(-number // 2) * self.steppers[name].evaluations for name, number in halves)
        return halved + number * self.steppers[last].evaluations

    def own_step(self, name: str, length: float) -> float:
        """The length of a part's own steps in a step of the whole."""
        number = dict(self.sequence)[name]
        return length / number if name == self.sequence[-1][0] else 0.5 * length / -(-number // 2)

    def check_parts(self, system: System) -> None:
        """Refuse parts without steppers, and steppers that do not serve their part.

        **Raises:** an `ArgumentError` or an `UnknownNameError`.
        """
        assert isinstance(system, PlainCoupled)
        for name in self.steppers:
            check_known(name, system.parts, "part")
        for name, part in system.parts.items():
            if name not in self.steppers:
                raise ArgumentError(f"`Strang` must have a stepper for each part, but `{name}` has none.")
            stepper, family = self.steppers[name], wired_family(part)
            if isinstance(stepper, Rodas5P) and stepper.pattern is not None:
                raise ArgumentError(
                    f"`Strang` takes no solver with a `pattern`, but that of the part `{name}` has one. Leave it out: the pattern "
                    "is then found."
                )
            stiff = getattr(part, "stiff", False) is True
            if not issubclass(family, stepper.family) or (stiff and not stepper.stiff):
                fitting = {"SplitSystem": "ETDRK4", "TransportSystem": "SSPRK3", "PlainSystem": "RK4"}
                found = "WRK3" if stiff else fitting.get(family.__name__, "SSPRK3")
                raise ArgumentError(
                    f"`{type(stepper).__name__}` does not serve the part `{name}`, which is stepped as a {family.__name__}"
                    f"{' with a stiff part' if stiff else ''}. `{found}` fits."
                )

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        if not isinstance(term.system, PlainCoupled):
            raise ArgumentError(
                "`Strang` steps forwards only, but argument `times` decreases. Take a solver of the whole, such as `Tsit5()`."
            )
        *halves, (last, number) = self.sequence
        middle, states = t0 + 0.5 * h, {name: together(state) for name, state in y0.items()}
        for name, count in halves:
            states[name] = self._followed(term, name, -(-count // 2), t0, middle, 0.5 * h, states)
        states[last] = self._followed(term, last, number, t0, t1, h, states)
        for name, count in reversed(halves):
            states[name] = self._followed(term, name, -(-count // 2), middle, t1, 0.5 * h, states)
        y1 = {name: apart(state) for name, state in states.items()}
        return Step(y1, None, {"y0": y0, "y1": y1}, None)

    def _followed(self, term: SystemTerm, name: str, count: int, t0: Time, t1: Time, span: Time, states: State) -> Any:
        """The state of a part after some steps of its own, the others held."""
        stepper, inner = self.steppers[name], SystemTerm(wired(term.system, name, states), term.inputs)
        y, h = states[name], span / count
        memory = stepper.init(inner, t0, y)
        if count == 1:
            return stepper.advance(inner, t0, t1, h, y, memory).state

        def step(carry: PyTree, i: PyTree) -> tuple[Any, None]:
            y, memory = carry
            t = t0 + i * h
            found = stepper.advance(inner, t, jnp.minimum(t + h, t1), h, y, memory)
            return (found.state, found.memory), None

        (y, _), _ = jax.lax.scan(step, (y, memory), jnp.arange(count, dtype=jnp.result_type(h)))
        return y

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)
