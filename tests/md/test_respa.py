"""Multiple time steps: the limits in which all is known, the order, and restarts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_runs import KEY, H, fluid

import simkit
from simkit import md


def split(dynamics):
    """A fluid with a weak and smooth second force."""
    system, y0 = fluid(temperature=0.3)
    weak = md.GaussianCore(0.5, 1.0, cutoff=2.2, truncation=md.Switched(1.7))
    return dataclasses.replace(system, potential=system.potential + weak, dynamics=dynamics), y0


@pytest.mark.slow
def test_energy_is_conserved_to_second_order_of_the_outer_step():
    system, y0 = split(md.RESPA(slow=(1,), steps=3))
    system = system.prepared(y0)
    drifts = []
    for h in (2 * H, H):
        run = simkit.simulate(system, y0, np.linspace(0.0, 0.3, 7), step=h)
        drifts.append(np.ptp(jax.jit(jax.vmap(lambda y: system.invariants(0.0, y)["energy"]))(run.ys)))
    assert run.steps == 60 * 3
    assert 3.3 < drifts[0] / drifts[1] < 4.7  # h^2, and what the next order adds at this step
    plain = dataclasses.replace(system, dynamics=md.NVE())
    fine = simkit.simulate(plain, y0, [0.0, 0.15, 0.3], step=H / 3).final()
    # Against the inner step for all forces: the slow ones' error, of second order and small.
    np.testing.assert_allclose(run.final().position, fine.position, atol=1e-3)
    assert np.abs(run.final().position - fine.position).max() > 1e-9


def test_one_inner_step_is_velocity_verlet_and_restarts_are_exact():
    system, y0 = split(md.RESPA(slow=(1,), steps=1, inner=md.Langevin(0.3, 1.0)))
    plain = dataclasses.replace(system, dynamics=md.Langevin(0.3, 1.0))
    ends = [simkit.simulate(s, y0, [0.0, 0.05], step=H, key=KEY).final().position for s in (system, plain)]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)
    system = dataclasses.replace(system, dynamics=md.RESPA(slow=(1,), steps=2, inner=md.Langevin(0.3, 1.0)))
    whole = simkit.simulate(system, y0, [0.0, 0.05, 0.1], step=H, key=KEY)
    rest = simkit.simulate(system, jax.tree.map(lambda x: x[1], whole.ys), [0.05, 0.1], step=H, key=KEY)
    jax.tree.map(np.testing.assert_array_equal, rest.final(), whole.final())


@pytest.mark.slow
def test_derivatives_of_a_run():
    system, y0 = split(md.RESPA(slow=(1,), steps=2))
    system = system.prepared(y0)

    def loss(epsilon):
        put = simkit.core.Setup(system, y0, None).put({"potential.terms.1.strength": epsilon}).system
        return jnp.mean((simkit.simulate(put, y0, [0.0, 0.05], step=2 * H).final().position - y0.position) ** 2)

    compiled, e = jax.jit(loss), 1e-5
    expected = (compiled(0.5 + e) - compiled(0.5 - e)) / (2 * e)
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(0.5), expected, rtol=1e-6)


def test_what_cannot_be_split_is_refused():
    system, y0 = split(md.RESPA(slow=(0, 1), steps=2))
    with pytest.raises(simkit.ArgumentError, match="places of some of the 2 terms"):
        simkit.simulate(system, y0, [0.0, 0.05], step=H)
    with pytest.raises(simkit.ArgumentError, match="fixed cell"):
        md.RESPA(slow=(0,), steps=2, inner=md.MTK(1.0, 1.0, 1.0, 1.0))
