"""One program, seen from all sides: how long it takes to make and to run, what it computes, and where that comes from."""

import collections
import concurrent.futures as futures
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import JaxprEqn
from jaxtyping import Array, PyTree

from ..core import is_library, place_of
from ..engine import lanes_of
from ._costs import Cost, bytes_of, cost_of
from ._hlo import Kernel, Memory, computations_of, kernels_of, memory_of, time_by_place
from ._instruction_times import busy
from ._program_blocks import Block, Survey, count_runs

REPEATS = 3
"""Number of timed runs, of which the shortest is reported."""
ELSEWHERE = "simkit (steps, saving, likelihood)"
"""The place of everything that no model wrote."""
BUDGET = 1.0
"""No further run is begun after so many seconds of runs."""


class Seconds(NamedTuple):
    """Seconds of tracing, lowering and compiling, and of one run (the shortest of a few)."""

    trace: float
    lower: float
    compile: float
    run: float


class Share(NamedTuple):
    """Share of one source line or room of simkit in all operations and bytes, and in the recorded time of a run.

    A kernel that is fused of several lines shares its time among them as their operations are estimated to cost. `seconds` is 0
    where nothing could be recorded.
    """

    place: str
    flops: float
    bytes: float
    seconds: float = 0.0


class Loop(NamedTuple):
    """A loop: "scan" or "while", how often its body ran in all, and what that computed.

    `lanes`: how many members stepped in each turn, of the loop that takes an ensemble's steps; 0 of any other.
    """

    kind: str
    runs: int
    flops: float
    lanes: int = 0


class ProgramReport(NamedTuple):
    """Report of `explain` on one program.

    - `name`: what it computes; `seconds`: how long its making and a run took.
    - `cost`: operations, transcendental functions and bytes of one run, counted through all loops.
    - `shares`: by line of the model, the largest first; `loops`: those that computed most.
    - `memory`: bytes the compiled program holds; `kernels`: the pieces of compiled code.
    """

    name: str
    seconds: Seconds
    cost: Cost
    shares: list[Share]
    loops: list[Loop]
    memory: Memory | None
    kernels: list[Kernel]

    @property
    def intensity(self) -> float:
        """Operations for each byte that is moved."""
        return self.cost.flops / max(self.cost.bytes, 1.0)

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.cost.flops / max(self.seconds.run, 1e-12)


def report(name: str, function: Callable[..., Any], arguments: PyTree, *, run: float = 0.0) -> ProgramReport:
    """Trace, compile and run a function of pytrees, and count what it does.

    `run`: how long one run took, if that is known; a long one is not timed again. The program that counts is compiled beside the
    one that is timed, on another core where there is one.
    """
    moving, fixed = eqx.partition(arguments, eqx.is_array)
    leaves, shape = jax.tree.flatten(moving)

    def flat(*leaves: Array) -> Any:
        out = function(*eqx.combine(jax.tree.unflatten(shape, leaves), fixed))
        return eqx.filter(out, eqx.is_array_like)

    begin = time.perf_counter()
    traced = jax.jit(flat).trace(*leaves)
    stamps = [time.perf_counter()]
    survey = Survey(traced.jaxpr)
    with futures.ThreadPoolExecutor(1) as beside:
        runs = beside.submit(count_runs, survey, traced.jaxpr, leaves)
        stamps.append(time.perf_counter())
        lowered = traced.lower()
        stamps.append(time.perf_counter())
        compiled = lowered.compile()
        stamps.append(time.perf_counter())
        counts = runs.result()
    run = run if run > BUDGET else _timed(compiled, leaves)
    seconds = Seconds(stamps[0] - begin, stamps[2] - stamps[1], stamps[3] - stamps[2], run)
    cost, shares, loops = _counted(survey, counts)
    computations = computations_of(compiled.as_text() or "")
    spent = busy(lambda: jax.block_until_ready(compiled(*leaves)), seconds.run)
    shares = _with_time(shares, time_by_place(computations, spent), seconds.run)
    return ProgramReport(name, seconds, cost, shares, loops, memory_of(compiled), kernels_of(computations))


def _with_time(shares: list[Share], recorded: dict[str | None, float], run: float) -> list[Share]:
    """The shares with their parts of the time of a run; those that compute nothing and take time are added."""
    whole = sum(recorded.values())
    left = {place or ELSEWHERE: run * time / whole for place, time in recorded.items()} if whole > 0 else {}
    timed = [share._replace(seconds=left.pop(share.place, 0.0)) for share in shares]
    return timed + [Share(place, 0.0, 0.0, time) for place, time in left.items() if time > 0]


def _timed(compiled: jax.stages.Compiled, leaves: list[Any]) -> float:
    """The shortest of a few runs, in seconds."""
    spent: list[float] = []
    while len(spent) < REPEATS and sum(spent) < BUDGET:
        begin = time.perf_counter()
        jax.block_until_ready(compiled(*leaves))
        spent.append(time.perf_counter() - begin)
    return min(spent)


def _counted(survey: Survey, counts: np.ndarray) -> tuple[Cost, list[Share], list[Loop]]:
    by_place: dict[str, Cost] = collections.defaultdict(Cost)
    loops = []

    def inside(block: Block, times: float, held: str | None = None) -> Cost:
        """The cost of a block and of all in it; `held` is the place of a call of a library's function, whose code is shared."""
        moved, total = bytes_of(block), Cost()
        for place, equation in enumerate(block.jaxpr.eqns):
            if place not in block.inner:
                cost = cost_of(equation)._replace(bytes=moved[place])
                label = held or _label(equation)
                by_place[label] = by_place[label].plus(cost, times)
                total = total.plus(cost, times)
        for place, inner in block.inner.items():
            for child in inner.blocks:
                ran = survey.runs(child, times, counts)
                shared = is_library(child.jaxpr) and inner.kind == "call"
                cost = inside(child, ran, held or (_label(block.jaxpr.eqns[place]) if shared else None))
                total = total.plus(cost)
                if inner.kind in ("scan", "while"):
                    loops.append(Loop(inner.kind, int(ran), cost.flops, lanes_of(block.jaxpr.eqns[place])))
        return total

    total = inside(survey.root, 1.0)
    shares = [Share(place, cost.flops, cost.bytes) for place, cost in by_place.items() if cost.flops or cost.bytes]
    order = sorted(shares, key=lambda share: (share.flops, share.bytes), reverse=True)
    return total, order, sorted(loops, key=lambda loop: loop.flops, reverse=True)


def _label(equation: JaxprEqn) -> str:
    place = place_of(equation)
    return ELSEWHERE if place is None else place.label
