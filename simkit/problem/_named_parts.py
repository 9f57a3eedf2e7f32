"""Everything that a problem consists of, by the names that users know."""

from typing import Any

from ..core import named_leaves
from ._field_prior import AbstractFieldPrior
from ._likelihood import IndependentData
from ._prior import StoredPrior
from ._problem import Problem


def named_parts(problem: Problem) -> dict[str, Any]:
    """Everything that a program made from a problem depends on, by the names that users know, for `note_trace`."""
    free = problem.unknowns.pairs
    own = {} if isinstance(problem.likelihood, IndependentData) else {"likelihood": problem.likelihood}
    own |= {"limits": problem.dataset.limits} if problem.dataset.limits else {}
    own |= (
        {"dependence": {", ".join(joint.names): joint.root for joint in problem.unknowns.joints}}
        if problem.unknowns.joints
        else {}
    )
    own |= {} if problem.model.derived is None else {"derived": problem.model.derived}
    return own | {
        "system": problem.base.system,
        "y0": problem.base.y0,
        "inputs": problem.base.inputs,
        "noise": problem.base.noise,
        "times": problem.times,
        "data": problem.data,
        "errors": problem.errors,
        "free": {
            block.name: {"prior": _named(prior), "transform": "log" if block.log else "linear"} for block, prior in free
        },
        "bounds": problem.bounds,
        "set": problem.table,
        "observables": problem.observables,
        "protocol": problem.protocol,
        "measurement": problem.measurement,
        "population": problem.population,
        "solver": problem.method.solver,
        "step": problem.method.step,
    }


def defining_parts(problem: Problem) -> dict[str, Any]:
    """Everything that the density of a problem and the starts of its fit depend on, for `describe`."""
    return {
        **named_parts(problem),
        "prior": {block.name: _told(prior) for block, prior in problem.unknowns.pairs},
        "starts of free": problem.starts,
        "lengths": problem.dataset.lengths,
    }


def _told(prior: StoredPrior | AbstractFieldPrior | None) -> Any:
    """A prior by the names of its numbers."""
    if prior is None:
        return "flat"
    if isinstance(prior, AbstractFieldPrior):
        return {"kind": type(prior).__name__, **named_leaves(prior), "settings": prior.ends}
    values = zip(prior.names, prior.values, strict=True)
    told = {name: _told(value) if isinstance(value, StoredPrior) else value for name, value in values}
    return {"kind": prior.kind.__name__, **told, "settings": prior.settings}


def _named(prior: StoredPrior | AbstractFieldPrior | None) -> str:
    """The kind of a prior, with what it cuts off or transforms."""
    if prior is None:
        return "flat"
    if isinstance(prior, AbstractFieldPrior):
        return type(prior).__name__
    inner = [_named(value) for value in prior.values if isinstance(value, StoredPrior)]
    return " of ".join([prior.kind.__name__, *inner])
