"""A model read from SBML as Python: one file with a system, to be read and edited."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from .._errors import ArgumentError
from ..networks import Formulas, Printer, identifier, shared, time_as
from ._load import PEtab
from ._model import Model

TAKEN = ("self", "t", "y", "inputs", "start", "outputs", "vector_field", "invariants", "example", "jnp", "eqx", "State")


def python_source(read: PEtab) -> str:
    """The model of a PEtab problem as a Python file: a class for its states, and a system to read, edit and import.

    Parameters have their nominal values; reactions and rules go by their names. Conditions on time become `jnp.where`, which the
    step control has to find by itself.

    **Arguments:** `read`, what `simkit.petab.load` returns.

    **Raises:** an `ArgumentError` that names what has no such form: an event, an initial assignment of a constant by states, an
    algebraic rule that is not solved by hand, or a fast reaction.
    """
    model = read.model
    if model.events:
        raise ArgumentError(
            f"A model to be printed as Python must be without events, but `{read.name}` has `{model.events[0].name}`. "
            "Fit it as it is, or take the event out of a copy of the model."
        )
    if model.unknowns or model.fast or model.delays:
        rules = ["`delay` in a formula"] * bool(model.delays) + [
            f"the algebraic rule `0 = {text}`, not solved by hand" for text in model.unknowns.values()
        ]
        found = (*rules, *(f"the fast reaction `{r.name}`" for r in model.fast))[0]
        raise ArgumentError(
            f"A model to be printed as Python must be of differential equations alone, but `{read.name}` has {found}. Write it "
            "as a `ConstrainedSystem`, or fit it as it is."
        )
    named = zip(read.problem.names, np.asarray(read.nominal), strict=True)
    fixed = {name: float(np.asarray(x)) for name, x in read.problem.base.system.parameters.items() if np.ndim(x) == 0}
    values = {**model.constants, **fixed, **{name: float(x) for name, x in named}}
    return _Source(model, values).text()


class _Source:
    def __init__(self, model: Model, values: Mapping[str, float]):
        self.model, self.values = model, values
        self.formulas = Formulas(tuple(model.graph.nodes))
        self.given = {name: node for name, node in model.start.items() if name not in model.states}
        self.opened: list[str] = []

    def text(self) -> str:
        model, title = self.model, _class_name(self.model.name)
        roots = [model.rates[name] for name in model.states]
        used = self.formulas.symbols([*roots, *model.formulas.values(), *model.start.values()])
        constants = [name for name in model.constants if name in used and name not in self.given]
        start = [f"{_own(name)}={self._start(name)}" for name in model.states]
        lines = [
            f'"""The SBML model `{model.name}` as a system."""',
            "",
            "import equinox as eqx",
            "import jax.numpy as jnp",
            "",
            "import simkit",
            "from simkit import Scalar, quantity",
            "",
            "",
            "class State(eqx.Module):",
            '    """The state of the model."""',
            "",
            *(f"    {_own(name)}: Scalar = quantity()" for name in model.states),
            "",
            "",
            f"class {title}(simkit.PlainSystem):",
            f'    """The SBML model `{model.name}`."""',
            "",
            *(f"    {_own(name)}: Scalar = quantity({self._value(name)})" for name in constants),
            "",
            "    def vector_field(self, t, y, inputs):",
            *self._assigned(roots, []),
            *_call("State", [f"{_own(n)}={self.printer.text(model.rates[n])}" for n in model.states]),
            "",
            "    def outputs(self, t, y, inputs):",
            *self._assigned(list(model.formulas.values()), list(model.formulas)),
            *_call(
                "dict",
                [*(f"{_own(n)}=y.{_own(n)}" for n in model.states), *(f"{_own(n)}={_own(n)}" for n in model.formulas)],
            ),
            "",
            "    def start(self, t=0.0):",
            '        """The initial state."""',
            *_call("State", start),
            "",
            "    def invariants(self, t, y):",
            "        return {}",
            "",
            "    @classmethod",
            "    def example(cls):",
            "        system = cls()",
            "        return simkit.Example(system, system.start(), jnp.linspace(0.0, 10.0, 51))",
        ]
        text = "\n".join(lines) + "\n"
        return text.replace("import jax.numpy", "import jax\nimport jax.numpy") if "jax.scipy" in text else text

    def _assigned(self, roots: Sequence[int], wanted: Sequence[str]) -> list[str]:
        """Lines that compute what several formulas share, and what has a name."""
        model, reached = self.model, set(self.formulas.reached(roots))
        own = {node: _own(name) for name, node in reversed(model.formulas.items()) if node in reached}
        own = {node: name for node, name in own.items() if self.formulas.nodes[node][0] not in ("number", "symbol")}
        parts = [node for node in shared(self.formulas, roots) if node not in own]
        names = {node: f"part_{i + 1}" for i, node in enumerate(parts)} | own
        self.printer = Printer(self.formulas, names, time_as("t", self._symbol), python=True)
        lines = [f"        {names[node]} = {self.printer.text(node, whole=True)}" for node in sorted(names)]
        for name in wanted:
            if names.get(model.formulas[name]) != _own(name):
                lines.append(f"        {_own(name)} = {self.printer.text(model.formulas[name])}")
        return lines

    def _symbol(self, name: str) -> str:
        if name in self.model.states:
            return f"y.{_own(name)}"
        if name in self.given:
            return f"({self._initial(name, self.given[name])})"
        return f"self.{_own(name)}"

    def _start(self, name: str) -> str:
        text = self._initial(name, self.model.start[name])
        if name in self.model.volumes:
            printer = Printer(self.formulas, {}, time_as("t", self._symbol), python=True)
            return f"({text}) * ({printer.text(self.model.volumes[name])})"
        return text

    def _initial(self, name: str, node: int) -> str:
        """An initial value by constants; initial values of states that it depends on are put in."""
        if name in self.opened:
            raise ArgumentError(f"The initial value of `{name}` must not depend on itself, but does.")
        self.opened.append(name)

        def symbol(other: str) -> str:
            return f"({self._start(other)})" if other in self.model.states else self._symbol(other)

        text = Printer(self.formulas, {}, time_as("t", symbol), python=True).text(node)
        self.opened.pop()
        return "jnp.nan" if text == "nan" else text

    def _value(self, name: str) -> str:
        value = self.values[name]
        return "1.0, doc='without a value in the model'" if math.isnan(value) else repr(value)


def _own(name: str) -> str:
    found = identifier(name)
    return f"{found}_" if found in TAKEN or found.startswith("part_") else found


def _class_name(name: str) -> str:
    word = "".join(part[:1].upper() + part[1:] for part in identifier(name).split("_"))
    return word if word and not word[0].isdigit() else f"Model{word}"


def _call(name: str, arguments: Sequence[str]) -> list[str]:
    return [f"        return {name}(", *(f"            {x}," for x in arguments), "        )"]
