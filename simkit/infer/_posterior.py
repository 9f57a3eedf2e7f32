"""Result of sampling."""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from .._doors import check_kind
from .._errors import check_known, missing_package
from ..core import data_frame, html_notes, html_page, html_table, uncertain_text
from ._diagnostics import effective_sample_size, split_r_hat

SHOWN = ("mean", "sd", "q05", "q95")
"""The columns that are printed with units."""


class Posterior(eqx.Module):
    """Draws from a posterior distribution, with the diagnostics that say whether to trust them.

    - `draws`: shape `(chain, draw, parameter)`, natural units, in the order of `names`.
    - `log_density`: log posterior density of every draw in natural units, up to a constant.
    - `diverging`, `steps`, `accept`: by draw, whether the trajectory diverged, how many gradients it took, and the mean
        acceptance probability; zero where a method has none.
    - `warnings`: what a reader must know, in sentences. `cut`: True where `within` was up before all draws, which the first of them
        says.
    - `log_evidence`: by chain, the logarithm of the probability of the data, priors integrated; None where a method does not
        find it.
    """

    draws: Float[Array, "chain draw parameter"]
    log_density: Float[Array, "chain draw"]
    diverging: Bool[Array, "chain draw"]
    steps: Int[Array, "chain draw"]
    accept: Float[Array, "chain draw"]
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    method: str = eqx.field(static=True)
    warnings: tuple[str, ...] = eqx.field(static=True, default=())
    log_evidence: Float[Array, " chain"] | None = None
    cut: bool = eqx.field(static=True, default=False)

    def __getitem__(self, name: str) -> Float[Array, "chain draw"]:
        """Return the draws of a parameter by its name, such as `posterior["growth"]`; close matches are told for a wrong one."""
        check_kind("name", name, str, "the name of a parameter", 'Write `posterior["growth"]`.')
        check_known(name, self.names, "parameter of this posterior")
        return self.draws[..., self.names.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __bool__(self) -> bool:
        return True

    def flat(self) -> Float[Array, "draws parameter"]:
        """The draws of all chains, one after the other."""
        return self.draws.reshape(-1, self.draws.shape[-1])

    def table(self) -> list[dict[str, Any]]:
        """A row a parameter: mean, standard deviation, quantiles, effective sample size and split R-hat."""
        rows = []
        for i, (name, unit) in enumerate(zip(self.names, self.units, strict=True)):
            values = np.asarray(self.draws[..., i], float)
            q05, q50, q95 = np.quantile(values, [0.05, 0.5, 0.95])
            row = {
                "name": name,
                "unit": unit,
                "mean": values.mean(),
                "sd": values.std(ddof=1) if values.size > 1 else np.nan,
            }
            row |= {"q05": q05, "q50": q50, "q95": q95}
            rows.append(row | {"ess": effective_sample_size(values), "rhat": split_r_hat(values)})
        return rows

    def to_frame(self) -> Any:
        """Return the draws as a `pandas.DataFrame`: a column a parameter, and an index of chain and draw.

        **Raises:** a `MissingPackageError` where pandas is not installed.
        """
        chains, draws, _ = self.draws.shape
        place = {"chain": np.repeat(np.arange(chains), draws), "draw": np.tile(np.arange(draws), chains)}
        values = {name: np.asarray(self[name]).ravel() for name in self.names}
        return data_frame(place | values, "to_frame").set_index(["chain", "draw"])

    def to_arviz(self) -> Any:
        """The draws and statistics as ArviZ keeps them: a DataTree with ArviZ 1, InferenceData before."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # arviz before 1 announces arviz 1 whenever it is imported
            try:
                import arviz
            except ModuleNotFoundError as error:
                raise missing_package("`to_arviz`", error.name, "arviz") from error

        posterior = {name: np.asarray(self.draws[..., i]) for i, name in enumerate(self.names)}
        statistics = {
            "lp": np.asarray(self.log_density),
            "diverging": np.asarray(self.diverging),
            "n_steps": np.asarray(self.steps),
            "acceptance_rate": np.asarray(self.accept),
        }
        groups = {"posterior": posterior, "sample_stats": statistics}
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict(groups)
        old: Any = arviz.from_dict
        return old(**groups)

    def _repr_html_(self) -> str:
        if self._traced():
            return html_page(repr(self))
        heads = ("parameter", "mean", "sd", "5 %", "95 %", "ESS", "R-hat", "unit")
        rows = [
            (
                row["name"],
                *_texts(row),
                f"{row['ess']:.0f}",
                f"{row['rhat']:.3f}",
                "" if row["unit"] == "1" else row["unit"],
            )
            for row in self.table()
        ]
        return html_page(self._title(), html_table(heads, rows), html_notes(self._notes()))

    def __repr__(self) -> str:
        if self._traced():
            return f"Posterior(traced, parameters {self.names})"
        lines = [self._title()]
        width = max([len(name) for name in self.names] + [9])
        heads = ("mean", "sd", "5 %", "95 %", "ESS", "R-hat")
        lines.append(f"  {'parameter':<{width}}" + "".join(f"{head:>12}" for head in heads) + "  unit")
        for row in self.table():
            numbers = "".join(f"{text:>12}" for text in _texts(row))
            lines.append(f"  {row['name']:<{width}}{numbers}{row['ess']:>12.0f}{row['rhat']:>12.3f}  {row['unit']}")
        return "\n".join(lines + [f"  {note}" for note in self._notes()])

    def _traced(self) -> bool:
        return not isinstance(self.draws, jax.Array | np.ndarray) or isinstance(self.draws, Tracer)

    def _title(self) -> str:
        chains, draws, _ = self.draws.shape
        return (
            f"Posterior: {self.method}, {chains} chains of {draws} draws, {int(np.sum(self.diverging))} divergent, "
            f"{int(np.sum(self.steps))} gradients"
        )

    def _notes(self) -> list[str]:
        """Return notes below the table, a sentence a line."""
        lines = []
        if self.log_evidence is not None:
            values = np.asarray(self.log_evidence, float)
            error = f" +- {values.std(ddof=1) / len(values) ** 0.5:.2g}" if len(values) > 1 else ""
            lines.append(f"log evidence {values.mean():.5g}{error}")
        return lines + [f"Warning: {text}" for text in self.warnings]


def _texts(row: Mapping[str, Any]) -> list[str]:
    """Mean, standard deviation and quantiles with the digits that the deviation leaves."""
    return [uncertain_text(row[key], row["sd"], least=1 if key in ("mean", "sd") else 2) for key in SHOWN]
