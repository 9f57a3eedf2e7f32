"""Averages with their errors, what they are made of, and why they may be believed."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from ..._errors import ArgumentError
from ...core import traced
from .._particles import Particles
from ..observables import block_average
from ..space._atoms import Atoms

FEWEST = 8
"""Fewest frames for a blocked error."""


class Output(eqx.Module):
    """The observable that `system.outputs` gives under this name, such as "pressure"."""

    name: str = eqx.field(static=True)

    def __call__(self, system: Particles, atoms: Atoms) -> Array:
        found = system.outputs(0.0, atoms, None)
        if self.name not in found:
            raise ArgumentError(
                f"Argument `observable` must be a function of (system, atoms) or one of {sorted(found)}, but it is {self.name!r}."
            )
        return found[self.name]


def as_observable(observable: object) -> Callable[[Any, Any], Any]:
    """A function of system and atoms: the one given, or the output of that name."""
    if isinstance(observable, str):
        return Output(observable)
    if not callable(observable):
        raise ArgumentError(
            f"Argument `observable` must be a function of (system, atoms) or the name of an output, but it is {observable!r}."
        )
    return observable


class Trust(eqx.Module):
    """Judgement of the derivative of an average, with its reason."""

    @property
    @abc.abstractmethod
    def good(self) -> Bool[Array, ""]:
        """Tell whether the derivative may be trusted."""

    @property
    @abc.abstractmethod
    def sentence(self) -> str:
        """The reason and, where it may not, the remedy; with concrete numbers only."""


class EnsembleAverage(eqx.Module):
    """An average over frames, differentiable by the numbers of the system.

    - `value`: shaped like the observable.
    - `error`: its standard error by blocks, of the same shape; without a derivative, and NaN for fewer than 8 frames.
    - `series`: what each frame contributes: its mean is `value`, and the mean of its tangent is the tangent of `value`, so
        that the tangent has an error by blocks, too (`sensitivity`).
    - `inefficiency`: how many frames are worth one independent frame, the mean over the numbers of the observable.
    - `converged`: whether most of the errors are of at least 16 independent blocks.
    - `trust`: whether derivatives may be believed (`trust.good`), and a sentence that says why (`trust.sentence`).
    - `method`: how derivatives are taken.
    """

    value: Any
    error: Any
    series: Any
    inefficiency: Array
    converged: Bool[Array, ""]
    trust: Trust
    method: str = eqx.field(static=True)

    @property
    def trusted(self) -> Bool[Array, ""]:
        """Tell whether the derivative may be trusted."""
        return self.trust.good

    def __repr__(self) -> str:
        if traced(self):
            return f"EnsembleAverage(traced, {self.method})"
        rows = [f"  {name}{_both(value, error)}" for name, value, error in _named(self.value, self.error)]
        short = (
            ""
            if bool(self.converged)
            else "\n  The frames are too few or too alike for an error; it is larger than this."
        )
        word = "trusted" if bool(self.trusted) else "NOT trusted"
        return "\n".join([f"Ensemble average, {self.method}", *rows]) + f"{short}\n  {word}: {self.trust.sentence}"


def averaged(series: PyTree, trust: Callable[[Array, Array], Trust], method: str) -> EnsembleAverage:
    """The average of a series, shape (frames, ...) each leaf; `trust` is made of the inefficiency and of `converged`."""
    value = jax.tree.map(lambda x: jnp.mean(x, axis=0), series)
    error, inefficiency, converged = blocked(series)
    return EnsembleAverage(value, error, series, inefficiency, converged, trust(inefficiency, converged), method)


@eqx.filter_jit
def measured(observable: Callable[[Any, Any], Any], system: Particles, frames: Atoms) -> Any:
    """The observable of every frame; reverse mode computes each frame again."""
    return lax.map(jax.checkpoint(lambda atoms: observable(system, atoms)), frames)


def blocked(series: PyTree) -> tuple[Any, Array, Bool[Array, ""]]:
    """Errors by blocks, the mean inefficiency, and whether most of the errors converged; all without derivatives."""
    leaves, structure = jax.tree.flatten(lax.stop_gradient(series))
    frames = leaves[0].shape[0]
    if frames < FEWEST:
        nothing = [jnp.full(leaf.shape[1:], jnp.nan, leaf.dtype) for leaf in leaves]
        return jax.tree.unflatten(structure, nothing), jnp.full((), jnp.nan, leaves[0].dtype), jnp.zeros((), bool)
    columns = jnp.concatenate([leaf.reshape(frames, -1) for leaf in leaves], axis=1)
    errors, inefficiency, converged = _of_columns(columns)
    ends = np.cumsum([leaf[0].size for leaf in leaves])[:-1]
    parts = [part.reshape(leaf.shape[1:]) for part, leaf in zip(jnp.split(errors, ends), leaves, strict=True)]
    return jax.tree.unflatten(structure, parts), inefficiency, converged


@jax.jit  # apart, so that observables of as many numbers share it
def _of_columns(columns: Array) -> tuple[Array, Array, Bool[Array, ""]]:
    found = jax.vmap(block_average, in_axes=1)(columns)
    return found.error, jnp.mean(found.inefficiency), jnp.mean(found.converged.astype(columns.dtype)) > 0.5


def sensitivity(average: Callable[[Any], EnsembleAverage], x: PyTree, direction: PyTree) -> EnsembleAverage:
    r"""The derivative of an average in a direction, with its own error by blocks.

    An estimator of a derivative is the mean of a series as the average is: the tangents of what the frames contribute. Their
    blocks tell its error, which derivatives alone do not.

    **Arguments:**

    - `average`: from `x` to an `EnsembleAverage`.
    - `x`, `direction`: a pytree of floats, and one like it to derive along.

    **Returns:** an `EnsembleAverage` of the derivative: `value`, `error`, `series`, and the trust of the average itself.

    ```python
    import jax, simkit
    from simkit import md
    start = md.crystal("fcc", 1.8, 2)
    fluid = lambda depth: md.Particles(
        md.LennardJones(epsilon=depth, cutoff=1.7, truncation=md.ForceShifted()), start.space, dynamics=md.Langevin(1.5, 1.0)
    )
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jax.numpy.ones(32), 1.5))
    frames = md.sample_ensemble(fluid(1.0), atoms, jax.numpy.linspace(0.0, 3.2, 65), step=0.005, key=jax.random.key(1))
    print(md.sensitivity(lambda depth: frames.average("potential_energy", fluid(depth)), 1.0, 1.0))
    ```
    """
    as_array = lambda a: jnp.asarray(a, jnp.result_type(float)) if isinstance(a, float | int) else a
    x, direction = jax.tree.map(as_array, (x, direction))
    primal, tangent = eqx.filter_jvp(average, (x,), (direction,))
    series = tangent.series
    return averaged(series, lambda inefficiency, converged: primal.trust, f"derivative {primal.method}")


def _both(value: ArrayLike, error: ArrayLike) -> str:
    value, error = np.asarray(value), np.asarray(error)
    if value.ndim == 0:
        return f"{float(value):.6g} +- {float(error):.2g}"
    return f"shape {value.shape}, from {value.min():.4g} to {value.max():.4g}, errors up to {error.max():.2g}"


def _named(value: PyTree, error: PyTree) -> list[tuple[str, Any, Any]]:
    paths = jax.tree_util.tree_flatten_with_path(value)[0]
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
    rows = zip(names, (leaf for _, leaf in paths), jax.tree.leaves(error), strict=True)
    return [(f"{name}: " if name else "", leaf, wrong) for name, leaf, wrong in rows]
