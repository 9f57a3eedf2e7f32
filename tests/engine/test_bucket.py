"""Calls that differ only in the number of save times or members share a compiled program, and fillers leave no trace."""

import jax
import numpy as np

import simkit
from simkit import Adaptive, count_compilations

SYSTEM, Y0, _, _ = simkit.odes.LotkaVolterra.example()


def span(count):
    return np.linspace(0.0, 10.0, count)


def compilations_of(verb, counter):
    return [reason for reason in counter.reasons if reason.startswith(verb)]


def same(filled, exact):
    # Another program may contract operations otherwise: a few units in the last place over some fifty steps.
    for a, b in zip(jax.tree.leaves(filled), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_save_times_of_similar_number_share_a_program():
    simkit.simulate(SYSTEM, Y0, span(33))
    with count_compilations() as counter:
        trajectory = simkit.simulate(SYSTEM, Y0, span(38))
    assert compilations_of("simulate", counter) == []
    assert trajectory.times.shape == (38,)
    np.testing.assert_array_equal(trajectory.times, span(38))
    inside = jax.jit(lambda y0: simkit.simulate(SYSTEM, y0, span(38)))(Y0)  # traced calls are not filled up
    same((trajectory.ys, trajectory.steps, trajectory.rejected), (inside.ys, inside.steps, inside.rejected))


def test_members_of_similar_number_share_a_program():
    values = np.linspace(0.4, 0.6, 38)
    run = lambda count: simkit.ensemble(SYSTEM, Y0, span(9), over={"growth": values[:count]}, devices=jax.devices()[:1])
    run(37)
    with count_compilations() as counter:
        members = run(38)
    assert compilations_of("ensemble", counter) == []
    assert members.times.shape == (38, 9)
    np.testing.assert_array_equal(members.over["growth"], values)
    exact = jax.jit(lambda y0: simkit.ensemble(SYSTEM, y0, span(9), over={"growth": values}))(Y0)
    same((members.ys, members.steps, members.status), (exact.ys, exact.steps, exact.status))


def test_fillers_do_not_fail_and_failures_stay():
    step = Adaptive(1e-6, 1e-9, max_steps=20)
    members = simkit.ensemble(SYSTEM, Y0, span(9), over={"growth": np.linspace(0.01, 2.0, 37)}, step=step)
    failed = np.flatnonzero(members.status)
    assert 0 < failed.size < 37  # 20 steps are enough for slow growth only
    assert len(members.failures()) == failed.size
    assert np.isnan(members.ys.hare[failed, -1]).all()
    assert np.isfinite(np.delete(members.ys.hare, failed, axis=0)).all()
