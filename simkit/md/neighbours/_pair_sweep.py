"""Going over all pairs, whichever way a plan has chosen."""

import equinox as eqx
from jaxtyping import Array, PyTree

from ._derivative_rule import Sweep
from ._list_plan import PairPlan
from ._manual import varying_like
from ._pair_sums import Point, Wanted


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
        return self.plan.sweep(wanted, pairs, species, point, direction)
