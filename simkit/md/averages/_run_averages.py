"""Averages over a run, with their errors: what a simulation of particles is done for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..._errors import ArgumentError
from ...core import Trajectory, full_products, traced
from ...engine import with_room_for
from .._particles import Particles
from ..observables import (
    BlockAverage,
    block_average,
    diffusion_coefficient,
    mean_squared_displacement,
    radial_distribution,
)
from ..space._atoms import Atoms
from ..space._units import Units

OUTPUT_DIMENSIONS: Mapping[str, str] = MappingProxyType(
    {
        "kinetic_energy": "energy",
        "potential_energy": "energy",
        "temperature": "temperature",
        "pressure": "pressure",
        "volume": "volume",
        "density": "density",
    }
)
"""The outputs of particles, and their dimensions."""

FEWEST = 8
"""Fewest frames for a blocked error."""


class Averages(eqx.Module):
    """Result of `averages`; numbers are in the units of the edge, such as bar for a pressure in metal units.

    - `times` and `series`: the outputs at all times of the run, by name; `units`, (name, unit) of each.
    - `after`: averages are those of the times from it on.
    - `distance`, `g`, `g_error`, `coordination`: the radial distribution function with its standard error by blocks; None
        where none was asked for.
    - `lag`, `displacement`: the mean squared displacement by time; `diffusion` and `between`, its coefficient and the lags
        whose slope it is; None where none was asked for.

    `average(name)` is the `BlockAverage` of an output, `table()` has a row for each.
    """

    times: Float[Array, " times"]
    series: dict[str, Float[Array, " times"]]
    distance: Any = None
    g: Any = None
    g_error: Any = None
    coordination: Any = None
    lag: Any = None
    displacement: Any = None
    diffusion: Any = None
    after: float = eqx.field(static=True, default=0.0)
    between: tuple[float, float] | None = eqx.field(static=True, default=None)
    units: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())

    @property
    def kept(self) -> Bool[np.ndarray, " times"]:
        """Times that the averages cover."""
        return _from(self.times, self.after)

    @property
    def slope(self) -> float:
        """Slope of the mean squared displacement, 2 d D."""
        inside = (self.lag >= self.between[0]) & (self.lag <= self.between[1])  # pyright: ignore
        return float(
            np.polyfit(np.asarray(self.lag, float)[inside], np.asarray(self.displacement, float)[inside], 1)[0]
        )

    def unit(self, name: str) -> str:
        """The unit of an output, of "length" or "time", as text; "1" in reduced units."""
        return dict(self.units).get(name) or "1"

    def average(self, name: str) -> BlockAverage:
        """The average of an output with its standard error."""
        return block_average(self.series[name][np.flatnonzero(self.kept)])

    def table(self) -> list[dict[str, Any]]:
        """One row an output: `name`, `unit`, `mean`, `error`, `inefficiency` and `converged`."""
        rows = []
        for name in self.series:
            found = self.average(name)
            rows.append(
                {
                    "name": name,
                    "unit": self.unit(name),
                    "mean": float(found.mean),
                    "error": float(found.error),
                    "inefficiency": float(found.inefficiency),
                    "converged": bool(found.converged),
                }
            )
        return rows

    def warnings(self) -> list[str]:
        """Return warnings about the errors; empty if there are none."""
        poor = [f"`{row['name']}`" for row in self.table() if not row["converged"]]
        if not poor:
            return []
        return [
            f"The run is too short for the errors of {', '.join(poor)}: fewer than 16 independent blocks, so that the errors are "
            "larger than these. Simulate longer."
        ]

    def __repr__(self) -> str:
        if traced(self):
            return "Averages(traced)"
        kept = self.kept
        span = f"{int(kept.sum())} times from {float(self.times[kept][0]):g} to {float(self.times[-1]):g}"
        width = max(map(len, self.series))
        lines = [f"Averages over {span}"]
        for row in self.table():
            unit = "" if row["unit"] == "1" else f" {row['unit']}"
            short = "" if row["converged"] else " (too short: the error is larger than this)"
            lines.append(f"  {row['name']:<{width}}  {row['mean']:.6g} +- {row['error']:.2g}{unit}{short}")
        if self.g is not None:
            peak = int(np.argmax(self.g))
            lines.append(f"  g(r) peaks at {float(self.distance[peak]):.4g} with {float(self.g[peak]):.4g}")
        if self.diffusion is not None:
            lines.append(f"  diffusion coefficient {float(self.diffusion):.4g}")
        return "\n".join(lines)


@full_products
def averages(
    system: Particles,
    run: Trajectory,
    *,
    after: float | None = None,
    cutoff: float | None = None,
    bins: int = 100,
    pair: tuple[int, int] | None = None,
    between: tuple[float, float] | None = None,
) -> Averages:
    """Averages over a run with their standard errors by blocks: outputs, the radial distribution function, diffusion.

    **Arguments:**

    - `system`, `run`: the particles, and what `simulate` made of them.
    - `after`: the time from which on averages are taken; what comes before is the way to equilibrium. By default the first.
    - `cutoff`, `bins`, `pair`: as for `radial_distribution`, of which nothing is computed without a cutoff.
    - `between`: the lags between which the mean squared displacement is straight, as for `diffusion_coefficient`; nothing is
        computed without them. Save times must then be equally spaced.

    **Returns:** an `Averages`.

    **Raises:** an `ArgumentError` for an ensemble, for fewer than 8 times, for times that are not equally spaced, and
    whatever the functions of single observables raise.

    **Good values:** save times about half a unit of time apart, some hundred of them; `between` from 1 to a tenth of the run.

    ```python
    import jax
    import numpy as np
    import simkit
    from simkit import md
    start = md.crystal("fcc", 1.68, 3)
    system = md.Particles(md.LennardJones(cutoff=2.2), start.space, dynamics=md.Langevin(1.0, 1.0))
    momentum = md.maxwell_boltzmann(jax.random.key(0), jax.numpy.ones(108), 1.0)
    atoms = md.Atoms(start.position, momentum)
    run = simkit.simulate(system, atoms, np.linspace(0.0, 1.0, 21), step=0.005, key=jax.random.key(1))
    print(md.averages(system, run, after=0.2, cutoff=2.5))
    ```
    """
    _checked_times(run, after)
    return from_outputs(
        system, run, outputs_of(system, run), after=after, cutoff=cutoff, bins=bins, pair=pair, between=between
    )


def from_outputs(
    system: Particles,
    run: Trajectory,
    series: Mapping[str, Array],
    *,
    after: float | None = None,
    cutoff: float | None = None,
    bins: int = 100,
    pair: tuple[int, int] | None = None,
    between: tuple[float, float] | None = None,
) -> Averages:
    """`averages` where the outputs of the frames are at hand already."""
    times = _checked_times(run, after)
    after = float(times[0]) if after is None else float(after)
    kept = np.flatnonzero(_from(times, after))
    units = system.units
    found: dict[str, Any] = {
        name: units.outside(values, OUTPUT_DIMENSIONS[name]) if name in OUTPUT_DIMENSIONS else values
        for name, values in series.items()
    }
    frames = jax.tree.map(lambda x: x[kept], run.ys)
    radial = () if cutoff is None else _radial(system, frames, float(cutoff), bins, pair)
    moved = () if between is None else _moved(system, frames, run.times[kept], between)
    return Averages(
        times=jnp.asarray(run.times),
        series=found,
        after=after,
        between=None if between is None else (float(between[0]), float(between[1])),
        units=_units(units, tuple(found)),
        **dict(zip(("distance", "g", "g_error", "coordination"), radial, strict=False)),
        **dict(zip(("lag", "displacement", "diffusion"), moved, strict=False)),
    )


def outputs_of(system: Particles, run: Trajectory) -> dict[str, Array]:
    """The outputs of every frame of a run, in the numbers of the simulation."""
    first = jax.tree.map(lambda x: x[0], run.ys)
    return _mapped(with_room_for(system.prepared(first), run.lists), run.ys)


@eqx.filter_jit
def _mapped(system: Particles, frames: Atoms) -> dict[str, Array]:
    return jax.lax.map(lambda atoms: system.outputs(0.0, atoms, None), frames)


def _radial(
    system: Particles, frames: Atoms, cutoff: float, bins: int, pair: tuple[int, int] | None
) -> tuple[Array, ...]:
    """g(r) of each frame, and the error of its mean over the frames."""
    found = _distributions(system, frames, None if pair is None else system.species, cutoff, bins, pair)
    return found.distance[0], jnp.mean(found.g, axis=0), _errors(found.g), jnp.mean(found.coordination, axis=0)


@eqx.filter_jit
def _distributions(
    system: Particles, frames: Atoms, species: Array | None, cutoff: float, bins: int, pair: tuple[int, int] | None
) -> Any:
    def one(atoms: Atoms) -> Any:
        space = system.space_of(atoms)
        return radial_distribution(space, atoms.position, cutoff=cutoff, bins=bins, species=species, pair=pair)

    return jax.lax.map(one, frames)


@jax.jit
def _errors(rows: Array) -> Array:
    """The standard error of the mean of every column."""
    return jax.vmap(lambda column: block_average(column).error, in_axes=1)(rows)


_displacements = jax.jit(mean_squared_displacement)


def _moved(system: Particles, frames: Atoms, times: Array, between: tuple[float, float]) -> tuple[Array, ...]:
    """Return the displacement of atoms relative to their centre of mass, by lag, and their diffusion coefficient."""
    apart = np.diff(np.asarray(times, float))
    if np.ptp(apart) > 1e-6 * apart[0]:
        raise ArgumentError(
            "Argument `run` must have equally spaced times for a mean squared displacement, but they are not. Leave out "
            "`between`, or simulate with equally spaced times."
        )
    mass = system.masses(frames.position[0])[None]
    share = (mass / jnp.sum(mass)).astype(frames.position.dtype)
    position = frames.position - jnp.sum(share * frames.position, axis=1, keepdims=True)
    displacement = _displacements(position)
    lag = times - times[0]
    d = system.space.dimensions
    return lag, displacement, diffusion_coefficient(lag, displacement, between=between, dimensions=d)


def _units(units: Units, names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    known = {**{name: OUTPUT_DIMENSIONS.get(name, "") for name in names}, "length": "length", "time": "time"}
    return tuple((name, units.unit(dimension) if dimension else "") for name, dimension in known.items())


def _from(times: ArrayLike, after: float) -> Bool[np.ndarray, " times"]:
    """Select the times that are not before `after`, up to rounding."""
    times = np.asarray(times, float)
    return times >= after - 1e-9 * max(abs(after), float(np.ptp(times)))


def _checked_times(run: Trajectory, after: float | None) -> np.ndarray:
    if np.ndim(run.times) != 1 or not isinstance(run.ys, Atoms):
        raise ArgumentError(
            "Argument `run` must be the trajectory of one system of particles, but is another. Take the averages of each member."
        )
    times = np.asarray(run.times, float)
    count = len(times) if after is None else int(_from(times, after).sum())
    if count < FEWEST:
        raise ArgumentError(
            f"Argument `run` must have at least {FEWEST} times"
            + ("" if after is None else f" from {after:g} on")
            + f", but it has {count}. "
            "Save more often, or let `after` be earlier."
        )
    return times
