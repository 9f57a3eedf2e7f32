"""Choice of a solver for a system, with its reason."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from .._errors import ArgumentError, check_known
from .._types import Inputs, State
from ..core import (
    ConstrainedSystem,
    DelayedSystem,
    DiscreteSystem,
    JumpSystem,
    ParticleSystem,
    PlainCoupled,
    SeparableSystem,
    SplitSystem,
    StiffTransportSystem,
    StochasticSystem,
    System,
    SystemTerm,
    TransportSystem,
    as_inputs,
    as_state,
    family_of,
    noise_kind_of,
)
from ..linear import sparse_pattern
from ._bdf import BDF
from ._discrete_stepper import DiscreteStepper
from ._etdrk import ETDRK4
from ._imex import KenCarp4
from ._jumps import AbstractJumpMethod, DirectMethod
from ._krylov import Krylov
from ._particle_stepper import ParticleStepper
from ._rosenbrock import Rodas5P
from ._sparse_probe import MOST_FULL, sparse_algebra
from ._ssp import SSPRK3
from ._stepper import Stepper
from ._stiffness import MOST_STATES, NotProbed, probe
from ._stochastic import SRA1, AbstractStochasticStepper, EulerMaruyama, Milstein, StratonovichHeun
from ._strang import Strang
from ._tsit5 import Tsit5
from ._verlet import VelocityVerlet
from ._w import WRK3

DEAR = "factors of its Jacobian take longer than GMRES"

_TSIT5 = Tsit5()  # made once, for what is made at each call counts on small systems


class Choice(NamedTuple):
    """A solver and the reason for it, in one clause."""

    solver: Stepper
    reason: str


def choose(
    system: System,
    y0: State = None,
    times: ArrayLike | Sequence[Any] | None = None,
    inputs: Inputs = None,
    *,
    fixed: bool = False,
) -> Choice:
    """The solver that fits the system's family and, where values are known, its stiffness.

    **Arguments:**

    - `system`, `y0`, `times`, `inputs`: as in `simulate`. Without `y0` and `times` the family alone decides.
    - `fixed`: whether the steps will be fixed.

    **Returns:** a `Choice`, the solver and the reason: `VelocityVerlet` for separable systems with fixed steps; `ETDRK4` for split
    ones with fixed and `KenCarp4` with adaptive steps; `SSPRK3` for transport on a grid, `WRK3` where its diffusion or friction is
    implicit; `Strang` for coupled systems with split parts or grids; by the kind of noise and its interpretation for stochastic
    systems; `DirectMethod` for jump processes;
    `Rodas5P` for constrained ones; else `Tsit5`, or where a coarse walk along the solution finds that an explicit method would be
    held back by stability `Rodas5P`, or `BDF(krylov=Krylov())` for many states whose Jacobian is dear to factorise, such as a field
    on a square or a network of hundreds of reactions.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    solver, reason = simkit.solvers.choose(system, y0, times)
    print(type(solver).__name__)  # prints Tsit5
    ```
    """
    if not all(hasattr(leaf, "dtype") for leaf in jax.tree.leaves(y0)):
        y0 = as_state(system, y0)
    if y0 is not None:
        inputs = as_inputs(system, inputs, y0)
    if isinstance(system, StochasticSystem):
        return _for_noise(system.interpretation, noise_kind_of(system, y0, inputs))
    if isinstance(system, JumpSystem):
        return Choice(DirectMethod(), "a jump process, whose paths it draws exactly")
    if isinstance(system, ConstrainedSystem):
        return Choice(Rodas5P(), "differential and algebraic equations together")
    if isinstance(system, DelayedSystem):
        return Choice(_TSIT5, "delays, taken as not stiff: a stiff solver is to be given")
    if isinstance(system, PlainCoupled) and (structured := _structured(system)):
        return Choice(
            completed(Strang(), system), f"coupled, and the parts {', '.join(structured)} have solvers of their own"
        )
    if isinstance(system, ParticleSystem):
        return Choice(ParticleStepper(), "particles bring their own step")
    if isinstance(system, DiscreteSystem):
        return Choice(DiscreteStepper(), "a discrete system brings its own step")
    if isinstance(system, StiffTransportSystem) and system.stiff:
        return Choice(WRK3(), "transport with a stiff part that is stepped implicitly")
    if isinstance(system, TransportSystem):
        return Choice(SSPRK3(), "transport on a grid, whose bounds it keeps")
    if fixed and isinstance(system, SeparableSystem):
        return Choice(VelocityVerlet(), "separable with fixed steps, which a symplectic method suits")
    if isinstance(system, SplitSystem):
        if fixed:
            return Choice(ETDRK4(), "split with fixed steps: the linear part is solved exactly")
        return Choice(KenCarp4(), "split with adaptive steps: the linear part is solved implicitly")
    if fixed:
        return Choice(_TSIT5, "fixed steps and no structure that a solver could use")
    if y0 is None or times is None:
        return Choice(_TSIT5, "no values to judge its stiffness by")
    found = probe(system, y0, times, inputs)
    if isinstance(found, NotProbed):
        return Choice(_TSIT5, found.reason)
    implicit, dear = _implicit(found.factorised), "" if found.factorised else f", and {DEAR}"
    if not found.walked:
        reason = (
            f"{'' if found.stiff else 'not '}stiff at its start, all that was looked at: stability asks an explicit method for "
            f"{_steps(found.stability)}, and an implicit step costs as much as {_steps(found.ratio)}"
        )
        return Choice(implicit, reason + dear) if found.stiff else Choice(_TSIT5, reason)
    if found.stiff:
        return Choice(
            implicit,
            f"stiff: stability would cost an explicit method {_steps(found.stability)}, accuracy {_steps(found.accuracy)}{dear}",
        )
    return Choice(
        _TSIT5,
        f"not stiff: stability asks an explicit method for {_steps(found.stability)}, accuracy for {_steps(found.accuracy)}",
    )


def implicit_solver(system: System, y0: State, t: Any, inputs: Inputs) -> Stepper:
    """The solver of a stiff system by the size and the pattern of its Jacobian at a state: by factors, or by GMRES."""
    y, unravel = ravel_pytree(system.encode(y0))
    if y.size <= MOST_STATES or jnp.issubdtype(y.dtype, jnp.complexfloating):
        return Rodas5P()
    pattern = sparse_pattern(lambda y: ravel_pytree(SystemTerm(system, inputs).vf(t, unravel(y)))[0], y)
    factorised = y.size <= MOST_FULL if pattern is None else sparse_algebra(pattern).factorised
    return _implicit(factorised)


def _implicit(factorised: bool) -> Stepper:
    return Rodas5P() if factorised else BDF(krylov=Krylov())


def check_serves(solver: Stepper, system: System, y0: State = None, inputs: Inputs = None) -> None:
    """Refuse a solver that cannot step a system; the sentence names one that can. The noise of coupled systems asks for `y0`.

    **Raises:** an `ArgumentError` where the family, the interpretation of the noise or its kind does not fit.
    """
    name, kind = type(solver).__name__, type(system).__name__
    complaint = None
    if not isinstance(system, solver.family):
        complaint = f"`{name}` needs a {solver.family.__name__} and `{kind}` is a {family_of(system).__name__}"
    elif isinstance(solver, Strang):
        solver.check_parts(system)
    elif isinstance(system, ConstrainedSystem) and not solver.constrained:
        complaint = f"`{name}` solves no algebraic equations and `{kind}` has some"
    elif isinstance(system, StiffTransportSystem) and system.stiff and not solver.stiff:
        complaint = f"`{name}` is explicit and `{kind}` has a stiff part, diffusion or friction, that is to be stepped implicitly"
    elif isinstance(system, ParticleSystem) and not isinstance(solver, ParticleStepper):
        complaint = f"`{kind}` brings its own step, which `{name}` does not take"
    elif isinstance(system, DiscreteSystem) and not isinstance(solver, DiscreteStepper):
        complaint = f"`{kind}` is a map with a step of its own, which `{name}` does not take"
    elif isinstance(system, JumpSystem) and not isinstance(solver, AbstractJumpMethod):
        complaint = f"`{name}` steps differential equations and `{kind}` is a JumpSystem"
    elif isinstance(system, StochasticSystem):
        noise = noise_kind_of(system, y0, inputs)
        if not isinstance(solver, AbstractStochasticStepper):
            complaint = f"`{name}` knows no noise and `{kind}` is a StochasticSystem"
        elif noise not in solver.noise_kinds:
            complaint = f"`{name}` serves {_listed(solver.noise_kinds)} noise and that of `{kind}` is {noise}"
        elif noise != "additive" and system.interpretation != solver.interpretation:
            readings = solver.interpretation.capitalize(), system.interpretation.capitalize()
            complaint = f"`{name}` reads an equation as {readings[0]} and `{kind}` is meant as {readings[1]}"
    if complaint:
        noisy = isinstance(system, StochasticSystem)
        fitting = type(choose(system, y0 if noisy else None, inputs=inputs).solver).__name__
        raise ArgumentError(f"Argument `solver` must fit the system, but {complaint}. `{fitting}` fits.")


def _structured(system: PlainCoupled) -> list[str]:
    """The parts whose structure a solver of the whole could not use."""
    return [name for name, part in system.parts.items() if isinstance(part, SplitSystem | TransportSystem)]


def completed(solver: Stepper, system: System) -> Stepper:
    """A solver with what it leaves to the system: `Strang()` gets a stepper for each part.

    Parts with a structure of their own come last, where one of them takes the whole step at once.
    """
    if not isinstance(solver, Strang) or solver.steppers or not isinstance(system, PlainCoupled):
        return solver
    own = {name: choose(system[name], fixed=True).solver for name in _structured(system)}
    own = {name: _TSIT5 for name in system.parts if name not in own} | own
    for name, _ in solver.sequence:
        check_known(name, own, "part of the coupled system")
    return Strang(own, substeps=dict(solver.sequence))


def _for_noise(reading: str, kind: str) -> Choice:
    if kind == "additive":
        return Choice(SRA1(), "additive noise, for which it has strong order 3/2")
    if reading == "stratonovich":
        return Choice(StratonovichHeun(), f"{kind} noise in Stratonovich's sense")
    if kind == "diagonal":
        return Choice(Milstein(), "diagonal noise in Ito's sense, for which it has strong order 1")
    return Choice(EulerMaruyama(), "general noise in Ito's sense")


def _listed(kinds: tuple[str, ...]) -> str:
    return kinds[0] if len(kinds) == 1 else ", ".join(kinds[:-1]) + " or " + kinds[-1]


def _steps(count: float) -> str:
    if count < 1.5:
        return "1 step"
    return (
        f"some {count:.0f} steps" if count < 100 else f"some {count:.1e} steps".replace("e+0", "e").replace("e+", "e")
    )
