import jax
import jax.numpy as jnp
import numpy as np

from simkit import Experiment, Free, Problem
from simkit.infer._coordinates import unconstrained_coordinates
from simkit.noise import Normal
from simkit.odes import from_response

FREE = {
    "a": Free(bounds=(-2.0, 3.0)),
    "b": Free(bounds=(0.5, None), transform="linear"),
    "c": Free(bounds=(None, 4.0)),
    "d": Free(),
}
MODEL = from_response(lambda x, p: p["a"] + p["b"] + p["c"] + p["d"] + x, dict.fromkeys(FREE, 1.0))
PROBLEM = Problem(MODEL, Experiment("e", [0.0], {"y": [1.0]}), free=FREE, noise={"y": Normal(1.0)})


def test_every_kind_of_bound_maps_there_and_back():
    coordinates = unconstrained_coordinates(PROBLEM)
    assert coordinates.kinds == ("interval", "lower", "upper", "real")
    theta = jnp.array([-1.0, 0.7, 3.0, -5.0])
    u = coordinates.unconstrained(theta)
    np.testing.assert_allclose(coordinates.natural(u), theta, rtol=1e-14)


def test_the_volume_is_the_determinant_of_the_jacobian():
    coordinates = unconstrained_coordinates(PROBLEM)
    u = jnp.array([0.3, -1.0, 2.0, 5.0])
    _, expected = np.linalg.slogdet(np.asarray(jax.jacfwd(coordinates.natural)(u)))
    np.testing.assert_allclose(coordinates.log_volume(u), expected, rtol=1e-12)
