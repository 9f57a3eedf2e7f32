"""Data that are successes among trials."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from .._errors import DataError


class Successes:
    """Numbers of successes among trials, in place of the values of an output that is a probability.

    A problem's data are their shares; `noise.Binomial` and `noise.BetaBinomial` take the trials of each datum.

    **Arguments:**

    - `counts`: successes, whole numbers; NaN is a missing one.
    - `trials`: the number of trials, one for all or one a datum.

    **Raises:** a `DataError` for what are no whole numbers, for trials below 1, and for more successes than trials.

    ```python
    import simkit

    positive = simkit.Successes([3, 7, 12], trials=[40, 38, 41])
    print(positive.shares)
    ```
    """

    def __init__(self, counts: ArrayLike | Sequence[Any], trials: ArrayLike | Sequence[Any]) -> None:
        try:
            found = np.asarray(counts, float), np.asarray(trials, float)
            self.counts, self.trials = (np.array(x) for x in np.broadcast_arrays(*found))
        except (TypeError, ValueError) as error:
            raise DataError(f"Successes and trials must be whole numbers, one a datum, but: {error}.") from error
        if self.counts.shape != found[0].shape:
            raise DataError(
                f"`trials` must be one number, or one for each of {found[0].shape} counts, but its shape is {found[1].shape}."
            )
        seen = np.isfinite(self.counts)
        for name, values, least in (("counts", self.counts, 0), ("trials", self.trials, 1)):
            bad = seen & ~((values >= least) & (values == np.round(values)) & np.isfinite(values))
            if bad.any():
                raise DataError(
                    f"`{name}` must be whole numbers of at least {least}, but one is {values[bad].flat[0]:g}."
                )
        many = seen & (self.counts > self.trials)
        if many.any():
            raise DataError(
                f"Successes must not exceed trials, but {self.counts[many].flat[0]:g} of {self.trials[many].flat[0]:g} do."
            )

    @property
    def shares(self) -> np.ndarray:
        """Successes over trials."""
        return np.where(np.isfinite(self.counts), self.counts, np.nan) / self.trials

    def __repr__(self) -> str:
        return f"Successes({int(np.nansum(self.counts))} of {int(self.trials[np.isfinite(self.counts)].sum())})"
