"""Claim: a training step of a neural ODE whose batch is one state takes less than in Diffrax.

256 paths of two states, a network of 2 x 64 tanh, Tsit5 at rtol 1e-3 and atol 1e-6, 20 save times, mean squared error, Adam,
float32.
"""

from collections.abc import Callable
from typing import Any

import _harness
import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

import simkit

MEMBERS, SAVES, WIDTH = 256, 20, 64
RTOL, ATOL = 1e-3, 1e-6
CLOSE = 0.03
"""Most difference of gradients, of their own size: at these tolerances the steps of lanes and of a batch differ."""
ADAM = optax.adam(1e-3)


class Batched(simkit.PlainSystem):
    """The batch as one state."""

    network: eqx.nn.MLP

    def vector_field(self, t: Any, y: Any, inputs: Any) -> Any:
        return jax.vmap(self.network)(y)

    @classmethod
    def example(cls) -> Any:
        return simkit.Example(cls(_network()), jnp.ones((MEMBERS, 2)), jnp.linspace(0.0, 1.0, SAVES))


class One(simkit.PlainSystem):
    """A member."""

    network: eqx.nn.MLP

    def vector_field(self, t: Any, y: Any, inputs: Any) -> Any:
        return self.network(y)

    @classmethod
    def example(cls) -> Any:
        return simkit.Example(cls(_network()), jnp.ones(2), jnp.linspace(0.0, 1.0, SAVES))


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    for end in (1.0, 2.0):
        figures |= _measured(end)
    return figures


def _measured(end: float) -> dict[str, float]:
    times, (start, paths) = jnp.linspace(0.0, end, SAVES), _data(end)
    arrays, static = eqx.partition(_network(), eqx.is_inexact_array)
    whole = lambda arrays: eqx.combine(arrays, static)
    roads = {
        name: _trained(lambda arrays, y0, solve=solve: solve(whole(arrays), y0, times)) for name, solve in ROADS.items()
    }
    memory = ADAM.init(arrays)
    for _ in range(300):  # a network whose steps are those of one that is being trained
        arrays, memory, _, _ = roads["simkit, batch"](arrays, memory, start, paths)
    gradients = {name: ravel_pytree(road(arrays, memory, start, paths)[3])[0] for name, road in roads.items()}
    reference = gradients["Diffrax, batch"]
    for name, gradient in gradients.items():
        apart = float(jnp.linalg.norm(gradient - reference) / jnp.linalg.norm(reference))
        assert apart < CLOSE, f"the gradient of {name} is {apart:.3f} away"
    calls = {name: lambda road=road: road(arrays, memory, start, paths) for name, road in roads.items()}
    steps = int(simkit.simulate(Batched(whole(arrays)), start, times, solver="tsit5", step=_step()).steps)
    timings = _harness.compare(calls)
    _harness.print_timings(
        f"A training step, span {end:g}, {steps} steps of the solver", timings, reference="Diffrax, batch"
    )
    found = {f"span {end:g}: {name}, CPU ms": 1e3 * timing.minimum for name, timing in timings.items()}
    return found | {f"span {end:g}: batch, ratio": timings["simkit, batch"].minimum / timings["Diffrax, batch"].minimum}


def _trained(solve: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def loss(arrays: Any, start: Any, paths: Any) -> Any:
        return jnp.mean((solve(arrays, start) - paths) ** 2)

    def step(arrays: Any, memory: Any, start: Any, paths: Any) -> Any:
        value, slope = jax.value_and_grad(loss)(arrays, start, paths)
        update, memory = ADAM.update(slope, memory)
        return optax.apply_updates(arrays, update), memory, value, slope

    return jax.jit(step)


def _network() -> Any:
    return eqx.nn.MLP(2, 2, WIDTH, 2, jnp.tanh, key=jax.random.key(0), dtype=jnp.float32)


def _data(end: float) -> tuple[Any, Any]:
    """Starts (members, 2) and paths (members, times, 2) of a spiral with cubed states."""
    turn = jnp.array([[-0.1, 2.0], [-2.0, -0.1]])
    start = jax.random.uniform(jax.random.key(1), (MEMBERS, 2), minval=-2.0, maxval=2.0)
    truth = simkit.from_function(lambda t, y, p: p["rate"] * (y**3 @ turn.T), {"rate": 0.25})
    found = simkit.simulate(truth, start, np.linspace(0.0, end, SAVES), step=simkit.Adaptive(1e-5, 1e-7))
    return start, jnp.swapaxes(found.ys, 0, 1)


def _step() -> Any:
    return simkit.Adaptive(rtol=RTOL, atol=ATOL)


def _ours_batched(network: Any, start: Any, times: Any) -> Any:
    return jnp.swapaxes(simkit.simulate(Batched(network), start, times, solver="tsit5", step=_step()).ys, 0, 1)


def _ours_in_lanes(network: Any, start: Any, times: Any) -> Any:
    return jax.vmap(lambda y0: simkit.simulate(One(network), y0, times, solver="tsit5", step=_step()).ys)(start)


def _diffrax(field: Callable[..., Any], network: Any, start: Any, times: Any) -> Any:
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        times[0],
        times[-1],
        None,
        start,
        args=network,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
    ).ys


def _diffrax_batched(network: Any, start: Any, times: Any) -> Any:
    return jnp.swapaxes(_diffrax(lambda t, y, network: jax.vmap(network)(y), network, start, times), 0, 1)


def _diffrax_vmap(network: Any, start: Any, times: Any) -> Any:
    return jax.vmap(lambda y0: _diffrax(lambda t, y, network: network(y), network, y0, times))(start)


ROADS = {
    "simkit, batch": _ours_batched,
    "Diffrax, batch": _diffrax_batched,
    "simkit, lanes": _ours_in_lanes,
    "Diffrax, vmap": _diffrax_vmap,
}


if __name__ == "__main__":
    main()
