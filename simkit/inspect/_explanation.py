"""Result of `explain`: printed, as JSON, and as a picture."""

import json
from typing import NamedTuple

import equinox as eqx

from .._errors import ArgumentError
from ..linear import Structure
from ._diagram import draw, draw_pattern
from ._machine import Machine
from ._program import ProgramReport

SHOWN = 6
"""Most functions, loops and kernels that are printed."""


class Calls(NamedTuple):
    """Compilations of a verb: `traced` and `compiled` in the first call, `compiled_again` in the second, and the reason."""

    traced: int
    compiled: int
    compiled_again: int
    reasons: tuple[str, ...]


class Stage(NamedTuple):
    """One station of the data: what it is called, name, float type and shape of its arrays, and a remark."""

    label: str
    rows: list[tuple[str, str, tuple[int, ...]]]
    remark: str


class Steps(NamedTuple):
    """Steps of a simulation: accepted and rejected steps and evaluations of the model, summed over the members.

    - `idle`: of an ensemble the share of the lanes' steps that served no member: of lanes that waited for the next refill, or
        found the queue empty. None where there are no lanes.
    - `solver`: the method; `stiffness`: what a coarse walk along the solution says, or why there was none.
    """

    accepted: int
    rejected: int
    evaluations: int
    idle: float | None
    solver: str
    stiffness: str


class Explanation(eqx.Module):
    """Costs of a simulation as JAX compiles it; it prints itself, and draws itself in a notebook.

    - `target`: what was explained; `programs`: one report each: the thing itself, its derivative, the step of a fit.
    - `calls`: how often it was traced and compiled, and because of which argument again.
    - `stages`: names, float types and shapes before and after `vmap`, `shard_map` and `grad`.
    - `machine`: what this machine can do; `steps`: of a simulation, how it stepped.
    - `joules`: the energy of one run, where the processor counts it.
    - `jacobian`: of a run of `Rodas5P` or `BDF` the structure by which its equations were solved; `spy()` draws the pattern.
    """

    target: str = eqx.field(static=True)
    programs: list[ProgramReport] = eqx.field(static=True)
    calls: Calls = eqx.field(static=True)
    stages: list[Stage] = eqx.field(static=True)
    machine: Machine = eqx.field(static=True)
    steps: Steps | None = eqx.field(static=True)
    joules: float | None = eqx.field(static=True)
    jacobian: Structure | None = eqx.field(static=True, default=None)

    def to_json(self) -> str:
        """Everything, for machines: `programs` holds a list of name, seconds, flops, bytes, memory and so on."""
        programs = []
        for program in self.programs:
            limit = self.machine.limit(program.intensity)
            programs.append(
                {
                    "name": program.name,
                    "seconds": program.seconds._asdict(),
                    **program.cost._asdict(),
                    "intensity": program.intensity,
                    "flops_per_second": program.rate,
                    "of_roofline": program.rate / limit,
                    "memory": program.memory and {**program.memory._asdict(), "peak": program.memory.peak},
                    "shares": [share._asdict() for share in program.shares],
                    "loops": [loop._asdict() for loop in program.loops],
                    "kernels": [kernel._asdict() for kernel in program.kernels],
                }
            )
        return json.dumps(
            {
                "target": self.target,
                "traces": self.calls.traced,
                "compiles": self.calls.compiled,
                "compiles_again": self.calls.compiled_again,
                "reasons": list(self.calls.reasons),
                "stages": [stage._asdict() for stage in self.stages],
                "programs": programs,
                "machine": self.machine._asdict(),
                "steps": self.steps and self.steps._asdict(),
                "joules": self.joules,
                "jacobian": _solved(self.jacobian),
            },
            indent=1,
        )

    def svg(self) -> str:
        """The flow of the data as a picture: every station with its arrays and their shapes."""
        return draw(self.target, [(stage.label, _lines(stage), stage.remark) for stage in self.stages])

    def spy(self) -> str:
        """The pattern of the Jacobian as a picture: a dot for each place that may hold a number other than 0.

        **Raises:** an `ArgumentError` where nothing is known of one: only a run of `Rodas5P` or `BDF` from 13 states on has it.
        """
        if self.jacobian is None or self.jacobian.pattern is None:
            raise ArgumentError(
                f"{self.target} has no sparsity pattern to show: the Jacobian is used by `Rodas5P` and `BDF` alone, and full "
                "up to 12 states or where most of its places hold numbers."
            )
        return draw_pattern(f"Jacobian of {self.target}, {_solved(self.jacobian)}", self.jacobian.pattern)

    def _repr_html_(self) -> str:
        return f"{self.svg()}<pre>{repr(self).replace('&', '&amp;').replace('<', '&lt;')}</pre>"

    def __repr__(self) -> str:
        calls = self.calls
        lines = [
            f"Explanation of {self.target}",
            f"  {calls.traced} traced, {calls.compiled} compiled; the second call compiled {calls.compiled_again}",
        ]
        lines += [f"  {reason}" for reason in calls.reasons]
        lines.append("")
        for stage in self.stages:
            remark = f"  ({stage.remark})" if stage.remark else ""
            lines.append(f"  {stage.label}{remark}")
            lines += [f"  │   {line}" for line in _lines(stage)]
        if self.steps is not None:
            lines += ["", *_stepping(self.steps)]
        if self.jacobian is not None:
            lines.append(f"  Jacobian    {_solved(self.jacobian)}")
        for program in self.programs:
            lines += ["", *_program(program, self.machine)]
        if self.joules is not None:
            lines.append(f"  energy of one run of {self.programs[0].name}: {self.joules:.3g} J")
        return "\n".join(lines)


def _solved(jacobian: Structure | None) -> str | None:
    if jacobian is None or jacobian.pattern is None:
        return jacobian and jacobian.described()
    pattern = jacobian.pattern
    return f"{pattern.size} rows, {pattern.places} places ({100 * pattern.density:.2g} %), {jacobian.described()}"


def _lines(stage: Stage) -> list[str]:
    shown = [f"{name or 'value'} {dtype}{list(shape)}" for name, dtype, shape in stage.rows[: 2 * SHOWN]]
    more = len(stage.rows) - 2 * SHOWN
    return shown + ([f"and {more} more"] if more > 0 else [])


def _stepping(steps: Steps) -> list[str]:
    tried = max(steps.accepted + steps.rejected, 1)
    lines = [
        f"  steps       {steps.accepted} accepted, {steps.rejected} rejected ({100 * steps.rejected / tried:.1f} %), "
        f"{steps.evaluations} evaluations",
        f"  solver      {steps.solver or '-'}",
    ]
    if "chosen:" not in steps.solver:
        lines.append(f"  stiffness   {steps.stiffness}")
    if steps.idle is not None:
        lines.append(f"  lanes       idle for {100 * steps.idle:.1f} % of their steps")
    return lines


def _program(program: ProgramReport, machine: Machine) -> list[str]:
    seconds, cost = program.seconds, program.cost
    limit = machine.limit(program.intensity)
    bound = "memory" if program.intensity * machine.bandwidth < machine.flops else "arithmetic"
    cached = " (data stays in caches)" if program.rate > limit else ""
    lines = [
        f"  {program.name}",
        f"    made in   {seconds.trace + seconds.lower + seconds.compile:.2f} s (trace {seconds.trace:.2f}, lower "
        f"{seconds.lower:.2f}, compile {seconds.compile:.2f}); one run {_time(seconds.run)}",
        f"    computes  {_count(cost.flops)} operations, {_count(cost.transcendentals)} of them transcendental; moves "
        f"{_count(cost.bytes)}B; {program.intensity:.2g} a byte",
        f"    reaches   {_count(program.rate)} operations a second, {100 * program.rate / limit:.0f} % of what {bound} "
        f"allows{cached}",
    ]
    if program.memory is not None:
        memory = program.memory
        lines.append(
            f"    holds     {_bytes(memory.peak)} at most: {_bytes(memory.arguments)} given, {_bytes(memory.results)} returned, "
            f"{_bytes(memory.temporary)} between"
        )
    recorded = sum(share.seconds for share in program.shares)
    lines.append("    of time   of operations" if recorded else "              of operations")
    of_time = lambda share: share.seconds / recorded if recorded else 0.0
    weight = lambda share: max(of_time(share), share.flops / max(cost.flops, 1))
    for share in sorted(program.shares, key=weight, reverse=True)[:SHOWN]:
        time = f"{100 * of_time(share):5.1f} %" if recorded else "       "
        lines.append(f"    {time}   {100 * share.flops / max(cost.flops, 1):5.1f} %         {share.place}")
    for loop in program.loops[:2]:
        lines.append(f"    loop      {loop.kind}: {loop.runs} turns, {_count(loop.flops)} operations")
    kinds: dict[str, int] = {}
    for kernel in program.kernels:
        kinds[kernel.kind] = kinds.get(kernel.kind, 0) + kernel.pieces
    lines.append(f"    compiled  {', '.join(f'{count} {kind}' for kind, count in list(kinds.items())[:SHOWN]) or '-'}")
    return lines


def _count(number: float | int) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g} "


def _bytes(number: int) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{int(number)} B"


def _time(seconds: float) -> str:
    return (
        f"{seconds:.3g} s"
        if seconds >= 1
        else f"{1e3 * seconds:.3g} ms"
        if seconds >= 1e-3
        else f"{1e6 * seconds:.3g} us"
    )
