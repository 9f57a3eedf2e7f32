"""Paths of jump processes: many members in lanes, each with the random numbers of its own key."""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ...core import JumpSystem, KnownProducts, Status, at_time, flat_propensities, jump_matrix, thinned
from ...solvers import TauLeaping
from ..task._task import Frame, framed
from ._leaps import Leap, Leaps
from ._sparse import Sparse

BLOCK = 16
"""Attempts between two looks at the lanes: save times are written and members change only there. It is part of the definition of a
path, since a path's random numbers begin anew there."""

LANE_NUMBERS = 2**16
"""Numbers of states and propensities of all lanes: 256 kB, which stay in a core's cache."""

MOST_LANES = 4096

VECTORS = 64
"""Numbers of lanes are multiples of this: the compiler leaves loops of other lengths without vectors."""

FEW = 32
"""Reactions up to which sums and changes are written out, one operation each: of more the programs would be long to compile."""

ROUNDING = 64
"""Units of rounding by which the sum of propensities may be larger than its bound."""

IDLE, GOING, ARRIVED = 0, 1, 2


class Paths(NamedTuple):
    """Paths of all members, with a leading axis of them."""

    rows: Array  # (members, stops, numbers): the states at the stops, NaN from a failure on
    status: Array
    jumps: Array
    time: Array  # where a path failed
    state: Array


class Posed(NamedTuple):
    """Operands of paths; leaves are arrays of all members together or with a leading axis of them."""

    system: JumpSystem
    y0: Any
    inputs: Any
    start: Array
    stops: Array  # increasing, shape (stops,)
    key: Array


def paths(posed: Posed, method: Any) -> Paths:
    """The path of one member. Under `vmap` all members are one queue, whose lanes are never idle for long."""
    frame, leaves = framed(posed._replace(key=posed.key[None]), method)
    own = tuple(leaf is leaves[-1] for leaf in leaves)
    found = _queue(frame, own)(*leaves)
    return jax.tree.map(lambda x: x[0], found)


@functools.lru_cache(maxsize=1024)
def _queue(frame: Frame, own: tuple[bool, ...]) -> Any:
    """A function of leaves of which some have a leading axis of members, batched by making this axis longer."""

    @jax.custom_batching.custom_vmap
    def run(*leaves: Array) -> Paths:
        return _run(frame, own, leaves)

    @run.def_vmap
    def batched(size: int, has: Sequence[bool], *leaves: Array) -> tuple[Paths, Paths]:
        members = next(x.shape[1 if more else 0] for x, mine, more in zip(leaves, own, has, strict=True) if mine)
        merged = []
        for x, mine, more in zip(leaves, own, has, strict=True):
            if mine and more:
                x = x.reshape(size * members, *x.shape[2:])
            elif more and members > 1:
                x = jnp.repeat(x, members, axis=0)
            elif mine:
                x = jnp.concatenate([x] * size)
            merged.append(x)
        now = tuple(a or b for a, b in zip(own, has, strict=True))
        found = _queue(frame, now)(*merged)
        found = jax.tree.map(lambda x: x.reshape(size, members, *x.shape[1:]), found)
        return found, jax.tree.map(lambda _: True, found)

    return run


class Leaping(NamedTuple):
    """Contents of lanes for leaps."""

    y: Array  # numbers of the state
    halved: Array  # how often the next leap is to be halved


class Lanes(NamedTuple):
    """Members in the lanes, lanes last."""

    member: Array
    state: Array  # IDLE, GOING or ARRIVED
    time: Array
    y: Any  # numbers of the state: an array for each, one array of all, what `Sparse` holds, or for leaps `Leaping`
    row: Array  # the stop that comes next
    stop: Array  # and its time
    block: Array
    jumps: Array
    status: Array


def _run(frame: Frame, own: tuple[bool, ...], leaves: Sequence[Array]) -> Paths:
    """Take all members through the lanes."""
    program = _Program(frame, own, leaves)
    found = jax.lax.while_loop(program.busy, program.turn, program.begin())
    return found[0]


class _Program:
    """Loop over blocks of attempts."""

    def __init__(self, frame: Frame, own: tuple[bool, ...], leaves: Sequence[Array]):
        self.frame, self.own, self.leaves = frame, own, list(leaves)
        self.members = next(x.shape[0] for x, mine in zip(leaves, own, strict=True) if mine)
        first: Posed = frame.filled([x[0] if mine else x for x, mine in zip(leaves, own, strict=True)])
        self.first = first
        self.shapes = [x.shape for x in jax.tree.leaves(first.y0)]
        self.structure = jax.tree.structure(first.y0)
        self.dtype = jnp.result_type(*jax.tree.leaves(first.y0))
        self.jumps = jump_matrix(first.system, first.y0)
        self.count, self.size = self.jumps.shape
        self.stops = first.stops.shape[0]
        leaps = isinstance(frame.options, TauLeaping)
        self.wide = leaps or self.count > FEW
        self.adjusts = type(first.system).adjusted is not JumpSystem.adjusted
        self.thins = thinned(first.system)
        few = not self.wide or leaps or self.adjusts or self.thins
        known = None if few or not isinstance(first.system, KnownProducts) else first.system
        # Where most propensities are no products, all are computed anew.
        if known is not None and 2 * sum(c < 0 for c in known.products().coefficients) > self.count:
            known = None
        room = LANE_NUMBERS // (self.count + 2 * self.size)
        most = max(VECTORS, min(MOST_LANES, room // VECTORS * VECTORS))
        each = -(-self.members // -(-self.members // most))  # in equal turns: members of one kind end together
        self.lanes = min(self.members, -(-each // VECTORS) * VECTORS)
        self.sparse = Sparse(known, first.y0, self.dtype, self.lanes) if known is not None else None
        self.leaps = None
        if leaps:
            y = jnp.concatenate([jnp.ravel(x).astype(self.dtype) for x in jax.tree.leaves(first.y0)])
            given = first.start, y, at_time(first.inputs, first.start)
            self.leaps = Leaps(first.system, given, self.jumps, self.state, frame.options)
        self.most = frame.options.max_steps if leaps else frame.options.max_jumps

    # ---- members ----

    def picked(self, member: Array) -> list[Array]:
        """Operands that each member in the lanes has of its own, lanes first."""
        return [x[member] for x, mine in zip(self.leaves, self.own, strict=True) if mine]

    def over_lanes(self, function: Any, held: list[Array], *lanes: PyTree) -> Any:
        """A function of one member's operands and of further values with lanes last, lane by lane."""

        def one(held: list[Array], *rest: PyTree) -> Any:
            parts = iter(held)
            return function(
                self.frame.filled([next(parts) if own else x for x, own in zip(self.leaves, self.own, strict=True)]),
                *rest,
            )

        return jax.vmap(one, in_axes=(0, *(-1 for _ in lanes)), out_axes=-1)(held, *lanes)

    def flat(self, y: Any) -> Any:
        parts = [leaf.reshape(-1).astype(self.dtype) for leaf in jax.tree.leaves(y)]
        return jnp.concatenate(parts) if self.wide else tuple(x for part in parts for x in part)

    def state(self, numbers: Any) -> Any:
        """A state of its numbers."""
        leaves, first = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            part = numbers[first : first + size]
            leaves.append(part[0] if shape == () else jnp.stack(list(part)).reshape(shape))
            first += size
        return jax.tree.unflatten(self.structure, leaves)

    def begin(self) -> Any:
        nothing = Paths(
            jnp.full((self.members, self.stops, self.size), jnp.nan, self.dtype),
            jnp.zeros((self.members,), jnp.int32),
            jnp.zeros((self.members,), jnp.int32),
            jnp.zeros((self.members,), self.dtype),
            jnp.zeros((self.members, self.size), self.dtype),
        )
        member = jnp.arange(self.lanes, dtype=jnp.int32)
        held = self.picked(member)
        return nothing, jnp.asarray(self.lanes, jnp.int32), held, self.loaded(held, member)

    def loaded(self, held: list[Array], member: Array) -> Lanes:
        """Members at their starts."""
        start = lambda p: (self.flat(p.y0), p.start.astype(self.dtype), p.stops[0].astype(self.dtype))
        y, time, stop = self.over_lanes(start, held)
        if self.sparse:
            y = self.sparse.begun(y, self.over_lanes(lambda p: p.system.coefficients(), held))
        elif self.leaps:
            y = Leaping(y, jnp.zeros((self.lanes,), jnp.int32))
        whole = lambda x: jnp.broadcast_to(x, (self.lanes,))
        zero = jnp.zeros((self.lanes,), jnp.int32)
        state = jnp.where(member < self.members, GOING, IDLE).astype(jnp.int32)
        return Lanes(
            member,
            state,
            whole(time),
            y if self.wide else tuple(map(whole, y)),
            zero,
            whole(stop),
            zero,
            zero,
            zero + int(Status.OK),
        )

    # ---- jumps ----

    def turn(self, carry: Any) -> Any:
        """One block of attempts, and what follows for the lanes."""
        found, following, held, lanes = carry
        bits = self.over_lanes(self.numbers, held, lanes.block)
        lanes, _ = jax.lax.scan(lambda lanes, bits: (self.attempt(held, lanes, bits), None), lanes, bits)
        lanes = lanes._replace(block=lanes.block + 1)
        lanes = self.reviewed(lanes)
        found, lanes = self.written(found, held, lanes)
        done = (lanes.state == IDLE) & (lanes.member < self.members)
        refill = functools.partial(self.refilled, done)
        same = lambda following, held, lanes: (following, held, lanes)
        return found, *jax.lax.cond(jnp.any(done), refill, same, following, held, lanes)

    def busy(self, carry: Any) -> Array:
        return jnp.any(carry[-1].member < self.members)

    def numbers(self, posed: Posed, block: Array) -> Array:
        """The random bits of a block of one member."""
        return jax.random.bits(jax.random.fold_in(posed.key, block), (BLOCK, 2), jnp.uint32)

    def uniform(self, bits: Array) -> Array:
        """Numbers between 0 and 1, without both ends."""
        if self.dtype == jnp.float64:
            return (bits.astype(self.dtype) + 0.5) * 2.0**-32
        return ((bits >> 9).astype(self.dtype) + 0.5) * 2.0**-23

    def bounded(self, held: list[Array], lanes: Lanes) -> Array:
        """The bound of the sum of all propensities up to the next stop; NaN for what is none."""

        def one(p: Posed, time: Array, stop: Array, y: Any) -> Array:
            found = p.system.bound(time, stop, self.state(y), at_time(p.inputs, time))
            return jnp.asarray(found).astype(self.dtype).reshape(())

        found = self.over_lanes(one, held, lanes.time, lanes.stop, lanes.y)
        return jnp.where(found >= 0, found, jnp.nan)

    def weighed(self, held: list[Array], lanes: Lanes) -> tuple[Lanes, Any, Array]:
        """The sums of propensities from which a reaction is chosen, and the sum of all."""

        def rates(p: Posed, time: Array, y: Any) -> Array:
            given = time, self.state(y), at_time(p.inputs, time)
            system: Any = p.system
            return (system.others(*given) if self.sparse else flat_propensities(system, *given)).astype(self.dtype)

        if self.sparse:
            given = self.sparse.plan.free[1] > 0
            others = self.over_lanes(rates, held, lanes.time, self.sparse.numbers(lanes.y)) if given else None
            y, passed, total = self.sparse.weighed(lanes.y, others)
            return lanes._replace(y=y), passed, total
        passed = self.summed(self.over_lanes(rates, held, lanes.time, lanes.y))
        return lanes, passed, passed[-1]

    def attempt(self, held: list[Array], lanes: Lanes, bits: Array) -> Lanes:
        """The next jump of each lane, or its stop where that comes first."""
        if self.leaps:
            return self.leapt(self.leaps, held, lanes, bits)
        first, second = self.uniform(bits[0]), self.uniform(bits[1])
        beyond, stuck = jnp.zeros_like(lanes.state, bool), lanes.time
        if self.thins:
            total = self.bounded(held, lanes)
            time = lanes.time - jnp.log(first) / total
            # Beyond the stop the bound does not hold, and nothing happens.
            stuck = jnp.minimum(time, lanes.stop)
            _, passed, reached = self.weighed(held, lanes._replace(time=stuck))
            beyond = reached > total * (1 + ROUNDING * float(jnp.finfo(self.dtype).eps))
            total = jnp.where(jnp.isnan(reached), jnp.nan, total)
        else:
            lanes, passed, total = self.weighed(held, lanes)
            time = lanes.time - jnp.log(first) / total
        going, bad = lanes.state == GOING, jnp.isnan(total) | beyond
        jumped = going & (time < lanes.stop) & ~bad
        arrived = going & ~jumped & ~bad
        target = second * total
        if self.sparse:
            y = self.sparse.moved(lanes.y, passed, target, jumped)
        else:
            y = self.moved(jnp.where(jumped, self.number_passed(passed, target), self.count), lanes.y)
        state = jnp.where(arrived | (going & bad), ARRIVED, lanes.state).astype(jnp.int32)
        why = jnp.where(beyond, int(Status.BOUND_PASSED), int(Status.NEGATIVE_PROPENSITY))
        status = jnp.where(going & bad, why, lanes.status).astype(jnp.int32)
        time = jnp.where(jumped, time, jnp.where(arrived, lanes.stop, jnp.where(going & bad, stuck, lanes.time)))
        if self.adjusts:
            y = self.adjusted(held, lanes, time, y)
        return lanes._replace(time=time, y=y, state=state, jumps=lanes.jumps + jumped.astype(jnp.int32), status=status)

    def leapt(self, leaps: Leaps, held: list[Array], lanes: Lanes, bits: Array) -> Lanes:
        """The next leap of each lane, which ends at its stop at the latest."""

        def one(p: Posed, time: Array, stop: Array, y: Array, halved: Array, bits: Array) -> Leap:
            return leaps(p.system, (time, y, at_time(p.inputs, time)), stop - time, halved, bits)

        found = self.over_lanes(one, held, lanes.time, lanes.stop, *lanes.y, bits)
        going = lanes.state == GOING
        arrived = going & (found.bad | (found.passed >= lanes.stop - lanes.time))
        time = jnp.where(arrived, lanes.stop, lanes.time + found.passed)
        moved = going & ~found.bad
        return lanes._replace(
            time=jnp.where(moved, time, lanes.time),
            y=Leaping(jnp.where(moved[None], found.y, lanes.y.y), jnp.where(moved, found.halved, lanes.y.halved)),
            state=jnp.where(arrived, ARRIVED, lanes.state).astype(jnp.int32),
            jumps=lanes.jumps + moved.astype(jnp.int32),
            status=jnp.where(going & found.bad, int(Status.NEGATIVE_PROPENSITY), lanes.status).astype(jnp.int32),
        )

    def summed(self, rate: Array) -> Any:
        """Sums of the first propensities, NaN from one on that is negative or no number."""
        sound = jnp.where(rate >= 0, rate, jnp.nan)
        if self.wide:
            return jnp.cumsum(sound, axis=0)
        return list(itertools.accumulate(sound, jnp.add))

    def number_passed(self, passed: Any, target: Array) -> Array:
        """Return the number of sums that the target has passed, which is the place of the reaction that it falls on."""
        if self.wide:
            return jnp.sum(passed <= target[None], axis=0, dtype=jnp.int32)
        return functools.reduce(jnp.add, [(x <= target).astype(jnp.int32) for x in passed])

    def moved(self, chosen: Array, y: Any) -> Any:
        """The state after the chosen reaction; one behind the last changes nothing."""
        if self.wide:
            table = jnp.asarray(np.concatenate([self.jumps, np.zeros((1, self.size))]), self.dtype)
            return y + table[chosen].T
        return tuple(self.component(chosen, i, x) for i, x in enumerate(y))

    def component(self, chosen: Array, i: int, x: Array) -> Array:
        """A number of the state after the chosen reaction, without a table: comparisons work on many lanes at once."""
        changes: dict[float, list[int]] = {}
        for j in np.flatnonzero(self.jumps[:, i]).tolist():
            changes.setdefault(float(self.jumps[j, i]), []).append(j)
        for change, reactions in changes.items():
            hit = functools.reduce(jnp.logical_or, [chosen == j for j in reactions])
            x = x + jnp.where(hit, jnp.asarray(change, x.dtype), 0)
        return x

    def adjusted(self, held: list[Array], lanes: Lanes, time: Array, y: Any) -> Any:
        def one(p: Posed, before: Any, time: Array, y: Any) -> Any:
            old = before[0], self.state(before[1])
            return self.flat(p.system.adjusted(old, time, self.state(y), at_time(p.inputs, time)))

        after = self.over_lanes(one, held, (lanes.time, lanes.y), time, y)
        live = lanes.state == GOING
        return jax.tree.map(lambda a, b: jnp.where(live, a, b), after, y)

    # ---- after a block ----

    def counts(self, y: Any) -> Array:
        """The numbers of the states as one array."""
        return self.sparse.numbers(y) if self.sparse else y.y if self.leaps else jnp.stack(y)

    def reviewed(self, lanes: Lanes) -> Lanes:
        """Lanes with the status of those whose numbers are too large, or that have jumped too often."""
        largest = jnp.max(jnp.abs(self.counts(lanes.y)), axis=0)
        whole = 2.0 ** (np.finfo(self.dtype).nmant + 1)
        live = (lanes.state != IDLE) & (lanes.status == Status.OK)
        status = jnp.where(live & ~(largest <= whole), int(Status.TOO_MANY), lanes.status)
        status = jnp.where(live & (lanes.jumps >= self.most), int(Status.STEP_LIMIT), status)
        state = jnp.where((status != Status.OK) & (lanes.state != IDLE), ARRIVED, lanes.state)
        return lanes._replace(status=status.astype(jnp.int32), state=state.astype(jnp.int32))

    def written(self, found: Paths, held: list[Array], lanes: Lanes) -> tuple[Paths, Lanes]:
        """Write the rows of lanes that have arrived at a stop."""
        arrived = lanes.state == ARRIVED
        row = lanes.row + arrived.astype(jnp.int32)
        ended = arrived & ((row >= self.stops) | (lanes.status != Status.OK))
        y = self.counts(lanes.y).T
        place = jnp.where(arrived, lanes.member, self.members)
        seen = jnp.where((lanes.status == Status.OK)[:, None], y, jnp.nan)
        rows = found.rows.at[place, lanes.row].set(seen, mode="drop", unique_indices=True)
        ends = lambda found: self.ended(found, lanes, y, ended)
        found = jax.lax.cond(jnp.any(ended), ends, lambda found: found, found._replace(rows=rows))
        next_stop = self.over_lanes(lambda p, row: p.stops[jnp.minimum(row, self.stops - 1)], held, row)
        state = jnp.where(ended, IDLE, jnp.where(arrived, GOING, lanes.state)).astype(jnp.int32)
        return found, lanes._replace(row=row, stop=next_stop.astype(self.dtype), state=state)

    def ended(self, found: Paths, lanes: Lanes, y: Array, ended: Array) -> Paths:
        """Write what is known of members that have ended."""
        place = jnp.where(ended, lanes.member, self.members)
        put = lambda into, x: into.at[place].set(x, mode="drop", unique_indices=True)
        status, jumps, time, state = (
            put(a, b) for a, b in zip(found[1:], (lanes.status, lanes.jumps, lanes.time, y), strict=True)
        )
        return Paths(found.rows, status, jumps, time, state)

    def refilled(self, done: Array, following: Array, held: list[Array], lanes: Lanes) -> Any:
        """Lanes of which those that are done have the next members."""
        place = following + jnp.cumsum(done, dtype=jnp.int32) - 1
        member = jnp.where(done, jnp.minimum(place, self.members), lanes.member)
        held = self.picked(jnp.minimum(member, self.members - 1))
        new = self.loaded(held, member)
        lanes = jax.tree.map(lambda a, b: jnp.where(done, a, b), new, lanes)
        return following + jnp.sum(done, dtype=jnp.int32), held, lanes
