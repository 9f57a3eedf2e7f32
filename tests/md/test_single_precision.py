"""Runs and minima in single precision: they stay in it, with double precision switched on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_runs import KEY, H, fluid

import simkit
from simkit import md


def single(tree):
    return jax.tree.map(lambda x: x.astype(jnp.float32) if getattr(x, "dtype", None) == jnp.float64 else x, tree)


@pytest.mark.long
@pytest.mark.parametrize(
    "dynamics",
    [
        md.MTK(0.8, 1.0, 0.4, 2.0, cell="full"),
        md.StochasticCellRescaling(0.8, 1.0, 0.1, 0.5, 0.1),
        md.Andersen(1.0, 20.0),
        md.Brownian(1.0, 5.0),
        md.Berendsen(1.0, 0.1),
    ],
    ids=lambda dynamics: dynamics.name,
)
def test_runs(dynamics):
    system, y0 = fluid(dynamics=dynamics)
    found = simkit.simulate(single(system), single(y0), [0.0, 0.02], step=H, key=KEY)
    assert {x.dtype for x in jax.tree.leaves(found.ys)} == {jnp.dtype("float32")}
    if dynamics.name.startswith("Martyna"):  # the others' noise is another in single precision
        expected = simkit.simulate(system, y0, [0.0, 0.02], step=H, key=KEY).final()
        np.testing.assert_allclose(found.final().position, expected.position, atol=1e-4)


@pytest.mark.slow
def test_a_minimum_with_its_cell():
    system, y0 = fluid()
    found = md.minimise(single(system), single(y0), tolerance=1e-2, cell=True)
    assert {x.dtype for x in jax.tree.leaves(found.atoms)} == {jnp.dtype("float32")}
    # Flat in what is left of the force: its square over the stiffness, and rounding of 100 atoms' energies.
    np.testing.assert_allclose(found.energy, md.minimise(system, y0, tolerance=1e-6, cell=True).energy, rtol=1e-4)
