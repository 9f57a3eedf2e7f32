"""Dependence between priors: Gaussian copulas."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._doors import shown
from .._errors import ArgumentError, check_known
from ..core import as_float_array, traced
from ._field_prior import AbstractFieldPrior
from ._free import Unknown
from ._prior import StoredPrior, inverted


class GaussianCopula(eqx.Module):
    r"""Correlation between the priors of some unknowns, each of which keeps its own (Sklar's theorem).

    $$p(x) = \prod_i p_i(x_i)\, c(z), \qquad z_i = \Phi^{-1}(F_i(x_i)), \qquad
    \log c = -\tfrac12 \log\det R - \tfrac12 z^T (R^{-1} - I) z$$

    With normal priors this is the multivariate normal distribution whose correlations are R, with log-normal ones that of the
    logarithms. Given to `Problem(..., dependence=...)`.

    **Arguments:**

    - `names`: two or more unknowns, single numbers, each with a prior of its own.
    - `correlation`: R, a symmetric positive definite matrix with ones on its diagonal, in the order of `names`; a number for the
        same correlation of all pairs. It is that of the normal scores z: of priors that are neither normal nor log-normal not quite
        their own.

    Where F is 0 or 1 to rounding, z is cut off: beyond 8 standard deviations, 5 in single precision. Normal and log-normal priors
    have no such limit.

    **Good values:** correlations of earlier estimates, such as `FitResult.correlation`, between -0.95 and 0.95.

    **Raises:** an `ArgumentError` for a matrix that is no correlation, or for names that are given twice.

    **Reference:** Nelsen (2006), An Introduction to Copulas, doi:10.1007/0-387-28678-0.

    ```python
    import simkit

    copula = simkit.GaussianCopula(("growth", "decay"), 0.8)
    assert copula.correlation.shape == (2, 2)
    ```
    """

    correlation: Float[Array, "names names"]
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, names: Sequence[str], correlation: ArrayLike | Sequence[Any]):
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise ArgumentError(
                f'Argument `names` must hold the names of unknowns, such as `("growth", "decay")`, but it is {shown(names)}.'
            )
        self.names = tuple(names)
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise ArgumentError(f"Argument `names` must hold two or more different unknowns, but it is {self.names}.")
        given = correlation if hasattr(correlation, "dtype") else np.asarray(correlation, float)
        self.correlation = _matrix(len(self.names), as_float_array(given))


def _matrix(size: int, given: Array) -> Array:
    """A correlation matrix, checked where its numbers are known."""
    if given.ndim == 0:
        given = jnp.where(np.eye(size, dtype=bool), jnp.ones((), given.dtype), given)
    if given.shape != (size, size):
        raise ArgumentError(
            f"Argument `correlation` must be a number or a matrix of shape {(size, size)}, but its shape is {given.shape}."
        )
    if traced(given):
        return given
    known = np.asarray(given, float)
    tolerance = 8 * np.finfo(given.dtype).eps
    if not (np.abs(known - known.T) <= tolerance).all() or not (np.abs(np.diag(known) - 1) <= tolerance).all():
        raise ArgumentError(
            f"Argument `correlation` must be symmetric, with ones on its diagonal, but it is {known.tolist()}."
        )
    least = np.linalg.eigvalsh(known)[0]
    if not least > size * np.finfo(given.dtype).eps:
        raise ArgumentError(
            "Argument `correlation` must be positive definite, but its least eigenvalue is "
            f"{least:.3g}: no numbers have these correlations at once."
        )
    return given


class Joint(eqx.Module):
    """A copula on the free numbers of a problem.

    - `root`: L, the lower Cholesky factor of the correlation matrix.
    - `places`: of its members among all free numbers.
    """

    root: Float[Array, "names names"]
    names: tuple[str, ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)

    def log_density(self, z: Float[Array, " names"]) -> Float[Array, ""]:
        """The log density of the copula at normal scores."""
        root = self.root.astype(z.dtype)
        return -jnp.sum(jnp.log(jnp.diag(root))) - 0.5 * (jnp.sum(self.whitened(z) ** 2) - jnp.sum(z**2))

    def whitened(self, z: Array) -> Array:
        """Independent normal numbers of normal scores, L^-1 z; by substitution, for there are few."""
        root, found = self.root.astype(z.dtype), []
        for i in range(len(self.places)):
            found.append((z[i] - sum((root[i, j] * found[j] for j in range(i)), 0 * z[i])) / root[i, i])
        return jnp.stack(found)

    def drawn(self, key: Any, count: int, dtype: Any) -> Float[Array, "names count"]:
        """Normal scores at random."""
        white = jax.random.normal(key, (len(self.places), count), dtype)
        return jnp.stack([row @ white for row in self.root.astype(dtype)])


def joints_of(
    dependence: GaussianCopula | Sequence[GaussianCopula] | None,
    found: Sequence[Unknown],
    blocks: Sequence[Any],
    population: bool,
) -> tuple[Joint, ...]:
    """The copulas of a problem, checked against its unknowns and their blocks.

    **Raises:** an `ArgumentError`, also beside unknowns that move in coordinates of their own, or an `UnknownNameError` for a name
    that no unknown has.
    """
    if dependence is None:
        return ()
    copulas = [dependence] if isinstance(dependence, GaussianCopula) else dependence
    if not isinstance(copulas, list | tuple) or not all(isinstance(c, GaussianCopula) for c in copulas):
        raise ArgumentError(
            'Argument `dependence` must be a copula, such as `simkit.GaussianCopula(("growth", "decay"), 0.8)`, or a list of them, '
            f"but it is {shown(dependence)}."
        )
    if population:
        raise ArgumentError(
            "Argument `dependence` goes with problems in which no unknown is an `Individual`, but one is. Leave it out, or write "
            "one `Free` for each individual."
        )
    field = next((u.name for u in found if isinstance(u.prior, AbstractFieldPrior)), None)
    if field is not None:
        raise ArgumentError(
            f"Argument `dependence` goes with unknown numbers, but `{field}` has a prior of fields. Leave one of the two out."
        )
    by_name = {u.name: (u, block.offset) for u, block in zip(found, blocks, strict=True)}
    taken: set[str] = set()
    joints = []
    for copula in copulas:
        for name in copula.names:
            check_known(name, by_name, "free parameter (in `dependence`)")
            if name in taken:
                raise ArgumentError(
                    f"`{name}` must stand in one copula at most, but stands in two. Make them one matrix."
                )
            taken.add(name)
            _check_member(by_name[name][0])
        root = jnp.linalg.cholesky(copula.correlation)
        joints.append(Joint(root, copula.names, tuple(by_name[name][1] for name in copula.names)))
    return tuple(joints)


def _check_member(u: Unknown) -> None:
    if u.shape or not isinstance(u.prior, dist.Distribution):
        what = f"an array of shape {u.shape}" if u.shape else "without a prior"
        raise ArgumentError(
            f"A copula joins single numbers that have priors, but `{u.name}` is {what}. Give each number a univariate prior."
        )
    prior = u.prior
    try:
        jax.eval_shape(lambda: normal_score(prior, quantile(prior, jnp.zeros(()))))
    except NotImplementedError as error:
        raise ArgumentError(
            f"A copula needs the distribution function of the prior of `{u.name}`, but NumPyro has none for "
            f"{type(prior).__name__}. Take a prior that has one, such as a normal or a gamma distribution."
        ) from error


def normal_score(prior: dist.Distribution | StoredPrior, x: Array) -> Array:
    """The number at which a standard normal distribution has the probability that the prior has at x."""
    prior = prior.distribution() if isinstance(prior, StoredPrior) else prior
    if type(prior) is dist.Normal:
        return (x - jnp.asarray(prior.loc, x.dtype)) / jnp.asarray(prior.scale, x.dtype)
    if type(prior) is dist.LogNormal:
        return (jnp.log(x) - jnp.asarray(prior.loc, x.dtype)) / jnp.asarray(prior.scale, x.dtype)
    info = jnp.finfo(x.dtype)
    return ndtri(jnp.clip(jnp.asarray(prior.cdf(x), x.dtype), info.tiny, 1 - info.eps / 2))


def quantile(prior: dist.Distribution | StoredPrior, z: Array) -> Array:
    """The number whose normal score is z."""
    prior = prior.distribution() if isinstance(prior, StoredPrior) else prior
    if type(prior) is dist.Normal or type(prior) is dist.LogNormal:
        found = jnp.asarray(prior.loc, z.dtype) + jnp.asarray(prior.scale, z.dtype) * z
        return found if type(prior) is dist.Normal else jnp.exp(found)
    return inverted(prior, ndtr(z))
