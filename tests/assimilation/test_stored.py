"""Assimilations that a folder keeps: the same bits after a cut, a budget of time, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.assimilation import EnKF, FourDVar, Observations, _stored, assimilate, members_around

TIMES = np.linspace(0.1, 4.0, 40)
SYSTEM, Y0, _, _ = simkit.odes.Lorenz63.example()


@pytest.fixture(scope="module")
def setup():
    truth = simkit.simulate(SYSTEM, Y0, np.concatenate([[0.0], TIMES])).ys
    truth = jax.tree.map(lambda x: x[1:], truth)
    noise = 0.5 * np.random.default_rng(0).normal(size=40)
    observations = Observations(TIMES, {"x": truth.x + noise}, errors=0.5, start=0.0)
    return observations, truth


def filtered(setup, **options):
    observations, truth = setup
    members = members_around(Y0, 6, key=jax.random.key(1), deviation=0.5)
    return assimilate(SYSTEM, members, observations, method=EnKF(), key=jax.random.key(2), truth=truth, **options)


def smoothed(setup, **options):
    return filtered(setup, lag=20, **options)


def windows(setup, **options):
    observations, truth = setup
    method = FourDVar(covariance=jnp.eye(3), window=8, shift=4, iterations=2)
    return assimilate(SYSTEM, Y0, observations, method=method, truth=truth, **options)


@pytest.mark.parametrize("run", [filtered, smoothed, windows])
def test_it_goes_on_to_the_same_bits(setup, tmp_path, monkeypatch, run):
    monkeypatch.setattr(_stored, "TURNS", 16)
    whole = run(setup, store=tmp_path / "whole")
    plain = run(setup)
    for found, expected in zip(jax.tree.leaves(whole), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    run(setup, store=tmp_path / "cut")
    records = sorted((tmp_path / "cut").glob("turns-*.h5"))
    records[-1].unlink()
    again = run(setup, store=tmp_path / "cut")
    for found, expected in zip(jax.tree.leaves(again), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert len(list((tmp_path / "cut").glob("turns-*.h5"))) == len(records)


def test_the_time_is_up(setup, tmp_path, monkeypatch):
    monkeypatch.setattr(_stored, "TURNS", 10)
    short = filtered(setup, store=tmp_path / "short", within=1e-9)
    assert short.times.shape == short.error.shape == (10,)
    assert "the time was up after 10 of 40 times" in str(short)
    assert smoothed(setup, within=1e-9).smoothed_error.shape == (10,)
    whole = filtered(setup, store=tmp_path / "short")
    np.testing.assert_array_equal(whole.error[:10], short.error)
    assert whole.times.shape == (40,)


def test_another_run_is_refused(setup, tmp_path, monkeypatch):
    monkeypatch.setattr(_stored, "TURNS", 20)
    filtered(setup, store=tmp_path / "one")
    with pytest.raises(simkit.StoreError, match="keep_members"):
        filtered(setup, store=tmp_path / "one", keep_members=True)
    with pytest.raises(simkit.ArgumentError, match="must be left out inside `jit`"):
        jax.jit(lambda x: filtered((Observations(TIMES, {"x": x}, errors=0.5, start=0.0), None), store=tmp_path).mean)(
            jnp.ones(40)
        )
