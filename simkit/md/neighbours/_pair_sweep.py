"""Going over all pairs, whichever way a plan has chosen."""

from typing import TypeAlias

import equinox as eqx
from jaxtyping import Array, PyTree

from ._all_pairs import DensePlan
from ._cluster_plan import ClusterPlan
from ._cluster_sweep import sweep_clusters
from ._dense_sweep import sweep_dense
from ._derivative_rule import Sweep
from ._manual import varying_like
from ._pair_sums import Point, Wanted

PairPlan: TypeAlias = ClusterPlan | DensePlan


class PairSweep(Sweep):
    """Sum over all pairs; `fixed` are the pairs and the rows of the species."""

    plan: PairPlan = eqx.field(static=True)

    def __call__(
        self, wanted: Wanted, fixed: PyTree, point: Point, direction: Point | None = None
    ) -> tuple[Array, Point]:
        pairs, species = fixed
        everything = fixed, point, direction
        # A pull-back by parameters that all devices share would sum over the devices here, and again outside.
        point, direction = varying_like(point, everything), varying_like(direction, everything)
        one = sweep_clusters if isinstance(self.plan, ClusterPlan) else sweep_dense
        return one(self.plan, wanted, pairs, species, point, direction)  # type: ignore[arg-type]
