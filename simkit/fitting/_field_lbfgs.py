"""L-BFGS for fields: the method and its options."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from .._doors import check_count, check_kind
from ..core import as_float_array
from ..problem import Problem
from ._field_method import AbstractFieldMethod


def _problems(given: Any) -> Any:
    """One coarser problem, or several."""
    return tuple(given) if isinstance(given, Sequence) else (given,)


class FieldLBFGS(AbstractFieldMethod):
    r"""L-BFGS for fields, in white coordinates and scaled by waves: one gradient a step, matrix-free.

    $$p = -H^{-1} g, \qquad H_0 = I + \sum_s d_s P_s$$

    with g the gradient of the negative log posterior in white coordinates. H starts from $H_0$, where $P_s$ picks the waves of like
    lengths, a shell, and $d_s$ is what the data tell of them on average, measured by one product of the data's information with a
    random vector; the last `memory` changes of gradient correct it (Nocedal 1980), second derivatives that Gauss-Newton leaves out
    included. A step costs one gradient where it gains, and a trial more where it does not.

    **Arguments:**

    - `tolerance`: a fit has converged when the gradient, in white coordinates, is so small relative to that at the first start, or
        when the minimum is nearer than so many standard errors. What the float type cannot resolve is not asked for.
    - `max_steps`: the most gradients on each grid. `memory`: number of changes kept, two vectors each.
    - `coarse`: the same problem on a coarser grid, perhaps with longer steps, or several of them, the finest first. Each is fitted
        in turn, from the coarsest, and its estimate carried to the next by its waves. A step of the finer one is the way to the
        minimum of the coarser one with a linear term that makes its gradient the finer one's, corrected by changes of gradient.
    - `modes`: number of directions for the uncertainty, by Lanczos' method after the fit; 0 for none. Each costs a product.

    **Good values:** the defaults, and two coarser grids, of a half and a quarter of the cells an axis. It takes several times fewer
    simulations than `GaussNewtonCG` where the simulation is not linear, or where the unknown has many waves that data determine.

    **Reference:** Nocedal (1980), Math. Comput. 35:773, doi:10.1090/S0025-5718-1980-0572855-7; for fields of weather Gilbert and
    Lemarechal (1989), Math. Program. 45:407, doi:10.1007/BF01589113; for coarser grids Nash (2000), Optim. Methods Softw. 14:99,
    doi:10.1080/10556780008805795.

    ```python
    import simkit

    method = simkit.FieldLBFGS(modes=50)
    ```
    """

    tolerance: Float[Array, ""] = eqx.field(converter=as_float_array, default=1e-6)
    max_steps: int = eqx.field(static=True, default=200)
    memory: int = eqx.field(static=True, default=60)
    modes: int = eqx.field(static=True, default=0)
    coarse: tuple[Problem, ...] = eqx.field(converter=_problems, default=())

    def __check_init__(self):
        self.check_tolerance()
        check_count("max_steps", self.max_steps)
        check_count("memory", self.memory)
        check_count("modes", self.modes, least=0)
        for problem in self.coarse:
            check_kind("coarse", problem, Problem, "a problem or several", "Give the same problem on a coarser grid.")

    @property
    def name(self) -> str:
        """Name of the method in results."""
        return "L-BFGS for fields"
