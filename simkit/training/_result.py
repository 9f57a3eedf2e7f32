"""Result of training."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int


class Training:
    """A trained model, and how its loss fell.

    - `model`: the best model on the data held out, where there are any, else the last.
    - `final`: the model after the last step.
    - `losses`: the loss of each step over its batch, shape `(steps,)`.
    - `looked`: the numbers of steps after which the data held out were looked at, shape `(looks,)`; `held_out`: their losses.
    - `best`: the number of steps after which `model` stood.
    - `stopped`: the reason why training ended before all steps; empty where it did not. `cut`: True where its time, `within`, was
        up.
    """

    def __init__(
        self,
        model: Any,
        final: Any,
        losses: Float[np.ndarray, " steps"],
        looked: Int[np.ndarray, " looks"],
        held_out: Float[np.ndarray, " looks"],
        stopped: str,
        cut: bool = False,
    ):
        self.model, self.final, self.losses = model, final, losses
        self.looked, self.held_out, self.stopped, self.cut = looked, held_out, stopped, cut

    @property
    def best(self) -> int:
        return int(self.looked[np.argmin(self.held_out)]) if len(self.held_out) else len(self.losses)

    def __repr__(self) -> str:
        rows = [("model", type(self.model).__name__), ("steps", f"{len(self.losses)}")]
        if len(self.losses):
            tail = self.losses[-max(1, len(self.losses) // 20) :]
            rows.append(("loss", f"{self.losses[0]:.4g} at first, {np.mean(tail):.4g} over the last {len(tail)} steps"))
        if len(self.held_out):
            least = float(np.min(self.held_out))
            rows.append(("held out", f"{self.held_out[0]:.4g} at first, {least:.4g} at best, after {self.best} steps"))
        if self.stopped:
            rows.append(("stopped", self.stopped))
        return "Training\n" + "\n".join(f"  {name:<8}  {text}" for name, text in rows)
