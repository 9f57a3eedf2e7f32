"""POLLU: the chemistry of polluted air."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar, Vector
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, quantity

# Rate constants k1 to k25 in min^-1 or (ppm min)^-1, table in Verwer (1994).
RATES = (
    0.35, 26.6, 12300, 0.00086, 0.00082, 15000, 0.00013, 24000, 16500, 9000, 0.022, 12000, 1.88,
    16300, 4.8e6, 0.00035, 0.0175, 1e8, 4.44e11, 1240, 2.1, 5.78, 0.0474, 1780, 3.12,
)  # fmt: skip


@SYSTEMS.named("pollu")
class POLLU(PlainSystem):
    r"""Twenty-five reactions of twenty species of polluted air, as in the Dutch national model.

    With $r_j$ the rate of the reaction j, $k_j$ times the concentrations of what reacts,

    1 NO2 → NO + O(3P), 2 NO + O3 → NO2, 3 HO2 + NO → NO2 + OH, 4 HCHO → 2 HO2 + CO, 5 HCHO → CO, 6 HCHO + OH → HO2 + CO,
    7 ALD → CH3O2 + HO2 + CO, 8 ALD + OH → CH3CO3, 9 CH3CO3 + NO → NO2 + CH3O2 + CO2, 10 CH3CO3 + NO2 → PAN,
    11 PAN → CH3CO3 + NO2, 12 CH3O2 + NO → CH3O + NO2, 13 CH3O → HCHO + HO2, 14 NO2 + OH → HNO3, 15 O(3P) → O3,
    16 O3 → O(1D), 17 O3 → O(3P), 18 O(1D) → 2 OH, 19 O(1D) → O(3P), 20 SO2 + OH → SO4 + HO2, 21 NO3 → NO,
    22 NO3 → NO2 + O(3P), 23 NO2 + O3 → NO3, 24 NO3 + NO2 → N2O5, 25 N2O5 → NO3 + NO2.

    The constants $k_j$ are `rates`, shape (25,), in min^-1 or (ppm min)^-1. Nitrogen (NO2 + NO + PAN + HNO3 + NO3 + 2 N2O5)
    and sulfur (SO2 + SO4) are conserved.

    **Good values:** the defaults from NO 0.2, O3 0.04, HCHO 0.1, CO 0.3, ALD 0.01, SO2 0.007 ppm, with an absolute tolerance
    of 1e-12 or less. Stiff.

    **Reference:** Verwer (1994), SIAM J. Scientific Computing 15:1243, doi:10.1137/0915076; Mazzia & Magherini (2008), Test
    Set for Initial Value Problem Solvers, POLLU.
    """

    class State(eqx.Module):
        """Concentrations of twenty species; what is not given is 0."""

        no2: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="NO2")
        no: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="NO")
        o3p: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="O(3P), atomic oxygen")
        o3: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="O3")
        ho2: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="HO2")
        oh: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="OH")
        hcho: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="HCHO")
        co: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="CO")
        ald: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="aldehydes")
        meo2: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="CH3O2")
        c2o3: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="CH3CO3")
        co2: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="CO2")
        pan: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="peroxyacetyl nitrate")
        ch3o: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="CH3O")
        hno3: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="HNO3")
        o1d: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="O(1D), excited oxygen")
        so2: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="SO2")
        so4: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="SO4")
        no3: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="NO3")
        n2o5: Scalar = quantity(0.0, unit="ppm", support=POSITIVE, doc="N2O5")

    rates: Vector = quantity(RATES, unit="1/min", support=POSITIVE, doc="rate constants k1 to k25")

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        r = reaction_rates(self.rates, y)
        return self.State(
            no2=-r[1] - r[10] - r[14] - r[23] - r[24] + r[2] + r[3] + r[9] + r[11] + r[12] + r[22] + r[25],
            no=-r[2] - r[3] - r[9] - r[12] + r[1] + r[21],
            o3p=-r[15] + r[1] + r[17] + r[19] + r[22],
            o3=-r[2] - r[16] - r[17] - r[23] + r[15],
            ho2=-r[3] + 2 * r[4] + r[6] + r[7] + r[13] + r[20],
            oh=-r[6] - r[8] - r[14] - r[20] + r[3] + 2 * r[18],
            hcho=-r[4] - r[5] - r[6] + r[13],
            co=r[4] + r[5] + r[6] + r[7],
            ald=-r[7] - r[8],
            meo2=-r[12] + r[7] + r[9],
            c2o3=-r[9] - r[10] + r[8] + r[11],
            co2=r[9],
            pan=-r[11] + r[10],
            ch3o=-r[13] + r[12],
            hno3=r[14],
            o1d=-r[18] - r[19] + r[16],
            so2=-r[20],
            so4=r[20],
            no3=-r[21] - r[22] - r[24] + r[23] + r[25],
            n2o5=-r[25] + r[24],
        )

    def invariants(self, t: Float[Array, ""], y: State) -> dict[str, Array]:
        return {
            "nitrogen": y.no2 + y.no + y.pan + y.hno3 + y.no3 + 2 * y.n2o5,
            "sulfur": y.so2 + y.so4,
        }

    @classmethod
    def example(cls) -> "Example[POLLU]":
        y0 = cls.State(no=0.2, o3=0.04, hcho=0.1, co=0.3, ald=0.01, so2=0.007)
        return Example(cls(), y0, jnp.linspace(0.0, 60.0, 61))


def reaction_rates(k: Float[Array, " n"], y: POLLU.State) -> dict[int, Float[Array, ""]]:
    """The rate of every reaction by its number, from 1."""
    products = {
        1: y.no2, 2: y.no * y.o3, 3: y.ho2 * y.no, 4: y.hcho, 5: y.hcho,
        6: y.hcho * y.oh, 7: y.ald, 8: y.ald * y.oh, 9: y.c2o3 * y.no, 10: y.c2o3 * y.no2,
        11: y.pan, 12: y.meo2 * y.no, 13: y.ch3o, 14: y.no2 * y.oh, 15: y.o3p,
        16: y.o3, 17: y.o3, 18: y.o1d, 19: y.o1d, 20: y.so2 * y.oh,
        21: y.no3, 22: y.no3, 23: y.no2 * y.o3, 24: y.no3 * y.no2, 25: y.n2o5,
    }  # fmt: skip
    return {number: k[number - 1] * product for number, product in products.items()}
