"""Total variation of fields: a prior that keeps edges, for estimates."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._doors import shown
from .._errors import ArgumentError
from ._field_prior import AbstractFieldPrior, as_grid, as_positive
from ._waves import Ends


class TotalVariation(AbstractFieldPrior):
    r"""Prior by the total variation of a field, $-\log p(u) = \alpha \int \sqrt{|\nabla u|^2 + \epsilon^2}$ up to a constant.

    A jump costs as much as a slope between the same values, so that estimates are flat with edges, where Gaussian priors blur.
    On the grid it is the sum over cells of their volume times the root, with differences to the next cell along each axis.

    The density is one of the logarithm's maximum alone: on finer grids its draws have fewer and fewer edges and tend to those of a
    Gaussian field (Lassas and Siltanen 2004), so that `sample`, draws of the prior and the uncertainty of a fit (`modes`) are
    refused. `FieldLBFGS` fits it, in coordinates that are white for flat fields.

    **Arguments:**

    - `weight`: $\alpha$, in 1 / (unit of the unknown x length of `box` to the power axes - 1).
    - `slope`: $\epsilon$, the slope from which on a gradient is an edge, in the unit of the unknown by that of `box`.
    - `box`: lengths of the domain along the last axes of the array, a number for one axis.
    - `ends`: "periodic" or "neumann" (nothing beyond the ends), for all axes or one for each.
    - `mean`: where a fit begins; the prior does not know it.

    **Good values:** `slope` a hundredth of an edge's height by the width of a cell: smaller ones take more steps. With data of all
    cells with normal errors of deviation s, an island of n cells comes out lower by about $\alpha s^2 P / n$, where P is its
    perimeter, 2 on a line: choose `weight` so that this is small.

    **Errors:** the rounding of the root lowers an edge of height J between cells of width h by some $\epsilon h / J$ of the above.

    **Raises:** an `ArgumentError` for numbers that are not positive, or ends that are "dirichlet".

    **Reference:** Rudin, Osher and Fatemi (1992), Physica D 60:259, doi:10.1016/0167-2789(92)90242-F; Strong and Chan (2003),
    Inverse Problems 19:S165, doi:10.1088/0266-5611/19/6/059; Lassas and Siltanen (2004), Inverse Problems 20:1537,
    doi:10.1088/0266-5611/20/5/013.

    ```python
    import simkit

    prior = simkit.fields.TotalVariation(2.0, slope=0.1, box=(1.0, 1.0), ends="neumann")
    conductivity = simkit.Free(prior, transform="log")
    ```
    """

    weight: Float[Array, ""]
    slope: Float[Array, ""]
    box: Float[Array, " axes"]
    mean: Float[Array, "..."]
    ends: tuple[Ends, ...] = eqx.field(static=True)

    def __init__(
        self,
        weight: ArrayLike,
        *,
        slope: ArrayLike,
        box: ArrayLike | Sequence[float],
        mean: ArrayLike = 0.0,
        ends: Ends | Sequence[Ends] = "periodic",
    ):
        self.weight, self.slope = as_positive("weight", weight), as_positive("slope", slope)
        self.box, self.mean, self.ends = as_grid(box, mean, ends)
        if "dirichlet" in self.ends:
            raise ArgumentError(
                f'Argument `ends` must be "periodic" or "neumann" for a total variation, but it is {shown(ends)}.'
            )

    def spectrum(self, squared: Float[Array, "..."], cells: int) -> Float[Array, "..."]:
        """The variances of coordinates that are white where the field is flat; the average moves as the longest wave does."""
        box = self.box.astype(squared.dtype)
        longest = jnp.min(
            (jnp.asarray([2.0 if end == "periodic" else 1.0 for end in self.ends], box.dtype) * jnp.pi / box) ** 2
        )
        ratio = (self.slope / self.weight).astype(squared.dtype)
        return ratio * cells / jnp.prod(box) / jnp.where(squared == 0, longest, squared)

    def log_prob(self, field: Float[Array, "*field"]) -> Float[Array, ""]:
        """The log density of a field up to a constant."""
        first = field.ndim - len(self.ends)
        squared, volume = (self.slope**2).astype(field.dtype), jnp.ones((), field.dtype)
        for i, end in enumerate(self.ends):
            width = (self.box[i] / field.shape[first + i]).astype(field.dtype)
            apart = jnp.roll(field, -1, first + i) - field
            if end != "periodic":
                inside = jnp.arange(field.shape[first + i]) < field.shape[first + i] - 1
                apart = jnp.where(inside.reshape((-1,) + (1,) * (field.ndim - first - i - 1)), apart, 0)
            squared, volume = squared + (apart / width) ** 2, volume * width
        return -self.weight.astype(field.dtype) * volume * jnp.sum(jnp.sqrt(squared) - self.slope.astype(field.dtype))

    def log_prob_of_white(self, white: Float[Array, "*field"]) -> Float[Array, ""]:
        return self.log_prob(self.root(white))
