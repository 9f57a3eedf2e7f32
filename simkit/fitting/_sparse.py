"""Sparse: fits in which unknowns that the data do not ask for are exactly nothing; the method and its options."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import numpy as np

from .._doors import check_count, check_mapping, shown
from .._errors import ArgumentError

CRITERIA = ("bic", "aic", "aicc")
MOST_NAMES = 12
"""Most names of which all models are fitted."""


def _names(names: Any) -> Any:
    """A tuple of names, or what was given in its place, for the check."""
    given = (names,) if isinstance(names, str) else names
    return tuple(given) if isinstance(given, Sequence) else given


def _pairs(values: Any) -> Any:
    """A mapping as pairs, which can be hashed."""
    return tuple(values.items()) if isinstance(values, Mapping) else values


class Sparse(eqx.Module):
    r"""Fits with an L1 penalty on some unknowns, for `fit`: those that the data do not ask for are exactly nothing.

    With the negative log posterior f, the coordinates z of the fit, targets t and a strength $\lambda$

    $$\min_z\; f(z) + \lambda \sum_j \left( \alpha\, w_j |z_j - t_j| + \tfrac{1 - \alpha}{2} w_j^2 (z_j - t_j)^2 \right)$$

    along a path of strengths from that at which all of them are at their targets down to none. Every set of unknowns that is left
    somewhere on the path is fitted again without the penalty, and a criterion chooses among these models. For a linear model with
    normal errors of scale 1 and $w = 1$ this is the lasso, and with $\alpha < 1$ the elastic net. A strength $\lambda w_j$ is a
    Laplace prior of scale $1 / \lambda w_j$, whose mode is wanted.

    Steps are minima of the local quadratic model with the penalty as it is (proximal Newton steps), so that zeros are exact. Each
    strength begins from the fit without penalty and from that with all at their targets, and then from what its neighbours found.

    **Arguments:**

    - `names`: the unknowns that may vanish, single numbers.
    - `targets`: name -> the value that counts as nothing, 0 by default. An unknown that moves by its logarithm is never 0: give it
        a target, such as 1 for a ratio, or `Free(transform="linear")`.
    - `weights`: "adaptive", $w_j = 1 / |\hat z_j - t_j|$ with the fit without penalty (Zou 2006), which no unit changes and whose
        choice becomes the right one with more data; "equal", 1; or name -> weight.
    - `by`: "bic", "aic" or "aicc" of the models fitted again; or a number of folds for cross-validation over single data: the
        strength with the greatest likelihood of data that were left out.
    - `l1_ratio`: $\alpha$, 1 for L1 alone. With less, unknowns that do the same stay or go together.
    - `strengths`: the path, decreasing; by default `count` of them, evenly on a logarithmic scale over three decades. The fit
        without penalty always belongs to it.
    - `search`: "path", or "all" for all $2^n$ models of up to twelve `names`, without a penalty: each is fitted from eight starts,
        all by one program, and the criterion is known of every one.
    - `max_steps`, `tolerance`: the most steps at one strength, and the length of the last, in standard errors.

    **Good values:** the defaults. Without enough data for a fit of all unknowns take `weights="equal"`, and cross-validation.

    **References:** Tibshirani (1996), doi:10.1111/j.2517-6161.1996.tb02080.x; Zou (2006), doi:10.1198/016214506000000735; for
    models of cells Steiert, Timmer and Kreutz (2016), Bioinformatics 32:i718, doi:10.1093/bioinformatics/btw461.

    ```python
    import numpy as np
    import simkit

    simkit.enable_x64()
    x = np.linspace(-1.0, 1.0, 9)
    model = simkit.odes.from_response(lambda x, p: p["a"] * x + p["b"] * x**2 + p["c"] * x**3, {"a": 1.0, "b": 0.1, "c": 0.1})
    data = simkit.Experiment("curve", x, {"y": 2 * x + 0.1 * np.cos(9 * x)})
    free = {name: simkit.Free(bounds=(-5.0, 5.0)) for name in "abc"}
    problem = simkit.Problem(model, data, free=free, noise={"y": simkit.noise.Normal(0.1)})
    found = simkit.fit(problem, method=simkit.Sparse(["a", "b", "c"]))
    print(found.kept)  # prints ('a',)
    ```
    """

    names: tuple[str, ...] = eqx.field(static=True, converter=_names)
    targets: Any = eqx.field(static=True, converter=_pairs, kw_only=True, default=())
    weights: Any = eqx.field(static=True, converter=_pairs, kw_only=True, default="adaptive")
    by: str | int = eqx.field(static=True, kw_only=True, default="bic")
    l1_ratio: float = eqx.field(static=True, kw_only=True, default=1.0)
    strengths: tuple[float, ...] | None = eqx.field(
        static=True,
        kw_only=True,
        converter=lambda x: tuple(float(v) for v in x) if isinstance(x, Sequence | np.ndarray) else x,
        default=None,
    )
    count: int = eqx.field(static=True, kw_only=True, default=20)
    search: str = eqx.field(static=True, kw_only=True, default="path")
    max_steps: int = eqx.field(static=True, kw_only=True, default=200)
    tolerance: float = eqx.field(static=True, kw_only=True, default=1e-6)

    def __check_init__(self):
        names = self.names
        if not isinstance(names, tuple) or not names or not all(isinstance(name, str) for name in names):
            raise ArgumentError(
                f'Argument `names` must be names of unknowns that may vanish, such as ["a", "b"], but it is {shown(names)}.'
            )
        if len(set(names)) < len(names):
            raise ArgumentError(f"Argument `names` must hold each name once, but it is {names}.")
        known = isinstance(self.by, int) and not isinstance(self.by, bool) and self.by >= 2
        if not known and self.by not in CRITERIA:
            folds = "" if self.search == "all" else " or a number of folds of at least 2"
            raise ArgumentError(f'Argument `by` must be "bic", "aic", "aicc"{folds}, but it is {shown(self.by)}.')
        if not isinstance(self.l1_ratio, int | float) or not 0 < self.l1_ratio <= 1:
            raise ArgumentError(f"Argument `l1_ratio` must lie above 0 and be at most 1, but it is {self.l1_ratio!r}.")
        if self.search not in ("path", "all"):
            raise ArgumentError(f'Argument `search` must be "path" or "all", but it is {self.search!r}.')
        if self.search == "all":
            self._check_search()
        check_count("count", self.count, least=2)
        check_count("max_steps", self.max_steps)
        self._check_values()

    def _check_search(self) -> None:
        """Refuse what a search through all models cannot take."""
        if len(self.names) > MOST_NAMES:
            raise ArgumentError(
                f'`search="all"` takes at most {MOST_NAMES} names, whose models are {2**MOST_NAMES}, but there are '
                f'{len(self.names)}. Take `search="path"`.'
            )
        if not isinstance(self.by, str):
            raise ArgumentError(
                f'Argument `by` must be "bic", "aic" or "aicc" with `search="all"`, but it is {self.by}: folds choose a strength '
                'on the path, which all models do without. Take `by="aicc"` or leave `by` out, or take `search="path"`.'
            )
        for name, given in (("strengths", self.strengths is not None), ("l1_ratio", self.l1_ratio != 1)):
            if given:
                raise ArgumentError(
                    f'Argument `{name}` is of the penalty, but `search="all"` has none: leave `{name}` out, or take '
                    '`search="path"`.'
                )

    def _check_values(self) -> None:
        """Refuse targets, weights and strengths that are no numbers of these unknowns."""
        check_mapping("targets", dict(self.targets), "a number for each name", '{"ratio": 1.0}')
        if self.weights not in ("adaptive", "equal") and not isinstance(self.weights, tuple):
            raise ArgumentError(
                f'Argument `weights` must be "adaptive", "equal" or a mapping of names to positive numbers, but it is '
                f"{shown(self.weights)}."
            )
        weights = {} if isinstance(self.weights, str) else dict(self.weights)
        for what, values in (("targets", dict(self.targets)), ("weights", weights)):
            if unknown := [name for name in values if name not in self.names]:
                raise ArgumentError(
                    f"Argument `{what}` names `{unknown[0]}`, which is not among `names`: {self.names}."
                )
        if weights and (
            set(weights) != set(self.names)
            or not all(isinstance(w, int | float) and w > 0 and np.isfinite(w) for w in weights.values())
        ):
            raise ArgumentError(
                f"Argument `weights` must give a positive number for each of {self.names}, but it is {weights}."
            )
        strengths = self.strengths
        if strengths is not None and (
            not isinstance(strengths, tuple)
            or not strengths
            or not all(np.isfinite(x) and x > 0 for x in strengths)
            or any(b >= a for a, b in itertools.pairwise(strengths))
        ):
            raise ArgumentError(
                f"Argument `strengths` must be positive numbers, each less than the one before, but it is {shown(strengths)}."
            )

    @property
    def name(self) -> str:
        """Name of the method in results."""
        if self.search == "all":
            return "all subsets"
        return "L1 penalty" if self.l1_ratio == 1 else "elastic net"
