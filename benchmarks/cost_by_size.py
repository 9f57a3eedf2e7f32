"""Cost of a step of `Rodas5P` by the number of states, for a sparse and a full Jacobian.

One is that of a chain of cells, the other that of a network in which every state meets every other one. Steps are fixed, so that
sizes differ in the linear algebra and not in the number of steps. Beyond 128 states the cost must grow no faster than with the
size for the chain and with its cube for the network: straight lines are fitted to the logarithms.

`python benchmarks/run.py cost_by_size` writes `docs/_static/cost-by-size.json` and draws the picture beside it; rows are the two
exponents.
"""

import json

import _harness
import jax
import jax.numpy as jnp
import numpy as np
from _set_problems import ROOT

import simkit

SIZES = {
    "chain of cells": (6, 30, 150, 300, 1000, 3000, 10_000, 30_000),
    "all with all": (3, 10, 30, 60, 128, 180, 250, 350, 500),
}
STEPS, BEYOND = 10, 128
RESULTS = ROOT / "docs" / "_static" / "cost-by-size.json"


def chain(size: int) -> tuple[simkit.System, np.ndarray]:
    """The Brusselator with diffusion on a line, two species a cell."""
    cells = size // 2

    def field(t, y, p):
        u, v = y[0::2], y[1::2]
        spread = lambda w: p["diffusion"] * (jnp.pad(w, 1)[2:] - 2 * w + jnp.pad(w, 1)[:-2])
        return jnp.stack([1 + u * u * v - 4 * u + spread(u), 3 * u - u * u * v + spread(v)], axis=1).ravel()

    way = np.linspace(0.0, 1.0, cells)
    return simkit.from_function(field, {"diffusion": 50.0}), np.stack(
        [1 + np.sin(2 * np.pi * way), 3 + 0 * way], 1
    ).ravel()


def network(size: int) -> tuple[simkit.System, np.ndarray]:
    """Neurons, each of which hears all others."""
    weights = jnp.asarray(np.random.default_rng(0).standard_normal((size, size)) / np.sqrt(size))
    return simkit.from_function(lambda t, y, p: p["rate"] * (weights @ jnp.tanh(y) - y), {"rate": 1.0}), np.linspace(
        -1, 1, size
    )


def cost(system: simkit.System, y0: np.ndarray) -> float:
    """CPU seconds of a step."""

    @jax.jit
    def solve(y: jax.Array) -> jax.Array:
        times = jnp.asarray([0.0, 0.1])
        return simkit.simulate(system, y, times, solver="rodas5p", step=simkit.Fixed(STEPS), on_failure="mark").final()

    end, spent = _harness.least_cpu(lambda: solve(jnp.asarray(y0)))
    if spent > 0.5:  # the first call has compiled
        end, spent = _harness.least_cpu(lambda: solve(jnp.asarray(y0)))
    assert bool(jnp.isfinite(end).all())
    return spent / STEPS


def exponent(points: dict[int, float]) -> float:
    """The power of the size with which the cost grows beyond 128 states."""
    sizes, costs = np.log(np.array([pair for pair in points.items() if pair[0] >= BEYOND])).T
    return float(np.polyfit(sizes, costs, 1)[0])


def draw(results: dict[str, dict[int, float]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(7, 4.5), layout="constrained")
    looks = {"chain of cells": ("o-", "#0b5fa5", 1), "all with all": ("s-", "#e07b00", 3)}
    for name, points in results.items():
        mark, colour, power = looks[name]
        sizes, costs = (np.array(x) for x in zip(*points.items(), strict=True))
        place.loglog(
            sizes, 1e3 * costs, mark, color=colour, label=f"{name}: power {exponent(points):.2f} beyond {BEYOND}"
        )
        far = sizes[sizes >= BEYOND]
        allowed = 1e3 * points[int(far[0])] * (far / far[0]) ** power
        place.loglog(far, allowed, "--", color=colour, linewidth=1, label=f"power {power}")
    place.set_xlabel("states")
    place.set_ylabel("CPU time of a step of Rodas5P, ms")
    place.grid(alpha=0.3)
    place.legend()
    figure.savefig(RESULTS.with_suffix(".png"), dpi=110)


def main() -> dict[str, float]:
    simkit.enable_x64()
    results: dict[str, dict[int, float]] = {}
    for name, make in {"chain of cells": chain, "all with all": network}.items():
        results[name] = {size: float(f"{cost(*make(size)):.3g}") for size in SIZES[name]}
        table = [[str(size), f"{1e3 * spent:.3g}"] for size, spent in results[name].items()]
        _harness.print_table(name, ["states", "CPU min a step, ms"], table)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    draw(results)
    return {name.replace(" ", "_"): exponent(points) for name, points in results.items()}


if __name__ == "__main__":
    print(json.dumps(main(), indent=1))
