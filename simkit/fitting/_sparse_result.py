"""Result of a sparse fit: the path of strengths, and the model that a criterion chooses from it."""

import itertools
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float

from ..problem import Problem, check_problem, with_fixed
from ._fit_result import FitResult
from ._given_fit import check_fit

MOST_LINES = 16
"""Most models that a search through all of them prints."""


class SparseFit(eqx.Module):
    """The path of a sparse fit, and the fit of the model that was chosen.

    - `names`: the unknowns that could vanish; `targets`: the value of each that counts as nothing; `by`: what chose.
    - `strengths`: shape `(strengths,)`, decreasing to 0, the fit without penalty. Of a search through all models NaN, and all
        arrays have a row for each model.
    - `thetas`: shape `(strengths, parameters)`, the estimates with the penalty, natural units: exactly the target where an unknown
        vanished. `objective`: shape `(strengths,)`, negative log posterior and penalty there; `converged`: where it settled.
    - `active`: shape `(strengths, names)`, which of them are left.
    - `refitted`, `log_likelihood`: of the same unknowns fitted again without the penalty, shapes `(strengths, parameters)` and
        `(strengths,)`.
    - `criterion`: shape `(strengths,)`, the less the better: AIC, AICc or BIC of the models fitted again, or the negative log
        likelihood of data that were left out, summed over the folds. `chosen`: the place of the least.
    - `fit`: the `FitResult` of the chosen model, a fit of `reduced(problem)`; None where nothing of it is free. Its errors are
        those of a model that was known from the start: the choice is not in them. `full`: the fit of all unknowns.
    """

    strengths: Float[Array, " strengths"]
    thetas: Float[Array, "strengths parameters"]
    objective: Float[Array, " strengths"]
    converged: Bool[Array, " strengths"]
    active: Bool[Array, "strengths names"]
    refitted: Float[Array, "strengths parameters"]
    log_likelihood: Float[Array, " strengths"]
    criterion: Float[Array, " strengths"]
    fit: FitResult | None
    full: FitResult
    names: tuple[str, ...] = eqx.field(static=True)
    targets: tuple[float, ...] = eqx.field(static=True)
    chosen: int = eqx.field(static=True)
    by: str = eqx.field(static=True)
    method: str = eqx.field(static=True)

    @property
    def kept(self) -> tuple[str, ...]:
        """The unknowns that the chosen model keeps, of those that could vanish."""
        return tuple(name for name, left in zip(self.names, self.active[self.chosen].tolist(), strict=True) if left)

    @property
    def vanished(self) -> dict[str, float]:
        """The others, with the values that count as nothing."""
        pairs = zip(self.names, self.targets, strict=True)
        return {name: target for name, target in pairs if name not in self.kept}

    def reduced(self, problem: Problem) -> Problem:
        """The problem of the chosen model, which other verbs take together with `fit`: what vanished is constant.

        **Raises:** an `ArgumentError` for another problem than that of the fit.
        """
        check_problem(problem)
        check_fit(self.full, problem, "problem")
        return with_fixed(problem, self.vanished)

    @property
    def models(self) -> tuple[tuple[str, ...], ...]:
        """The unknowns of each row that are left in it, of those that could vanish."""
        return tuple(tuple(itertools.compress(self.names, row)) for row in np.asarray(self.active).tolist())

    def table(self) -> list[dict[str, Any]]:
        """One row a strength: strength, kept (how many), log_likelihood, criterion, chosen, and estimate (with the penalty) by
        name."""
        columns = (
            np.asarray(x) for x in (self.strengths, self.active.sum(axis=1), self.log_likelihood, self.criterion)
        )
        rows = zip(*columns, np.asarray(self.thetas), strict=True)
        return [
            {
                "strength": float(strength),
                "kept": int(count),
                "log_likelihood": float(value),
                "criterion": float(found),
                "chosen": i == self.chosen,
                "estimate": dict(zip(self.full.names, theta.tolist(), strict=True)),
            }
            for i, (strength, count, value, found, theta) in enumerate(rows)
        ]

    @property
    def searched(self) -> bool:
        """Tell whether all models were fitted, in place of those on a path of strengths."""
        return bool(np.isnan(np.asarray(self.strengths)).all())

    def distinct(self) -> list[tuple[dict[str, Any], tuple[str, ...]]]:
        """Row of `table` and unknowns that are left, of each model once: by strength, or of a search by criterion."""
        rows, found = list(zip(self.table(), self.models, strict=True)), []
        if self.searched:
            rows = sorted(rows, key=lambda pair: pair[0]["criterion"])
        seen: set[tuple[str, ...]] = set()
        for row, left in rows:
            if left not in seen or row["chosen"]:  # the same model at a smaller strength is the same fit
                found.append((row, left))
            seen.add(left)
        return found

    def __repr__(self) -> str:
        told = f"{len(self.kept)} of {len(self.names)} unknowns kept by {self.by}"
        if self.searched:
            lines = [f"SparseFit: {self.method}, {told}", f"  {'log lik.':>12} {self.by:>12} {'above':>9}  model"]
        else:
            lines = [
                f"SparseFit: {self.method}, {told}",
                f"  {'strength':>10} {'kept':>5} {'log lik.':>12} {self.by:>12}",
            ]
        rows = self.distinct()
        for i, (row, left) in enumerate(rows):
            if i == MOST_LINES and self.searched:
                lines.append(f"  and {len(rows) - MOST_LINES} models more")
                break
            mark = "  chosen" if row["chosen"] else ""
            value, found = row["log_likelihood"], row["criterion"]
            if self.searched:
                above = found - rows[0][0]["criterion"]
                lines.append(f"  {value:>12.6g} {found:>12.6g} {above:>9.4g}  {', '.join(left) or 'none'}{mark}")
            else:
                lines.append(f"  {row['strength']:>10.4g} {row['kept']:>5} {value:>12.6g} {found:>12.6g}{mark}")
        lines.append(f"  kept: {', '.join(self.kept) or 'none'}")
        if self.vanished:
            lines.append("  nothing: " + ", ".join(f"{name} = {x:g}" for name, x in self.vanished.items()))
        if not bool(self.converged[self.chosen]):
            lines.append("  warning: the estimate of the chosen model had not settled. Raise `max_steps` of `Sparse`.")
        if self.fit is not None:
            lines.append("of the chosen model, as if it had been known:")
            lines.append(repr(self.fit))
        return "\n".join(lines)
