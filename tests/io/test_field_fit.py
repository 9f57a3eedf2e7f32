"""Fits of fields in result files: bit for bit, as the start of another fit, and damaged."""

import dataclasses
import re

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit.fields import AbstractField, Matern
from simkit.fitting import FieldFit
from simkit.stores import seal

SIZE = 12
TIMES = np.array([0.5, 1.0])


def decay(t, y, p):
    return {"u": -p["rate"] * y["u"]}


def problem(size=SIZE, prior=None, transform=None):
    """A field that decays, seen everywhere, and its rate."""
    prior = (
        Matern(1.0, length=0.3, box=1.0, ends="neumann", mean=np.linspace(0.0, 0.5, size)) if prior is None else prior
    )
    places = np.linspace(0.0, 1.0, size)
    data = np.exp(-0.7 * TIMES)[:, None] * (1.5 + np.sin(3 * places))[None]
    return simkit.Problem(
        simkit.from_function(decay, {"rate": 1.0}),
        simkit.Experiment("one", TIMES, {"u": data + 0.01 * np.cos(17 * places)[None]}, start=0.0),
        free={"y0.u": simkit.Free(prior, transform=transform), "rate": simkit.Free(dist.LogNormal(0.0, 0.5))},
        noise={"u": simkit.noise.Normal(0.05)},
        y0={"u": np.ones(size)},
        step=0.1,
    )


@pytest.fixture(scope="module")
def fitted():
    """A fit made by hand: its arrays need no fit to be written and read."""
    asked, random = problem(transform="log"), np.random.default_rng(0)
    z, vectors = jnp.asarray(random.normal(size=SIZE + 1)), np.linalg.qr(random.normal(size=(SIZE + 1, 8)))[0].T
    return FieldFit(
        unknowns=asked.unknowns,
        units=("1", "1/s"),
        data_count=asked.data_count,
        estimate=asked.natural(z),
        z=z,
        objective=3.5,
        log_likelihood=-1.25,
        chi_squared=20.5,
        gradients=(1.0, 1e-3, 1e-8),
        first=2.5,
        status=0,
        products=21,
        coarse=0,
        simulations=6,
        linearisations=3,
        failures=0,
        method="GaussNewtonCG",
        eigenvalues=jnp.asarray(np.geomspace(100.0, 0.1, 8)),
        vectors=jnp.asarray(vectors),
        deviations=jnp.asarray(np.append(np.ones(SIZE), 0.5)),
        directions=jnp.asarray(vectors[:3]),
        cuts=jnp.asarray([0.9, 0.8, 0.7]),
    )


def test_a_fit_of_fields_comes_back_bit_for_bit(fitted, tmp_path):
    again = simkit.load(simkit.save(tmp_path / "field.h5", fitted)).field_fit
    assert repr(again) == repr(fitted)
    assert again.names == fitted.names
    for name in ("estimate", "z", "eigenvalues", "vectors", "deviations", "directions", "cuts"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))
    for name in ("y0.u", "rate"):
        np.testing.assert_array_equal(again[name], fitted[name])
        np.testing.assert_array_equal(again.interval(name), fitted.interval(name))
    key = jax.random.key(0)
    np.testing.assert_array_equal(again.draws(key, 3), fitted.draws(key, 3))


@pytest.mark.slow
def test_a_fit_goes_on_from_a_file_on_another_grid(tmp_path):
    fitted = simkit.fit(problem(transform="log"), method=simkit.GaussNewtonCG(modes=8))
    known = simkit.load(simkit.save(tmp_path / "field.h5", fitted)).field_fit
    assert repr(known) == repr(fitted)
    prior = Matern(1.0, length=0.3, box=1.0, ends="neumann")
    finer = problem(18, prior, "log")
    first, second = (simkit.fit(finer, method=simkit.GaussNewtonCG(known=x)) for x in (fitted, known))
    np.testing.assert_array_equal(first.estimate, second.estimate)


def test_a_prior_of_an_own_class_is_refused_by_name(fitted, tmp_path):
    class Rough(AbstractField):
        mean: jax.Array
        box: jax.Array
        ends: tuple = ("periodic",)

        def spectrum(self, squared, cells):
            return jnp.exp(-0.1 * squared) + 1e-4

    rough = problem(prior=Rough(jnp.asarray(0.0), jnp.asarray([1.0]))).unknowns
    found = dataclasses.replace(fitted, unknowns=rough)
    with pytest.raises(simkit.ArgumentError, match=r"prior of `y0\.u` must be a `simkit\.fields\.Matern`.*`Rough`"):
        simkit.save(tmp_path / "own.h5", found)
    assert not (tmp_path / "own.h5").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unknowns", '[{"name": "y0.u", "shape": [5], "log": true, "ends": ["neumann"]}]'),
        ("unknowns", '[{"name": "y0.u", "shape": [13], "log": true, "ends": ["round"]}]'),
        ("status", '"well"'),
        ("units", '["1"]'),
        ("gradients", "[]"),
        ("shared", "99"),
    ],
)
def test_damaged_fits_are_refused(fitted, tmp_path, name, value):
    path = simkit.save(tmp_path / "field.h5", fitted)
    data = path.read_bytes()
    with h5py.File(path, "r+") as file:
        file["field_fit"].attrs[name] = value
    seal(path)
    assert path.read_bytes() != data
    with pytest.raises(simkit.ResultFileError, match=re.escape(str(path))):
        simkit.load(path)
