r"""Data of several outputs whose residuals at one time are correlated with each other: multivariate normal scatter.

With standard residuals $z_k = (g(y_k) - g(f_k)) / s_k$ of the outputs seen in one row, and their correlations R,

$$\log p = \sum_k \log p_k(y_k \mid f_k) - \tfrac12 \log \det R - \tfrac12 z^T (R^{-1} - 1) z$$

With the root L of R and the white residuals $w = L^{-1} z$ it is a product: given the outputs before it, $z_k$ is normal around
$\sum_{j<k} L_{kj} w_j$ with the standard deviation $L_{kk}$.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import shown
from .._errors import ArgumentError, check_known
from .._types import Scalar
from ..core import Metadata, Support, as_float_array, traced
from ._compile import check_outputs
from ._cumulative import Sides
from ._dataset import Dataset
from ._dense import check_dense
from ._experiment import check_domain
from ._forward import ForwardModel, Heads
from ._information import Information
from ._likelihood import AbstractLikelihood, LogProb, information_of_single_data, misfit, sensitivities
from ._noise import NOISES, AbstractNoise, AbstractNormalNoise, Domain, LogNormal, LogTails, Normal, Values
from ._unknowns import size_of


def _correlations(given: Any) -> dict[str, Scalar]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ArgumentError(
            "Argument `correlations` must be a mapping from names of other outputs to correlations, such as "
            f"{{'hare': 0.5}}, but it is {shown(given)}."
        )
    try:
        found: dict[str, Any] = {name: as_float_array(value) for name, value in given.items()}
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `correlations` must hold numbers, but it is {shown(given)}.") from error
    for name, value in found.items():
        if value.ndim:
            raise ArgumentError(f"The correlation with `{name}` must be one number, but its shape is {value.shape}.")
        if not isinstance(value, Tracer) and not -1 < float(value) < 1:
            raise ArgumentError(f"The correlation with `{name}` must be between -1 and 1, but it is {float(value):g}.")
    return found


@NOISES.named("correlated")
class Correlated(AbstractNoise):
    r"""Residuals that are correlated with those of other outputs at the same time: multivariate normal scatter.

    $\mathrm{corr}(z_j, z_k) = \rho_{jk}$ for the standard residuals of outputs j and k in one row of one experiment, each with the
    scatter of its `marginal`: `Normal`, `Combined` or `LogNormal` (of the logarithm then). Each pair is stated once, at either of
    the two; pairs that no output names are not correlated. Where one of them was not measured the others keep their joint
    distribution. A problem with it takes `fit` (by Fisher scoring with the exact information), `profile`, `plan`, `sample`,
    `predict`, `calibrate`, `check`, an `Individual` and `compare` by evidence, and no censored data.

    **Arguments:** `marginal`, the noise of this output alone, and `correlations`, by the names of other outputs. Correlations are
    parameters as all numbers are: `noise.lynx.correlations.hare` and `noise.lynx.marginal.scale` may be free.

    **Good values:** correlations within (-0.99, 0.99). Those of three and more outputs have to be possible together: where their
    matrix is not positive definite the density is 0. Some thirty rows tell a correlation to 0.2.

    **Raises:** an `ArgumentError` for a correlation outside (-1, 1), and, from the problem, for names without data, a pair stated
    twice, other shapes of data, marginals of other kinds, and matrices that are not positive definite.

    **References:** Anderson (2003), An Introduction to Multivariate Statistical Analysis, chapter 2; NONMEM's `L2`.

    ```python
    import simkit

    noise = {"hare": simkit.noise.Normal(10.0), "lynx": simkit.noise.Correlated(simkit.noise.Normal(8.0), {"hare": 0.6})}
    ```
    """

    marginal: AbstractNoise = eqx.field(
        default_factory=Normal, metadata={"simkit": Metadata(doc="noise model of this output alone")}
    )
    correlations: dict[str, Scalar] = eqx.field(
        default_factory=dict,
        converter=_correlations,
        metadata={"simkit": Metadata(support=Support(-1.0, 1.0), doc="correlations with other outputs, by name")},
    )
    domain: ClassVar[Domain] = "real"
    dependent: ClassVar[bool] = True

    def __check_init__(self) -> None:
        if not isinstance(self.marginal, AbstractNormalNoise):
            raise ArgumentError(
                "Argument `marginal` must be `Normal`, `Combined` or `LogNormal`, whose residuals are normal numbers, but it is "
                f"{shown(self.marginal)}."
            )

    @property
    def scale(self) -> Any:
        """The scale of the marginal, which known sizes of data multiply."""
        return getattr(self.marginal, self.marginal.by_datum)

    def log_prob(self, value: Values, location: Values) -> Values:
        return self.marginal.log_prob(value, location)

    def information(self, location: Values) -> Information | None:
        """The information of one datum, whatever the others; the problem's is found from all of them."""
        return self.marginal.information(location)

    def log_cumulative(self, value: Values, location: Values) -> Sides | None:
        return self.marginal.log_cumulative(value, location)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails | None:
        return self.marginal.log_tails(value, location)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return self.marginal.sample(key, location)


class CorrelatedData(AbstractLikelihood):
    """The likelihood of a deterministic simulation of which some outputs have `Correlated` residuals.

    Rows of data are independent of each other; the numbers of one row are not.
    """

    def check(self, model: ForwardModel, data: Dataset) -> None:
        check_rows(model, data)

    @property
    def sequential(self) -> bool:
        return True

    def conditional(self, heads: Heads, data: Dataset) -> Heads:
        """Locations and standard deviations by regression on the standard residuals of the outputs before in the same row."""
        found = dict(heads)
        for names in correlated_groups({name: noise for name, (_, noise) in heads.items()}, data):
            seen = stacked(names, lambda name: jnp.isfinite(data.values[name]))
            z = jnp.where(seen, stacked(names, lambda name: standard_residuals(data, name, *heads[name])), 0)
            root = root_of_rows(names, heads, seen)
            white = jax.scipy.linalg.solve_triangular(root, z[..., None], lower=True)
            expected = (jnp.tril(root, -1) @ white)[..., 0]
            share = jnp.diagonal(root, axis1=-2, axis2=-1)
            for place, name in enumerate(names):
                location, noise = heads[name]
                own = marginal_of(noise)
                spread = own.spread(location) * share[..., place]
                kind = LogNormal if own.domain == "positive" else Normal
                found[name] = own.from_standard(expected[..., place], location), kind(spread)
        return found

    def left_out(self, rows: Mapping[str, Array], heads: Heads, data: Dataset) -> Mapping[str, Array]:
        found = dict(rows)
        for names in correlated_groups({name: noise for name, (_, noise) in heads.items()}, data):
            root = root_of_rows(names, heads, stacked(names, lambda name: jnp.isfinite(data.values[name])))
            eye = jnp.broadcast_to(jnp.eye(len(names), dtype=root.dtype), root.shape)
            turn = jax.scipy.linalg.solve_triangular(root, eye, lower=True)
            turn = turn / jnp.linalg.norm(turn, axis=-2, keepdims=True)
            turned = jnp.einsum("...ji,...pj->...pi", turn, stacked(names, lambda name: rows[name]))
            found |= {name: turned[..., place] for place, name in enumerate(names)}
        return found

    def log_prob(self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset) -> LogProb:
        heads, status = model.heads(theta, data)
        return -misfit(self.conditional(heads, data), data), status

    def information(
        self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> Float[Array, "parameters parameters"] | None:
        groups = correlated_groups(model.base.noise, data)
        rows = sum(data.values[names[0]].size * len(names) ** 2 for names in groups)
        check_dense(theta.size, theta.dtype, "The Fisher information", 1 + rows / max(theta.size, 1))
        jacobian, heads = sensitivities(theta, model, data)
        total = jnp.zeros((theta.size, theta.size), theta.dtype)
        joined = {name for names in groups for name in names}
        for name, (location, noise) in heads.items():
            if name not in joined:
                total = total + information_of_single_data(data, name, location, noise, jacobian[name])
        for names in groups:
            rows = informed_rows(names, heads, jacobian, stacked(names, lambda name: jnp.isfinite(data.values[name])))
            rows = rows.reshape(-1, theta.size)
            total = total + rows.T @ rows
        return total

    def sample(
        self, key: PRNGKeyArray, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> dict[str, Array] | None:
        return drawn_rows(key, model.heads(theta, data)[0], data)


def check_rows(model: ForwardModel, data: Dataset) -> None:
    """Refuse correlations that are stated twice, of other outputs than these data have, or not possible together.

    **Raises:** an `ArgumentError`.
    """
    noise, stated = model.base.noise, set()
    for name in data.values:
        if not isinstance(noise[name], Correlated):
            continue
        for other in noise[name].correlations:
            check_known(other, data.values, f"output with data (correlations of `{name}`)")
            pair = frozenset((name, other))
            if other == name or pair in stated:
                why = "itself" if other == name else "each other twice, at both"
                raise ArgumentError(
                    f"`{name}` and `{other}` state a correlation with {why}. State each pair of two outputs once."
                )
            stated.add(pair)
            if not isinstance(marginal_of(noise[other]), AbstractNormalNoise):
                raise ArgumentError(
                    f"`{name}` is correlated with `{other}`, whose noise model {type(noise[other]).__name__} is not normal "
                    "in any scale. Take `Normal`, `Combined` or `LogNormal` there."
                )
            if data.values[name].shape != data.values[other].shape:
                raise ArgumentError(
                    f"Data of `{name}` and `{other}` must have one shape to be correlated, but a time holds "
                    f"{data.values[name].shape[2:]} numbers of one and {data.values[other].shape[2:]} of the other."
                )
    check_outputs(model, data)
    for names in correlated_groups(noise, data):
        for name in names:
            for label, values in zip(data.labels, np.asarray(data.values[name]), strict=True):
                check_domain(label, name, values, marginal_of(noise[name]))
        _check_matrices(names, model, data)


def drawn_rows(key: PRNGKeyArray, heads: Heads, data: Dataset) -> dict[str, Array]:
    """Random data of all outputs, in rows where their residuals depend on each other."""
    single, joint = jax.random.split(key)
    keys = jax.random.split(single, len(heads))
    found = {name: noise.sample(k, location) for k, (name, (location, noise)) in zip(keys, heads.items(), strict=True)}
    groups = correlated_groups({name: noise for name, (_, noise) in heads.items()}, data)
    for k, names in zip(jax.random.split(joint, len(groups)), groups, strict=True):
        shape = (*heads[names[0]][0].shape, len(names))
        root = root_of_rows(names, heads, jnp.ones(shape, bool))
        z = (root @ jax.random.normal(k, shape, root.dtype)[..., None])[..., 0]
        for place, name in enumerate(names):
            location, noise = heads[name]
            found[name] = marginal_of(noise).from_standard(z[..., place], location)
    return found


def _check_matrices(names: list[str], model: ForwardModel, data: Dataset) -> None:
    """Refuse correlations that are not possible together, in each experiment; free ones are not known yet."""
    known = {path: np.asarray(index) for path, (index, _) in model.table.items() if path.startswith("noise.")}
    pairs = [
        f"noise.{name}.correlations.{other}"
        for name in names
        if isinstance(model.base.noise[name], Correlated)
        for other in model.base.noise[name].correlations
    ]
    theta = jnp.ones((size_of(model.blocks),), data.times.dtype)
    for place, label in enumerate(data.labels):
        if any(path in known and known[path][place] >= 0 for path in pairs):
            continue
        noise = model.setup(theta, place).noise
        matrix = _matrix(names, {name: noise[name] for name in names}, jnp.zeros((), data.times.dtype))
        if not traced(matrix) and not np.linalg.eigvalsh(np.asarray(matrix)).min() > 0:
            raise ArgumentError(
                f"The correlations of {', '.join(f'`{n}`' for n in names)} in experiment `{label}` are not possible together: "
                f"their matrix is not positive definite. Make them smaller; it is {np.asarray(matrix).tolist()}."
            )


def correlated_groups(noise: Mapping[str, Any], data: Dataset) -> list[list[str]]:
    """Outputs with data that are correlated with each other, directly or through others, in the order of the data."""
    groups: list[set[str]] = []
    for name in data.values:
        if isinstance(noise[name], Correlated) and noise[name].correlations:
            joined = {name, *noise[name].correlations}
            for other in [group for group in groups if group & joined]:
                groups.remove(other)
                joined |= other
            groups.append(joined)
    return [[name for name in data.values if name in group] for group in groups]


def marginal_of(noise: Any) -> Any:
    return noise.marginal if isinstance(noise, Correlated) else noise


def stacked(names: list[str], of: Any) -> Array:
    return jnp.stack([of(name) for name in names], axis=-1)


def standard_residuals(data: Dataset, name: str, location: Array, noise: Any) -> Array:
    """The standard residuals of an output; something finite where a datum is missing."""
    seen = jnp.isfinite(data.values[name])
    return marginal_of(noise).standard(jnp.where(seen, data.values[name], 1), jnp.where(seen, location, 1))


def _matrix(names: list[str], noise: Mapping[str, Any], like: Array) -> Array:
    """The correlations of outputs, shape `(*like.shape, outputs, outputs)`."""
    full = jnp.broadcast_to(jnp.eye(len(names), dtype=like.dtype), (*like.shape, len(names), len(names)))
    for row, name in enumerate(names):
        if isinstance(noise[name], Correlated):
            for other, value in noise[name].correlations.items():
                if other not in names:
                    continue
                column = names.index(other)
                full = full.at[..., row, column].set(value).at[..., column, row].set(value)
    return full


def _known(matrix: Array, seen: Array) -> Array:
    """The correlations of what was seen; what was not is independent of all, and then counts nothing."""
    both = seen[..., :, None] & seen[..., None, :]
    return jnp.where(both, matrix, jnp.eye(matrix.shape[-1], dtype=matrix.dtype))


def root_of_rows(names: list[str], heads: Heads, seen: Array) -> Array:
    """The Cholesky factor of the correlations of each row."""
    noise = {name: heads[name][1] for name in names}
    return jnp.linalg.cholesky(_known(_matrix(names, noise, heads[names[0]][0]), seen))


def informed_rows(
    names: list[str], heads: Heads, slopes: Mapping[str, Any], seen: Array
) -> Float[Array, "*rows numbers parameters"]:
    r"""The root of the Fisher information of each row of correlated outputs: sensitivities in standard deviations.

    In standard residuals of mean $\mu$ and covariance $S R S$, S the relative scales, $I_{ab} = \mu_a^T R^{-1} \mu_b +
    \tfrac12 \mathrm{tr}\, R^{-1} C_a R^{-1} C_b$ with $C_a = S_a R + R S_a + R_a$, subscripts for derivatives.

    **Arguments:** `seen`: shape `(*rows, outputs)`, what is measured.
    """
    safe = {name: (jnp.where(seen[..., i], heads[name][0], 1), heads[name][1]) for i, name in enumerate(names)}
    # The standard residual of a fixed datum moves against its mean, and as far as it is from the mean against its scale.
    at = lambda z: {
        name: marginal_of(noise).from_standard(jnp.full_like(location, z), location)
        for name, (location, noise) in safe.items()
    }
    middle, beyond = at(0.0), at(1.0)

    def numbers(heads: Heads) -> tuple[Array, Array, Array]:
        told = lambda values: stacked(
            names, lambda name: marginal_of(heads[name][1]).standard(values[name], heads[name][0])
        )
        noise = {name: heads[name][1] for name in names}
        return told(middle), told(beyond), _matrix(names, noise, heads[names[0]][0])

    moved = jax.vmap(lambda direction: jax.jvp(numbers, (safe,), (direction,))[1], in_axes=-1, out_axes=-1)
    centre, edge, turned = moved({name: slopes[name] for name in names})
    place = jnp.where(seen[..., None], -centre, 0)
    size = jnp.where(seen[..., None], centre - edge, 0)
    matrix = _known(numbers(safe)[2], seen)
    root = jnp.linalg.cholesky(matrix)
    both = (seen[..., :, None] & seen[..., None, :])[..., None]
    spread = matrix[..., None] * (size[..., :, None, :] + size[..., None, :, :]) + jnp.where(both, turned, 0)
    half = lambda x: jax.scipy.linalg.solve_triangular(root, x.reshape(*root.shape[:-1], -1), lower=True).reshape(
        x.shape
    )
    white = half(jnp.swapaxes(half(spread), -3, -2))
    rest = white.reshape(*place.shape[:-2], -1, place.shape[-1])
    return jnp.concatenate([half(place), jnp.sqrt(jnp.asarray(0.5, rest.dtype)) * rest], axis=-2)
