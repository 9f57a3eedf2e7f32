"""Free energies of many states from samples of all of them (MBAR)."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..._errors import ArgumentError
from ...core import full_products, traced
from ...linear import solve
from ._connection import SHARED, weakest_cut
from ._estimate import Estimate, as_floats, difference_of, errors_of
from ._mixture import Mixture, first_guess, found
from ._segments import covariance_of_sum, inefficiencies, of_state


class FreeEnergies(eqx.Module):
    r"""Free energies of states, over $k_B T$, and what the samples of all of them tell of these and of other states.

    - `values`: $f_k - f_0$, shape (states,).
    - `covariance`: their covariance; of state 0 it is zero.
    - `overlap`: $O_{ij}$, the probability that a sample of state i is taken for one of state j by where it is, on average; rows
        add up to 1. Neighbours should share 3 % at least.
    - `shared`: how many samples the two sides of the cut with the least overlap share.
    - `inefficiency`: how many samples of each state are worth one independent sample; 1 for a state without samples.
    - `converged`: whether each state has at least 16 independent blocks of samples.
    - `log_weights`: logarithms of the weights of the samples in each state, shape (states, samples), before `worth`, which is
        how many independent samples each sample is.
    """

    values: Float[Array, " states"]
    covariance: Float[Array, "states states"]
    overlap: Float[Array, "states states"]
    shared: Float[Array, ""]
    inefficiency: Float[Array, " states"]
    converged: Bool[Array, ""]
    log_weights: Float[Array, "states samples"]
    log_density: Float[Array, " samples"]
    worth: Float[Array, " samples"]
    curvature: Float[Array, "sampled sampled"]
    counts: tuple[int, ...] = eqx.field(static=True)
    by_blocks: bool = eqx.field(static=True)

    @property
    def errors(self) -> Float[Array, " states"]:
        """Standard errors of `values`."""
        return errors_of(self.covariance)

    def difference(self, first: int, second: int) -> Estimate:
        """The free energy of the second state less that of the first, over $k_B T$."""
        return difference_of(self.values, self.covariance, first, second)

    @full_products
    def weights(self, reduced_energy: ArrayLike = 0.0) -> Float[Array, " samples"]:
        """Weights of the samples in any state, which add up to 1.

        **Arguments:** `reduced_energy`: that of the state at every sample, on the scale of those of the other states. By default 0:
        the state that lacks all that differs between the states, such as umbrellas.
        """
        return jax.nn.softmax(self._logs(reduced_energy))

    @full_products
    def free_energy(self, reduced_energy: ArrayLike = 0.0) -> Estimate:
        """The free energy of any state, relative to state 0 and over $k_B T$; the argument is that of `weights`."""
        value = -jax.nn.logsumexp(self._logs(reduced_energy))
        away = self.weights(reduced_energy) / self.worth - jnp.exp(self.log_weights[0])
        return Estimate(value, jnp.sqrt(self.covariance_of(away[:, None])[0, 0]))

    @full_products
    def average(self, values: ArrayLike, reduced_energy: ArrayLike = 0.0) -> Estimate:
        """The average of a quantity in any state, with its standard error.

        **Arguments:**

        - `values`: the quantity at every sample, shape (samples, ...), in the order of the reduced energies.
        - `reduced_energy`: as of `weights`.

        **Returns:** an `Estimate`. Its error is by blocks of what each sample contributes, so that it holds for correlated samples,
        and the errors of the free energies are in it; where inefficiencies were given it is that of so many independent samples.
        """
        values = as_floats("values", values)
        samples = self.worth.shape[0]
        if values.ndim == 0 or values.shape[0] != samples:
            raise ArgumentError(
                f"Argument `values` must have one row for each of the {samples} samples, but its shape is {values.shape}. Measure "
                "the quantity at the samples of all states, in the order of the reduced energies."
            )
        weights = self.weights(reduced_energy)
        rows = values.reshape(samples, -1).astype(weights.dtype)
        mean = weights @ rows
        away = (weights / self.worth)[:, None] * (rows - mean[None])
        one = lambda column: self.covariance_of(column[:, None])[0, 0]
        errors = jnp.sqrt(lax.map(one, away.T))
        return Estimate(mean.reshape(values.shape[1:]), errors.reshape(values.shape[1:]))

    @full_products
    def covariance_of(self, away: Float[Array, "samples columns"]) -> Float[Array, "columns columns"]:
        """The covariance of estimates whose changes by the weights of the samples are `away`: by blocks of what each sample
        contributes, or where inefficiencies were given as of so many independent samples."""
        shares, by_worth = self._shares(), self.worth[:, None] * away
        through = solve(self.curvature, shares @ by_worth)
        if self.by_blocks:
            return lax.stop_gradient(covariance_of_sum(away + shares.T @ through, self.counts, self.worth))
        return lax.stop_gradient(away.T @ by_worth + (shares @ by_worth).T @ through)

    def _logs(self, reduced_energy: ArrayLike) -> Array:
        energy = as_floats("reduced_energy", reduced_energy).astype(self.log_density.dtype)
        if energy.shape not in ((), self.log_density.shape):
            raise ArgumentError(
                f"Argument `reduced_energy` must be one number for each of the {self.log_density.shape[0]} samples, but its "
                f"shape is {energy.shape}. Evaluate the state at the samples of all states."
            )
        return jnp.log(self.worth) - energy - self.log_density

    def _shares(self) -> Float[Array, "sampled samples"]:
        """The probability that a sample came from each of the sampled states."""
        sampled = np.flatnonzero(self.counts)
        sizes = jnp.asarray(np.array(self.counts)[sampled], self.worth.dtype) / self.inefficiency[sampled]
        return jnp.exp(self.log_weights[sampled] + jnp.log(sizes)[:, None])

    def __repr__(self) -> str:
        if traced(self):
            return "FreeEnergies(traced)"
        rows = zip(np.asarray(self.values), np.asarray(self.errors), self.counts, strict=True)
        lines = [f"  {k:>3}  {f:.6g} +- {e:.2g}  {count} samples" for k, (f, e, count) in enumerate(rows)]
        short = "" if bool(self.converged) else "\n  Too few independent samples: errors are larger than these."
        worst = float(np.max(np.asarray(self.inefficiency)))
        head = f"Free energies of {len(lines)} states over k_B T, up to {worst:.3g} samples worth one"
        return "\n".join([head, *lines]) + short


@full_products
def mbar(
    reduced_energies: ArrayLike,
    counts: ArrayLike | Sequence[int],
    *,
    inefficiency: ArrayLike | None = None,
) -> FreeEnergies:
    r"""Free energies of K states from samples of all of them: the multistate Bennett acceptance ratio.

    $$f_k = -\ln \sum_n \frac{e^{-u_k(x_n)}}{\sum_j N_j\, e^{f_j - u_j(x_n)}}$$

    with reduced energies $u_k = (U_k + P_k V) / k_B T_k$. Among estimators that are unbiased for many samples it has the least
    variance. A sample that is correlated with those before it counts as a part of one, $1 / g_k$, with the inefficiency $g_k$ of
    its state, and $N_k$ is the number of independent samples.

    **Arguments:**

    - `reduced_energies`: $u_k(x_n)$ of every sample in every state, shape (states, samples); samples of state 0 first, then those
        of state 1, and so on, each in the order of time.
    - `counts`: how many of the samples are of each state, whole numbers that are known when this is called. 0 for a state that
        was not sampled.
    - `inefficiency`: how many samples are worth one independent one, a number or one a state; 1 for independent samples. By
        default it is measured, by blocks of the probabilities that samples are of their own states.

    **Good values:** states so near that `overlap` of neighbours is 3 % or more; a hundred independent samples of each.

    **Returns:** `FreeEnergies`. Their derivatives by the reduced energies are those of the free energies of the states, averages:
    $\partial f_k / \partial \theta = \langle \partial u_k / \partial \theta \rangle_k$, and so to any order. The mixture in the
    denominator is that of the states the samples were drawn from, and stays. Derivatives of the estimate as a function of numbers,
    through the denominator, would be others: they take samples for what they would be had they been drawn anew.

    **Raises:** an `ArgumentError` for energies that are not finite, counts that do not belong to them, and states that do not
    overlap, which it names: those that share less than one sample with all others. Inside `jit` the free energies are NaN then.

    **Source:** Shirts and Chodera (2008), Journal of Chemical Physics 129:124105, doi:10.1063/1.2978177; many samples of several
    states as one mixture: Kong and others (2003), doi:10.1111/1467-9868.00404.

    ```python
    import jax
    import jax.numpy as jnp
    from simkit import md
    stiffness = jnp.array([1.0, 2.0, 4.0])
    samples = (jax.random.normal(jax.random.key(0), (3, 500)) / jnp.sqrt(stiffness)[:, None]).ravel()
    print(md.mbar(0.5 * stiffness[:, None] * samples[None] ** 2, [500, 500, 500], inefficiency=1.0))
    ```
    """
    energies = as_floats("reduced_energies", reduced_energies)
    sizes = _checked(energies, counts)
    given = None if inefficiency is None else _one_a_state(inefficiency, len(sizes), energies.dtype)
    result = _solved(energies, given, sizes)
    if not traced(result):
        _check_overlap(result, sizes)
    return result


@eqx.filter_jit
def _solved(energies: Array, given: Array | None, counts: tuple[int, ...]) -> FreeEnergies:
    # What is common to all states says nothing, but costs digits.
    common = lax.stop_gradient(jnp.min(energies, axis=0))
    energies, converged, by_blocks = energies - common[None], jnp.ones((), bool), given is None
    if given is None:
        independent = jnp.ones(len(counts), energies.dtype)
        first = _with_inefficiency(lax.stop_gradient(energies), independent, converged, counts, by_blocks)
        sizes = jnp.asarray(counts, energies.dtype)
        given, converged = inefficiencies(jnp.exp(first.log_weights) * sizes[:, None], counts)
    result = _with_inefficiency(energies, given, converged, counts, by_blocks)
    return eqx.tree_at(lambda r: r.log_density, result, result.log_density - common)


def _with_inefficiency(
    energies: Array, g: Array, converged: Array, counts: tuple[int, ...], by_blocks: bool
) -> FreeEnergies:
    sampled, states = np.flatnonzero(counts), len(counts)
    worth = (1 / g)[of_state(counts)]
    sizes = jnp.asarray(np.array(counts)[sampled], energies.dtype) / g[sampled]
    mixture = Mixture(lax.stop_gradient(energies[sampled]), worth, sizes)
    f, good = found(mixture, first_guess(mixture.energies, tuple(count for count in counts if count)))
    density = mixture.log_density(f)
    logs = jnp.log(worth) - density
    raw = -jax.nn.logsumexp(logs[None] - energies, axis=1)
    log_weights = raw[:, None] - energies - density[None]
    still = lax.stop_gradient(log_weights)
    shares = jnp.exp(still[sampled]) * sizes[:, None]
    shared = (shares * worth[None]) @ shares.T
    curvature = mixture.curvature(f)
    across, _ = weakest_cut(lax.stop_gradient(shared), sizes)
    away = jnp.exp(still) - jnp.exp(still[:1])
    through = shares @ (worth[:, None] * away.T)
    covariance = (away * worth[None]) @ away.T + through.T @ solve(curvature, through)
    usable = good & (across >= SHARED)
    return FreeEnergies(
        values=jnp.where(usable, raw - raw[0], jnp.nan),
        covariance=lax.stop_gradient(jnp.where(usable, covariance, jnp.nan)),
        overlap=_square((jnp.exp(still) * worth[None]) @ shares.T, sampled, states),
        shared=across,
        inefficiency=g,
        converged=converged,
        log_weights=jnp.where(usable, log_weights, jnp.nan),
        log_density=jnp.where(usable, density - raw[0], jnp.nan),
        worth=worth,
        curvature=lax.stop_gradient(curvature),
        counts=counts,
        by_blocks=by_blocks,
    )


def _square(overlap: Array, sampled: np.ndarray, states: int) -> Array:
    """Columns of zeros for states without samples."""
    return jnp.zeros((states, states), overlap.dtype).at[:, sampled].set(overlap)


def _one_a_state(inefficiency: ArrayLike, states: int, dtype: Any) -> Array:
    g = as_floats("inefficiency", inefficiency).astype(dtype)
    if g.shape not in ((), (states,)) or (not traced(g) and not bool(jnp.all(g >= 1))):
        raise ArgumentError(
            f"Argument `inefficiency` must be one number, or one for each of the {states} states, of at least 1, but it is "
            f"{inefficiency}. Leave it out to have it measured."
        )
    return lax.stop_gradient(jnp.broadcast_to(g, (states,)))


def _checked(energies: Array, counts: Any) -> tuple[int, ...]:
    """The counts as whole numbers, once they belong to the energies and these are finite."""
    if energies.ndim != 2:
        raise ArgumentError(
            f"Argument `reduced_energies` must have the shape (states, samples), but its shape is {energies.shape}."
        )
    if traced(counts):
        raise ArgumentError("Argument `counts` must be known when the program is traced, but is traced. Give a list.")
    states, samples = energies.shape
    sizes = np.asarray(counts)
    numbers = sizes.ndim == 1 and sizes.dtype.kind in "iuf"
    whole = numbers and bool(np.all(sizes == np.floor(sizes)) and np.all(sizes >= 0))
    if not whole or len(sizes) != states:
        raise ArgumentError(
            f"Argument `counts` must be one whole number of samples for each of the {states} states, but it is {counts}."
        )
    if int(sizes.sum()) != samples or samples == 0:
        raise ArgumentError(
            f"Argument `counts` must add up to the {samples} samples of the reduced energies and not be all 0, but the sum is "
            f"{int(sizes.sum())}. Give the energies of every sample in every state."
        )
    if not traced(energies):
        wrong = np.argwhere(~np.isfinite(np.asarray(energies)))
        if len(wrong):
            state, sample = wrong[0]
            raise ArgumentError(
                f"Argument `reduced_energies` must be finite, but that of sample {sample} in state {state} (from 0) is "
                f"{float(energies[state, sample])}, and {len(wrong) - 1} more are not finite. Where atoms overlap take a "
                "soft core, or a large number such as 1e6."
            )
    return tuple(int(size) for size in sizes)


def _check_overlap(result: FreeEnergies, counts: tuple[int, ...]) -> None:
    if float(result.shared) >= SHARED and bool(jnp.all(jnp.isfinite(result.values))):
        return
    sampled = np.flatnonzero(counts)
    sizes = jnp.asarray(np.array(counts)[sampled], result.worth.dtype) / result.inefficiency[sampled]
    shared = sizes[:, None] * result.overlap[sampled][:, sampled]
    across, side = weakest_cut(shared, sizes)
    inside = np.asarray(side)
    groups = [", ".join(str(k) for k in sampled[mask]) for mask in (inside, ~inside)]
    raise ArgumentError(
        f"Argument `reduced_energies` must be of states that overlap, but the states {groups[0]} share {float(across):.2g} "
        f"independent samples with the states {groups[1]} (from 0), too few for their difference. Put states in between, or sample "
        "longer."
    )
