"""exponax: the decaying plane flow of `fluids.py` by its own ETDRK4 step, and Taylor-Green's vortices in space.

Its vorticity has the other sign.
"""

import _harness
import jax
import numpy as np


def timed(step, start, steps, samples):
    """The end of `steps` steps and CPU seconds a step."""
    run = jax.jit(lambda u: jax.lax.scan(lambda u, _: (step(u), None), u, None, length=steps)[0])
    end = jax.block_until_ready(run(start))
    spent = []
    for _ in range(samples):
        began = _harness.clock()
        jax.block_until_ready(run(start))
        spent.append((_harness.clock() - began) / steps)
    return np.asarray(end), np.array(spent)


def main(arrays, options):
    jax.config.update("jax_enable_x64", options["precision"] == "float64")
    import exponax

    start = jax.numpy.asarray(arrays["start"], options["precision"])
    common = (2 * np.pi, start.shape[-1], options["step"])
    if start.ndim == 2:
        step = exponax.stepper.NavierStokesVorticity(
            2, *common, diffusivity=options["viscosity"], drag=-options["drag"], order=4
        )
        end, spent = timed(step, -start[None], options["steps"], options["samples"])
        found = {"end": -end[0], "spent": spent}
    else:
        step = exponax.stepper.NavierStokesVelocity(3, *common, diffusivity=options["viscosity"], order=4)
        end, spent = timed(step, start, options["steps"], options["samples"])
        found = {"end": end, "spent": spent}
    about = {"exponax": exponax.__version__, "jax": jax.__version__}
    if options.get("gradient"):
        loss = lambda u: jax.numpy.mean(
            jax.lax.scan(lambda u, _: (step(u), None), u, None, length=options["gradient"])[0] ** 2
        )
        compiled = jax.jit(jax.grad(loss)).lower(-start[None]).compile()
        about["gradient_mib"] = compiled.memory_analysis().temp_size_in_bytes / 2**20
    return found, about


if __name__ == "__main__":
    _harness.serve(main)
