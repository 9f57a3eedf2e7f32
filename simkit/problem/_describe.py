"""Problems, priors and step rules in words."""

import jax.core
import numpy as np
import numpyro.distributions as dist
from jaxtyping import ArrayLike

from ..core import unswitched
from ..engine import Adaptive, Courant, Method
from ._dataset import Dataset
from ._field_prior import AbstractFieldPrior
from ._forward import ForwardModel
from ._prior import StoredPrior
from ._state_sizes import notes
from ._unknowns import Unknowns

TRUNCATED = (
    dist.LeftTruncatedDistribution,
    dist.RightTruncatedDistribution,
    dist.TwoSidedTruncatedDistribution,
)


def describe_problem(model: ForwardModel, data: Dataset, unknowns: Unknowns, likelihood: str | None) -> str:
    """A problem in some lines; `likelihood` names one whose data are not independent."""
    system = type(unswitched(model.base.system)).__name__
    hidden = f" ({count} censored)" if (count := data.censored_count) else ""
    lines = [
        f"Problem: {system}, {len(data.labels)} experiment(s), {data.count} data{hidden}, {unknowns.size} unknowns"
    ]
    if likelihood is not None:
        lines.append(f"  likelihood  {likelihood}")
    solver = "none" if model.method.solver is None else type(model.method.solver).__name__
    lines.append(f"  solver  {solver} ({model.method.reason}), {describe_step(model.method)}")
    lines += [f"  note    {text}" for text in notes(model, data)]
    lines += describe_unknowns(unknowns)
    if model.derived is not None:
        lines.append(f"  derived {', '.join(name for name, _ in model.derived.functions)}")
    return "\n".join(lines)


def describe_unknowns(unknowns: Unknowns) -> list[str]:
    """A line for each unknown, an array being one."""
    lines = []
    for name, size, prior, bounds, moves in unknown_rows(unknowns):
        lines.append(f"  {name:<20} {f'{size}, ' * bool(size)}prior {prior}, in {bounds}, moves {moves}")
    for joint in unknowns.joints:
        matrix = np.asarray(joint.root @ joint.root.T)
        off = matrix[np.triu_indices(len(matrix), 1)]
        lines.append(f"  {', '.join(joint.names)}: correlated priors, {', '.join(f'{x:.2g}' for x in off)}")
    return lines


def unknown_rows(unknowns: Unknowns) -> list[tuple[str, str, str, str, str]]:
    """Name, size of an array, prior, bounds and coordinate of each unknown, as text."""
    rows, bounds = [], np.asarray(unknowns.bounds)
    for block, prior in unknowns.pairs:
        lower, upper = bounds[block.offset] if block.size else (-np.inf, np.inf)
        size = f"{' x '.join(map(str, block.shape))} numbers" if block.shape else ""
        moves = "by its logarithm" if block.log else "linearly"
        moves = (
            f"in white coordinates{', by its logarithm' * block.log}"
            if isinstance(prior, AbstractFieldPrior)
            else moves
        )
        text = describe_prior(prior.distribution() if isinstance(prior, StoredPrior) else prior)
        rows.append((block.name, size, text, f"({lower:g}, {upper:g})", moves))
    return rows


def describe_prior(prior: dist.Distribution | AbstractFieldPrior | None) -> str:
    """A prior by name, with its numbers where it is a distribution of NumPyro."""
    if prior is None:
        return "flat"
    if isinstance(prior, TRUNCATED):
        return f"{describe_prior(prior.base_dist)}, cut off"
    if not isinstance(prior, dist.Distribution):
        return type(prior).__name__
    given = (getattr(prior, name, None) for name in type(prior).arg_constraints)
    numbers = [_span(value) for value in given if value is not None and not isinstance(value, jax.core.Tracer)]
    return f"{type(prior).__name__}({', '.join(numbers)})" if numbers else type(prior).__name__


def _span(values: ArrayLike) -> str:
    """A number, or from where to where those of an array lie."""
    least, largest = float(np.min(values)), float(np.max(values))
    return f"{least:.4g}" if least == largest else f"{least:.4g} to {largest:.4g}"


def describe_step(method: Method) -> str:
    step = method.step
    if isinstance(step, Adaptive):
        least, largest = (float(f(np.asarray(step.atol))) for f in (np.min, np.max))
        atol = f"{least:.3g}" if least == largest else f"{least:.3g} to {largest:.3g} by state"
        return f"adaptive, rtol {float(step.rtol):g}, atol {atol}"
    if isinstance(step, Courant):
        return f"Courant number {float(step.number):g}"
    return f"{step.substeps} fixed step(s) between times"
