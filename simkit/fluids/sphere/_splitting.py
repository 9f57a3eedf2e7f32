"""Stability of the splitting of shallow water on a sphere: gravity waves of one depth stepped apart from those of the rest."""

from typing import Any

import numpy as np
from jax.typing import ArrayLike

from ..._errors import ArgumentError
from ..spectral._review import REACH
from ._levels import KAPPA, vertical_modes

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
    turn = np.abs(arguments.imag)
    linear = np.stack([arguments.real - 1j * turn, arguments.real + 1j * turn], 1)
    rest = -0.5j * share * turn[:, None, None] * np.array([[1.0, 1.0], [-1.0, -1.0]])
    if name not in ("ETDRK4", "ETDRK2"):
        return 1.0 if np.max(turn) * abs(share) / 2 <= REACH.get(name, 2.8) else np.inf
    return amplification(linear, rest, name)


def amplification(linear: np.ndarray, rest: np.ndarray, name: str) -> float:
    """The largest factor by which a step of an exponential solver multiplies a vector.

    **Arguments:** `linear`: step times the rates of the linear part, `(n, r)`; `rest`: step times the matrices of the rest,
    `(n, r, r)`; `name` of the solver.
    """
    identity = np.eye(linear.shape[1])
    diagonal = lambda x: x[:, :, None] * identity
    first, second, third = (diagonal(x) for x in _phi(linear))
    whole = diagonal(np.exp(linear))
    if name == "ETDRK2":
        a = whole + first @ rest
        matrix = a + second @ rest @ (a - identity)
    else:
        half, part = diagonal(np.exp(linear / 2)), diagonal(0.5 * _phi(linear / 2)[0])
        a = half + part @ rest
        b = half + part @ rest @ a
        c = half @ a + part @ rest @ (2 * b - identity)
        weights = first - 3 * second + 4 * third, 2 * second - 4 * third, 4 * third - second
        matrix = whole + weights[0] @ rest + weights[1] @ rest @ (a + b) + weights[2] @ rest @ c
    return float(np.max(np.abs(np.linalg.eigvals(matrix))))


def check_layers(system: Any, temperature: ArrayLike, step: float | None, solver: object) -> None:
    r"""Refuse a step with which gravity waves grow since the temperature is far from the reference of the linear part.

    The waves of an atmosphere at rest with the mean temperature of each layer are stepped as the solver would.

    **Raises:** an `ArgumentError` with a stable step.
    """
    if step is None:
        return
    sphere = system.sphere
    profile = np.mean(np.asarray(temperature, float), axis=-1) @ sphere.weights()
    degrees = np.arange(1, sphere.truncation + 1)
    eigenvalues = degrees * (degrees + 1.0)
    linear, rest = layer_waves(system, profile, eigenvalues / sphere.radius**2)
    linear = linear - float(system.damping) * (eigenvalues / eigenvalues[-1])[:, None] ** system.damping_order
    name = type(solver).__name__
    if name in ("ETDRK4", "ETDRK2"):
        grows = lambda h: amplification(linear * h, rest * h, name) > GROWTH
    else:
        fastest = float(np.max(np.abs(np.linalg.eigvals(rest))))
        grows = lambda h: h * fastest > REACH.get(name, 2.8)
    if not grows(step):
        return
    shorter = next((step * 0.9**k for k in range(1, 60) if not grows(step * 0.9**k)), 0.0)
    raise ArgumentError(
        f"Argument `step` must be at most some {shorter:.3g} for `{name}` with the temperatures of the start of "
        f"{type(system).__name__}, whose layers have means of {profile.min():.4g} to {profile.max():.4g}, and a reference of "
        f"{system.reference_temperature:.4g}, but is {step:.4g}: gravity waves would grow. Take shorter steps, or a "
        "`reference_temperature` nearer to the warmest layers."
    )


def layer_waves(system: Any, profile: np.ndarray, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The linear part and the rest of waves in an atmosphere at rest with a temperature of each layer, in the waves of
    `PrimitiveEquationsSphere`.

    **Arguments:** `profile`, `(layers,)`; `squares` of the wavenumbers, `(n,)`.

    **Returns:** the rates `(n, 2 layers + 1)` and the matrices `(n, 2 layers + 1, 2 layers + 1)`.
    """
    levels, vertical, n = system.levels, vertical_modes(system.levels), system.levels.count
    departure = profile / system.reference_temperature - 1
    warming = (float(system.kappa) * (1 + departure) - KAPPA)[:, None] * levels.descent()
    lifted = np.diff(departure)[:, None] * levels.fluxes()
    nothing = np.zeros((1, n))
    lifted = (np.concatenate([lifted, nothing]) + np.concatenate([nothing, lifted])) / (2 * levels.thickness()[:, None])
    heated = -vertical.heats @ np.concatenate([warming + lifted, nothing]) @ vertical.winds_back
    pushed = np.concatenate([np.zeros((n, n)), departure[:, None]], axis=1)
    pushed = vertical.winds @ pushed @ vertical.heats_back
    weights = np.sqrt(squares * float(system.gas_constant) * system.reference_temperature)[:, None, None]
    # In each mode z = divergence +- i w heat; the rest of divergence is w^2 `pushed` heat, that of heat `heated` divergence.
    both = 0.5 * np.concatenate([np.eye(n), np.eye(n), np.zeros((n, 1))], axis=1)
    heat_of = np.zeros((n + 1, 2 * n + 1), complex)
    heat_of[:n, :n], heat_of[:n, n : 2 * n], heat_of[n, 2 * n] = -0.5j * np.eye(n), 0.5j * np.eye(n), 1.0
    scaling = np.concatenate([np.ones(n), [0.0]])[:, None]
    heat_of = heat_of * (scaling / weights + (1 - scaling))
    slope, gain = weights**2 * (pushed @ heat_of), np.broadcast_to(heated @ both, (len(squares), n + 1, 2 * n + 1))
    turned = 1j * weights * gain[:, :n]
    rest = np.concatenate([slope + turned, slope - turned, gain[:, n:]], axis=1)
    turns = weights[:, :, 0] * vertical.speeds
    return np.concatenate([-1j * turns, 1j * turns, np.zeros((len(squares), 1))], axis=1), rest


def _phi(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The functions phi 1 to 3, as means over a circle."""
    w = z[..., None] + np.exp(2j * np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    e = np.exp(w)
    return ((e - 1) / w).mean(-1), ((e - 1 - w) / w**2).mean(-1), ((e - 1 - w - w * w / 2) / w**3).mean(-1)
