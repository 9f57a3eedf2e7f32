"""Coupled: named systems and wires between them in, one system out."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx

from .._doors import check_entries, check_function, check_mapping, shown
from .._errors import ArgumentError, check_known
from ._coupled_noise import StochasticCoupled, check_noises
from ._coupled_system import ConstrainedCoupled, CoupledSystem, FunctionWire, OutputWire, PlainCoupled
from ._delayed_system import DelayedSystem
from ._jump_diffusion import refuse_jumps
from ._jump_system import JumpSystem
from ._names import ROOTS
from ._particle_system import ParticleSystem
from ._system import (
    ConstrainedSystem,
    PlainSystem,
    SeparableSystem,
    SplitSystem,
    StaticSystem,
    StochasticSystem,
    System,
    TransportSystem,
)

TAKEN = (*ROOTS, "system", "parameters", "parts", "wires", "conserved")
"""Names that a part cannot have, since paths begin with them."""

SERVED = PlainSystem, ConstrainedSystem, SeparableSystem, SplitSystem, TransportSystem, StochasticSystem
"""Families that parts may be of: the vector field, and the diffusion of stochastic ones, are all of their dynamics."""

WIRE = ("system", "t", "y", "outputs")
"""Arguments of a wire."""


def Coupled(
    parts: Mapping[str, System],
    wires: Mapping[str, Any] | None = None,
    *,
    invariants: Callable[..., Any] | None = None,
) -> CoupledSystem:
    r"""Several named systems side by side as one system, inputs of one fed by states and outputs of others:

    $$\frac{dy_i}{dt} = f_i(t, y_i, u_i), \qquad u_i = w_i(t, y_1, \ldots, y_n)$$

    The state is a dictionary of the states of the parts, and so are its outputs. Names begin with that of the part: `prey.growth`,
    `y0.prey.hare`, `inputs.prey.food.value`, the output `prey.hare`.

    **Arguments:**

    - `parts`: name -> system. A part may be coupled itself.
    - `wires`: `"part.input"` -> what feeds this input: the path of an output, `"tank.outflow"`, or a pure function
        `wire(system, t, y, outputs)` of the coupled system (`system["tank"]` is a part), the time, the states and the outputs of
        all parts by their names. A wire that has numbers of its own is an Equinox module with quantities, called in the same way;
        their paths are `wires.part.input.rate`. Other inputs are given by `inputs={"part": {"input": signal}}`.
    - `invariants`: `invariants(system, t, y)`, a dictionary of what the whole conserves, beside what the parts without wires do.

    **Returns:** a system for every verb. Where a part is stochastic it is a `StochasticSystem`, where one has algebraic equations a
    `ConstrainedSystem`, else a `PlainSystem`. One solver steps the whole, or `simkit.solvers.Strang` each part of a plain one with
    a stepper of its own.

    **Raises:** an `UnknownNameError` for a wire of an unknown part, or to an input that its part does not declare (`reads`); an
    `ArgumentError` for parts that cannot be coupled, and, when it is run, for wires that form an algebraic loop or name an output
    that its part does not have.

    ```python
    import simkit
    tank = simkit.from_function(lambda t, y, p, u: {"level": u["inflow"] - p["out"] * y["level"]}, {"out": 0.5})
    cascade = simkit.Coupled(
        {"upper": tank, "lower": tank},
        {"lower.inflow": lambda system, t, y, outputs: system["upper"].parameters["out"] * y["upper"]["level"]},
    )
    start = {"upper": {"level": 1.0}, "lower": {"level": 0.0}}
    run = simkit.simulate(cascade, start, [0.0, 2.0], inputs={"upper": {"inflow": 0.0}})
    print(round(float(run.final()["lower"]["level"]), 3))  # prints 0.368
    ```
    """
    check_mapping("parts", parts, "systems", '{"tank": tank, "pipe": pipe}')
    check_entries("parts", parts, System, "a system", "`simkit.from_function(f, parameters)` makes one of a function.")
    if not parts:
        raise ArgumentError("Argument `parts` must hold at least one system, but it is empty.")
    for name, part in parts.items():
        if not name.isidentifier() or name in TAKEN:
            raise ArgumentError(
                f"A part must have a Python name other than {', '.join(TAKEN)}, but one is {name!r}. Rename it."
            )
        _check_family(name, part)
    if wires is not None:
        check_mapping("wires", wires, "wires", '{"pipe.inflow": "tank.outflow"}')
    if invariants is not None:
        check_function("invariants", invariants, ("system", "t", "y"))
    found: dict[str, dict[str, Any]] = {}
    for target, wire in (wires or {}).items():
        name, _, key = target.partition(".")
        check_known(name, parts, "part")
        if not key:
            raise ArgumentError(
                f"A wire must feed an input of a part, `{name}.INPUT`, but one is given for {target!r}."
            )
        if (declared := parts[name].reads()) is not None:
            check_known(key, declared, f"input of `{name}`, a {type(parts[name]).__name__},")
        found.setdefault(name, {})[key] = _as_wire(target, wire, parts)
    if any(isinstance(part, StochasticSystem) for part in parts.values()):
        check_noises(parts, found)
        return StochasticCoupled(dict(parts), found, invariants)
    constrained = any(isinstance(part, ConstrainedSystem) for part in parts.values())
    return (ConstrainedCoupled if constrained else PlainCoupled)(dict(parts), found, invariants)


def _check_family(name: str, part: System) -> None:
    """Refuse families whose parts nothing steps together with others: all that are not known to be served."""
    refuse_jumps(part, "The parts of `Coupled` have no random jumps yet", "write the whole as one StochasticSystem.")
    if isinstance(part, SERVED):
        return
    if isinstance(part, DelayedSystem):
        reason = "sees its past, and the delays of parts are not served yet: write the whole as one `DelayedSystem`"
    elif isinstance(part, JumpSystem):
        reason = (
            "jumps at random times, which no solver steps together with differential equations yet: take its diffusion "
            "approximation, `ChemicalLangevin(system)`"
        )
    elif isinstance(part, StaticSystem):
        reason = "has no dynamics: make its response a wire, a function of the states of others"
    elif isinstance(part, ParticleSystem):
        reason = (
            "is a particle system, which makes its lists of neighbours again between steps; a coupled state has no place for them: "
            "write bodies without lists as a `PlainSystem`"
        )
    else:
        reason = f"is of none of the families that are served: {', '.join(family.__name__ for family in SERVED)}"
    raise ArgumentError(f"The part `{name}` cannot be coupled: `{type(part).__name__}` {reason}.")


def _as_wire(target: str, wire: Any, parts: Mapping[str, System]) -> Any:
    """A wire as a module that is called with `WIRE`."""
    if isinstance(wire, str):
        check_known(wire.split(".")[0], parts, f"part for the wire to `{target}`")
        return OutputWire(wire, target)
    if not callable(wire) or isinstance(wire, type):
        raise ArgumentError(
            f"The wire to `{target}` must be the path of an output, such as 'tank.outflow', or a function of "
            f"({', '.join(WIRE)}), but it is {shown(wire)}. A constant or a signal is given by `inputs=`."
        )
    check_function(f'wires["{target}"]', wire, WIRE)
    return wire if isinstance(wire, eqx.Module) else FunctionWire(wire)
