"""Priors of fields: Gaussian processes on grids, by their spectrum."""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Float

from .._doors import shown
from .._errors import ArgumentError
from ..core import as_float_array, traced
from ._waves import Ends, basis, each_end, rotated, turned


class AbstractFieldPrior(eqx.Module):
    r"""A prior of a field on a grid with coordinates $\xi$ by waves, $u = m + L \xi$, in which fits move.

    $$L = T^{-1} a(k) T$$

    where T are Fourier (periodic), cosine (Neumann) or sine (Dirichlet) transforms along the last axes of the array, and $a^2$ is
    the spectrum of $L L^T$. L is symmetric, has an inverse, and costs two transforms. A subclass gives `spectrum` and the log
    density; `AbstractField` is a Gaussian one, which gives the spectrum alone.

    - `mean`: m, a number or an array of the field's shape.
    - `box`: shape `(axes,)`, the lengths of the domain along the last axes of the array; axes before these are independent fields.
    - `ends`: along each of these axes.
    """

    mean: eqx.AbstractVar[Float[Array, "..."]]
    box: eqx.AbstractVar[Float[Array, " axes"]]
    ends: eqx.AbstractVar[tuple[Ends, ...]]

    @abc.abstractmethod
    def spectrum(self, squared: Float[Array, "..."], cells: int) -> Float[Array, "..."]:
        """The variances $a^2$ at squared wavenumbers, of a grid of so many `cells`."""

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """Refuse an unknown that is no field of this prior.

        **Raises:** an `ArgumentError`.
        """
        if not shape:
            raise ArgumentError(
                f"The prior of `{name}` is one of fields, `{type(self).__name__}`, but `{name}` is a single number. Give a "
                "univariate distribution of NumPyro, such as `dist.Normal(0.0, 1.0)`."
            )
        if len(shape) < len(self.ends):
            raise ArgumentError(
                f"The prior of `{name}` must have a box of at most as many lengths as its array has axes, but the box has "
                f"{len(self.ends)} and the shape is {shape}."
            )
        if self.mean.ndim and self.mean.shape != shape:
            raise ArgumentError(
                f"The mean in the prior of `{name}` must be a number or an array of the shape {shape}, but its shape is "
                f"{self.mean.shape}."
            )

    def centre(self, field: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """The mean in the shape and float type of a field, or of several along axes in front."""
        return jnp.broadcast_to(self.mean.astype(field.dtype), field.shape)

    def root(self, white: Float[Array, "*field"]) -> Float[Array, "*field"]:
        r"""The field $L \xi$ of white coordinates."""
        return self._filtered(white, jnp.sqrt(self._variances(white.shape, white.dtype, half=True)))

    def field(self, white: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        r"""The field $m + L \xi$ of white coordinates, also of several at once along axes in front."""
        return self.centre(white) + self.root(white)

    def white(self, field: Float[Array, "*field"]) -> Float[Array, "*field"]:
        r"""The white coordinates $L^{-1} u$ of a field."""
        return self._filtered(field, 1 / jnp.sqrt(self._variances(field.shape, field.dtype, half=True)))

    def moved(self, white: Float[Array, "*batch"], shape: tuple[int, ...]) -> Float[Array, "*other"]:
        """White coordinates of the same field on another grid of the box: by waves, whose variances a grid does not change."""
        return rotated(white, self._sizes(shape), self.ends)

    def by_waves(self, white: Float[Array, "*field"], factor: Callable[[Array], Array]) -> Float[Array, "*field"]:
        """White coordinates whose waves are multiplied by a `factor` of their wavenumbers, in units of the longest wave's."""
        shortest = jnp.stack(
            [(2 if end == "periodic" else 1) * jnp.pi / self.box[i] for i, end in enumerate(self.ends)]
        )
        longest = jnp.min(shortest).astype(white.dtype)
        numbers = jnp.sqrt(self._squared(white.shape, white.dtype, half=True)) / longest
        return self._filtered(white, factor(numbers))

    def most_waves(self, shape: tuple[int, ...]) -> float:
        """A bound on the wavenumber of the shortest wave of an array of this shape, in units of the longest wave's."""
        box, periodic = np.asarray(self.box, float), np.array([end == "periodic" for end in self.ends])
        units = np.where(periodic, 2, 1) / box
        return float(np.linalg.norm(np.array(self._sizes(shape)) * np.pi / box) / (np.pi * units.min()))

    def log_volume(self, shape: tuple[int, ...], dtype: DTypeLike) -> Float[Array, ""]:
        r"""$\log \det L$ of an array of this shape."""
        found = self._variances(shape, dtype, half=False)
        return 0.5 * jnp.sum(jnp.log(found)) * (math.prod(shape) // found.size)

    @abc.abstractmethod
    def log_prob(self, field: Float[Array, "*field"]) -> Float[Array, ""]:
        """The log density of a field."""

    @abc.abstractmethod
    def log_prob_of_white(self, white: Float[Array, "*field"]) -> Float[Array, ""]:
        """The log density of the field that has these white coordinates."""

    def variance(self, shape: tuple[int, ...], dtype: DTypeLike) -> Float[Array, "*field"]:
        """The prior variance at every point of an array of this shape."""
        found, sizes = self._variances(shape, dtype, half=False), self._sizes(shape)
        for axis, (end, size) in enumerate(zip(self.ends, sizes, strict=True)):
            weights = np.full((size, size), 1 / size) if end == "periodic" else basis(end, size) ** 2
            found = turned(found, axis, weights)
        return jnp.broadcast_to(found, shape)

    def _sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[len(shape) - len(self.ends) :]

    def _variances(self, shape: tuple[int, ...], dtype: DTypeLike, half: bool) -> Array:
        """The spectrum on the grid of wavenumbers; `half` of the last periodic axis, which is enough for real fields."""
        return self.spectrum(self._squared(shape, dtype, half), math.prod(self._sizes(shape)))

    def _squared(self, shape: tuple[int, ...], dtype: DTypeLike, half: bool) -> Array:
        """Squared wavenumbers."""
        sizes, axes = self._sizes(shape), len(self.ends)
        cut = max((i for i, end in enumerate(self.ends) if end == "periodic"), default=-1) if half else -1
        squared = jnp.zeros((), dtype)
        for axis, (end, size) in enumerate(zip(self.ends, sizes, strict=True)):
            if end == "periodic":
                numbers = (np.fft.rfftfreq if axis == cut else np.fft.fftfreq)(size, 1 / size) * 2 * np.pi
            else:
                numbers = (np.arange(size) + (end == "dirichlet")) * np.pi
            line = (jnp.asarray(numbers, dtype) / self.box[axis].astype(dtype)) ** 2
            squared = jnp.expand_dims(squared, -1) + line.reshape((1,) * axis + (-1,))
        assert squared.ndim == axes
        return squared

    def _filtered(self, x: Array, factor: Array) -> Array:
        """Multiply by a factor for each wavenumber."""
        first = x.ndim - len(self.ends)
        periodic = [first + i for i, end in enumerate(self.ends) if end == "periodic"]
        bases = {first + i: end for i, end in enumerate(self.ends) if end != "periodic"}
        for axis, end in bases.items():
            x = turned(x, axis, basis(end, x.shape[axis]).T)
        factor = factor.reshape((1,) * first + factor.shape)
        if periodic:
            modes = jnp.fft.rfftn(x, axes=periodic)
            x = jnp.fft.irfftn(modes * factor.astype(modes.dtype), s=[x.shape[i] for i in periodic], axes=periodic)
        else:
            x = x * factor
        for axis, end in bases.items():
            x = turned(x, axis, basis(end, x.shape[axis]))
        return x


class AbstractField(AbstractFieldPrior):
    r"""A Gaussian prior of a field on a grid, $u = m + L \xi$ with $\xi$ white: independent normal numbers of variance 1.

    The spectrum is that of the covariance $L L^T$. A subclass gives `spectrum`.
    """

    def log_prob(self, field: Float[Array, "*field"]) -> Float[Array, ""]:
        """The log density of a field."""
        return self.log_prob_of_white(self.white(field - self.centre(field)))

    def log_prob_of_white(self, white: Float[Array, "*field"]) -> Float[Array, ""]:
        """The log density of the field that has these white coordinates."""
        constant = 0.5 * white.size * math.log(2 * math.pi) + self.log_volume(white.shape, white.dtype)
        return -0.5 * jnp.sum(white**2) - constant


class Matern(AbstractField):
    r"""Matérn covariance on a grid: of a field that is about $\nu$ times differentiable and correlated over a length $\ell$.

    $$C(r) = \sigma^2 \frac{2^{1-\nu}}{\Gamma(\nu)} \left(\frac{\sqrt{2\nu} r}{\ell}\right)^{\nu}
    K_\nu\left(\frac{\sqrt{2\nu} r}{\ell}\right), \qquad
    a^2(k) \propto \left(\frac{2\nu}{\ell^2} + k^2\right)^{-\nu - d/2}$$

    In a periodic box it is the sum of C over all images, with Neumann and Dirichlet ends that over mirror images with signs (the
    stochastic partial differential equation of Lindgren et al. on that domain). Wavenumbers beyond the grid's are left out.

    **Arguments:**

    - `scale`: $\sigma$, the standard deviation, in the unit of the unknown; with `Free(transform="log")`, of its logarithm.
    - `length`: $\ell$, in the unit of `box`.
    - `smoothness`: $\nu$.
    - `box`: lengths of the domain along the last axes of the array, a number for one axis.
    - `mean`: a number or an array; with `Free(transform="log")`, of the logarithm.
    - `average`: factor of the standard deviation of the field's average over the box. A small one, such as 1e-3, for a field whose
        average is known to be `mean`, such as a vorticity in a periodic plane; 0 would leave the root without an inverse.
    - `ends`: "periodic", "neumann" (no slope at the ends) or "dirichlet" (the mean at the ends), for all axes or one for each;
        values lie at the centres of cells.

    A power law $k^{-p}$ beyond $k_0$ in d dimensions is that of $\nu = (p - d) / 2$ and $\ell = \sqrt{2 \nu} / k_0$.

    **Good values:** a smoothness of 1.5 to 2.5, a length of a tenth of the box, at least three cells long. With Neumann ends the
    variance is larger at the ends, twice that of the middle; a box that is some lengths wider keeps it even.

    **Raises:** an `ArgumentError` for numbers that are not positive.

    **Reference:** Lindgren, Rue, Lindstroem (2011), J. R. Stat. Soc. B 73:423, doi:10.1111/j.1467-9868.2011.00777.x.

    ```python
    import simkit

    prior = simkit.fields.Matern(1.0, length=0.5, box=(6.28, 6.28), smoothness=2.5)
    vorticity = simkit.Free(prior)
    ```
    """

    scale: Float[Array, ""]
    length: Float[Array, ""]
    smoothness: Float[Array, ""]
    box: Float[Array, " axes"]
    mean: Float[Array, "..."]
    average: Float[Array, ""]
    ends: tuple[Ends, ...] = eqx.field(static=True)

    def __init__(
        self,
        scale: ArrayLike,
        *,
        length: ArrayLike,
        box: ArrayLike | Sequence[float],
        smoothness: ArrayLike = 1.5,
        mean: ArrayLike = 0.0,
        average: ArrayLike = 1.0,
        ends: Ends | Sequence[Ends] = "periodic",
    ):
        self.scale, self.length, self.smoothness = (
            as_positive(name, value)
            for name, value in (("scale", scale), ("length", length), ("smoothness", smoothness))
        )
        self.average = as_positive("average", average)
        self.box, self.mean, self.ends = as_grid(box, mean, ends)

    def spectrum(self, squared: Float[Array, "..."], cells: int) -> Float[Array, "..."]:
        scale, length, nu, box = (x.astype(squared.dtype) for x in (self.scale, self.length, self.smoothness, self.box))
        half = 0.5 * len(self.ends)
        rate = 2 * nu / length**2
        gamma = jax.scipy.special.gammaln
        density = half * math.log(4 * math.pi) + gamma(nu + half) - gamma(nu) - half * jnp.log(rate)
        log = density - (nu + half) * jnp.log1p(squared / rate) + math.log(cells) - jnp.sum(jnp.log(box))
        return (scale * jnp.where(squared == 0, self.average.astype(scale.dtype), 1)) ** 2 * jnp.exp(log)


def as_positive(name: str, value: Any) -> Array:
    """One positive number of a prior.

    **Raises:** an `ArgumentError`.
    """
    found = as_float_array(value)
    if found.ndim or (not traced(found) and not (np.isfinite(found) and found > 0)):
        raise ArgumentError(f"Argument `{name}` must be a positive number, but it is {shown(value)}.")
    return found


def as_grid(box: Any, mean: Any, ends: Any) -> tuple[Array, Array, tuple[Ends, ...]]:
    """The lengths, mean and ends of a field.

    **Raises:** an `ArgumentError` for lengths that are not positive.
    """
    lengths = jnp.atleast_1d(as_float_array(np.asarray(box, float) if isinstance(box, tuple | list) else box))
    if lengths.ndim != 1 or (not traced(lengths) and not np.all(np.isfinite(lengths) & (np.asarray(lengths) > 0))):
        raise ArgumentError(
            f"Argument `box` must hold a positive length for each axis of the field, but it is {shown(box)}."
        )
    each = each_end(ends, lengths.size)
    return lengths, as_float_array(mean), each
