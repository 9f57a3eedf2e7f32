"""Stability of the splitting of shallow water on a sphere: gravity waves of one depth stepped apart from those of the rest."""

from typing import Any

import numpy as np
from jax.typing import ArrayLike

from ..._errors import ArgumentError
from ..spectral._review import REACH

GROWTH = 1.055
"""Factor in a step by which the splitting may make a gravity wave grow. Where depth and mean height differ by some percent, narrow
bands of degrees grow by up to 1.053 with steps whose runs are good. Chosen by runs: of those with 1.059 and more all but one
went wrong."""

POINTS = 64
"""Points of the circle around an argument over which phi functions are means (Kassam and Trefethen 2005)."""


def check_splitting(system: Any, height: ArrayLike, step: float | None, solver: object) -> None:
    r"""Refuse a step with which gravity waves grow since the mean height is far from the `depth` of the linear part.

    With the modes $z_\pm$ of `ShallowWaterSphere`, D the mean height less the depth H, and $\omega$ of a degree, the rest has

    $$\dot z_\pm = \mp i \frac{\omega D}{2 H} (z_+ + z_-)$$

    A step of the solver multiplies the pair by a matrix of two rows, and its eigenvalues tell how a wave grows.

    **Raises:** an `ArgumentError` with the mean height and a stable step.
    """
    if step is None:
        return
    sphere, depth = system.sphere, float(system.depth)
    mean = float(np.mean(np.asarray(height, float), axis=1) @ sphere.weights())
    share = (mean - depth) / depth
    degrees = np.arange(1, sphere.truncation + 1)
    eigenvalues = degrees * (degrees + 1.0)
    damping = float(system.damping) * (eigenvalues / eigenvalues[-1]) ** system.damping_order
    rates = -damping + 1j * np.sqrt(float(system.gravity) * depth) * np.sqrt(eigenvalues) / sphere.radius
    name = type(solver).__name__
    grows = lambda h: growth(rates * h, share, name) > GROWTH
    if not grows(step):
        return
    shorter = next((step * 0.9**k for k in range(1, 100) if not grows(step * 0.9**k)), 0.0)
    raise ArgumentError(
        f"Argument `depth` of {type(system).__name__} must lie nearer to the mean height of the start for steps of {step:.4g} with "
        f"`{name}`, but `depth` is {depth:.4g} and the mean height {mean:.4g}: gravity waves would grow by "
        f"{growth(rates * step, share, name):.3g} in a step. Give `depth={mean:.4g}`, or take a `step` such as {shorter:.3g}."
    )


def growth(arguments: Any, share: float, name: str) -> float:
    """The largest factor by which a step multiplies a gravity wave.

    **Arguments:** `arguments`: step times the rates of the linear part, complex; `share`: D / H; `name` of the solver.
    Of others than `ETDRK4` and `ETDRK2` the reach along the imaginary axis decides: 1 within, infinite beyond.
    """
    if name not in ("ETDRK4", "ETDRK2"):
        return 1.0 if np.max(np.abs(arguments.imag)) * abs(share) / 2 <= REACH.get(name, 2.8) else np.inf
    turn = np.abs(arguments.imag)
    linear = np.stack([arguments.real - 1j * turn, arguments.real + 1j * turn], 1)
    rest = -0.5j * share * turn[:, None, None] * np.array([[1.0, 1.0], [-1.0, -1.0]])
    diagonal = lambda x: x[:, :, None] * np.eye(2)
    first, second, third = (diagonal(x) for x in _phi(linear))
    whole = diagonal(np.exp(linear))
    if name == "ETDRK2":
        a = whole + first @ rest
        matrix = a + second @ rest @ (a - np.eye(2))
    else:
        half, part = diagonal(np.exp(linear / 2)), diagonal(0.5 * _phi(linear / 2)[0])
        a = half + part @ rest
        b = half + part @ rest @ a
        c = half @ a + part @ rest @ (2 * b - np.eye(2))
        weights = first - 3 * second + 4 * third, 2 * second - 4 * third, 4 * third - second
        matrix = whole + weights[0] @ rest + weights[1] @ rest @ (a + b) + weights[2] @ rest @ c
    return float(np.max(np.abs(np.linalg.eigvals(matrix))))


def _phi(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The functions phi 1 to 3, as means over a circle."""
    w = z[..., None] + np.exp(2j * np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    e = np.exp(w)
    return ((e - 1) / w).mean(-1), ((e - 1 - w) / w**2).mean(-1), ((e - 1 - w - w * w / 2) / w**3).mean(-1)
