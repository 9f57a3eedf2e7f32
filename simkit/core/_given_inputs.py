"""Inputs as verbs take them: signals for numbers, and the defaults that systems declare for what is not given."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from .._types import Inputs, State
from ._coupled_system import CoupledSystem
from ._input import dotted
from ._patched_system import PatchedSystem
from ._signals import Constant, as_signals
from ._system import System


def as_inputs(system: System, inputs: Inputs, y0: State) -> Inputs:
    """The inputs of a simulation: numbers become constants, and so do the declared defaults of inputs that are not given.

    This is the one place where defaults are filled in, for systems alone, in patches and in coupled systems. Python numbers and
    defaults take the float type of the state.

    **Raises:** an `ArgumentError` where an input is neither a signal nor a number, or is given and wired.
    """
    signals = as_signals(inputs, _float_type(y0))
    if not (signals is None or isinstance(signals, Mapping)):
        return signals
    missing = _missing(system, signals, y0)
    return {**(signals or {}), **missing} if missing else signals


def _missing(system: System, inputs: Any, y0: State) -> dict[str, Constant]:
    """The defaults of inputs that are not given, by dotted names."""
    if isinstance(system, CoupledSystem):
        found = {}
        for name, part in system.parts.items():
            wired, own = system.wires.get(name, {}), system.given(name, inputs)
            if own is None or isinstance(own, Mapping):
                rest = _missing(part, own, y0[name])
                found |= {f"{name}.{key}": value for key, value in rest.items() if key not in wired}
        return found
    declared, given = system.reads() or {}, dotted(inputs or {})
    if all(known.default is None or name in given for name, known in declared.items()):
        return {}
    dtype = _float_type(y0)
    by_patch = system.own if isinstance(system, PatchedSystem) else ()
    shape = lambda name: (system.count,) if isinstance(system, PatchedSystem) and name in by_patch else ()
    return {
        name: Constant(jnp.full(shape(name), known.default, dtype))
        for name, known in declared.items()
        if known.default is not None and name not in given
    }


def _float_type(y0: State) -> Any:
    """The float type of a state; None where it is empty or has several."""
    leaves = [leaf for leaf in jax.tree.leaves(y0) if hasattr(leaf, "dtype")]
    kinds = {jnp.finfo(leaf.dtype).dtype for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)}
    return kinds.pop() if len(kinds) == 1 else None
