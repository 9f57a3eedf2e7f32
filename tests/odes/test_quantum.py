"""Quantum systems against Rabi's formula, exact decay and the exponential of Liouville's matrix."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import simkit
from simkit import Adaptive, ArgumentError, PiecewiseConstant, odes

X = np.array([[0, 1], [1, 0]], complex)
Y = np.array([[0, -1j], [1j, 0]])
Z = np.array([[1, 0], [0, -1]], complex)
LOWER = np.array([[0, 1], [0, 0]], complex)
TIGHT = Adaptive(1e-10, 1e-12)
TIMES = np.linspace(0.0, 15.0, 31)


def test_rabi():
    drive, detuning = 0.8, 0.3
    system = odes.Schrodinger(-0.5 * detuning * Z, controls=[0.5 * X, 0.5 * Y])
    inputs = {"controls": (simkit.Constant(0.0), simkit.Constant(drive))}
    run = simkit.simulate(system, odes.Schrodinger.State.of([1.0, 0.0]), TIMES, inputs=inputs, step=TIGHT)
    frequency = np.hypot(drive, detuning)
    excited = (drive / frequency) ** 2 * np.sin(frequency * TIMES / 2) ** 2
    np.testing.assert_allclose(np.abs(run.ys.amplitudes[:, 1]) ** 2, excited, atol=1e-8)
    np.testing.assert_allclose(np.sum(np.abs(run.ys.amplitudes) ** 2, axis=1), 1.0, atol=1e-8)


def test_pieces_of_a_pulse_are_exponentials():
    rng = np.random.default_rng(0)
    matrices = [m + m.conj().T for m in rng.normal(size=(2, 4, 4)) + 1j * rng.normal(size=(2, 4, 4))]
    start = rng.normal(size=4) + 1j * rng.normal(size=4)
    start /= np.linalg.norm(start)
    values = np.array([0.7, -0.4, 1.1])
    inputs = {"controls": (PiecewiseConstant(jnp.array([0.0, 0.5, 0.9]), jnp.asarray(values)),)}
    system = odes.Schrodinger(matrices[0], controls=matrices[1:])
    run = simkit.simulate(system, odes.Schrodinger.State.of(start), [0.0, 1.3], inputs=inputs, step=TIGHT)
    expected = start
    for value, length in zip(values, (0.5, 0.4, 0.4), strict=True):
        expected = expm(-1j * length * (matrices[0] + value * matrices[1])) @ expected
    np.testing.assert_allclose(run.final().amplitudes, expected, atol=1e-8)


def test_decay_and_dephasing():
    decay, dephasing = 0.2, 0.1
    system = odes.Lindblad(np.zeros((2, 2)), [LOWER, Z], [decay, dephasing])
    state = odes.Lindblad.State.of(np.array([1.0, 1.0j]) / np.sqrt(2))
    rho = simkit.simulate(system, state, TIMES, step=TIGHT).ys.matrix
    np.testing.assert_allclose(rho[:, 1, 1].real, 0.5 * np.exp(-decay * TIMES), atol=1e-9)
    np.testing.assert_allclose(rho[:, 0, 1], -0.5j * np.exp(-(decay / 2 + 2 * dephasing) * TIMES), atol=1e-9)
    np.testing.assert_allclose(np.trace(rho, axis1=1, axis2=2), 1.0, atol=1e-12)


def test_the_master_equation_is_liouvilles_matrix():
    rng = np.random.default_rng(1)
    draw = lambda: rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    hamiltonian, jumps, rates = draw(), [0.5 * draw(), 0.5 * draw()], np.array([0.3, 0.7])
    hamiltonian = hamiltonian + hamiltonian.conj().T
    one = np.eye(3)
    # Row by row, A rho B is kron(A, B^T) times rho.
    liouville = -1j * (np.kron(hamiltonian, one) - np.kron(one, hamiltonian.T))
    for rate, jump in zip(rates, jumps, strict=True):
        square = jump.conj().T @ jump
        liouville += rate * (np.kron(jump, jump.conj()) - 0.5 * np.kron(square, one) - 0.5 * np.kron(one, square.T))
    start = draw()
    start = start @ start.conj().T
    start /= np.trace(start)
    system = odes.Lindblad(hamiltonian, jumps, rates)
    run = simkit.simulate(system, odes.Lindblad.State.of(start), [0.0, 0.8], step=TIGHT)
    np.testing.assert_allclose(run.final().matrix.ravel(), expm(0.8 * liouville) @ start.ravel(), atol=1e-9)


def test_bad_input():
    with pytest.raises(ArgumentError, match="`hamiltonian` must be Hermitian"):
        odes.Schrodinger(LOWER)
    with pytest.raises(ArgumentError, match="`controls` must hold 2 x 2 matrices"):
        odes.Schrodinger(X, controls=[np.eye(3)])
    with pytest.raises(ArgumentError, match="`rates` must hold one number for each of the 1 jumps"):
        odes.Lindblad(X, [LOWER], [0.1, 0.2])
    inputs = {"controls": (simkit.Constant(0.0),)}
    with pytest.raises(ArgumentError, match="must hold 2 signals"):
        simkit.simulate(odes.Schrodinger(X, [Y, Z]), odes.Schrodinger.State.of([1.0, 0.0]), TIMES, inputs=inputs)
