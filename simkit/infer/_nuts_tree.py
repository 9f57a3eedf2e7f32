"""Trees of NUTS as one loop over gradients: chains in a batch wait for each other at the end of a block, never at a draw."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.random import threefry_2x32
from jaxtyping import Array, Float, Int, UInt32

LOOK, SEARCH, GROW, REST = range(4)
"""Uses of the next gradient of a chain: the value of a place, the length of steps, a tree; or nothing, until the block ends."""

DIVERGED = 1000.0
"""Error of the energy, beyond which a trajectory counts as divergent: Stan's and NumPyro's."""

DELAY, DECAY, SHRINKAGE = 10.0, 0.75, 0.05
"""Dual averaging's t0, kappa and gamma: Hoffman & Gelman (2014), section 3.2."""

PLACE, MOMENTUM, VELOCITY, SLOPE = range(4)
"""Rows of a point of a trajectory."""

EnergyOf = Callable[[Array, Array], tuple[Array, Array]]
"""The root of a chain and a place -> the negative log density there and its gradient."""


class Chain(NamedTuple):
    """The state of a chain between blocks, and of what it adapts.

    - `place`, `slope`, `energy`: the last draw, the gradient and the negative log density there.
    - `phase`: what the next gradient is for; `draw`, `gradients`: how many of them there are.
    - `chance`: the random numbers of the last gradient, white ones for a momentum and three between 0 and 1.
    - `step`: the length of leapfrog steps; `averaging`: the logarithm of its mean, the mean error of acceptance, the number of
        errors in them, and the logarithm around which lengths are tried.
    - `spread`: the inverse mass matrix, or its diagonal; `root`: what turns white numbers to momenta.
    - `mean`, `scatter`, `seen`: mean, sum of squared deviations and number of the draws of a window.
    """

    place: Float[Array, " d"]
    slope: Float[Array, " d"]
    energy: Float[Array, ""]
    phase: Int[Array, ""]
    draw: Int[Array, ""]
    gradients: UInt32[Array, ""]
    chance: Float[Array, " chances"]
    step: Float[Array, ""]
    averaging: Float[Array, "4"]
    spread: Float[Array, "... d"]
    root: Float[Array, "... d"]
    mean: Float[Array, " d"]
    scatter: Float[Array, "... d"]
    seen: Float[Array, ""]


class Block(NamedTuple):
    """The settings of all draws of a block: where it ends, whether steps and windows learn, and the settings of the method."""

    until: Int[Array, ""]
    warming: Array
    learning: Array
    target: Float[Array, ""]


class Tree(NamedTuple):
    """A trajectory that grows, and the half that is being added to it.

    - `at`: the point from which the next step goes; `left`, `right`: the ends of the whole.
    - `held`, `other`: place and gradient of the proposals of the whole and of the new half; `energies`: theirs.
    - `weights`: logarithms of the sums of weights of both; `sums`: sums of their momenta.
    - `begun`: the energy at the start; `going`: the direction; `depth`, `leaf`: doublings, and steps of the new half.
    - `marks`: momentum, velocity and sum of momenta where halves of the new half began, one a level.
    - `accept`, `steps`: sum of acceptance probabilities, and their number; `turn`: the last change of the step's length.
    """

    at: Float[Array, "4 d"]
    left: Float[Array, "4 d"]
    right: Float[Array, "4 d"]
    held: Float[Array, "2 d"]
    other: Float[Array, "2 d"]
    energies: Float[Array, "2"]
    weights: Float[Array, "2"]
    sums: Float[Array, "2 d"]
    begun: Float[Array, ""]
    going: Float[Array, ""]
    depth: Int[Array, ""]
    leaf: Int[Array, ""]
    marks: Float[Array, "3 depth d"]
    accept: Float[Array, ""]
    steps: Int[Array, ""]
    turn: Int[Array, ""]


def grown(
    energy_of: EnergyOf,
    roots: Array,
    chains: Chain,
    keys: UInt32[Array, "chain 2"],
    block: Block,
    size: int,
    max_depth: int,
) -> tuple[Chain, Float[Array, "chain draw row"]]:
    """Chains after the draws of a block, at most `size` of them, and a row for each draw.

    A row holds the place, the negative log density, 1 for a divergence, the number of gradients, and the mean acceptance
    probability.

    Every turn of the loop takes one leapfrog step of each chain, whatever it is for; what comes next is chosen by `phase`.
    Multinomial trajectories, whose halves are joined with a bias to the new one, and that end where they turn by the sum of their
    momenta: Betancourt (2017), arXiv:1701.02434, appendix A; without recursion: Phan, Pradhan & Jankowiak (2019),
    arXiv:1912.11554; one gradient a turn: Dance, Glaser, Orbanz & Adams (2025), arXiv:2503.17405.
    """
    count, d = chains.place.shape
    begin = jnp.where((chains.phase == REST) & (chains.draw < block.until), GROW, chains.phase)
    chains = chains._replace(phase=begin)
    trees = jax.vmap(lambda chain: _first(chain, max_depth))(chains)
    rows = jnp.zeros((count, size, d + 4), chains.place.dtype)
    turn = jax.vmap(lambda *each: _turn(energy_of, block, max_depth, *each))

    def turns(carry: tuple[Chain, Tree, Array]) -> tuple[Chain, Tree, Array]:
        return turn(keys, roots, chains.draw, *carry)

    going = lambda carry: jnp.any(carry[0].phase != REST)
    found, _, rows = jax.lax.while_loop(going, turns, (chains, trees, rows))
    return found, rows


def _first(chain: Chain, max_depth: int) -> Tree:
    """The tree of a chain at the start of a block, with the numbers of the last gradient: as if no block had ended there."""
    d, dtype = chain.place.shape[0], chain.place.dtype
    zero, whole = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
    point, pair = jnp.zeros((4, d), dtype).at[PLACE].set(chain.place), jnp.zeros((2, d), dtype)
    level = jnp.zeros((3, max_depth, d), dtype)
    two = jnp.zeros(2, dtype)
    tree = Tree(point, point, point, pair, pair, two, two, pair, zero, zero, whole, whole, level, zero, whole, whole)
    planted = _planted(chain, tree, chain.chance)
    return tree._replace(**{n: jnp.where(chain.phase == LOOK, getattr(tree, n), x) for n, x in planted.items()})


def _turn(
    energy_of: EnergyOf,
    block: Block,
    max_depth: int,
    key: Array,
    root: Array,
    first: Array,
    chain: Chain,
    tree: Tree,
    rows: Array,
) -> tuple[Chain, Tree, Array]:
    """One gradient of a chain, and what follows from it."""
    looking, searching, growing = (chain.phase == phase for phase in (LOOK, SEARCH, GROW))
    length = jnp.where(growing, tree.going * chain.step, jnp.where(searching, chain.step, 0))
    point, energy = _leapt(lambda x: energy_of(root, x), chain, tree.at, length)
    # Else XLA would write the hash and the gradient into each operation that reads them.
    chance, point, energy = jax.lax.optimization_barrier((_chance(key, chain), point, energy))
    change = energy + 0.5 * _dot(point[MOMENTUM], point[VELOCITY]) - tree.begun
    change = jnp.where(jnp.isnan(change), jnp.inf, change)
    accept = jnp.exp(jnp.minimum(-change, 0))
    grew, over, diverging = _joined(tree, point, energy, change, accept, jnp.log(chance[-3:-1]), max_depth)
    grew, over, diverging = jax.lax.optimization_barrier((grew, over, diverging))
    ended = growing & over
    place = jnp.where(ended, grew.held[0], chain.place)
    slope = jnp.where(ended, grew.held[1], jnp.where(looking, point[SLOPE], chain.slope))
    value = jnp.where(ended, grew.energies[0], jnp.where(looking, energy, chain.energy))
    mean = grew.accept / jnp.maximum(grew.steps, 1)
    row = jnp.concatenate([place, jnp.stack([value, diverging, grew.steps, mean]).astype(rows.dtype)])
    here = ended & (jnp.arange(len(rows)) == chain.draw - first)
    rows = jnp.where(here[:, None], row, rows)
    # The length of steps doubles or halves until acceptance crosses its target.
    turned = jnp.where(accept > block.target, 1, -1).astype(jnp.int32)
    least = jnp.finfo(chain.step.dtype).eps
    again = searching & (chain.step > least) & (chain.step < 1 / least) & ((tree.turn == 0) | (tree.turn == turned))
    begins = searching & ~again
    step = jnp.where(again, chain.step * jnp.exp2(turned.astype(chain.step.dtype)), chain.step)
    averaging, tried = _averaged(chain.averaging, block.target - mean)
    learns = ended & block.warming
    averaging = jnp.where(begins, _around(step), jnp.where(learns, averaging, chain.averaging))
    rests = looking | (ended & (chain.draw + 1 >= block.until))
    chain = chain._replace(
        place=place,
        slope=slope,
        energy=value,
        phase=jnp.where(rests, REST, jnp.where(begins, GROW, chain.phase)),
        draw=chain.draw + ended,
        gradients=chain.gradients + (chain.phase != REST),
        chance=jnp.where(chain.phase != REST, chance, chain.chance),
        step=jnp.where(learns, tried, step),
        averaging=averaging,
    )
    chain = _noted(chain, ended & block.learning)
    tree = _next_half(grew, chance[-1])
    planted = _planted(chain, grew, chance)
    tree = tree._replace(**{n: jnp.where(searching | ended, x, getattr(tree, n)) for n, x in planted.items()})
    return chain, tree._replace(turn=jnp.where(again, turned, 0)), rows


def _leapt(
    energy_of: Callable[[Array], tuple[Array, Array]], chain: Chain, at: Array, length: Array
) -> tuple[Array, Array]:
    """The point after one leapfrog step, and the negative log density there."""
    half = at[MOMENTUM] - 0.5 * length * at[SLOPE]
    place = at[PLACE] + length * _times(chain.spread, half)
    energy, slope = energy_of(place)
    momentum = half - 0.5 * length * slope
    return jnp.stack([place, momentum, _times(chain.spread, momentum), slope]), energy


def _times(matrix: Array, x: Array) -> Array:
    """A matrix, or the diagonal of one, times a vector."""
    return jnp.sum(matrix * x, axis=1) if matrix.ndim == 2 else matrix * x


def _dot(a: Array, b: Array) -> Array:
    return jnp.sum(a * b, axis=-1)


def _chance(key: UInt32[Array, "2"], chain: Chain) -> Float[Array, " chances"]:
    """The random numbers of a gradient: white ones for a momentum, and three between 0 and 1.

    One hash of the number of the gradient: Box & Muller (1958), doi:10.1214/aoms/1177706645, takes its bits in pairs.
    """
    d, dtype = chain.place.shape[0], chain.place.dtype
    pairs = (d + 1) // 2
    size = 2 * pairs + 3
    words = jnp.concatenate([jnp.full(size, chain.gradients), jnp.arange(size, dtype=jnp.uint32)])
    high, low = threefry_2x32(key, words).reshape(2, size)
    if dtype == jnp.float64:
        unit = (high.astype(dtype) + (low.astype(dtype) + 0.5) * 2.0**-32) * 2.0**-32
    else:
        unit = ((high >> 8).astype(dtype) + 0.5) * 2.0**-24
    radius, angle = jnp.sqrt(-2 * jnp.log(unit[:pairs])), 2 * jnp.pi * unit[pairs : 2 * pairs]
    white = jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)])
    return jnp.concatenate([white[:d], unit[2 * pairs :]])


def _planted(chain: Chain, tree: Tree, chance: Array) -> dict[str, Array]:
    """A tree of one point, with a momentum of its own, that is about to grow: what it changes of another one."""
    momentum = _times(chain.root, chance[:-3])
    velocity = _times(chain.spread, momentum)
    point = jnp.stack([chain.place, momentum, velocity, chain.slope])
    zero = jnp.zeros((), chain.place.dtype)
    return {
        "at": point,
        "left": point,
        "right": point,
        "held": jnp.stack([chain.place, chain.slope]),
        "energies": jnp.stack([chain.energy, chain.energy]),
        "weights": jnp.stack([zero, zero - jnp.inf]),
        "sums": jnp.stack([momentum, jnp.zeros_like(momentum)]),
        "begun": chain.energy + 0.5 * _dot(momentum, velocity),
        "going": _side(chance[-1]),
        "depth": jnp.zeros_like(tree.depth),
        "leaf": jnp.zeros_like(tree.leaf),
        "accept": zero,
        "steps": jnp.zeros_like(tree.steps),
    }


def _side(chance: Array) -> Array:
    """Either direction."""
    return jnp.where(chance < 0.5, 1, -1).astype(chance.dtype)


def _joined(
    tree: Tree, point: Array, energy: Array, change: Array, accept: Array, logs: Array, max_depth: int
) -> tuple[Tree, Array, Array]:
    """A tree with one more point, whether it is at its end, and whether because it diverged.

    The point joins the new half; where that is full, or turns, it joins the tree. `leaf` is 0 again then.
    """
    levels = jnp.arange(max_depth)
    weight = jnp.logaddexp(tree.weights[1], -change)
    take = logs[0] < -change - weight
    other = jnp.where(take, jnp.stack([point[PLACE], point[SLOPE]]), tree.other)
    other_energy = jnp.where(take, energy, tree.energies[1])
    total = tree.sums[1] + point[MOMENTUM]
    # Where halves of halves began, by the binary digits of the number of the point.
    level = jax.lax.population_count(tree.leaf >> 1)
    lowest = level - jax.lax.population_count(tree.leaf ^ (tree.leaf + 1)) + 2
    odd = tree.leaf % 2 == 1
    put = (~odd & (levels == level))[:, None]
    mark = jnp.stack([point[MOMENTUM], point[VELOCITY], total])
    marks = jnp.where(put, mark[:, None], tree.marks)
    middle = total - marks[2] + 0.5 * (marks[0] - point[MOMENTUM])
    turns = (_dot(marks[1], middle) <= 0) | (_dot(middle, point[VELOCITY]) <= 0)
    diverging = change > DIVERGED
    broken = jnp.any(turns & odd & (levels >= lowest) & (levels <= level)) | diverging
    full = tree.leaf + 1 == 2**tree.depth
    joins = full | broken
    # The tree with the new half.
    left = jnp.where(joins & (tree.going < 0), point, tree.left)
    right = jnp.where(joins & (tree.going > 0), point, tree.right)
    move = joins & ~broken & (logs[1] < weight - tree.weights[0])
    held = jnp.where(move, other, tree.held)
    whole = jnp.where(joins, tree.sums[0] + total, tree.sums[0])
    middle = whole - 0.5 * (left[MOMENTUM] + right[MOMENTUM])
    turned = (_dot(left[VELOCITY], middle) <= 0) | (_dot(right[VELOCITY], middle) <= 0)
    depth = tree.depth + joins
    grew = tree._replace(
        at=point,
        left=left,
        right=right,
        held=held,
        other=other,
        energies=jnp.stack([jnp.where(move, other_energy, tree.energies[0]), other_energy]),
        weights=jnp.stack([jnp.where(joins, jnp.logaddexp(tree.weights[0], weight), tree.weights[0]), weight]),
        sums=jnp.stack([whole, total]),
        depth=depth,
        leaf=jnp.where(joins, 0, tree.leaf + 1),
        marks=marks,
        accept=tree.accept + accept,
        steps=tree.steps + 1,
    )
    return grew, joins & (broken | turned | (depth >= max_depth)), diverging


def _next_half(tree: Tree, chance: Array) -> Tree:
    """A tree that goes on: with the same half, or where that has joined with another one, on a side of its own."""
    anew = tree.leaf == 0
    going = jnp.where(anew, _side(chance), tree.going)
    return tree._replace(
        at=jnp.where(anew, jnp.where(going > 0, tree.right, tree.left), tree.at),
        weights=jnp.stack([tree.weights[0], jnp.where(anew, -jnp.inf, tree.weights[1])]),
        sums=jnp.stack([tree.sums[0], jnp.where(anew, 0, tree.sums[1])]),
        going=going,
    )


def _around(step: Array) -> Array:
    """Dual averaging that begins around ten times a length: short steps cost more than long ones."""
    zero = jnp.zeros((), step.dtype)
    return jnp.stack([zero, zero, zero, jnp.log(10 * step)])


def _averaged(averaging: Array, error: Array) -> tuple[Array, Array]:
    """Dual averaging after one more error of acceptance, and the length to try next."""
    mean, errors, count, center = averaging
    count = count + 1
    errors = (1 - 1 / (count + DELAY)) * errors + error / (count + DELAY)
    log = center - jnp.sqrt(count) / SHRINKAGE * errors
    share = count**-DECAY
    return jnp.stack([(1 - share) * mean + share * log, errors, count, center]), jnp.exp(log)


def _noted(chain: Chain, learns: Array) -> Chain:
    """Mean and scatter of a window with one more draw: Welford's sums."""
    seen = chain.seen + 1
    before = chain.place - chain.mean
    mean = chain.mean + before / seen
    after = chain.place - mean
    more = before[:, None] * after[None] if chain.scatter.ndim == 2 else before * after
    return chain._replace(
        mean=jnp.where(learns, mean, chain.mean),
        scatter=jnp.where(learns, chain.scatter + more, chain.scatter),
        seen=jnp.where(learns, seen, chain.seen),
    )
