"""HIRES: how light shapes a plant."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity


@SYSTEMS.named("hires")
class HIRES(PlainSystem):
    r"""High irradiance response: the photoreceptor of a plant with eight states; the sum of enzyme and complex is conserved.

    With the state $y_1$ to $y_8$ in the order of the fields,

    $$\dot y_1 = -k_1 y_1 + k_2 y_2 + k_6 y_3 + o, \quad \dot y_2 = k_1 y_1 - (k_2 + k_3) y_2, \quad
    \dot y_3 = -(k_6 + k_1) y_3 + k_2 y_4 + k_5 y_5, \quad \dot y_4 = k_3 y_2 + k_1 y_3 - (k_4 + k_2) y_4,$$

    $$\dot y_5 = -(k_1 + k_5) y_5 + k_2 (y_6 + y_7), \quad
    \dot y_6 = -k_+ y_6 y_8 + k_4 y_4 + k_1 y_5 - k_2 y_6 + k_- y_7, \quad
    \dot y_7 = k_+ y_6 y_8 - (k_2 + k_- + k_*) y_7, \quad \dot y_8 = -\dot y_7$$

    with $k_1$ `excitation`, $k_2$ `reversion`, $k_3$ `binding`, $k_4$ `transfer`, $k_5$ `return_rate`, $k_6$ `release`,
    $k_+$ `association`, $k_-$ `dissociation`, $k_*$ `destruction` and $o$ `synthesis`.

    **Good values:** the defaults from pr 1 and enzyme 0.0057. Stiff.

    **Reference:** Schäfer (1975), J. Math. Biology 2:41, doi:10.1007/BF00276015; Mazzia & Magherini (2008), Test Set for
    Initial Value Problem Solvers, HIRES.
    """

    class State(eqx.Module):
        """Phytochrome in its red (pr) and far-red (pfr) absorbing forms, free and bound to receptors X and X', and an enzyme."""

        pr: Scalar = quantity(support=POSITIVE, doc="red absorbing, free")
        pfr: Scalar = quantity(support=POSITIVE, doc="far-red absorbing, free")
        pr_x: Scalar = quantity(support=POSITIVE, doc="red absorbing, bound to X")
        pfr_x: Scalar = quantity(support=POSITIVE, doc="far-red absorbing, bound to X")
        pr_x2: Scalar = quantity(support=POSITIVE, doc="red absorbing, bound to X'")
        pfr_x2: Scalar = quantity(support=POSITIVE, doc="far-red absorbing, bound to X'")
        complex: Scalar = quantity(support=POSITIVE, doc="far-red absorbing, bound to X' and the enzyme")
        enzyme: Scalar = quantity(support=POSITIVE, doc="free enzyme")

    excitation: Scalar = quantity(1.71, support=POSITIVE, doc="red to far-red")
    reversion: Scalar = quantity(0.43, support=POSITIVE, doc="far-red to red")
    binding: Scalar = quantity(8.32, support=POSITIVE, doc="far-red binds to X")
    transfer: Scalar = quantity(0.69, support=POSITIVE, doc="from X to X'")
    return_rate: Scalar = quantity(0.035, support=POSITIVE, doc="from X' to X")
    release: Scalar = quantity(8.32, support=POSITIVE, doc="red leaves X")
    association: Scalar = quantity(280.0, support=POSITIVE, doc="with the enzyme")
    dissociation: Scalar = quantity(0.69, support=POSITIVE, doc="from the enzyme")
    destruction: Scalar = quantity(0.69, support=POSITIVE, doc="by the enzyme")
    synthesis: Scalar = quantity(0.0007, support=POSITIVE, doc="of the red form")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        up, down = self.excitation, self.reversion
        bound = self.association * y.pfr_x2 * y.enzyme - (down + self.dissociation + self.destruction) * y.complex
        free = self.dissociation * y.complex - self.association * y.pfr_x2 * y.enzyme
        return self.State(
            pr=-up * y.pr + down * y.pfr + self.release * y.pr_x + self.synthesis,
            pfr=up * y.pr - (down + self.binding) * y.pfr,
            pr_x=-(self.release + up) * y.pr_x + down * y.pfr_x + self.return_rate * y.pr_x2,
            pfr_x=self.binding * y.pfr + up * y.pr_x - (self.transfer + down) * y.pfr_x,
            pr_x2=-(up + self.return_rate) * y.pr_x2 + down * (y.pfr_x2 + y.complex),
            pfr_x2=free + self.transfer * y.pfr_x + up * y.pr_x2 - down * y.pfr_x2,
            complex=bound,
            enzyme=-bound,
        )

    def invariants(self, t: Float[Array, ""], y: State) -> dict[str, Array]:
        return {"enzyme": y.complex + y.enzyme}

    @classmethod
    def example(cls) -> "Example[HIRES]":
        y0 = cls.State(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0057)
        return Example(cls(), y0, jnp.linspace(0.0, 321.8122, 162))
