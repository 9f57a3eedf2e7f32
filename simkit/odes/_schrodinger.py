"""Schrodinger's equation with finitely many states: qubits, spins, pulses."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._types import Inputs, Vector
from ..core import SYSTEMS, Example, PlainSystem, quantity
from ._operators import driven, parts, square, stacked


@SYSTEMS.named("schrodinger")
class Schrodinger(PlainSystem):
    r"""The amplitudes of n states under a Hamiltonian that pulses may drive.

    $$i \frac{d\psi}{dt} = H(t)\, \psi, \qquad H(t) = H_0 + \sum_k u_k(t)\, H_k$$

    with the amplitudes $\psi$ of n basis states, $H_0$ `hamiltonian` and $H_k$ `controls` in angular frequencies ($\hbar = 1$), and
    the optional input `controls`, a tuple of signals $u_k$. The norm is conserved, and without controls the energy
    $\langle\psi|H_0|\psi\rangle$. A qubit driven at the Rabi frequency $\Omega$ with the detuning $\Delta$ is excited with the
    probability $\frac{\Omega^2}{\Omega^2 + \Delta^2} \sin^2 (\tfrac12 \sqrt{\Omega^2 + \Delta^2}\, t)$.

    The numbers of the model are real: `hamiltonian_real`, `hamiltonian_imaginary`, `controls_real`, `controls_imaginary`.

    **Arguments:** `hamiltonian` (n, n) and `controls`, a sequence of matrices (n, n), all Hermitian.

    **Raises:** an `ArgumentError` for matrices that are not Hermitian or not of one size.

    **Good values:** frequencies in rad/ns for superconducting qubits: a drive of 0.1 turns one over in 31 ns.

    **Reference:** Sakurai & Napolitano (2021), Modern Quantum Mechanics, 3rd edition, section 5.5.
    """

    class State(eqx.Module):
        """Amplitudes of basis states; `State.of` takes complex numbers, and `amplitudes` gives them."""

        real: Vector = quantity(doc="real parts of the amplitudes, shape (n,)")
        imaginary: Vector = quantity(doc="imaginary parts of the amplitudes, shape (n,)")

        @classmethod
        def of(cls, amplitudes: ArrayLike | Sequence[ArrayLike]) -> "Schrodinger.State":
            """The state of these complex amplitudes."""
            return cls(*parts(amplitudes))

        @property
        def amplitudes(self) -> Array:
            """The complex amplitudes, shape (..., n)."""
            return jax.lax.complex(self.real, self.imaginary)

    class Outputs(eqx.Module):
        """Measurable quantities of a pure state."""

        populations: Vector = quantity(doc="probabilities of the basis states, shape (n,)")

    hamiltonian_real: Any = quantity(doc="real part of the Hamiltonian, shape (n, n), an angular frequency")
    hamiltonian_imaginary: Any = quantity(doc="its imaginary part, shape (n, n)")
    controls_real: Any = quantity(doc="real parts of what the controls switch on, shape (controls, n, n)")
    controls_imaginary: Any = quantity(doc="their imaginary parts, shape (controls, n, n)")

    def __init__(self, hamiltonian: ArrayLike | Sequence[Sequence[ArrayLike]], controls: Sequence[Any] = ()):
        self.hamiltonian_real, self.hamiltonian_imaginary = square(hamiltonian, "hamiltonian", hermitian=True)
        size = self.hamiltonian_real.shape[0]
        self.controls_real, self.controls_imaginary = stacked(controls, "controls", size, hermitian=True)

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        real = driven(self.hamiltonian_real, self.controls_real, inputs)
        imaginary = driven(self.hamiltonian_imaginary, self.controls_imaginary, inputs)
        return self.State(real @ y.imaginary + imaginary @ y.real, imaginary @ y.imaginary - real @ y.real)

    def outputs(self, t: Float[Array, ""], y: State, inputs: Inputs) -> Outputs:
        return self.Outputs(populations=y.real**2 + y.imaginary**2)

    def invariants(self, t: Float[Array, ""], y: State) -> dict[str, Array]:
        real = self.hamiltonian_real @ y.real - self.hamiltonian_imaginary @ y.imaginary
        imaginary = self.hamiltonian_real @ y.imaginary + self.hamiltonian_imaginary @ y.real
        return {
            "norm": jnp.sum(y.real**2 + y.imaginary**2),
            "energy": jnp.sum(y.real * real + y.imaginary * imaginary),
        }

    @classmethod
    def example(cls) -> "Example[Schrodinger]":
        system = cls([[-0.3, 0.5], [0.5, 0.3]], controls=[[[0.0, 1.0], [1.0, 0.0]]])
        return Example(system, cls.State.of([1.0, 0.0]), jnp.linspace(0.0, 20.0, 201))
