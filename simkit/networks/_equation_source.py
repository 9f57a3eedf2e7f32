"""Systems of equations as Python: one file with a class, to be read, edited and imported."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._doors import shown
from .._errors import ArgumentError, check_known
from .._types import Inputs
from ..core import REAL, Constant, Input, Metadata, named_leaves, started
from ._equation_system import EquationSystem
from ._equations import Equations
from ._expression import TIME
from ._infix import identifier
from ._spelled import Spelled, equations_text
from ._written_event import WrittenEvent, events_python


def equations_source(
    system: EquationSystem,
    y0: Any = None,
    times: Any = None,
    inputs: Inputs = None,
    *,
    events: Sequence[WrittenEvent] = (),
) -> str:
    """The Python source of a system of equations: a class with a quantity for each parameter, and its events by name, `EVENTS`.

    **Arguments:**

    - `system`: what `from_equations` made; its numbers become the defaults.
    - `y0`, `times`: the example of the class; by default a state of ones, and times from 0 to 10.
    - `inputs`: name -> number or `Constant`, which become the defaults of inputs.
    - `events`: those of a study, as `simkit export` writes them, for `simulate(..., events=EVENTS)`.

    **Raises:** an `ArgumentError` for a system of another kind, an input that varies in time, or a function without a name in
    Python.

    ```python
    import simkit
    decay = simkit.from_equations({"d x": "-rate*x"}, parameters={"rate": 0.5}, name="Decay")
    print(simkit.networks.equations_source(decay))
    ```
    """
    if not isinstance(system, EquationSystem):
        raise ArgumentError(
            f"Argument `system` must be made by `from_equations`, but it is of the class `{type(system).__name__}`."
        )
    equations = system.equations
    spelled = Spelled(equations)
    states = [name for name, _ in equations.rates]
    start = dict.fromkeys(states, 1.0) if y0 is None else start_numbers(y0, states)
    span = (0.0, 10.0, 101) if times is None else _span(times)
    lines = [f'"""{equations.name}: equations written by simkit."""', ""]
    lines += ["import equinox as eqx", "import jax.numpy as jnp", "import simkit", "", ""]
    lines += ["class State(eqx.Module):", '    """The state."""', ""]
    for name, known in equations.states:
        lines.append(f"    {identifier(name)}: simkit.Scalar = simkit.quantity({_told(known)})")
    told = "\n".join(f"        {line}" for line in equations_text(equations).splitlines())
    lines += ["", "", f"class {equations.name}(simkit.PlainSystem):"]
    lines += [f'    """{equations.name}, by its equations.', "", told.replace("\\", "\\\\"), '    """', ""]
    lines += ["    State = State"]
    for name, _, known in equations.parameters:
        value = float(np.asarray(getattr(system, name)))
        kind = ", ".join(filter(None, [repr(value), _told(known)]))
        lines.append(f"    {identifier(name)}: simkit.Scalar = simkit.quantity({kind})")
    read = set_inputs(equations, inputs)
    if read:
        declared = ", ".join(
            f"{name!r}: simkit.Input(unit={one.unit!r}, default={one.default!r}, doc={one.doc!r})"
            for name, one in read.items()
        )
        lines += ["", "    def reads(self):", f"        return {{{declared}}}"]
    print_one = lambda node: spelled.text(node, _symbol, python=True)
    assigned = [f"        {identifier(name)} = {print_one(spelled.assignments[name])}" for name in _ordered(spelled)]
    slopes = ", ".join(f"{identifier(name)}={print_one(spelled.rates[name])}" for name in states)
    lines += ["", "    def vector_field(self, t, y, inputs):", *assigned, f"        return State({slopes})"]
    if equations.observed:
        shown = [f"{name!r}: y.{identifier(name)}" for name in states]
        shown += [f"{name!r}: {print_one(spelled.observed[name])}" for name, _ in equations.observed]
        lines += ["", "    def outputs(self, t, y, inputs):", *assigned, f"        return {{{', '.join(shown)}}}"]
    given = ", ".join(f"{name!r}: {1.0 if one.default is None else one.default!r}" for name, one in read.items())
    begin = ", ".join(f"{identifier(name)}={value!r}" for name, value in start.items())
    lines += ["", "    @classmethod", "    def example(cls):"]
    lines.append(
        f"        return simkit.Example(cls(), State({begin}), jnp.linspace({span[0]!r}, {span[1]!r}, {span[2]})"
        f"{f', {{{given}}}' if given else ''})"
    )
    return "\n".join([*lines, *events_python(events, states)]) + "\n"


def start_numbers(y0: Any, states: Sequence[str]) -> dict[str, float]:
    """The numbers of an initial state by name.

    **Raises:** an `ArgumentError` where it is none, or a state is left out.
    """
    leaves = dict(y0) if isinstance(y0, Mapping) else dict(named_leaves(started(y0)))
    example = ", ".join(f'"{name}": 1.0' for name in states)
    found = {}
    for name in states:
        if name not in leaves and not isinstance(y0, Mapping):
            raise ArgumentError(
                f"Argument `y0` must be a state of the equations, but it is {shown(y0)}. Write {{{example}}}."
            )
        try:
            found[name] = float(np.asarray(leaves[name], float))
        except (KeyError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"Argument `y0` must give the state `{name}` a number, but it is {shown(y0)}. Write {{{example}}}."
            ) from error
        if not np.isfinite(found[name]):
            raise ArgumentError(f"Argument `y0` must hold finite numbers, but `{name}` is {found[name]:g}.")
    for name in leaves if isinstance(y0, Mapping) else ():
        check_known(name, states, "state")
    return found


def set_inputs(equations: Equations, inputs: Inputs) -> dict[str, Input]:
    """The inputs of equations by name, with given constants as their defaults.

    **Raises:** an `ArgumentError` for what varies in time, an `UnknownNameError` for an input that the equations have not.
    """
    declared = dict(equations.inputs)
    for name, signal in dict(inputs or {}).items():
        check_known(name, declared, "input of the equations")
        value = signal.value if isinstance(signal, Constant) else signal
        try:
            number = float(np.asarray(value, float))
        except (TypeError, ValueError):
            raise ArgumentError(
                f"The input `{name}` must be a constant to be written to a file, but it is {shown(signal)}. Give a constant, or "
                "write its formula of `t` into the equations."
            ) from None
        declared[name] = declared[name]._replace(default=number)
    return declared


def _span(times: Any) -> tuple[float, float, int]:
    try:
        array = np.asarray(times, float)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `times` must be numbers, but it is {shown(times)}.") from error
    return float(array.min()), float(array.max()), array.size


def _told(known: Metadata) -> str:
    """The arguments of `quantity` for what is known of it."""
    parts = [f"unit={known.unit!r}"] if known.unit != "1" else []
    lower, upper = known.support
    if known.support.positive:
        parts.append("support=simkit.POSITIVE")
    elif known.support != REAL:
        ends = [f'float("{end}")' if math.isinf(end) else repr(end) for end in (lower, upper)]
        parts.append(f"support=({', '.join(ends)})")
    return ", ".join([*parts, *([f"doc={known.doc!r}"] if known.doc else [])])


def _symbol(symbol: str) -> str:
    sort, _, name = symbol.partition(":")
    if sort == "time" or name == TIME:
        return "t"
    if sort == "inputs":
        return f'inputs["{name}"]'
    return {"state": f"y.{identifier(name)}", "parameters": f"self.{identifier(name)}"}.get(sort, identifier(name))


def _ordered(spelled: Spelled) -> list[str]:
    """The assignments, each after those that it uses."""
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        stack = [spelled.assignments[name]]
        while stack:
            operation, *operands = spelled.nodes[stack.pop()]
            if operation == "symbol":
                sort, _, other = operands[0].partition(":")
                if sort == "assignment" and other not in done:
                    visit(other)
            elif operation != "number":
                stack += operands
        done[name] = None

    for name in spelled.assignments:
        if name not in done:
            visit(name)
    return list(done)
