"""Repressilator: three genes that repress each other in a ring."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("repressilator")
class Repressilator(PlainSystem):
    r"""A synthetic genetic clock: LacI represses tetR, TetR represses cI, CI represses lacI.

    $$\frac{dm_i}{dt} = \frac{\alpha}{1 + p_j^n} + \alpha_0 - m_i, \qquad \frac{dp_i}{dt} = \beta (m_i - p_i)$$

    for the pairs i, j = lacI, CI; tetR, LacI; cI, TetR, with the messengers m, the proteins p, $\alpha$ `transcription`,
    $\alpha_0$ `leak`, $\beta$ `protein_decay` and $n$ `cooperativity`. Time is in units of the messenger's lifetime, some
    three minutes.

    **Good values:** transcription 216, leak 0.216, protein decay 0.2, cooperativity 2: a cycle of 43 time units.

    **Reference:** Elowitz & Leibler (2000), Nature 403:335, doi:10.1038/35002125.
    """

    class State(eqx.Module):
        """Messengers and proteins of three genes."""

        laci_messenger: Scalar = quantity(support=POSITIVE, doc="mRNA of lacI, scaled")
        tetr_messenger: Scalar = quantity(support=POSITIVE, doc="mRNA of tetR, scaled")
        ci_messenger: Scalar = quantity(support=POSITIVE, doc="mRNA of cI, scaled")
        laci: Scalar = quantity(support=POSITIVE, doc="protein LacI, in units of the repression threshold")
        tetr: Scalar = quantity(support=POSITIVE, doc="protein TetR, in units of the repression threshold")
        ci: Scalar = quantity(support=POSITIVE, doc="protein CI, in units of the repression threshold")

    transcription: Scalar = quantity(216.0, support=POSITIVE, doc="without repressor")
    leak: Scalar = quantity(0.216, support=POSITIVE, doc="transcription under full repression")
    protein_decay: Scalar = quantity(0.2, support=POSITIVE, doc="decay rate of proteins over that of messengers")
    cooperativity: Scalar = quantity(2.0, support=POSITIVE, doc="Hill coefficient")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        def transcription(repressor: Float[Array, ""]) -> Float[Array, ""]:
            return self.transcription / (1 + repressor**self.cooperativity) + self.leak

        return self.State(
            laci_messenger=transcription(y.ci) - y.laci_messenger,
            tetr_messenger=transcription(y.laci) - y.tetr_messenger,
            ci_messenger=transcription(y.tetr) - y.ci_messenger,
            laci=self.protein_decay * (y.laci_messenger - y.laci),
            tetr=self.protein_decay * (y.tetr_messenger - y.tetr),
            ci=self.protein_decay * (y.ci_messenger - y.ci),
        )

    @classmethod
    def example(cls) -> "Example[Repressilator]":
        y0 = cls.State(0.2, 0.1, 0.3, laci=2.0, tetr=1.0, ci=3.0)
        return Example(cls(), y0, jnp.linspace(0.0, 200.0, 201))
