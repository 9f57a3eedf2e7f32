"""Unknowns of a problem: priors, bounds, starts, and the coordinates in which a fit moves."""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float

from ..core import as_float_array
from ._dependence import Joint, normal_score
from ._field_prior import AbstractFieldPrior
from ._free import Unknown
from ._prior import StoredPrior


class Block(NamedTuple):
    """Place of one unknown among all free numbers: from `offset` on, an array of `shape`, () for a single number."""

    name: str
    shape: tuple[int, ...]
    offset: int
    log: bool

    @property
    def size(self) -> int:
        """Number of free numbers."""
        return math.prod(self.shape)

    @property
    def span(self) -> slice:
        """The place among all free numbers."""
        return slice(self.offset, self.offset + self.size)

    def names(self) -> list[str]:
        """The names of all free numbers, such as `rates.3`."""
        if not self.shape:
            return [self.name]
        return [".".join([self.name, *map(str, place)]) for place in np.ndindex(self.shape)]


def blocks_of(found: Sequence[Unknown], first: int = 0) -> tuple[Block, ...]:
    """Unknowns one behind the other, the first at `first`."""
    blocks: list[Block] = []
    for u in found:
        blocks.append(Block(u.name, u.shape, first, u.log))
        first += blocks[-1].size
    return tuple(blocks)


def size_of(blocks: Sequence[Block]) -> int:
    """Number of all free numbers."""
    return blocks[-1].offset + blocks[-1].size if blocks else 0


@functools.lru_cache(maxsize=64)
def names_of(blocks: tuple[Block, ...]) -> tuple[str, ...]:
    """The names of all free numbers, made on demand: of a field they are as many as it has elements."""
    return tuple(name for block in blocks for name in block.names())


def position(blocks: Sequence[Block], name: str) -> int | None:
    """Place of a free number, or of the first of an array, by its name; None where it is none."""
    by_name = _by_name(tuple(blocks))
    if name in by_name:
        return by_name[name].offset
    words, index = name.split("."), []
    while len(words) > 1 and words[-1].isdigit():
        index.insert(0, int(words.pop()))
        block = by_name.get(".".join(words))
        if block is not None and len(index) == len(block.shape):
            inside = all(i < n for i, n in zip(index, block.shape, strict=True))
            return block.offset + int(np.ravel_multi_index(index, block.shape)) if inside else None
    return None


@functools.lru_cache(maxsize=64)
def _by_name(blocks: tuple[Block, ...]) -> dict[str, Block]:
    return {block.name: block for block in blocks}


class Unknowns(eqx.Module):
    """The free parameters of a problem, in blocks: an array is one of them, whatever its size.

    - `stored`: the priors of the blocks, None for a flat one. That of an array holds for each of its numbers, or is one of fields.
    - `bounds`: shape `(parameters, 2)`, natural units.
    - `starts`: shape `(parameters,)`, NaN where a start is drawn.
    - `blocks`: name, shape and place of each unknown, and whether a fit moves its logarithm.
    - `shared`: how many numbers are parameters of a model or of a population; the others, the last, are deviations of individuals.
    - `joints`: copulas between the priors of single numbers.
    """

    # In the order of `blocks`: a dict would come back from a pytree sorted by key.
    stored: tuple[StoredPrior | AbstractFieldPrior | None, ...]
    bounds: Float[Array, "parameters 2"]
    starts: Float[Array, " parameters"]
    blocks: tuple[Block, ...] = eqx.field(static=True)
    shared: int = eqx.field(static=True)
    joints: tuple[Joint, ...] = ()

    @classmethod
    def of(cls, found: Sequence[Unknown], shared: int | None = None, joints: tuple[Joint, ...] = ()) -> "Unknowns":
        """The unknowns one behind the other; `shared` of their numbers are no deviations, by default all."""
        blocks = blocks_of(found)
        pairs = [np.tile([float(u.lower), float(u.upper)], (b.size, 1)) for u, b in zip(found, blocks, strict=True)]
        starts = [
            np.broadcast_to(np.asarray(np.nan if u.start is None else u.start, float), b.shape).ravel()
            for u, b in zip(found, blocks, strict=True)
        ]
        return cls(
            tuple(_stored(u.prior) for u in found),
            as_float_array(np.concatenate([np.zeros((0, 2)), *pairs])),
            as_float_array(np.concatenate([np.zeros(0), *starts])),
            blocks,
            size_of(blocks) if shared is None else shared,
            joints,
        )

    def with_more(self, found: Sequence[Unknown]) -> "Unknowns":
        """These unknowns and others behind them."""
        more = Unknowns.of(found)
        return Unknowns(
            self.stored + more.stored,
            jnp.concatenate([self.bounds, more.bounds]),
            jnp.concatenate([self.starts, more.starts]),
            self.blocks + blocks_of(found, self.size),
            self.size + more.size,
            self.joints,
        )

    @property
    def size(self) -> int:
        """Number of all free numbers."""
        return size_of(self.blocks)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all free numbers."""
        return names_of(self.blocks)

    @property
    def is_log(self) -> Bool[np.ndarray, " parameters"]:
        """Mask of the numbers that a fit moves by their logarithm."""
        return np.repeat(np.array([b.log for b in self.blocks], bool), [b.size for b in self.blocks])

    @property
    def log(self) -> tuple[bool, ...]:
        """The same as a tuple."""
        return tuple(self.is_log.tolist())

    @property
    def fields(self) -> tuple[tuple[Block, AbstractFieldPrior], ...]:
        """The blocks with a prior of fields."""
        return tuple((block, prior) for block, prior in self.pairs if isinstance(prior, AbstractFieldPrior))

    @property
    def pairs(self) -> tuple[tuple[Block, StoredPrior | AbstractFieldPrior | None], ...]:
        """The blocks and their priors."""
        return tuple(zip(self.blocks, self.stored, strict=True))

    @property
    def priors(self) -> tuple[dist.Distribution | AbstractFieldPrior | None, ...]:
        """The priors in the order of `names`; None for a flat one, a prior of fields for each number of its array."""
        found: list[dist.Distribution | AbstractFieldPrior | None] = []
        for block, prior in self.pairs:
            found += [prior.distribution() if isinstance(prior, StoredPrior) else prior] * block.size
        return tuple(found)

    def log_prior(self, theta: Float[Array, " parameters"]) -> Float[Array, ""]:
        """The log prior density in natural units; a parameter without a prior adds nothing."""
        total = self._of_numbers(theta)
        for block, prior in self.fields:
            values = theta[block.span].reshape(block.shape)
            gaussian = jnp.log(values) if block.log else values
            total = total + prior.log_prob(gaussian) - (jnp.sum(gaussian) if block.log else 0)
        return total

    def log_prior_at(self, z: Float[Array, " parameters"]) -> Float[Array, ""]:
        r"""The log prior density that a fit maximises, from its coordinates.

        It is that of natural units, but for a positive field, of which it is the density of the logarithm: the mode in natural
        units would lie below the median by the sum of a row of the covariance, which grows with the grid.
        """
        total = self._of_numbers(self.natural(z))
        for block, prior in self.fields:
            total = total + prior.log_prob_of_white(z[block.span].reshape(block.shape))
        return total

    def _of_numbers(self, theta: Array) -> Array:
        """The log prior density of all that is no field."""
        total = jnp.sum(-0.5 * theta[self.shared :] ** 2 - 0.5 * math.log(2 * math.pi))
        for block, prior in self.pairs:
            if block.offset < self.shared and isinstance(prior, StoredPrior):
                values = theta[block.span] if block.shape else theta[block.offset]
                total = total + jnp.sum(jnp.asarray(prior.distribution().log_prob(values), theta.dtype))
        return total + sum(joint.log_density(z) for joint, z in zip(self.joints, self.scores(theta), strict=True))

    def scores(self, theta: Float[Array, " parameters"]) -> list[Array]:
        """The normal scores of the members of each copula."""
        found = []
        for joint in self.joints:
            pairs = [(self.prior_at(place), theta[place]) for place in joint.places]
            found.append(jnp.stack([normal_score(prior, x) for prior, x in pairs]))
        return found

    def prior_at(self, place: int) -> StoredPrior:
        """The prior of the single number at a place among all free ones."""
        prior = next(prior for block, prior in self.pairs if block.offset == place and not block.shape)
        assert isinstance(prior, StoredPrior)
        return prior

    def natural(self, z: Float[Array, "*batch parameters"]) -> Float[Array, "*batch parameters"]:
        """Fit coordinates -> natural units: fields from white coordinates, then the exponential of what moves by its logarithm."""
        for block, prior in self.fields:
            white = z[..., block.span].reshape(*z.shape[:-1], *block.shape)
            z = z.at[..., block.span].set(prior.field(white).reshape(*z.shape[:-1], block.size))
        log = np.broadcast_to(self.is_log, z.shape)
        return jnp.where(log, jnp.exp(jnp.where(log, z, 0)), z)

    def coordinates(self, theta: Float[Array, "*batch parameters"]) -> Float[Array, "*batch parameters"]:
        """Natural units -> fit coordinates."""
        log = np.broadcast_to(self.is_log, theta.shape)
        z = jnp.where(log, jnp.log(jnp.where(log, theta, 1)), theta)
        for block, prior in self.fields:
            values = z[..., block.span].reshape(*z.shape[:-1], *block.shape)
            white = prior.white(values - prior.centre(values))
            z = z.at[..., block.span].set(white.reshape(*z.shape[:-1], block.size))
        return z

    def coordinate_bounds(self) -> Float[Array, "parameters 2"]:
        """The bounds in the coordinates of a fit; white coordinates have none."""
        log = self.is_log[:, None]
        found = jnp.where(log, jnp.log(jnp.where(log, self.bounds, 1)), self.bounds)
        for block, _ in self.fields:
            found = found.at[block.span].set(jnp.asarray([-jnp.inf, jnp.inf], found.dtype))
        return found


def _stored(prior: Any) -> StoredPrior | AbstractFieldPrior | None:
    return StoredPrior.of(prior) if isinstance(prior, dist.Distribution) else prior
