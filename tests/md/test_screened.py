"""The screened interaction beside SciPy's functions, as compiled code computes it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erfc

from simkit.md.potentials._screened import screened


@pytest.mark.parametrize(
    ("dtype", "most", "scale"),
    [("float64", 2e-13, 1e-12), ("float64", 2e-13, 1.0), ("float64", 2e-13, 1e9), ("float32", 5e-5, 1.0)],
)
def test_values_at_all_distances(dtype, most, scale):
    """Errors of e^-x grow as x times a rounding, to some 64 roundings at x = 64."""
    r, damping = np.linspace(0.02, 8.0, 4001).astype(dtype) * np.dtype(dtype).type(scale), 1.0 / scale
    r, x = r.astype(float), r.astype(float) * float(np.dtype(dtype).type(damping))
    found = jax.jit(screened)(jnp.asarray(r**2, dtype), jnp.asarray(damping, dtype))
    u, slope, gauss = (np.asarray(values, float) for values in found)
    exact = erfc(x) / r
    wave = np.exp(-(x**2))
    assert np.max(np.abs(u / exact - 1)) < most
    assert np.max(np.abs(gauss / wave - 1)) < most
    steep = -0.5 * (exact + 2 / np.sqrt(np.pi) * damping * wave) / r**2
    assert np.max(np.abs(slope / steep - 1)) < most
