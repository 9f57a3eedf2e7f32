"""The flows of Mosaic's problems `ns-grid` and `ns-3d-grid` as a Tesseract of simkit.

Velocities are `(nx, ny, 1, 2)` in a plane and `(n, n, n, 3)` in space. A box without a body is periodic and takes `SpectralFlow2D`
or `SpectralFlow3D`; one with a body is a channel and takes `IncompressibleFlow`, whose drag is a mean over the second half of the
steps.
"""

from typing import Any

import jax
import jax.numpy as jnp
from mosaic_shared.problems.navier_stokes_grid import InputSchema as Inputs
from mosaic_shared.problems.navier_stokes_grid import OutputSchema as Outputs
from mosaic_shared.schema_types import make_differentiable

from simkit import Fixed, fluids, simulate
from simkit.tesseract import endpoints


class InputSchema(make_differentiable(Inputs, ["v0", "viscosity", "dt", "inflow_profile"])):
    """The inputs of the problem."""


class OutputSchema(make_differentiable(Outputs, ["result", "drag"])):
    """The outputs of the problem."""


def flow(inputs: dict[str, Any]) -> dict[str, Any]:
    """Velocity after the steps, and the drag of the body, 0 where there is none."""
    if inputs["obstacle"] is not None:
        return _channel(inputs)
    run = _plane if inputs["v0"].shape[-1] == 2 else _space
    return {"result": run(inputs), "drag": jnp.zeros(1, inputs["v0"].dtype)}


def _plane(inputs: dict[str, Any]) -> jax.Array:
    grid, velocity = _grid(inputs, 2), jnp.moveaxis(inputs["v0"][:, :, 0, :], -1, 0)
    mean = velocity.mean((1, 2))
    system = fluids.SpectralFlow2D(grid, viscosity=inputs["viscosity"][0], mean_flow=mean)
    end = _run(system, system.State(fluids.vorticity(grid, velocity)), inputs)
    return jnp.moveaxis(system.velocity(end), 0, -1)[:, :, None, :]


def _space(inputs: dict[str, Any]) -> jax.Array:
    system = fluids.SpectralFlow3D(_grid(inputs, 3), viscosity=inputs["viscosity"][0])
    end = _run(system, system.State(jnp.moveaxis(inputs["v0"], -1, 0)), inputs)
    return jnp.moveaxis(system.velocity(end), 0, -1)


def _run(system: Any, start: Any, inputs: dict[str, Any]) -> Any:
    times = jnp.stack([jnp.zeros_like(inputs["dt"][0]), inputs["steps"] * inputs["dt"][0]])
    return simulate(system, start, times, step=Fixed(inputs["steps"]), on_failure="mark").final()


def _channel(inputs: dict[str, Any]) -> dict[str, Any]:
    """A profile that is given comes in at the lower end of x and leaves at the upper one.

    Without one, ends that are open ("neumann") have a pressure of 0, through which fluid comes and goes.
    """
    grid, body, profile = _grid(inputs, 2), inputs["obstacle"], inputs["inflow_profile"]
    velocity, extent = jnp.moveaxis(inputs["v0"][:, :, 0, :], -1, 0), inputs["domain_extent"]
    disk = fluids.Disk(jnp.asarray(body["center"]) * extent, jnp.asarray(body["radius"] * extent))
    along: Any = fluids.Periodic() if _kind(inputs, "x_lo") == "periodic" else fluids.FixedPressure()
    if profile is not None:
        along = (fluids.Inflow(jnp.stack([profile, jnp.zeros_like(profile)])), fluids.Outflow())
    across = fluids.NoSlip() if _kind(inputs, "y_lo") == "no_slip" else fluids.Periodic()
    system = fluids.IncompressibleFlow(
        grid, viscosity=inputs["viscosity"][0], boundaries=[along, across], obstacle=fluids.Obstacle(disk)
    )
    steps, dt = inputs["steps"], inputs["dt"][0]
    run = simulate(system, system.start(velocity), dt * jnp.arange(steps + 1), step=Fixed(1), on_failure="mark")
    late = jax.tree.map(lambda x: x[-max(1, steps // 2) :], (run.times, run.ys))
    drag = jax.lax.map(lambda at: system.drag(*at)[0], late)
    found = jnp.moveaxis(system.at.centred(run.final().velocity), 0, -1)[:, :, None, :]
    return {"result": found, "drag": -drag.mean()[None]}


def _kind(inputs: dict[str, Any], end: str) -> str:
    kind = inputs["boundary_conditions"][end]["type"]
    return getattr(kind, "value", kind)


def _grid(inputs: dict[str, Any], dimensions: int) -> fluids.Grid:
    return fluids.Grid(inputs["v0"].shape[:dimensions], inputs["domain_extent"])


apply, jacobian, jacobian_vector_product, vector_jacobian_product, abstract_eval = endpoints(flow)
