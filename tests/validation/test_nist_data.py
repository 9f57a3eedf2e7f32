"""The NIST files are read, and the models written, as NIST means them."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from validation import nist


@pytest.fixture(scope="module", params=sorted(nist.MODELS))
def problem(request):
    return nist.load(request.param)


@pytest.fixture(scope="module")
def linearised(problem):
    """The residuals at the certified parameters, and their Jacobian."""

    @jax.jit
    def evaluate(parameters):
        def residuals(parameters):
            return problem.model(jnp.asarray(problem.x), *parameters) - jnp.asarray(problem.y)

        return residuals(parameters), jax.jacfwd(residuals)(parameters)

    return tuple(np.asarray(value) for value in evaluate(jnp.asarray(problem.certified)))


def test_every_file_has_a_model():
    assert sorted(path.stem for path in nist.FOLDER.glob("*.dat")) == sorted(nist.MODELS)
    assert len(nist.MODELS) == 27


def test_file_is_read_whole(problem):
    text = (nist.FOLDER / f"{problem.name}.dat").read_text(encoding="ascii")
    (observations,) = re.findall(r"^Number of Observations:\s+(\d+)", text, re.MULTILINE)
    (parameters,) = re.findall(r"^\s+(\d) Parameters", text, re.MULTILINE)
    (deviation,) = re.findall(r"^Residual Standard Deviation:\s+(\S+)", text, re.MULTILINE)
    assert problem.y.shape == (int(observations),)
    assert problem.x.shape[0] == int(observations)
    assert problem.starts.shape == (2, int(parameters))
    freedom = int(observations) - int(parameters)
    # Eleven printed digits each.
    assert float(deviation) == pytest.approx((problem.residual_sum_of_squares / freedom) ** 0.5, rel=1e-10)
    assert tuple(inspect.signature(problem.model).parameters) == ("x", *problem.names)
    assert all(name in problem.text for name in problem.names)


def test_certified_residual_sum_of_squares(problem, linearised):
    residuals, jacobian = linearised
    # Twice the half unit of the eleventh digit. Rounding the parameters to their printed digits adds at most the square of what
    # it does to the residuals, since at the minimum the first order vanishes; it shows in Lanczos1 alone, whose sum is 1e-25.
    rounding = np.sum((np.abs(jacobian) @ (problem.last_digits / 2)) ** 2)
    np.testing.assert_allclose(np.sum(residuals**2), problem.residual_sum_of_squares, rtol=1e-10, atol=rounding)


def test_certified_parameters_are_the_minimum(problem, linearised):
    residuals, jacobian = linearised
    directions, triangle = np.linalg.qr(jacobian * problem.certified)
    inverse = np.linalg.inv(triangle)
    step = inverse @ (directions.T @ residuals)
    # One Gauss-Newton step stays below the ninth digit: NIST's eleven, less what two of the printed values are off by.
    np.testing.assert_allclose(step, 0.0, atol=1e-9)
    variance = problem.residual_sum_of_squares / (len(problem.y) - len(problem.certified))
    deviations = np.sqrt(np.sum(inverse**2, axis=1) * variance) * np.abs(problem.certified)
    # With condition numbers of up to 1e5, eleven printed digits of the parameters give eight of these.
    np.testing.assert_allclose(deviations, problem.standard_deviations, rtol=1e-8)
