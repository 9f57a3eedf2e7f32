"""Ensembles and their gradients through `simkit.ensemble`, beside Diffrax, a C program of ours, numbalsoda and torchode.

Every program's final states are compared with a solve at 1e-10 before any is timed. Times are process CPU seconds, the ratio is
of the least of them; programs in this process take turns, those in processes of their own run before and after. simkit is called
through its public verb inside `jax.jit` (the rows) and directly from Python (printed). Diffrax is `vmap(diffeqsolve)` with its
defaults. "C" is the best, "plain C" the one-vector-at-a-time build of `peers/ensemble.c`.

Run all: `python benchmarks/run.py ensembles`. Some: `ROWS=lorenz,robertson python benchmarks/run.py ensembles`, of lorenz,
lotka_volterra, van_der_pol, robertson, gradient_adaptive, gradient_fixed, two_devices, others.
"""

import functools
import os
from collections.abc import Callable
from typing import Any

import _ensemble_gradients
import _ensemble_peers as peers
import _ensemble_problems as problems
import _ensemble_two_devices
import _harness
import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from _ensemble_problems import SAVED, Case
from _ensemble_timing import Contest

import simkit
from simkit import Adaptive

# A program whose answer is further from the truth than this many tolerances solves another problem. Errors of single steps add
# up, and a limit cycle carries them as a shift in time: some hundred tolerances are usual.
WORST = 1000.0

type_of_solver = {"robertson": diffrax.Kvaerno5}
Rows = dict[str, float]


# Tolerances that are tried for an error no larger than a peer's, as shares of the case's own, the loosest first.
SHARES = 10.0 ** np.arange(1.5, -3.01, -0.25)


def solve_all(case: Case, count: int) -> Callable[..., Any]:
    """The ensemble as a user writes it; `share` of the case's tolerances."""

    def solve(over, share=1.0):
        step = Adaptive(case.rtol * share, case.atol * share, max_steps=1_000_000)
        return simkit.ensemble(case.system, case.start, case.times(count), over=over, solver=case.solver, step=step)

    return solve


def states(trajectory: Any) -> np.ndarray:
    """Shape (member, time, state)."""
    return np.stack([np.asarray(leaf) for leaf in jax.tree.leaves(trajectory.ys)], axis=-1)


def check(case: Case, label: str, y: np.ndarray, exact: np.ndarray, steps: str) -> float:
    """Print the errors of (checked member, ..., state), stop where they are far beyond the tolerance, return the largest."""
    largest, median = case.error(y, exact)
    print(f"  {label:28} error {largest:.1e} largest, {median:.1e} median; steps a member {steps}", flush=True)
    if not largest < WORST * case.rtol:
        raise AssertionError(f"{label} on {case.name} is off by {largest:.1e}: not worth timing.")
    return largest


def beside_diffrax(
    case: Case, count: int, samples: int, exact: np.ndarray
) -> tuple[dict[str, _harness.Timing], dict[str, float]]:
    """Check and time simkit, in `jit` and directly, and Diffrax: timings and largest errors.

    `exact` has shape (checked member, time, state).
    """
    solve = solve_all(case, count)
    over = {path: jnp.asarray(values) for path, values in case.over.items()}
    ours = jax.jit(solve)
    solver = type_of_solver.get(case.name, diffrax.Tsit5)()
    theirs = jax.jit(peers.stock(case, count, solver, max_steps=100_000))
    y0, p = jnp.asarray(case.y0), jnp.asarray(case.p)
    kept = slice(None) if count > 2 else slice(-1, None)
    label = f"{case.name}, {case.members} members, {'final state' if count == 2 else f'{count} save times'}"
    contest = Contest(
        {"simkit": lambda: ours(over), "simkit, direct call": lambda: solve(over), "Diffrax": lambda: theirs(y0, p)}
    )
    print(label)
    errors = {}
    for name in ("simkit", "simkit, direct call"):
        found = contest.answers[name]
        failed = int(np.sum(np.asarray(found.status) != 0))
        if failed:
            raise AssertionError(f"simkit marks {failed} members of {case.name} as failed.")
        steps = peers.steps(found.steps, found.rejected)
        y = states(found)[case.checked][:, kept]
        errors[name] = check(case, f"{name}, {type(case.solver).__name__}", y, exact[:, kept], steps)
    y, accepted, rejected = contest.answers["Diffrax"]
    steps = peers.steps(accepted, rejected)
    y = np.asarray(y)[case.checked]
    errors["Diffrax"] = check(case, f"Diffrax, {type(solver).__name__}", y, exact[:, kept], steps)
    return contest.time(label, samples, "simkit"), errors


def ensemble_rows(case: Case, samples: int, *, c: bool) -> Rows:
    """One ensemble: final state beside Diffrax and C, and 100 save times beside Diffrax."""
    exact = problems.truth(case, SAVED)
    answers: dict[str, peers.Answer] = {}
    if c:
        labels = {groups: f"C, {groups} vectors together" if groups > 1 else "plain C" for groups in peers.GROUPS}
        answers = {labels[groups]: peers.in_c(case, groups) for groups in peers.GROUPS}
    for label, answer in answers.items():
        check(case, label, answer.y[case.checked], exact[:, -1], answer.steps)
    timings, errors = beside_diffrax(case, 2, samples, exact)
    after = [peers.in_c(case, groups) for groups in peers.GROUPS] if c else []
    ours, theirs = timings["simkit"].minimum, timings["Diffrax"].minimum
    walls = [np.min(timings[name].wall) for name in ("Diffrax", "simkit")]
    rows = {
        f"{case.name}_vs_diffrax": theirs / ours,
        f"{case.name}_vs_diffrax_wall": walls[0] / walls[1],
        f"{case.name}_direct_vs_diffrax": theirs / timings["simkit, direct call"].minimum,
        f"{case.name}_error": errors["simkit"],
        f"{case.name}_diffrax_error": errors["Diffrax"],
        f"{case.name}_members_per_second": case.members / ours,
    }
    if c:
        pooled = {label: answer.with_more(late) for (label, answer), late in zip(answers.items(), after, strict=True)}
        others_table(case, pooled, ours)
        best = min(float(np.min(answer.cpu)) for answer in pooled.values())
        plain = float(np.min(next(iter(pooled.values())).cpu))
        rows |= {f"{case.name}_vs_c": best / ours, f"{case.name}_vs_plain_c": plain / ours}
        rows[f"{case.name}_c_members_per_second"] = case.members / best
    rows[f"{case.name}_diffrax_members_per_second"] = case.members / theirs
    if case.name != "robertson":
        saved, _ = beside_diffrax(case, SAVED, samples, exact)
        rows[f"{case.name}_vs_diffrax_100_times"] = saved["Diffrax"].minimum / saved["simkit"].minimum
    return rows


def no_worse(case: Case, bound: float, exact: np.ndarray) -> tuple[Callable[[], Any], float]:
    """The ensemble at the loosest tolerances at which its largest error is at most a peer's, and the share they are."""
    ours = jax.jit(solve_all(case, 2))
    over = {path: jnp.asarray(values) for path, values in case.over.items()}
    for share in SHARES:
        found = ours(over, share)
        if np.all(found.status == 0) and case.error(states(found)[case.checked][:, -1], exact)[0] <= bound:
            return functools.partial(ours, over, share), float(share)
    raise AssertionError(f"simkit reaches an error of {bound:.1e} on {case.name} at none of the tolerances tried.")


def others_table(case: Case, answers: dict[str, peers.Answer], ours: float) -> None:
    """CPU times of programs in other processes beside ours."""
    rows = []
    for label, answer in answers.items():
        lower, median, upper = np.quantile(answer.cpu, [0.25, 0.5, 0.75])
        least = float(np.min(answer.cpu))
        row = (f"{1e3 * least:.4g}", f"{1e3 * median:.4g}", f"{(upper - lower) / median:.0%}", f"{least / ours:.2f}")
        rows.append([label, *row, answer.steps])
    head = ["", "CPU min, ms", "CPU median, ms", "spread", "x simkit", "steps a member"]
    _harness.print_table(f"{case.name}, in other processes, final state", head, rows)


def lorenz() -> Rows:
    return ensemble_rows(problems.lorenz(), 7, c=True)


def lotka_volterra() -> Rows:
    return ensemble_rows(problems.lotka_volterra(), 7, c=True)


def van_der_pol() -> Rows:
    return ensemble_rows(problems.van_der_pol(), 3, c=True)


def robertson() -> Rows:
    """At the same tolerance, and at an error no larger than Diffrax's."""
    case = problems.robertson()
    rows = ensemble_rows(case, 3, c=False)
    ours, share = no_worse(case, rows["robertson_diffrax_error"], problems.truth(case, 2)[:, -1])
    theirs = jax.jit(peers.stock(case, 2, diffrax.Kvaerno5(), max_steps=100_000))
    y0, p = jnp.asarray(case.y0), jnp.asarray(case.p)
    label = f"{case.name}, error no larger than Diffrax's: {share:.3g} of its tolerances"
    timings = Contest({"simkit": ours, "Diffrax": lambda: theirs(y0, p)}).time(label, 3, "simkit")
    rows["robertson_equal_error_vs_diffrax"] = timings["Diffrax"].minimum / timings["simkit"].minimum
    return rows


def others() -> Rows:
    """numbalsoda on the four ensembles and torchode on Lorenz, before and after simkit."""
    cases = [problems.lorenz(), problems.lotka_volterra(), problems.van_der_pol(), problems.robertson()]
    before = peers.in_numbalsoda(cases), peers.in_torchode(cases[0])
    functions: dict[str, Callable[[], Any]] = {}
    rows: Rows = {}
    for case in cases:
        over = {path: jnp.asarray(values) for path, values in case.over.items()}
        functions[case.name] = lambda solve=jax.jit(solve_all(case, 2)), over=over: solve(over)
    stiff = next(case for case in cases if case.name == "robertson")
    exact = problems.truth(stiff, 2)[:, -1]
    bound, _ = stiff.error(before[0]["robertson", "lsoda"].y[stiff.checked], exact)
    functions["robertson, LSODA's error"], share = no_worse(stiff, bound, exact)
    print(f"robertson: error no larger than LSODA's {bound:.1e} at {share:.3g} of its tolerances")
    contest = Contest(functions)
    timings = contest.time("simkit, beside numbalsoda and torchode", samples=5)
    late = peers.in_numbalsoda(cases), peers.in_torchode(cases[0])
    for case in cases:
        answers = {solver: answer for (name, solver), answer in before[0].items() if name == case.name}
        more = {solver: answer for (name, solver), answer in late[0].items() if name == case.name}
        if case.name == "lorenz":
            answers |= {f"torchode {way}": answer for way, answer in before[1].items()}
            more |= {f"torchode {way}": answer for way, answer in late[1].items()}
        answers = {label: answer.with_more(more[label]) for label, answer in answers.items() if label in more}
        exact, ours = problems.truth(case, 2)[:, -1], timings[case.name].minimum
        print(f"{case.name}, {case.members} members, final state")
        check(case, "simkit", states(contest.answers[case.name])[case.checked][:, -1], exact, "as above")
        for label, answer in answers.items():
            error = check(case, label, answer.y[case.checked], exact, answer.steps)
            rows |= {f"{case.name}_lsoda_error": error} if label == "lsoda" else {}
        others_table(case, answers, ours)
        ratios = {label: float(np.min(answer.cpu)) / ours for label, answer in answers.items()}
        rows |= {f"{case.name}_vs_lsoda": ratios[label] for label in ("lsoda",) if label in ratios}
        if case is stiff:
            least = float(np.min(answers["lsoda"].cpu))
            rows["robertson_equal_error_vs_lsoda"] = least / timings["robertson, LSODA's error"].minimum
        for program, labels in {
            "numbalsoda": ("lsoda", "dop853"),
            "torchode": ("torchode eager", "torchode compiled"),
        }.items():
            found = [ratios[label] for label in labels if label in ratios]
            rows |= {f"{case.name}_vs_{program}": min(found)} if found else {}
    return rows


gradient_adaptive = _ensemble_gradients.adaptive
gradient_fixed = _ensemble_gradients.fixed
two_devices = _ensemble_two_devices.compared

ROWS = {
    "lorenz": lorenz,
    "lotka_volterra": lotka_volterra,
    "van_der_pol": van_der_pol,
    "robertson": robertson,
    "others": others,
    "gradient_adaptive": gradient_adaptive,
    "gradient_fixed": gradient_fixed,
    "two_devices": two_devices,
}


def main() -> Rows:
    simkit.enable_x64()
    chosen = [name for name in os.environ.get("ROWS", "").split(",") if name] or list(ROWS)
    found: Rows = {}
    for name in chosen:
        print(f"\n== {name}: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
        found |= ROWS[name]()
    return found
