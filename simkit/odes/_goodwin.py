"""Goodwin: a gene that represses itself."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("goodwin")
class Goodwin(PlainSystem):
    r"""A negative feedback through three steps: the first model of a genetic clock.

    $$\frac{dX}{dt} = \frac{a_1}{1 + (Z / K)^n} - b_1 X, \qquad \frac{dY}{dt} = a_2 X - b_2 Y, \qquad
    \frac{dZ}{dt} = a_3 Y - b_3 Z$$

    with the messenger X, the protein Y, the repressor Z, $a$ `transcription`, `translation`, `production`, $b$
    `messenger_decay`, `protein_decay`, `repressor_decay`, $K$ `threshold` and $n$ `cooperativity`. It can oscillate only for
    n above 8, easiest with equal decay rates.

    **Good values:** the defaults: a cycle of about 40 h.

    **Reference:** Goodwin (1965), Advances in Enzyme Regulation 3:425, doi:10.1016/0065-2571(65)90067-1; Griffith (1968),
    J. Theor. Biology 20:202, doi:10.1016/0022-5193(68)90189-6.
    """

    class State(eqx.Module):
        """A messenger, its protein and the repressor that the protein makes."""

        messenger: Scalar = quantity(unit="nM", support=POSITIVE, doc="mRNA")
        protein: Scalar = quantity(unit="nM", support=POSITIVE, doc="protein")
        repressor: Scalar = quantity(unit="nM", support=POSITIVE, doc="end product, which stops transcription")

    transcription: Scalar = quantity(1.0, unit="nM/h", support=POSITIVE, doc="without repressor")
    translation: Scalar = quantity(1.0, unit="1/h", support=POSITIVE, doc="protein made per messenger")
    production: Scalar = quantity(1.0, unit="1/h", support=POSITIVE, doc="repressor made per protein")
    messenger_decay: Scalar = quantity(0.1, unit="1/h", support=POSITIVE, doc="decay rate of the messenger")
    protein_decay: Scalar = quantity(0.1, unit="1/h", support=POSITIVE, doc="decay rate of the protein")
    repressor_decay: Scalar = quantity(0.1, unit="1/h", support=POSITIVE, doc="decay rate of the repressor")
    threshold: Scalar = quantity(1.0, unit="nM", support=POSITIVE, doc="repressor that halves transcription")
    cooperativity: Scalar = quantity(10.0, support=POSITIVE, doc="Hill coefficient")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        transcription = self.transcription / (1 + (y.repressor / self.threshold) ** self.cooperativity)
        return self.State(
            messenger=transcription - self.messenger_decay * y.messenger,
            protein=self.translation * y.messenger - self.protein_decay * y.protein,
            repressor=self.production * y.protein - self.repressor_decay * y.repressor,
        )

    @classmethod
    def example(cls) -> "Example[Goodwin]":
        return Example(cls(), cls.State(messenger=0.1, protein=0.2, repressor=2.5), jnp.linspace(0.0, 200.0, 201))
