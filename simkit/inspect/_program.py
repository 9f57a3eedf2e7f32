"""One program, seen from all sides: how long it takes to make and to run, what it computes, and where that comes from."""

import collections
import concurrent.futures as futures
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..core import is_library, place_of
from ._blocks import Block, Survey, count_runs
from ._costs import Cost, bytes_of, cost_of
from ._hlo import Kernel, Memory, kernels_of, memory_of

REPEATS = 3
"""So many runs are timed, and the shortest is told."""
BUDGET = 1.0
"""No further run is begun after so many seconds of runs."""


class Seconds(NamedTuple):
    """How long tracing, lowering and compiling took, and one run (the shortest of a few)."""

    trace: float
    lower: float
    compile: float
    run: float


class Share(NamedTuple):
    """What one function of a model, or a room of simkit, has of all operations and bytes."""

    place: str
    flops: float
    bytes: float


class Loop(NamedTuple):
    """A loop: "scan" or "while", how often its body ran in all, and what that computed."""

    kind: str
    runs: int
    flops: float


class ProgramReport(NamedTuple):
    """What `explain` found out about one program.

    - `name`: what it computes; `seconds`: how long its making and a run took.
    - `cost`: operations, transcendental functions and bytes of one run, counted through all loops.
    - `shares`: by function of the model, the largest first; `loops`: those that computed most.
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


def report(name: str, function: Callable[..., Any], arguments: Any) -> ProgramReport:
    """Trace, compile and run a function of pytrees, and count what it does.

    The program that counts is compiled beside the one that is timed, on another core where there is one.
    """
    moving, fixed = eqx.partition(arguments, eqx.is_array)
    leaves, shape = jax.tree.flatten(moving)

    def flat(*leaves: Any) -> Any:
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
    seconds = Seconds(stamps[0] - begin, stamps[2] - stamps[1], stamps[3] - stamps[2], _timed(compiled, leaves))
    cost, shares, loops = _counted(survey, counts)
    return ProgramReport(name, seconds, cost, shares, loops, memory_of(compiled), kernels_of(compiled.as_text() or ""))


def _timed(compiled: Any, leaves: list[Any]) -> float:
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
                    loops.append(Loop(inner.kind, int(ran), cost.flops))
        return total

    total = inside(survey.root, 1.0)
    shares = [Share(place, cost.flops, cost.bytes) for place, cost in by_place.items() if cost.flops or cost.bytes]
    order = sorted(shares, key=lambda share: (share.flops, share.bytes), reverse=True)
    return total, order, sorted(loops, key=lambda loop: loop.flops, reverse=True)


def _label(equation: Any) -> str:
    place = place_of(equation)
    return "simkit (steps, saving, likelihood)" if place is None else f"{place.function} ({place.file}:{place.line})"
