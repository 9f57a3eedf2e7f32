"""MackeyGlass: blood cells that are made a delay after they are missed."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, DelayedSystem, Example, Past, quantity


@SYSTEMS.named("mackey_glass")
class MackeyGlass(DelayedSystem):
    r"""White blood cells, whose production answers to their number some days ago.

    $$\frac{dx}{dt} = \beta\, \theta\, \frac{s}{1 + s^n} - \gamma x, \qquad s = \frac{x(t - \tau)}{\theta}$$

    with the number of cells x, $\beta$ `production`, $\theta$ `threshold`, n `cooperativity`, $\gamma$ `decay` and $\tau$ `lag`. A
    short lag gives a steady state, one of 6 days a cycle of about 20 days, and from about 17 days on the solution is chaotic.

    **Good values:** the defaults, those of the paper with a cycle.

    **Reference:** Mackey and Glass (1977), Science 197:287, doi:10.1126/science.267326, equation 4b.
    """

    class State(eqx.Module):
        """Cells in circulation, over their threshold."""

        cells: Scalar = quantity(support=POSITIVE, doc="number of cells, in units of the threshold")

    production: Scalar = quantity(
        0.2, unit="1/day", support=POSITIVE, doc="rate of production per cell, far below the threshold"
    )
    decay: Scalar = quantity(0.1, unit="1/day", support=POSITIVE, doc="death rate")
    threshold: Scalar = quantity(1.0, support=POSITIVE, doc="number of cells at which production per cell halves")
    cooperativity: Scalar = quantity(10.0, support=POSITIVE, doc="steepness of the feedback")
    lag: Scalar = quantity(6.0, unit="day", support=POSITIVE, doc="time in which cells ripen")

    def delayed_field(self, t: Float[Array, ""], y: State, inputs: Inputs, past: Past) -> State:
        s = past(t - self.lag).cells / self.threshold
        made = self.production * self.threshold * s / (1 + s**self.cooperativity)
        return self.State(cells=made - self.decay * y.cells)

    def lags(self, t: Float[Array, ""], y: State, inputs: Inputs) -> Array:
        return self.lag

    @classmethod
    def example(cls) -> "Example[MackeyGlass]":
        return Example(cls(), cls.State(cells=0.1), jnp.linspace(0.0, 200.0, 201))
