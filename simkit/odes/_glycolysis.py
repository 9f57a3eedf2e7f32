"""Glycolysis (Sel'kov): oscillations in the breakdown of sugar."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("glycolysis")
class Glycolysis(PlainSystem):
    r"""An enzyme that its own product activates.

    $$\frac{dx}{dt} = -x + a y + x^2 y, \qquad \frac{dy}{dt} = b - a y - x^2 y$$

    with the ADP x, the fructose 6-phosphate y, $a$ `leak` and $b$ `supply`. The fixed point is $x = b$,
    $y = b / (a + b^2)$; it gives way to a cycle where $b^2$ lies between $(1 - 2 a \mp \sqrt{1 - 8 a}) / 2$.

    **Good values:** leak 0.08, supply 0.6: a cycle; supply 0.3 and 1.0: a steady state.

    **Reference:** Sel'kov (1968), European J. Biochemistry 4:79, doi:10.1111/j.1432-1033.1968.tb00175.x; in this form
    Strogatz (1994), Nonlinear Dynamics and Chaos, section 7.3.
    """

    class State(eqx.Module):
        """Concentrations of the product and the substrate of phosphofructokinase."""

        adp: Scalar = quantity(support=POSITIVE, doc="ADP, scaled")
        f6p: Scalar = quantity(support=POSITIVE, doc="fructose 6-phosphate, scaled")

    leak: Scalar = quantity(0.08, support=POSITIVE, doc="activity of the enzyme without ADP")
    supply: Scalar = quantity(0.6, support=POSITIVE, doc="inflow of fructose 6-phosphate")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        turnover = (self.leak + y.adp * y.adp) * y.f6p
        return self.State(adp=turnover - y.adp, f6p=self.supply - turnover)

    @classmethod
    def example(cls) -> "Example[Glycolysis]":
        return Example(cls(), cls.State(adp=1.0, f6p=1.0), jnp.linspace(0.0, 50.0, 201))
