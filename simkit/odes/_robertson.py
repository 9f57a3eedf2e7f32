"""Robertson: the classic stiff reaction."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("robertson")
class Robertson(PlainSystem):
    r"""Three reactions with rates nine orders of magnitude apart.

    $$\frac{da}{dt} = -k_1 a + k_3 b c, \qquad \frac{db}{dt} = k_1 a - k_3 b c - k_2 b^2, \qquad \frac{dc}{dt} = k_2 b^2$$

    with $k_1$ `decay`, $k_2$ `dimerisation` and $k_3$ `catalysis`. The sum a + b + c is conserved.

    **Good values:** decay 0.04, dimerisation 3e7, catalysis 1e4 from (1, 0, 0), with an absolute tolerance below 1e-9 as b is
    about 1e-5. Stiff.

    **Reference:** Robertson (1966), The solution of a set of reaction rate equations, in Numerical Analysis: An Introduction,
    Academic Press, page 178; Mazzia & Magherini (2008), Test Set for Initial Value Problem Solvers, ROBER.
    """

    class State(eqx.Module):
        """Shares of three species."""

        a: Scalar = quantity(support=POSITIVE, doc="reactant")
        b: Scalar = quantity(support=POSITIVE, doc="short-lived intermediate")
        c: Scalar = quantity(support=POSITIVE, doc="product")

    decay: Scalar = quantity(0.04, unit="1/s", support=POSITIVE, doc="a turns into b")
    dimerisation: Scalar = quantity(3e7, unit="1/s", support=POSITIVE, doc="two b turn into b and c")
    catalysis: Scalar = quantity(1e4, unit="1/s", support=POSITIVE, doc="b turns back into a beside c")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        first, second, third = self.decay * y.a, self.dimerisation * y.b * y.b, self.catalysis * y.b * y.c
        return self.State(a=third - first, b=first - third - second, c=second)

    def invariants(self, t: Float[Array, ""], y: State) -> dict[str, Array]:
        return {"mass": y.a + y.b + y.c}

    @classmethod
    def example(cls) -> "Example[Robertson]":
        times = jnp.concatenate([jnp.zeros(1), jnp.logspace(-3.0, 4.0, 71)])
        return Example(cls(), cls.State(a=1.0, b=0.0, c=0.0), times)
