"""Results of `profile`: values, how much worse the others fit there, and intervals."""

from statistics import NormalDist

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from .._errors import check_known
from ..core import name_width
from ..problem import Problem

BETTER = 1e-3
"""A profile that falls by more than this below the fit has found a better optimum, and says so."""


NOISY = 0.3
"""Noise of the maximum, in standard errors, beyond which intervals are too short: there those of 95 % hold the truth in 90 %."""


class Profiles(eqx.Module):
    """Profile likelihoods (of the posterior density, where there are priors).

    - `values`: shape `(names, points)`, natural units, increasing; NaN behind the last.
    - `differences`: shape `(names, points)`, how much the re-optimised objective lies above the best; infinite where no
        simulation ended.
    - `intervals`: shape `(names, 2)`: where the difference crosses half the chi-squared quantile of `level`. An end that
        is not reached is infinite (0 where the parameter moves by its logarithm), or the bound.
    - `level`, and `threshold`, the difference that belongs to it.
    - `is_open`: shape `(names, 2)`, whether an end was not reached: the data do not limit the parameter on that side.
    - `smooth`, `cutoffs`, `errors`: of a likelihood that particles estimate, None otherwise: the smooth curve at the values, from
        whose minimum `differences` count; the largest difference inside the interval of each name; the standard error, in the
        coordinates of the fit, of the place of the minimum by the noise of the filters.
    - `outside`: names whose estimate lies outside their interval, of such a likelihood.
    - `cut`: True where `within` was up before all values were optimised: open ends may then be those that were not walked to.
    """

    values: Float[Array, "names points"]
    differences: Float[Array, "names points"]
    intervals: Float[Array, "names 2"]
    is_open: Array
    level: float = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    cut: bool = eqx.field(static=True, default=False)
    smooth: Float[Array, "names points"] | None = None
    cutoffs: Float[Array, " names"] | None = None
    errors: Float[Array, " names"] | None = None
    outside: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def threshold(self) -> float:
        """Half the quantile of the chi-squared distribution with one degree of freedom."""
        return threshold(self.level)

    def interval(self, name: str) -> tuple[float, float]:
        """The interval of one parameter."""
        check_known(name, self.names, "profile")
        lower, upper = np.asarray(self.intervals)[self.names.index(name)]
        return float(lower), float(upper)

    def __repr__(self) -> str:
        if isinstance(self.values, Tracer):
            return f"Profiles(traced, {self.names})"
        lines, width = [f"Profiles: intervals at {self.level:.0%}"], name_width(self.names)
        for name, unit, ends, ajar in zip(
            self.names, self.units, np.asarray(self.intervals), np.asarray(self.is_open), strict=True
        ):
            sides = " and ".join(word for word, side in zip(("below", "above"), ajar, strict=True) if side)
            why = "the time was up" if self.cut else "the data do not limit it there"
            note = f"  open {sides}: {why}" if sides else ""
            lines.append(
                f"  {name:<{width}} {ends[0]:.6g} to {ends[1]:.6g} {'' if unit == '1' else unit}".rstrip() + note
            )
        if self.errors is not None and self.cutoffs is not None:
            share = np.sqrt(np.maximum(np.asarray(self.cutoffs) / self.threshold - 1, 0))
            lines.append(f"  by particles: their noise moves the maximum by {share.max():.2g} of a standard error")
            if share.max() > NOISY:
                lines.append(
                    "  warning: that is much, and intervals are too short: take more particles, or more `points`."
                )
            if self.outside:
                named = ", ".join(f"`{name}`" for name in self.outside)
                lines.append(
                    f"  warning: the fit lies outside the interval of {named}: it had not found the maximum. Fit again."
                )
            return "\n".join(lines + self._cut_lines())
        lowest = np.nanmin(np.asarray(self.differences))
        if lowest < -BETTER:
            lines.append(f"  warning: the objective fell {-lowest:.3g} below the fit. Fit again with more starts.")
        return "\n".join(lines + self._cut_lines())

    def _cut_lines(self) -> list[str]:
        warning = (
            "  warning: the time of `within` was up before all values were optimised: ends may be rough or not reached. With a "
            "`store` the same call goes on."
        )
        return [warning] if self.cut else []


def threshold(level: float) -> float:
    """Return the largest difference of the objective from its minimum inside an interval of this level (Wilks' theorem)."""
    return 0.5 * NormalDist().inv_cdf(0.5 + level / 2) ** 2


def profiles_of(
    problem: Problem,
    names: tuple[str, ...],
    level: float,
    rows: list[tuple[np.ndarray, np.ndarray]],
    ends: np.ndarray,
    is_open: np.ndarray,
    cut: bool,
    smooth: list[np.ndarray] | None = None,
    cutoffs: np.ndarray | None = None,
    errors: np.ndarray | None = None,
    outside: tuple[str, ...] = (),
) -> Profiles:
    """Profiles in natural units, from rows of values and differences in the coordinates of the fit."""
    length = max(len(values) for values, _ in rows)
    pad = lambda x: np.pad(x, (0, length - len(x)), constant_values=np.nan)
    array = lambda x: None if x is None else jnp.asarray(x, problem.times.dtype)
    log = np.array([problem.log[problem.names.index(name)] for name in names])[:, None]
    natural = lambda x: np.where(log, np.exp(np.where(log, x, 0)), x)
    values = natural(np.stack([pad(values) for values, _ in rows]))
    differences = np.stack([pad(differences) for _, differences in rows])
    units = tuple(problem.unit(name) for name in names)
    curves = None if smooth is None else np.stack([pad(curve) for curve in smooth])
    return Profiles(
        jnp.asarray(values, problem.times.dtype),
        jnp.asarray(differences, problem.times.dtype),
        jnp.asarray(natural(ends), problem.times.dtype),
        jnp.asarray(is_open),
        level,
        tuple(names),
        units,
        cut,
        array(curves),
        array(cutoffs),
        array(errors),
        outside,
    )
