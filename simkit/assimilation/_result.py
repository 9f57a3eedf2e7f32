"""Assimilation: states found from observations, with what says whether they can be trusted."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..core import Status, html_notes, html_page, html_table, traced

SETTLING = 0.25
"""Share of the times that a printed summary leaves out at the begin."""


class Assimilation(eqx.Module):
    """States given observations, at the times of these.

    - `times`: shape `(times,)`.
    - `mean`, `deviation`: analysed states and their standard deviations, with a leading axis of times: given the observations up to
        each time; of 4D-Var those of the window in which a time's observations are used.
    - `forecast`, `forecast_deviation`: the same before the observations of each time, or window, were used.
    - `smoothed`, `smoothed_deviation`: the same given the observations up to `lag` times later too; None without `lag`.
    - `members`: the analysed ensembles, with leading axes `(times, members)`; None unless asked for.
    - `last`: the ensemble, or the state of 4D-Var, after the last observations, from which a forecast or the next call starts.
    - `innovation`: observed less forecast, in units of the errors of observations; 0 where missing. Shape `(times, m)`.
    - `chi_square`: innovations squared in units of what ensemble and errors together make of them; its mean is `observed` where
        spread and errors are right. Smaller is too much spread, larger too little. 4D-Var has one a window, shared by its times.
    - `observed`: number of observations that were there.
    - `effective_rank`: number of directions among which the ensemble's variance is spread, $(\\mathrm{tr} P)^2 / \\mathrm{tr} P^2$.
    - `status`: how each forecast ended.
    - `error`, `forecast_error`, `smoothed_error`: root mean square errors of the means, where the truth was given, shape
        `(times,)`.
    """

    times: Float[Array, " times"]
    mean: Any
    deviation: Any
    forecast: Any
    forecast_deviation: Any
    last: Any
    innovation: Float[Array, "times m"]
    chi_square: Float[Array, " times"]
    observed: Int[Array, " times"]
    effective_rank: Float[Array, " times"]
    status: Int[Array, " times"]
    smoothed: Any = None
    smoothed_deviation: Any = None
    members: Any = None
    error: Float[Array, " times"] | None = None
    forecast_error: Float[Array, " times"] | None = None
    smoothed_error: Float[Array, " times"] | None = None
    method: str = eqx.field(static=True, default="")

    def failure(self) -> str:
        """Say when and why the run failed; empty where it did not."""
        status = np.asarray(self.status)
        failed = np.flatnonzero(status != Status.OK)
        if not failed.size:
            return ""
        first = int(failed[0])
        return f"The forecast to t = {float(self.times[first]):g} failed: {Status(int(status[first])).message}"

    def late_chi_square(self) -> tuple[float, int]:
        """Give chi-square an observation, and their number, of the times that are left when an ensemble has settled."""
        late = slice(int(SETTLING * self.times.size), None)
        count = int(np.sum(np.asarray(self.observed)[late]))
        return float(np.sum(np.asarray(self.chi_square)[late])) / max(count, 1), count

    def facts(self) -> list[tuple[str, str]]:
        """List what is printed: names and sentences."""
        begin = int(SETTLING * self.times.size)
        times, late = np.asarray(self.times), slice(begin, None)
        mean = lambda x: float(np.mean(np.asarray(x)[late]))
        spread = lambda tree: float(np.mean(np.sqrt(np.mean(_flat(tree)[late] ** 2, axis=1))))
        rows = [
            ("method", self.method),
            ("status", self.failure() or Status.OK.message),
            ("times", f"{times.size} from {times[0]:g} to {times[-1]:g}; means below from {times[begin]:g} on"),
            (
                "observations",
                f"{int(np.sum(np.asarray(self.observed)))}, {self.innovation.shape[1]} at most at one time",
            ),
        ]
        if self.error is not None and self.forecast_error is not None:
            late_error = "" if self.smoothed_error is None else f", {mean(self.smoothed_error):.4g} smoothed"
            text = f"{mean(self.error):.4g} analysed, {mean(self.forecast_error):.4g} forecast{late_error}"
            rows.append(("error", text))
        late_spread = "" if self.smoothed is None else f", {spread(self.smoothed_deviation):.4g} smoothed"
        text = f"{spread(self.deviation):.4g} analysed, {spread(self.forecast_deviation):.4g} forecast{late_spread}"
        rows.append(("spread", text))
        rows.append(
            ("chi-square", f"{self.late_chi_square()[0]:.3f} an observation, 1 where spread and errors are right")
        )
        rows.append(("effective rank", f"{mean(self.effective_rank):.1f} of {_flat(self.mean).shape[1]} numbers"))
        return rows

    def __repr__(self) -> str:
        if traced(self.status):
            return "Assimilation(traced)"
        rows = self.facts()
        width = max(len(name) for name, _ in rows)
        return "Assimilation\n" + "\n".join(f"  {name:<{width}}  {text}" for name, text in rows)

    def _repr_html_(self) -> str:
        if traced(self.status):
            return html_page(repr(self))
        return html_page("Assimilation", html_table(("", ""), self.facts()), html_notes([]))


def _flat(tree: Any) -> np.ndarray:
    leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(tree)]
    return np.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in leaves], axis=1)


def compared(result: Assimilation, truth: Any) -> Assimilation:
    """The result with its errors, where the truth is known."""
    if truth is None:
        return result
    truth = jax.tree.map(lambda x: x[: result.status.shape[0]], truth)
    errors = {"error": rms_error(result.mean, truth), "forecast_error": rms_error(result.forecast, truth)}
    if result.smoothed is not None:
        errors["smoothed_error"] = rms_error(result.smoothed, truth)
    return dataclasses.replace(result, **errors)


def rms_error(found: Any, truth: Any) -> Float[Array, " times"]:
    """The root mean square over a state's numbers, at each time."""
    rows = lambda tree: jnp.concatenate([x.reshape(x.shape[0], -1) for x in jax.tree.leaves(tree)], axis=1)
    apart = rows(found)
    return jnp.sqrt(jnp.mean((apart - rows(truth).astype(apart.dtype)) ** 2, axis=1))
