"""Lindblad's master equation with finitely many states: qubits that decay and dephase."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._errors import ArgumentError
from .._types import Inputs, Scalar, Vector
from ..core import POSITIVE, SYSTEMS, Example, PlainSystem, as_float_array, quantity
from ._operators import driven, parts, square, stacked


@SYSTEMS.named("lindblad")
class Lindblad(PlainSystem):
    r"""The density matrix of n states under a Hamiltonian that pulses may drive, with decay and dephasing.

    $$\frac{d\rho}{dt} = -i\, [H(t), \rho] + \sum_j \gamma_j \left(L_j \rho L_j^\dagger - \tfrac12 L_j^\dagger L_j \rho
    - \tfrac12 \rho L_j^\dagger L_j\right), \qquad H(t) = H_0 + \sum_k u_k(t)\, H_k$$

    with the density matrix $\rho$, $H_0$ `hamiltonian` and $H_k$ `controls` in angular frequencies ($\hbar = 1$),
    $\gamma_j$ `rates`, $L_j$ `jumps`, and the optional input `controls`, a tuple of signals $u_k$. The trace is conserved, and
    $\rho$ stays Hermitian and positive. A qubit left alone with $L = |0\rangle\langle 1|$ decays as $\exp(-\gamma t)$.

    The numbers of the model are real: `rates`, and `hamiltonian_real`, `hamiltonian_imaginary` and so on.

    **Arguments:** `hamiltonian` (n, n) Hermitian, `jumps` a sequence of matrices (n, n), `rates` one for each, `controls` a
    sequence of Hermitian matrices.

    **Raises:** an `ArgumentError` for matrices that are not Hermitian or not of one size, and for a number of rates that is
    not that of jumps.

    **Good values:** rad/ns and 1/ns for superconducting qubits, whose lifetimes are 20,000 to 500,000 ns. Explicit solvers suit all
    but very large rates.

    **Reference:** Lindblad (1976), Communications in Mathematical Physics 48:119, doi:10.1007/BF01608499; Breuer & Petruccione
    (2002), The Theory of Open Quantum Systems, chapter 3.
    """

    class State(eqx.Module):
        """A mixed state; `State.of` takes a complex matrix or amplitudes, and `matrix` gives the complex matrix."""

        real: Any = quantity(doc="real part, shape (n, n)")
        imaginary: Any = quantity(doc="imaginary part, shape (n, n)")

        @classmethod
        def of(cls, state: ArrayLike | Sequence[ArrayLike | Sequence[ArrayLike]]) -> "Lindblad.State":
            """The state of a complex density matrix (n, n), or the pure state of amplitudes (n,)."""
            state = jnp.asarray(state)
            return cls(*parts(jnp.outer(state, jnp.conj(state)) if state.ndim == 1 else state))

        @property
        def matrix(self) -> Array:
            """The complex matrix, shape (..., n, n)."""
            return jax.lax.complex(self.real, self.imaginary)

    class Outputs(eqx.Module):
        """Measurable quantities of a mixed state."""

        populations: Vector = quantity(doc="probabilities of the basis states, shape (n,)")
        purity: Scalar = quantity(
            doc="trace of the square of the matrix: 1 of a pure state, 1 / n of the fully mixed one"
        )

    rates: Vector = quantity(support=POSITIVE, doc="of the jumps, shape (jumps,)")
    hamiltonian_real: Any = quantity(doc="real part of the Hamiltonian, shape (n, n), an angular frequency")
    hamiltonian_imaginary: Any = quantity(doc="its imaginary part, shape (n, n)")
    controls_real: Any = quantity(doc="real parts of what the controls switch on, shape (controls, n, n)")
    controls_imaginary: Any = quantity(doc="their imaginary parts, shape (controls, n, n)")
    jumps_real: Any = quantity(doc="real parts of the jump operators, shape (jumps, n, n)")
    jumps_imaginary: Any = quantity(doc="their imaginary parts, shape (jumps, n, n)")

    def __init__(
        self,
        hamiltonian: ArrayLike | Sequence[Sequence[ArrayLike]],
        jumps: Sequence[Any],
        rates: ArrayLike | Sequence[ArrayLike],
        controls: Sequence[Any] = (),
    ):
        self.hamiltonian_real, self.hamiltonian_imaginary = square(hamiltonian, "hamiltonian", hermitian=True)
        size = self.hamiltonian_real.shape[0]
        self.controls_real, self.controls_imaginary = stacked(controls, "controls", size, hermitian=True)
        self.jumps_real, self.jumps_imaginary = stacked(jumps, "jumps", size, hermitian=False)
        self.rates = as_float_array(rates)
        if self.rates.shape != self.jumps_real.shape[:1]:
            raise ArgumentError(
                f"Argument `rates` must hold one number for each of the {self.jumps_real.shape[0]} jumps, but its shape is "
                f"{self.rates.shape}."
            )

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        hamiltonian = jax.lax.complex(
            driven(self.hamiltonian_real, self.controls_real, inputs),
            driven(self.hamiltonian_imaginary, self.controls_imaginary, inputs),
        )
        rho, jumps = y.matrix, jax.lax.complex(self.jumps_real, self.jumps_imaginary)
        rates = jax.lax.complex(self.rates, jnp.zeros_like(self.rates))
        after = jnp.einsum("j,jab,bc,jdc->ad", rates, jumps, rho, jnp.conj(jumps))
        lost = jnp.einsum("j,jba,jbc->ac", rates, jnp.conj(jumps), jumps) @ rho
        turned = hamiltonian @ rho
        # -i (H rho - rho H) - (K rho + rho K) / 2: each is a matrix and its conjugate transpose, for rho and K are Hermitian.
        half = jax.lax.complex(turned.imag, -turned.real) - lost / 2
        return self.State(*parts(half + jnp.conj(half.T) + after))

    def outputs(self, t: Float[Array, ""], y: State, inputs: Inputs) -> Outputs:
        return self.Outputs(populations=jnp.diagonal(y.real), purity=jnp.sum(y.real**2 + y.imaginary**2))

    def invariants(self, t: Float[Array, ""], y: State) -> dict[str, Array]:
        return {"trace": jnp.trace(y.real)}

    @classmethod
    def example(cls) -> "Example[Lindblad]":
        lower = [[0.0, 1.0], [0.0, 0.0]]
        system = cls([[0.0, 0.5], [0.5, 0.0]], [lower], [0.1], controls=[[[0.0, 1.0], [1.0, 0.0]]])
        return Example(system, cls.State.of([1.0, 0.0]), jnp.linspace(0.0, 40.0, 201))
