"""Ensemble Kalman filters: stochastic, deterministic, square root, and local."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_kind, shown
from .._errors import ArgumentError
from ..core import as_float_array, traced
from ..linear import inverse, inverse_root, triangle
from ._localisation import Localisation
from ._observations import Seen

UPDATES = ("perturbed", "deterministic")


class Correction(NamedTuple):
    """Correction of an ensemble by observations of one time, before inflation and rotation."""

    increment: Float[Array, " n"]  # of the mean
    anomalies: Float[Array, "members n"]
    chi_square: Float[Array, ""]  # innovations squared in units of what ensemble and errors make of them


class AbstractEnsembleFilter(eqx.Module):
    """Filter that corrects an ensemble by observations of one time.

    A filter of your own is a class with `analysed`, and `inflation` and `rotation` as fields.
    """

    inflation: eqx.AbstractVar[Array]
    rotation: eqx.AbstractVar[bool]

    @property
    @abc.abstractmethod
    def draws(self) -> bool:
        """Tell whether the correction needs random numbers."""

    @abc.abstractmethod
    def check(self, size: int, observations: int, members: int, correlated: bool) -> None:
        """Refuse states, observations or ensembles that the filter cannot take.

        **Raises:** an `ArgumentError`.
        """

    @abc.abstractmethod
    def analysed(self, key: PRNGKeyArray | None, anomalies: Float[Array, "members n"], seen: Seen) -> Correction:
        """Return the increment of the mean, the new anomalies, and chi-square.

        `seen` holds innovation and anomalies of the expected observations in units of the errors of observations. Anomalies may be
        those of several times side by side, the present first, n = times x size of the state: a smoother corrects them alike.
        """


class EnKF(AbstractEnsembleFilter):
    r"""Ensemble Kalman filter, by perturbed observations or deterministic.

    $$x_i \leftarrow x_i + K (y + \varepsilon_i - H x_i), \qquad K = P H^T (H P H^T + R)^{-1}$$

    with the sample covariance P of the members. The draws $\varepsilon_i$ are centred and have the covariance R. `update`
    "deterministic" moves the mean by K and takes half of K H from the anomalies (DEnKF), without draws.

    **Arguments:** `inflation`: factor of the anomalies after each correction; `rotation`: whether a random rotation that keeps mean
    and covariance mixes the members; `update`: "perturbed" or "deterministic".

    **Good values:** Lorenz-96 with 40 places: 40 members, inflation 1.06 perturbed, 1.01 deterministic.

    **Reference:** Burgers, van Leeuwen and Evensen (1998), Mon. Weather Rev. 126:1719,
    doi:10.1175/1520-0493(1998)126<1719:ASITEK>2.0.CO;2; Sakov and Oke (2008), Tellus A 60:361,
    doi:10.1111/j.1600-0870.2007.00299.x.
    """

    inflation: Array
    rotation: bool = eqx.field(static=True)
    update: str = eqx.field(static=True)

    def __init__(self, inflation: Any = 1.0, *, rotation: bool = False, update: str = "perturbed"):
        self.inflation, self.rotation = _inflation(inflation), bool(rotation)
        if update not in UPDATES:
            raise ArgumentError(f"Argument `update` must be one of {', '.join(UPDATES)}, but it is {shown(update)}.")
        self.update = update

    @property
    def draws(self) -> bool:
        return self.rotation or self.update == "perturbed"

    def check(self, size: int, observations: int, members: int, correlated: bool) -> None:
        check_members(members)

    def analysed(self, key: PRNGKeyArray | None, anomalies: Array, seen: Seen) -> Correction:
        count, moved = anomalies.shape[0], seen.sensitivity
        weights = inverse(_precision(moved))
        pull = weights @ (moved @ seen.innovation)
        chi, pull = _chi_square(seen, pull), pull @ anomalies
        if self.update == "deterministic":
            return Correction(pull, anomalies - 0.5 * (moved @ (moved.T @ (weights @ anomalies))), chi)
        assert key is not None
        noise = jax.random.normal(key, moved.shape, moved.dtype)
        noise = (noise - jnp.mean(noise, axis=0, keepdims=True)) * (count / (count - 1)) ** 0.5
        noise = jnp.where(jnp.any(moved != 0, axis=0, keepdims=True), noise, 0)
        return Correction(pull, anomalies - (noise + moved) @ (moved.T @ (weights @ anomalies)), chi)


class ETKF(AbstractEnsembleFilter):
    r"""Ensemble transform Kalman filter with the symmetric square root.

    $$\bar x \leftarrow \bar x + A^T w, \quad w = \tilde P\, Y R^{-1} (y - \overline{H x}), \quad
    A \leftarrow \sqrt{N - 1}\, \tilde P^{1/2} A, \quad \tilde P = [(N - 1) I + Y R^{-1} Y^T]^{-1}$$

    with N members, rows of A the anomalies and of Y those of the expected observations. Mean and sample covariance are
    those of Kalman's update exactly.

    **Arguments:** `inflation`: factor of the anomalies after each correction; `rotation`: whether a random rotation that keeps mean
    and covariance mixes the members, which keeps their distribution near normal.

    **Good values:** Lorenz-96 with 40 places: 24 members, inflation 1.013 with rotation.

    **Reference:** Bishop, Etherton and Majumdar (2001), Mon. Weather Rev. 129:420,
    doi:10.1175/1520-0493(2001)129<0420:ASWTET>2.0.CO;2; Sakov and Oke (2008), Mon. Weather Rev. 136:1042,
    doi:10.1175/2007MWR2021.1.
    """

    inflation: Array
    rotation: bool = eqx.field(static=True)

    def __init__(self, inflation: Any = 1.0, *, rotation: bool = False):
        self.inflation, self.rotation = _inflation(inflation), bool(rotation)

    @property
    def draws(self) -> bool:
        return self.rotation

    def check(self, size: int, observations: int, members: int, correlated: bool) -> None:
        check_members(members)

    def analysed(self, key: PRNGKeyArray | None, anomalies: Array, seen: Seen) -> Correction:
        weights, transform = _transform(seen.innovation, seen.sensitivity)
        return Correction(weights @ anomalies, transform @ anomalies, _chi_square(seen, weights))


class LETKF(AbstractEnsembleFilter):
    """Local ensemble transform Kalman filter: at each place an `ETKF` with the observations nearby.

    Each number of the state has a correction of its own, by observations whose inverse variances are tapered with distance.
    Spurious correlations of a small ensemble over long distances have no effect, and its members span each
    neighbourhood instead of the whole state.

    **Arguments:** `localisation`: a `Localisation`; `inflation` and `rotation` as in `ETKF`.

    **Good values:** Lorenz-96 with 40 places: 7 members, radius 4, inflation 1.04 with rotation.

    **Reference:** Hunt, Kostelich and Szunyogh (2007), Physica D 230:112, doi:10.1016/j.physd.2006.11.008.
    """

    localisation: Localisation
    inflation: Array
    rotation: bool = eqx.field(static=True)

    def __init__(self, localisation: Localisation, inflation: Any = 1.0, *, rotation: bool = False):
        remedy = "Write `Localisation(4.0, places=np.arange(40), period=40)`."
        check_kind("localisation", localisation, Localisation, "a localisation", remedy)
        self.localisation = localisation
        self.inflation, self.rotation = _inflation(inflation), bool(rotation)

    @property
    def draws(self) -> bool:
        return self.rotation

    def check(self, size: int, observations: int, members: int, correlated: bool) -> None:
        check_members(members, 3)
        local = self.localisation
        if local.index.shape[0] != size or local.observations != observations:
            raise ArgumentError(
                f"The localisation has {local.index.shape[0]} places and {local.observations} observations, but the state has "
                f"{size} numbers and {observations} are observed: give `places` one row for each number of the flat state, "
                "`observed` one for each observation of one time."
            )
        if correlated:
            raise ArgumentError(
                "`LETKF` weighs observations one by one, so their errors must be uncorrelated: give `errors`, not `covariance`."
            )

    def analysed(self, key: PRNGKeyArray | None, anomalies: Array, seen: Seen) -> Correction:
        root = jnp.sqrt(self.localisation.weight).astype(anomalies.dtype)
        # One transform of each place serves all times.
        places = anomalies.reshape(anomalies.shape[0], -1, root.shape[0])

        def one(apart: Array, index: Array, root: Array) -> tuple[Array, Array]:
            weights, transform = _transform(seen.innovation[index] * root, seen.sensitivity[:, index] * root[None])
            return weights @ apart, transform @ apart

        increment, turned = jax.vmap(one, in_axes=(2, 0, 0), out_axes=(-1, -1))(places, self.localisation.index, root)
        increment, turned = increment.reshape(-1), turned.reshape(anomalies.shape)
        weights = inverse(_precision(seen.sensitivity)) @ (seen.sensitivity @ seen.innovation)
        return Correction(increment, turned, _chi_square(seen, weights))


def _chi_square(seen: Seen, weights: Array) -> Array:
    """Innovations squared in units of their spread, by the weights of anomalies in the increment of the mean."""
    return seen.innovation @ seen.innovation - (seen.sensitivity @ seen.innovation) @ weights


def _transform(innovation: Array, moved: Array) -> tuple[Array, Array]:
    """Weights of anomalies in the increment of the mean, and the symmetric transform of anomalies."""
    root = inverse_root(_precision(moved))
    return root @ (root @ (moved @ innovation)), (moved.shape[0] - 1) ** 0.5 * root


def _precision(moved: Float[Array, "members m"]) -> Float[Array, "members members"]:
    """The inverse covariance of the weights of anomalies, $(N - 1) I + Y R^{-1} Y^T$, by whitened anomalies."""
    count = moved.shape[0]
    return moved @ moved.T + (count - 1) * jnp.eye(count, dtype=moved.dtype)


def rotated(key: PRNGKeyArray, anomalies: Float[Array, "members n"]) -> Float[Array, "members n"]:
    """Anomalies mixed by a random orthogonal matrix that keeps their mean zero, of the uniform (Haar) distribution."""
    count = anomalies.shape[0]
    drawn = jax.random.normal(key, (count - 1, count - 1), anomalies.dtype)
    # Q of a normal matrix is uniform where the diagonal of R is positive. Derivatives do not reach the draws.
    upper = triangle(drawn)
    turn = drawn @ inverse(upper * jnp.sign(jnp.diagonal(upper))[:, None])
    # The reflection that takes the last axis to the direction of the mean leaves the other axes for the rotation.
    axis = jnp.full((count,), -(count**-0.5), anomalies.dtype).at[-1].add(1)
    reflected = anomalies - axis[:, None] * (2 / jnp.sum(axis**2)) * (axis @ anomalies)[None]
    turned = jnp.concatenate([turn @ reflected[:-1], jnp.zeros_like(reflected[:1])])
    return turned - axis[:, None] * (2 / jnp.sum(axis**2)) * (axis @ turned)[None]


def check_members(members: int, least: int = 2) -> None:
    """Refuse an ensemble of too few members.

    **Raises:** an `ArgumentError`.
    """
    if members < least:
        raise ArgumentError(
            f"The ensemble has {members} members, but the filter needs at least {least}: `members_around` draws them."
        )


def _inflation(value: Any) -> Array:
    try:
        found = as_float_array(value)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `inflation` must be a number, but it is {shown(value)}.") from error
    if found.ndim or (not traced(found) and not (np.isfinite(found) and float(found) > 0)):
        raise ArgumentError(f"Argument `inflation` must be one positive number, but it is {shown(value)}.")
    return found
