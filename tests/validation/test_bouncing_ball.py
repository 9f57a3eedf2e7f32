"""A ball on a table that moves like a sine: where its one bounce a period becomes two, by derivatives through a contact.

With gravity and the table's frequency 1, restitution e and the table at G sin(t), the motion with one contact a period has
the phase arccos(pi (1 - e) / (1 + e) / G). Its linearised map over a period has the determinant e^2 and an eigenvalue -1 at
G^2 = (pi (1 - e) / (1 + e))^2 + (2 (1 + e^2) / (1 + e)^2)^2, from the equations of the contact alone.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit

CONTACT = simkit.Event(
    lambda system, t, y, inputs: y["gap"],
    "down",
    lambda system, t, y, inputs: {**y, "speed": -system.parameters["kept"] * y["speed"]},
)
TIGHT = simkit.Adaptive(1e-10, 1e-10)


@jax.jit
def over_one_period(shaking, kept):
    """The derivative of gap and speed a period later, from half a period after a contact on."""
    field = lambda t, y, p: {"gap": y["speed"], "speed": p["shaking"] * jnp.sin(t) - 1.0}
    system = simkit.odes.from_function(field, {"shaking": shaking, "kept": kept})
    needed = jnp.pi * (1 - kept) / (1 + kept)
    times = jnp.arccos(needed / shaking) + 2 * jnp.pi * jnp.array([0.0, 0.5, 1.5])
    begin = {"gap": 0.0 * shaking, "speed": jnp.pi - needed}
    middle = simkit.simulate(system, begin, times[:2], step=TIGHT).final()

    def later(y):
        start = {"gap": y[0], "speed": y[1]}
        end = simkit.simulate(system, start, times[1:], events=CONTACT, step=TIGHT).final()
        return jnp.stack([end["gap"], end["speed"]])

    return jax.jacfwd(later)(jnp.stack([middle["gap"], middle["speed"]]))


@pytest.mark.parametrize("kept", [0.5, 0.8])
def test_a_bouncing_ball_doubles_its_period_where_the_equations_of_the_contact_say(kept):
    needed = np.pi * (1 - kept) / (1 + kept)
    limit = np.hypot(needed, 2 * (1 + kept**2) / (1 + kept) ** 2)
    at_limit, before = (over_one_period(jnp.asarray(share * limit), jnp.asarray(kept)) for share in (1.0, 0.98))
    np.testing.assert_allclose(np.linalg.det(at_limit), kept**2, rtol=1e-7)
    np.testing.assert_allclose(np.linalg.eigvals(at_limit).real.min(), -1.0, rtol=1e-6)
    assert np.abs(np.linalg.eigvals(before)).max() < 0.999
