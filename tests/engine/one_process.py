"""One of some processes that compute an ensemble together, run by test_devices.py: an address, its number, where to write,
and how many there are."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit.odes import LotkaVolterra, from_function


def main(address: str, number: str, result: str, count: str) -> None:
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(coordinator_address=address, num_processes=int(count), process_id=int(number))
    system, y0, _, _ = LotkaVolterra.example()
    times = np.linspace(0.0, 4.0, 6)
    rates = np.linspace(0.3, 0.9, 5)
    found = simkit.ensemble(system, y0, times, over={"growth": rates})

    def loss(values):
        last = simkit.ensemble(system, y0, times, over={"growth": values}, devices=jax.devices()).final()
        return jnp.sum(last.hare**2)

    slope = jax.grad(loss)(jnp.asarray(rates))
    explosion = from_function(lambda t, y, p: p["rate"] * y**2, {"rate": 1.0})
    lost = simkit.ensemble(explosion, 1.0, [0.0, 0.5, 1.0], over={"rate": [0.5, 2.0, 0.1]})
    np.savez(
        result,
        devices=len(found.ys.hare.sharding.device_set),
        hare=found.ys.hare,
        steps=found.steps,
        slope=slope,
        failures=lost.failures(),
    )
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
