"""dinosaur: an atmosphere in sigma levels by its own steps, in the form with the vertical differences of Simmons and Burridge."""

import _harness
import jax
import numpy as np


def main(arrays, options):
    jax.config.update("jax_enable_x64", options["precision"] == "float64")
    import dinosaur
    from dinosaur import (
        coordinate_systems,
        hybrid_coordinates,
        primitive_equations,
        spherical_harmonic,
        time_integration,
        units,
    )

    specs = units.SimUnits.from_si()
    si = dinosaur.scales.units
    boundaries = np.linspace(0.0, 1.0, options["layers"] + 1)
    levels = hybrid_coordinates.HybridCoordinates(0 * boundaries, boundaries)
    horizontal = spherical_harmonic.Grid.construct(
        max_wavenumber=options["truncation"], gaussian_nodes=options["latitudes"] // 2
    )
    coords = coordinate_systems.CoordinateSystem(horizontal, levels)
    to = lambda x, unit: specs.nondimensionalize(np.swapaxes(x, -1, -2) * unit)
    modal = lambda x: horizontal.clip_wavenumbers(horizontal.to_modal(np.asarray(x, options["precision"])))
    reference = specs.nondimensionalize(np.full(options["layers"], options["reference"]) * si.degK)
    state = primitive_equations.State(
        vorticity=modal(to(arrays["vorticity"], 1 / si.s)),
        divergence=modal(to(arrays["divergence"], 1 / si.s)),
        temperature_variation=modal(to(arrays["temperature"] - options["reference"], si.degK)),
        log_surface_pressure=modal(np.log(to(arrays["surface_pressure"][None], si.pascal))),
    )
    equation = primitive_equations.PrimitiveEquationsHybrid(
        reference,
        modal(to(arrays["bed"], si.m)),
        coords,
        specs,
        reference_surface_pressure=1e5 * si.pascal,
    )
    step = specs.nondimensionalize(options["step"] * si.s)
    run = jax.jit(time_integration.repeated(time_integration.imex_rk_sil3(equation, step), options["steps"]))
    end = jax.block_until_ready(run(state))
    spent = []
    for _ in range(options["samples"]):
        began = _harness.clock()
        jax.block_until_ready(run(state))
        spent.append((_harness.clock() - began) / options["steps"])
    nodal = lambda x: np.swapaxes(np.asarray(horizontal.to_nodal(x)), -1, -2)
    pressure = specs.dimensionalize(np.exp(nodal(end.log_surface_pressure)), si.pascal).magnitude[0]
    temperature = options["reference"] + specs.dimensionalize(nodal(end.temperature_variation), si.degK).magnitude
    vorticity = specs.dimensionalize(nodal(end.vorticity), 1 / si.s).magnitude
    found = {"surface_pressure": pressure, "temperature": temperature, "vorticity": vorticity, "spent": np.array(spent)}
    return found, {"dinosaur": options["version"], "jax": jax.__version__}


if __name__ == "__main__":
    _harness.serve(main)
