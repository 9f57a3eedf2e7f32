"""Steady convection rolls by another method: stream function and temperature, Chebyshev collocation across, a Newton iteration."""

import jax
import jax.numpy as jnp
import numpy as np


def nusselt(rayleigh, prandtl, wavenumber, points=25, modes=8):
    """Heat flux of two-dimensional rolls between rigid walls over that of conduction, at both walls.

    Sines of the stream function and cosines of the temperature along the walls, at Chebyshev points across.
    """
    n, z = points, (np.cos(np.pi * np.arange(points) / (points - 1)) + 1) / 2
    d = 2 * derivative(n)
    place = (np.arange(4 * modes) + 0.5) * np.pi / wavenumber / (4 * modes)
    m = np.arange(modes + 1)
    k = m * wavenumber
    sines, cosines = np.sin(np.outer(k, place)), np.cos(np.outer(k, place))
    of_sines = sines.T / (2.0 * modes)
    of_cosines = np.where(m == 0, 0.5, 1.0) * cosines.T / (2.0 * modes)
    k = k[None]
    spread = lambda f: d @ d @ f - f * k**2

    def parts(v):
        stream = jnp.concatenate([jnp.zeros((n, 1)), v[: n * modes].reshape(n, modes)], axis=1)
        return stream, v[n * modes :].reshape(n, modes + 1)

    def residual(v):
        stream, heat = parts(v)
        vorticity = spread(stream)
        u, w = (d @ stream) @ sines, -(stream * k) @ cosines
        carried = (u * ((vorticity * k) @ cosines) + w * ((d @ vorticity) @ sines)) @ of_sines
        momentum = spread(vorticity) + rayleigh * heat * k - carried / prandtl
        energy = spread(heat) - (-u * ((heat * k) @ sines) + w * ((d @ heat) @ cosines)) @ of_cosines
        slope = d @ stream
        momentum = momentum.at[0].set(1e3 * stream[0]).at[-1].set(1e3 * stream[-1])
        momentum = momentum.at[1].set(1e2 * slope[0]).at[-2].set(1e2 * slope[-1])
        energy = energy.at[0].set(1e3 * heat[0]).at[-1].set(1e3 * (heat[-1] - np.where(m == 0, 1.0, 0.0)))
        return jnp.concatenate([momentum[:, 1:].ravel(), energy.ravel()])

    slopes = jax.jit(jax.jacobian(residual))
    for amplitude in (2.0, 4.0, 6.0):  # a start too near to conduction ends there
        stream, heat = np.zeros((n, modes)), np.zeros((n, modes + 1))
        stream[:, 0] = -amplitude * 16 * z**2 * (1 - z) ** 2
        heat[:, 0], heat[:, 1] = 1 - z - 0.1 * np.sin(2 * np.pi * z), 0.15 * np.sin(np.pi * z)
        v = np.concatenate([stream.ravel(), heat.ravel()])
        for turn in range(40):
            change = -np.linalg.solve(slopes(v), residual(v))
            v = v + change * (min(1.0, 3 / np.abs(change).max()) if turn < 8 else 1.0)
            if np.abs(change).max() < 1e-11:
                break
        flux = -(d @ np.asarray(parts(v)[1]))[:, 0]
        if np.abs(change).max() < 1e-9 and flux[0] > 1.001:
            return flux[-1], flux[0]
    raise AssertionError("no steady rolls were found")


def derivative(points):
    """Differentiation at Chebyshev points from 1 to -1 (Trefethen 2000, Spectral Methods in MATLAB, chapter 6)."""
    x = np.cos(np.pi * np.arange(points) / (points - 1))
    c = np.array([2.0, *np.ones(points - 2), 2.0]) * (-1.0) ** np.arange(points)
    matrix = np.outer(c, 1 / c) / (x[:, None] - x[None] + np.eye(points))
    return matrix - np.diag(matrix.sum(axis=1))
