"""Conditional densities learned from pairs: flows in single precision behind numbers of any unit."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PRNGKeyArray

from ..._doors import check_count
from ..._errors import ArgumentError
from ._flow import Flow, new_flow

MOST_BINS = 100

PAIRS, RIDGE = 20, 1e-8
"""Pairs for each number of the context from which on a regression is taken, and the least variance of its residuals."""

WIDE = 40
"""Context numbers above which a network first makes them fewer."""


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python."""
    return value.item() if isinstance(value, np.number) else value


class SplineFlow(eqx.Module):
    """An autoregressive flow with rational-quadratic splines, the form of a learned density, and how it is learned.

    **Arguments:**

    - `layers`, `width`, `bins`: layers of the flow, units of each hidden layer of their networks, and bins of the splines.
    - `members`: flows that are learned from the same simulations with other starts; their mean density is taken.
    - `steps`: steps of Adam at most, on `batch` simulations each; learning ends before where the density of a tenth of the
        simulations, which are held out, grows no more.
    - `learning_rate`: the largest; it rises in the first steps and falls as a cosine.
    - `decay`: the weight decay.

    **Good values:** the defaults for up to some ten thousand simulations; 20,000 `steps` for a hundred thousand; `members=3` where
    simulations are few.
    """

    layers: int = eqx.field(static=True, default=5)
    width: int = eqx.field(static=True, default=64)
    bins: int = eqx.field(static=True, default=8)
    members: int = eqx.field(static=True, default=1)
    steps: int = eqx.field(static=True, default=8_000)
    batch: int = eqx.field(static=True, default=256)
    learning_rate: float = eqx.field(static=True, default=1e-3, converter=_plain)
    decay: float = eqx.field(static=True, default=1e-4, converter=_plain)

    def __check_init__(self) -> None:
        for name, least in (("layers", 1), ("width", 4), ("bins", 2), ("members", 1), ("steps", 100), ("batch", 8)):
            check_count(name, getattr(self, name), least=least)
        if self.bins > MOST_BINS:
            raise ArgumentError(f"Argument `bins` must be at most {MOST_BINS}, but it is {self.bins}.")
        for name, lowest in (("learning_rate", False), ("decay", True)):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not (0 < value < math.inf or (lowest and value == 0)):
                raise ArgumentError(f"Argument `{name}` must be a positive number, but it is {value!r}.")


def beside(x: Float[Array, "*batch size"], numbers: Float[Array, " size"]) -> Float[Array, "*ones size"]:
    """Numbers with leading axes of length 1, as many as `x` has batch axes."""
    return numbers.reshape((1,) * (x.ndim - 1) + numbers.shape)


class Standard(eqx.Module):
    """Numbers as differences from a center in units of a scale, in the float type of a network."""

    center: Float[Array, " size"]
    scale: Float[Array, " size"]
    dtype: str = eqx.field(static=True, default="float32")

    def __call__(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        return ((x - beside(x, self.center)) / beside(x, self.scale)).astype(self.dtype)

    def back(self, z: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        return beside(z, self.center) + beside(z, self.scale) * z.astype(self.scale.dtype)


def standard_of(x: np.ndarray) -> Standard:
    """Mean and standard deviation of columns; of a constant column a scale of 1."""
    spread = x.std(axis=0)
    center = x.mean(axis=0)
    return Standard(jnp.asarray(center), jnp.asarray(np.where(spread > 1e-12 * np.abs(center), spread, 1), x.dtype))


class Network(eqx.Module):
    """A flow and, for wide contexts or series, a network before it that makes features few."""

    flow: Flow
    embedding: Any

    def embedded(self, context: Float[Array, "batch context"]) -> Float[Array, "batch few"]:
        return context if self.embedding is None else jax.vmap(self.embedding)(context)

    def log_prob(self, z: Float[Array, "batch size"], context: Float[Array, "batch context"]) -> Float[Array, " batch"]:
        return self.flow.log_prob(z, self.embedded(context))

    def sample(self, key: PRNGKeyArray, context: Float[Array, "batch context"]) -> Float[Array, "batch size"]:
        return self.flow.sample(key, self.embedded(context))


class Line(eqx.Module):
    """A linear regression of numbers y on their context c, y = c A + L z: what a density has in common with a normal one.

    Networks learn the density of z, so that where the posterior is narrow they begin near it.
    """

    slope: Float[Array, "context size"]
    root: Float[Array, "size size"]

    def residual(
        self, y: Float[Array, "batch size"], context: Float[Array, "batch context"]
    ) -> Float[Array, "batch size"]:
        """The numbers z."""
        return solve_triangular(self.root, (y - context @ self.slope).T, lower=True).T

    def back(self, z: Float[Array, "batch size"], context: Float[Array, "batch context"]) -> Float[Array, "batch size"]:
        return context @ self.slope + z @ self.root.T

    def log_volume(self) -> Float[Array, ""]:
        """The logarithm of the volume by which y grows with z."""
        return jnp.sum(jnp.log(jnp.diag(self.root)))


def line_of(y: np.ndarray, context: np.ndarray) -> Line:
    """The regression by least squares, where there are enough pairs for one, else none: A = 0 and L = 1."""
    count, size = context.shape
    if count < PAIRS * size:
        return Line(jnp.zeros((size, y.shape[1]), jnp.float32), jnp.eye(y.shape[1], dtype=jnp.float32))
    slope = np.linalg.lstsq(context, y, rcond=1e-6)[0]
    rest = y - context @ slope
    covariance = rest.T @ rest / count
    root = np.linalg.cholesky(covariance + RIDGE * np.eye(y.shape[1]))
    return Line(jnp.asarray(slope, jnp.float32), jnp.asarray(root, jnp.float32))


class Density(eqx.Module):
    """The density of numbers y given a context, both of order 1: the mean of several networks'.

    - `line`: the regression whose residuals networks see. - `networks`: with a leading axis of members.
    """

    line: Line
    networks: Network
    members: int = eqx.field(static=True)

    def log_prob(self, y: Float[Array, "batch size"], context: Float[Array, "batch context"]) -> Float[Array, " batch"]:
        """The log density of each y given its context, in single precision."""
        z = self.line.residual(y, context)
        each = self._every(lambda network: network.log_prob(z, context))
        return logsumexp(each, axis=0) - float(np.log(self.members)) - self.line.log_volume()

    def sample(self, key: PRNGKeyArray, context: Float[Array, " context"], count: int) -> Float[Array, "count size"]:
        """Draws for one context, an equal share from each member."""
        share = -(-count // self.members)
        arrays, static = eqx.partition(self.networks, eqx.is_array)
        many = jnp.broadcast_to(context, (share, context.shape[0]))
        draw = lambda arrays, key: eqx.combine(arrays, static).sample(key, many)
        found = jax.vmap(draw)(arrays, jax.random.split(key, self.members))
        # In random order, so that a few draws are not all of the first members.
        order = jax.random.permutation(jax.random.fold_in(key, self.members), self.members * share)[:count]
        z = jnp.swapaxes(found, 0, 1).reshape(self.members * share, -1)[order]
        return self.line.back(z, jnp.broadcast_to(context, (count, context.shape[0])))

    def _every(self, function: Any) -> Array:
        arrays, static = eqx.partition(self.networks, eqx.is_array)
        return jax.vmap(lambda arrays: function(eqx.combine(arrays, static)))(arrays)


def _bits(key: PRNGKeyArray) -> Array:
    """The words of a key of either kind."""
    return jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key


def new_networks(key: PRNGKeyArray, size: int, context: int, method: SplineFlow, series: Any = None) -> Network:
    """Networks that are not trained yet, one a member."""

    rng = np.random.default_rng(np.asarray(_bits(key)).tolist())

    def one(key: PRNGKeyArray) -> Network:
        embedding, given = None, context
        if series is not None:
            embedding = series(key)
            given = embedding.outputs
        elif context > WIDE:
            given = min(WIDE, 8 + 4 * size)
            embedding = eqx.filter_jit(eqx.nn.MLP)(
                context, given, 2 * method.width, 2, jax.nn.silu, dtype=jnp.float32, key=key
            )
        return Network(new_flow(rng, size, given, method.layers, method.width, method.bins), embedding)

    made = [one(jax.random.fold_in(key, i)) for i in range(method.members)]
    arrays, static = eqx.partition(made, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda *x: jnp.stack(x), *arrays), static[0])
