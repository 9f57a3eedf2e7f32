"""Result of a sparse fit: the path of strengths, and the model that a criterion chooses from it."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float

from ..problem import Problem, check_problem, with_fixed
from ._fit_result import FitResult
from ._given_fit import check_fit


class SparseFit(eqx.Module):
    """The path of a sparse fit, and the fit of the model that was chosen.

    - `names`: the unknowns that could vanish; `targets`: the value of each that counts as nothing; `by`: what chose.
    - `strengths`: shape `(strengths,)`, decreasing to 0, the fit without penalty.
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

    def table(self) -> list[dict[str, Any]]:
        """One row a strength: strength, kept, log_likelihood, criterion, chosen, estimate (with the penalty, by name)."""
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

    def __repr__(self) -> str:
        told = f"{len(self.kept)} of {len(self.names)} unknowns kept by {self.by}"
        lines = [f"SparseFit: {self.method}, {told}", f"  {'strength':>10} {'kept':>5} {'log lik.':>12} {self.by:>12}"]
        seen: set[tuple[bool, ...]] = set()
        for row, left in zip(self.table(), self.active.tolist(), strict=True):
            if tuple(left) in seen and not row["chosen"]:
                continue  # the same model at a smaller strength
            seen.add(tuple(left))
            mark = "  chosen" if row["chosen"] else ""
            lines.append(
                f"  {row['strength']:>10.4g} {row['kept']:>5} {row['log_likelihood']:>12.6g} {row['criterion']:>12.6g}{mark}"
            )
        lines.append(f"  kept: {', '.join(self.kept) or 'none'}")
        if self.vanished:
            lines.append("  nothing: " + ", ".join(f"{name} = {x:g}" for name, x in self.vanished.items()))
        if not bool(self.converged[self.chosen]):
            lines.append(
                "  warning: the estimate at the chosen strength had not settled. Raise `max_steps` of `Sparse`."
            )
        if self.fit is not None:
            lines.append("of the chosen model, as if it had been known:")
            lines.append(repr(self.fit))
        return "\n".join(lines)
