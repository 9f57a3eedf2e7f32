"""Well-tempered metadynamics on a grid of one or two collective variables."""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..._doors import check_count, check_function, check_key, check_kind, shown
from ..._errors import ArgumentError
from ...core import full_products, traced
from ...engine import Fixed, resolve, simulate
from .._particles import Particles
from ..averages._canonical import thermal_energy
from ..averages._lanes import check_atoms, check_status, in_lanes
from ..space._atoms import Atoms
from ._bias import biased, in_cell
from ._estimate import as_floats
from ._grid import GridBias
from ._mbar import FreeEnergies, mbar
from ._profile import Profile, free_energy_profile
from ._segments import inefficiencies

FEWEST_PASSAGES = 20
"""Passages of all walkers together below which errors by blocks are too small. In 96 runs each of one and of four
walkers, wells of 5 and 9 k_B T, differences of wells had root mean squares of 1.03 and 1.49 predicted errors where there were 20
and more, of 0.93, 1.38 and 1.69 from 10 to 20, and of 1.7 to 16 below."""


class Metadynamics(eqx.Module):
    r"""The bias that walkers made together.

    - `bias`: the final `GridBias`, to go on from, or for a run of its own.
    - `values`: the variables at each deposit, shape (deposits, walkers, d).
    - `heights`: of the Gaussians, shape (deposits, walkers): they fall as the bias converges.
    - `earlier`: the free energy after three quarters of the deposits.
    - `free_energy`: on the grid, over $k_B T$, with minimum 0, as the bias has it.
    - `frames`: the variables under the final bias, which no longer grows, shape (frozen, walkers, d).
    - `temperature`: $k_B T$.
    - `final`: the last states, with a leading axis of walkers.
    """

    bias: GridBias
    free_energy: Float[Array, "*grid"]
    earlier: Float[Array, "*grid"]
    values: Float[Array, "deposits walkers d"]
    heights: Float[Array, "deposits walkers"]
    frames: Float[Array, "frozen walkers d"]
    temperature: Float[Array, ""]
    final: Atoms

    @property
    def samples(self) -> Float[Array, "samples d"]:
        """The variables of all frames, walker after walker."""
        return jnp.swapaxes(self.frames, 0, 1).reshape(-1, self.frames.shape[2])

    @property
    def passages(self) -> Int[Array, ""]:
        """Number of passages of walkers from one outer third of what all of them visited to the other, among the frames; of two
        variables, in the one in which they did so least. A periodic one begins behind its widest stretch where nobody was, and
        steps over that are no passages."""
        every = jnp.concatenate([self.values, self.frames]).reshape(-1, self.frames.shape[2])
        begin, period = self._beginnings(every)

        def wrapped(x: Array) -> Array:
            first, length = (jnp.expand_dims(v, range(x.ndim - 1)) for v in (begin, period))
            around = jnp.isfinite(length)
            return jnp.where(around, jnp.mod(x - first, jnp.where(around, length, 1)), x)

        every, place = wrapped(every), wrapped(self.frames)
        low, high = jnp.min(every, axis=0), jnp.max(every, axis=0)
        third = (high - low) / 3
        above, below = place > (high - third)[None, None], place < (low + third)[None, None]
        side = above.astype(jnp.int32) - below.astype(jnp.int32)
        # In the middle, the third that a walker came from.
        came = lax.associative_scan(lambda a, b: jnp.where(b == 0, a, b), side, axis=0)
        over = jnp.abs(place[1:] - place[:-1]) > 0.5 * period[None, None]
        passed = (came[1:] * came[:-1] < 0) & ~over
        return jnp.min(jnp.sum(passed, axis=(0, 1)), initial=side.size)

    def _beginnings(self, every: Float[Array, "samples d"]) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """Starts of periodic variables, behind their widest stretch without samples, and their periods; infinite of others."""
        begins, periods = [], []
        for k in range(every.shape[1]):
            lower, upper = self.bias.lower[k], self.bias.upper[k]
            around = self.bias.periodic[k]
            period = jnp.where(around, upper - lower, jnp.inf).astype(every.dtype)
            ordered = jnp.sort(jnp.mod(every[:, k] - lower, upper - lower))
            gaps = jnp.diff(ordered, prepend=ordered[-1:] - (upper - lower))
            begins.append(jnp.where(around, lower + ordered[jnp.argmax(gaps)], 0).astype(every.dtype))
            periods.append(period)
        return jnp.stack(begins), jnp.stack(periods)

    @full_products
    def free_energies(self, *, inefficiency: ArrayLike | None = None) -> FreeEnergies:
        """The frames under the final bias as samples of one state, walker after walker.

        To its averages an energy of 0 is the system without the bias. `average(...)` of what is true or false of `samples` is its
        probability, with an error. Fewer than twenty `passages` are told by a warning.

        **Raises:** an `ArgumentError` where `metadynamics` was called without `frozen`.
        """
        frozen, walkers, _ = self.frames.shape
        if frozen < 2:
            raise ArgumentError(
                "There are no frames under a bias that stays. Call `metadynamics` with `frozen=500` or more."
            )
        passages = self.passages
        if inefficiency is None and not traced(passages) and int(passages) < FEWEST_PASSAGES:
            warnings.warn(
                f"Only {int(passages)} passages from one end of the variable to the other are in the frames under the final bias. "
                f"Below {FEWEST_PASSAGES}, errors are too small, some of them by far. Give more `frozen`, or more `deposits`.",
                stacklevel=2,
            )
        energies, counts = jax.vmap(self.bias.value)(self.samples) / self.temperature, (walkers * frozen,)
        if inefficiency is not None:
            return mbar(energies[None], counts, inefficiency=inefficiency)
        # Of one state all frames have the same probability, which does not tell how fast they change; weights without the bias do.
        weights = mbar(energies[None], counts, inefficiency=1.0).weights()
        measured, converged = inefficiencies(lax.stop_gradient(weights)[None] * len(energies), counts)
        found = mbar(energies[None], counts, inefficiency=measured)
        return dataclasses.replace(found, by_blocks=True, converged=converged)

    def profile(self, edges: ArrayLike | Sequence[float], *, inefficiency: ArrayLike | None = None) -> Profile:
        """The free-energy profile along one variable, from the frames under the final bias (`free_energy_profile`)."""
        if self.frames.shape[2] != 1:
            raise ArgumentError(
                "A profile is along one variable, but there are two. Use `free_energies().average(...)` for bins of a surface."
            )
        return free_energy_profile(self.free_energies(inefficiency=inefficiency), self.samples[:, 0], edges)

    def __repr__(self) -> str:
        if traced(self):
            return "Metadynamics(traced)"
        deposits, walkers = self.heights.shape
        share = float(jnp.mean(self.heights[-1]) / jnp.mean(self.heights[0]))
        after = (
            f"; {len(self.frames)} frames under the final bias, {int(self.passages)} passages"
            if len(self.frames)
            else ""
        )
        return f"Metadynamics: {walkers} walkers, {deposits} deposits each; the last are {share:.2g} as high as the first{after}"


@full_products
def metadynamics(
    system: Particles,
    y0: Atoms,
    *,
    cv: Callable[[Atoms], Any],
    lower: ArrayLike | Sequence[float],
    upper: ArrayLike | Sequence[float],
    points: int,
    width: ArrayLike | Sequence[float],
    height: float,
    bias_factor: float,
    deposits: int,
    duration: float,
    step: float | Fixed,
    key: PRNGKeyArray,
    start: GridBias | None = None,
    periodic: bool | Sequence[bool] = False,
    frozen: int = 0,
) -> Metadynamics:
    r"""Well-tempered metadynamics: Gaussians fill the wells that a system has been in.

    After each stretch of `duration` every walker adds a Gaussian at the value s of its variables, of the height
    $w\, e^{-V(s) / (\gamma - 1) k_B T}$ with the bias V there so far, so that V tends to $-(1 - 1/\gamma) F(s)$ and the free
    energy is $F = -\frac{\gamma}{\gamma - 1} V$. It has no error bar, and lags behind what walkers see. After `frozen` further
    stretches under the final bias their frames, weighted by $e^{V / k_B T}$, give free energies without either: exact for long
    runs whatever the bias is, with standard errors.

    **Arguments:**

    - `system`: with dynamics of the canonical ensemble.
    - `y0`: one start, or several walkers that share the bias, with a leading axis.
    - `cv`: from `Atoms` to one number or an array of two, as of `Bias`.
    - `lower`, `upper`, `points`: of the grid; numbers, or one a variable; `points` along each of them. The grid must reach
        beyond the values of interest: the bias is level from its edge on.
    - `width`: of the Gaussians, a number or one a variable; `height`: w, an energy.
    - `bias_factor`: $\gamma$, larger than 1: barriers shrink by as much.
    - `deposits`, `duration`: how many stretches, and the time of each; `step`: as of `simulate`.
    - `start`: the bias of an earlier run, to go on from it.
    - `periodic`: True, or one a variable, for those that are the same at `upper` as at `lower`: angles from $-\pi$ to $\pi$.
    - `frozen`: how many stretches follow under the final bias, for `profile` and `free_energies` of the result.

    **Good values:** width a third of the width of a well, and at least twice the distance of grid points; height a fifth of
    $k_B T$ or less; bias factor the highest barrier over some $3 k_B T$; a stretch as long as the variable is correlated in a well.
    `frozen` as many as `deposits`: enough that walkers together make twenty `passages` between the wells, better a hundred.
    Walkers may all begin in one well, if there are passages among the deposits.

    **Returns:** `Metadynamics`, whose `profile(edges)` has errors. Those of the bias itself are seen by other keys: `jax.vmap`.

    **Raises:** an `ArgumentError` for dynamics of another ensemble, and Gaussians that the grid cannot hold.

    **Source:** Barducci, Bussi and Parrinello (2008), Physical Review Letters 100:020603, doi:10.1103/PhysRevLett.100.020603;
    several walkers: Raiteri and others (2006), doi:10.1021/jp054359r.

    ```python
    import jax
    import jax.numpy as jnp
    from simkit import md
    well = md.ExternalFunction(lambda position, species, charge: 5.0 * (position[:, 0] ** 2 - 1.0) ** 2 + position[:, 1] ** 2)
    particle = md.Particles(well, md.OpenSpace(2), dynamics=md.Langevin(1.0, 2.0))
    start = md.Atoms(jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2)))
    print(
        md.metadynamics(
            particle, start, cv=lambda atoms: atoms.position[0, 0], lower=-2.0, upper=2.0, points=41, width=0.2, height=0.3,
            bias_factor=5.0, deposits=200, duration=0.5, step=0.05, key=jax.random.key(0), frozen=500,
        ).profile(jnp.linspace(-1.4, 1.4, 8))
    )
    ```
    """
    check_kind("system", system, Particles, "particles", "Make them: `md.Particles(potential, space, dynamics=...)`.")
    check_function("cv", cv, ("atoms",))
    check_key(key, needed=True)
    check_count("deposits", deposits)
    check_count("points", points, 4)
    check_count("frozen", frozen, 0)
    thermal = thermal_energy(system)
    check_atoms(y0)
    walkers = y0.position.shape[0] if y0.position.ndim == 3 else 1
    starts = in_lanes(y0, walkers, "walkers")
    first = jax.tree.map(lambda x: x[0], starts)
    bias = _empty(system, first, cv, lower, upper, points, periodic) if start is None else start
    wide = jnp.broadcast_to(as_floats("width", width), bias.lower.shape).astype(bias.lower.dtype)
    spacing = bias.spacing()
    if not bias_factor > 1:
        raise ArgumentError(f"Argument `bias_factor` must be larger than 1, but it is {bias_factor}.")
    if not traced(wide, spacing) and bool(jnp.any(wide < spacing)):
        raise ArgumentError(
            f"Argument `width` must be at least the distance of grid points, {spacing.tolist()}, but it is {wide.tolist()}. "
            "Give more `points` or wider Gaussians."
        )
    ready = biased(system, bias).prepared(first)
    times = (0.0, float(duration))
    fixed = resolve(ready, first, times, step=step).step
    scale = jnp.asarray(thermal).astype(bias.lower.dtype)
    numbers = wide, jnp.asarray(height, scale.dtype), jnp.asarray(bias_factor, scale.dtype), scale
    found = _filled(ready, system.potential, bias, starts, key, times, fixed, (deposits, frozen), numbers)
    if not traced(found[1]):
        check_status(found[1], "walker")
    return found[0]


def _empty(
    system: Particles,
    first: Atoms,
    cv: Callable[[Atoms], Any],
    lower: Any,
    upper: Any,
    points: int,
    periodic: bool | Sequence[bool],
) -> GridBias:
    shape = jax.eval_shape(lambda: jnp.atleast_1d(jnp.asarray(cv(in_cell(first, system.space))))).shape
    if shape not in ((1,), (2,)):
        raise ArgumentError(
            f"Argument `cv` must return one number or an array of two, but its result has the shape {shape}."
        )
    dtype, here = (
        first.position.dtype,
        None if traced(first) else jnp.atleast_1d(jnp.asarray(cv(in_cell(first, system.space)))),
    )
    ends = [
        jnp.broadcast_to(as_floats(name, end), shape).astype(dtype)
        for name, end in (("lower", lower), ("upper", upper))
    ]
    if not traced(ends) and not bool(jnp.all(ends[0] < ends[1])):
        raise ArgumentError(f"Argument `lower` must be less than `upper`, but they are {lower} and {upper}.")
    around = np.asarray(periodic)
    if around.dtype != bool or around.shape not in ((), shape):
        raise ArgumentError(
            f"Argument `periodic` must be True or False, or one of them for each of the {shape[0]} variables, but it is "
            f"{shown(periodic)}."
        )
    wraps = tuple(bool(one) for one in np.broadcast_to(around, shape))
    inside = lambda here: (here >= ends[0]) & (here <= ends[1]) | jnp.asarray(wraps)
    if here is not None and not traced(ends, here) and not bool(jnp.all(inside(here))):
        raise ArgumentError(
            f"Argument `y0` must begin inside the grid, from {lower} to {upper}, but its `cv` is {here.tolist()}. Move the grid or "
            "the atoms."
        )
    return GridBias(cv, jnp.zeros((points,) * shape[0], dtype), *ends, periodic=wraps)


@eqx.filter_jit
def _filled(
    ready: Particles,
    potential: Any,
    bias: GridBias,
    starts: Atoms,
    key: Array,
    times: tuple[float, float],
    step: Any,
    stretches: tuple[int, int],
    numbers: tuple[Array, Array, Array, Array],
) -> tuple[Metadynamics, Array]:
    width, height, factor, thermal = numbers
    walkers, axes = starts.position.shape[0], bias.coefficients.ndim
    deposits, frozen = stretches
    grown = lambda coefficients: eqx.tree_at(lambda b: b.coefficients, bias, coefficients)

    def moved(bias: GridBias, atoms: Atoms, key: Array) -> tuple[Atoms, Array, Array]:
        system = dataclasses.replace(ready, potential=potential + bias)
        run = simulate(system, atoms, times, step=step, key=key, on_failure="mark")
        last = run.final()
        return last, jnp.atleast_1d(jnp.asarray(bias.cv(in_cell(last, ready.space)))), jnp.asarray(run.status)

    def along(k: int, place: Array) -> Array:
        away = bias.grid(k) - place
        if bias.periodic[k]:  # the nearest image and those on both sides of it
            period = bias.upper[k] - bias.lower[k]
            images = period * (jnp.arange(-1.0, 2.0, dtype=away.dtype)[:, None] - jnp.round(away / period)[None])
            return jnp.sum(jnp.exp(-0.5 * ((away[None] + images) / width[k]) ** 2), axis=0)
        return jnp.exp(-0.5 * (away / width[k]) ** 2)

    def gaussian(place: Array) -> Array:
        rows = [along(k, place[k]) for k in range(axes)]
        return rows[0] if axes == 1 else rows[0][:, None] * rows[1][None]

    def stretch(carry: tuple[Atoms, Array, Array], given: tuple[Array, Array]) -> tuple[Any, Any]:
        atoms, coefficients, before = carry
        key, count = given
        now = grown(coefficients)
        atoms, place, status = jax.vmap(lambda a, k: moved(now, a, k))(atoms, jax.random.split(key, walkers))
        size = height * jnp.exp(-jax.vmap(now.value)(place) / ((factor - 1) * thermal))
        size = jnp.where(count < deposits, size, 0)
        added = jnp.tensordot(size, jax.vmap(gaussian)(place), axes=1)
        before = jnp.where(count == (3 * deposits) // 4, coefficients, before)
        return (atoms, coefficients + added, before), (place, size, status)

    def free_energy(coefficients: Array) -> Array:
        found = -(factor / (factor - 1)) * grown(coefficients).values() / thermal
        return found - jnp.min(found)

    keys = jnp.concatenate([jax.random.split(key, deposits), jax.random.split(jax.random.fold_in(key, 1), frozen)])
    begun = jax.vmap(ready.encode)(starts), bias.coefficients, bias.coefficients
    given = keys, jnp.arange(deposits + frozen, dtype=jnp.int32)
    (final, coefficients, before), (places, sizes, status) = lax.scan(stretch, begun, given)
    result = Metadynamics(
        bias=grown(coefficients),
        free_energy=free_energy(coefficients),
        earlier=free_energy(before),
        values=places[:deposits],
        heights=sizes[:deposits],
        frames=places[deposits:],
        temperature=thermal,
        final=final,
    )
    still = lambda x: lax.stop_gradient(x) if eqx.is_array(x) else x
    return jax.tree.map(still, result), jnp.max(status, axis=0)
