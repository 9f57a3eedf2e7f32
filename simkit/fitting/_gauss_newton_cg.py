"""Gauss-Newton with conjugate gradients: the method and its options."""

import equinox as eqx
from jaxtyping import Array, Float

from .._doors import check_count, check_kind
from ..core import as_float_array
from ..problem import Problem
from ._field_method import AbstractFieldMethod
from ._field_result import FieldFit


class GaussNewtonCG(AbstractFieldMethod):
    r"""Gauss-Newton for fields: each step by conjugate gradients in white coordinates, matrix-free.

    $$(I + L^T J^T I_d J L) p = -g$$

    with L the root of the prior's covariance, J the Jacobian of the predictions, $I_d$ the Fisher information of the data and g the
    gradient of the negative log posterior. The prior is the preconditioner: a step takes as many products as the data determine
    directions, and later steps take fewer, since they begin with the directions that earlier ones found (Tshimanga et al. 2008). A
    product is one tangent and one adjoint solve. Steps stay inside a trust region (Steihaug 1983), and conjugate gradients stop
    early far from the minimum (Eisenstat and Walker 1996). Memory is that of `2 max_products` vectors and of reverse mode.

    **Arguments:**

    - `tolerance`: a fit has converged when the gradient, in white coordinates, is so small relative to that at the first start, or
        when the minimum is nearer than so many standard errors. What the float type cannot resolve is not asked for.
    - `max_steps`: the most steps. `max_products`: the most products in one step.
    - `known`: an earlier fit, of a coarser grid for example or of other data. The fit starts at its estimate, unless `starts` are
        given, and from the directions that it has found, which are carried over to other grids of the same box by their waves.
    - `coarse`: the same problem on a coarser grid, perhaps with longer steps, whose linearisation makes the products: the
        incremental form of 4D-Var (Courtier et al. 1994). A step then costs one gradient of the problem itself, and the fit ends
        where that vanishes. The coarser problem is fitted first where nothing is `known`. A step that gains too little is the last
        one with it.
    - `modes`: number of directions for the uncertainty, by Lanczos' method after the fit; 0 for none. Each costs a product.

    **Good values:** the defaults; `modes` some hundred, up to the number of data. Take fewer, and intervals are too wide, never too
    narrow.

    **Reference:** Steihaug (1983), SIAM J. Numer. Anal. 20:626, doi:10.1137/0720042; Eisenstat and Walker (1996), SIAM J. Sci.
    Comput. 17:16, doi:10.1137/0917003; Courtier, Thepaut, Hollingsworth (1994), Q. J. R. Meteorol. Soc. 120:1367,
    doi:10.1002/qj.49712051912; Tshimanga et al. (2008), Q. J. R. Meteorol. Soc. 134:751, doi:10.1002/qj.228; Bui-Thanh et
    al. (2013), SIAM J. Sci. Comput. 35:A2494, doi:10.1137/12089586X.

    ```python
    import simkit

    method = simkit.GaussNewtonCG(modes=50)
    ```
    """

    tolerance: Float[Array, ""] = eqx.field(converter=as_float_array, default=1e-6)
    max_steps: int = eqx.field(static=True, default=50)
    max_products: int = eqx.field(static=True, default=200)
    modes: int = eqx.field(static=True, default=0)
    known: FieldFit | None = None
    coarse: Problem | None = None

    def __check_init__(self):
        self.check_tolerance()
        check_count("max_steps", self.max_steps)
        check_count("max_products", self.max_products)
        check_count("modes", self.modes, least=0)
        if self.known is not None:
            remedy = "`simkit.fit(problem, method=simkit.GaussNewtonCG())` gives one."
            check_kind("known", self.known, FieldFit, "the result of a fit of fields", remedy)
        if self.coarse is not None:
            check_kind("coarse", self.coarse, Problem, "a problem", "Give the same problem on a coarser grid.")

    @property
    def name(self) -> str:
        """Name of the method in results."""
        return "Gauss-Newton with conjugate gradients"
