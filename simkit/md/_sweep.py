"""Going over all pairs, whichever way a plan has chosen."""

from typing import Any, TypeAlias

from jaxtyping import Array

from ._cluster_plan import ClusterPlan
from ._cluster_sweep import sweep_clusters
from ._dense import DensePlan
from ._dense_sweep import sweep_dense
from ._manual import varying_like
from ._pair_sums import Point, Wanted

PairPlan: TypeAlias = ClusterPlan | DensePlan


def sweep(
    plan: PairPlan, wanted: Wanted, pairs: Any, species: Any, point: Point, direction: Point | None = None
) -> tuple[Array, Point]:
    """Energy and its gradient, shaped like `point`; with a `direction`, 0 and the Hessian times it."""
    everything = pairs, species, point, direction
    # A pull-back by parameters that all devices share would sum over the devices here, and again outside.
    point, direction = varying_like(point, everything), varying_like(direction, everything)
    one = sweep_clusters if isinstance(plan, ClusterPlan) else sweep_dense
    return one(plan, wanted, pairs, species, point, direction)  # type: ignore[arg-type]
