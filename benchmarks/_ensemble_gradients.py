"""The gradient rows of `ensembles.py`: through adaptive steps of many members, and through many fixed steps."""

import dataclasses
from collections.abc import Callable
from typing import Any

import _ensemble_peers as peers
import _ensemble_problems as problems
import _harness
import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from _ensemble_problems import SAVED, Case
from _ensemble_timing import Contest

import simkit
from simkit import Adaptive, Fixed, PlainSystem, quantity
from simkit.solvers import Tsit5

STEPS = 10_000
CELLS = 100_000


def adaptive() -> dict[str, float]:
    """256 members, four parameters each: the gradient of a sum of squares of the saved states."""
    case, rows = problems.gradient(), {}
    for count in (2, SAVED):
        timings = _adaptive(case, count)
        suffix = "" if count == 2 else "_100_times"
        rows[f"gradient_adaptive_vs_diffrax{suffix}"] = timings["Diffrax"].minimum / timings["simkit"].minimum
        rows[f"gradient_adaptive_vs_forward{suffix}"] = timings["simkit"].minimum / timings["simkit, forward"].minimum
        if count == 2:
            rows["gradient_adaptive_members_per_second"] = case.members / timings["simkit"].minimum
    return rows


def _adaptive(case: Case, count: int) -> dict[str, _harness.Timing]:
    over = {path: jnp.asarray(values) for path, values in case.over.items()}
    y0, p = jnp.asarray(case.y0), jnp.asarray(case.p)
    first = 1 if count == 2 else 0  # Diffrax's final state comes without the start

    def loss(over, step):
        ys = simkit.ensemble(case.system, case.start, case.times(count), over=over, solver=Tsit5(), step=step).ys
        return sum(jnp.sum(leaf[:, first:] ** 2) for leaf in jax.tree.leaves(ys))

    def their_loss(p, tight=None, **numerics):
        return jnp.sum(peers.stock(tight or case, count, diffrax.Tsit5(), **numerics)(y0, p)[0] ** 2)

    step = Adaptive(case.rtol, case.atol)
    forward, ours = jax.jit(lambda over: loss(over, step)), jax.jit(jax.grad(lambda over: loss(over, step)))
    their_forward, theirs = jax.jit(their_loss), jax.jit(jax.grad(their_loss))
    tight = case._replace(rtol=1e-10, atol=1e-10)
    exact = np.asarray(jax.jit(jax.grad(lambda p: their_loss(p, tight, max_steps=16_384)))(p))
    label = f"gradient, {case.members} members, {'final state' if count == 2 else f'{count} save times'}"
    direct = jax.grad(lambda over: loss(over, step))
    contest = Contest(
        {
            "simkit": lambda: ours(over),
            "simkit, forward": lambda: forward(over),
            "simkit, direct call": lambda: direct(over),
            "Diffrax": lambda: theirs(p),
            "Diffrax, forward": lambda: their_forward(p),
        }
    )
    print(label)
    for name in ("simkit", "simkit, direct call", "Diffrax"):
        found = contest.answers[name]
        if isinstance(found, dict):
            found = np.stack([found[path] for path in case.over], axis=-1)
        error = float(np.max(np.abs(np.asarray(found) - exact)) / np.max(np.abs(exact)))
        print(f"  {name:28} error {error:.1e} of the largest entry", flush=True)
        if not error < 1000 * case.rtol:
            raise AssertionError(f"The gradient of {name} is off by {error:.1e}: not worth timing.")
    return contest.time(label, 7, "simkit")


class Heat(PlainSystem):
    """A periodic line of cells: a state so large that memory counts."""

    diffusivity: jax.Array = quantity(0.1)

    def vector_field(self, t, y, inputs):
        return self.diffusivity * (jnp.roll(y, 1) - 2 * y + jnp.roll(y, -1))

    @classmethod
    def example(cls):
        raise NotImplementedError


def fixed() -> dict[str, float]:
    """10,000 fixed steps: time against the forward solve, memory against Diffrax's recursive checkpoints."""
    case, rows = problems.gradient(), {}
    rates = {"growth": 1.5, "predation": 1.0, "conversion": 1.0, "death": 3.0}
    system = dataclasses.replace(case.system, **{name: jnp.asarray(rate) for name, rate in rates.items()})
    start, times = case.start, case.times(2)
    members = {path: jnp.asarray(values[::4]) for path, values in case.over.items()}
    numerics = {"solver": Tsit5(), "step": Fixed(STEPS)}
    losses: dict[str, tuple[Callable[..., Any], Any]] = {
        "simulate": (lambda system: _squares(simkit.simulate(system, start, times, **numerics)), system),
        "ensemble of 64": (
            lambda over: _squares(simkit.ensemble(system, start, times, over=over, **numerics)),
            members,
        ),
        "Diffrax": (_stock_fixed(case.field, case.end / STEPS, jnp.ones(2)), jnp.asarray(list(rates.values()))),
    }
    functions, compiled = {}, {}
    for name, (loss, point) in losses.items():
        forward, backward = jax.jit(loss), jax.jit(jax.grad(loss))
        compiled[name] = backward, point
        functions[f"{name}, forward"] = lambda f=forward, x=point: f(x)
        functions[f"{name}, gradient"] = lambda f=backward, x=point: f(x)
    contest = Contest(functions)
    g, h = contest.answers["simulate, gradient"], contest.answers["Diffrax, gradient"]
    ours = np.array([g.growth, g.predation, g.conversion, g.death])
    error = float(np.max(np.abs(ours - np.asarray(h))) / np.max(np.abs(h)))
    print(f"gradients of {STEPS} steps differ by {error:.1e} of the largest entry")
    if not error < 1e-8:  # the same steps of the same method: rounding, which 10,000 steps of an oscillation amplify
        raise AssertionError("simkit and Diffrax take the same steps, but their gradients differ.")
    timings = contest.time(f"{STEPS} fixed steps, Lotka-Volterra", 9)
    for name, row in (("simulate", "gradient_fixed"), ("ensemble of 64", "gradient_fixed_ensemble")):
        rows[f"{row}_vs_forward"] = timings[f"{name}, gradient"].minimum / timings[f"{name}, forward"].minimum
    rows["gradient_fixed_vs_diffrax"] = timings["Diffrax, gradient"].minimum / timings["simulate, gradient"].minimum
    x = jnp.zeros(CELLS)

    def field(system):
        return _squares(simkit.simulate(system, x, times, **numerics))

    stock = _stock_fixed(lambda t, y, d: d * (jnp.roll(y, 1) - 2 * y + jnp.roll(y, -1)), case.end / STEPS, x)
    for name, (loss, point) in {"field": (field, Heat()), "field, Diffrax": (stock, jnp.asarray(0.1))}.items():
        compiled[name] = jax.jit(jax.grad(loss)), point
    memory = {
        name: gradient.lower(point).compile().memory_analysis().temp_size_in_bytes
        for name, (gradient, point) in compiled.items()
    }
    sizes = {"simulate": 16, "ensemble of 64": 1024, "Diffrax": 16, "field": 8 * CELLS, "field, Diffrax": 8 * CELLS}
    table = [[name, f"{memory[name] / 1024:.1f}", f"{memory[name] / size:.0f}"] for name, size in sizes.items()]
    _harness.print_table(f"Buffers of a gradient of {STEPS} fixed steps", ["", "KiB", "states"], table)
    rows["gradient_fixed_memory_vs_diffrax"] = memory["field"] / memory["field, Diffrax"]
    rows["gradient_fixed_memory_small_vs_diffrax"] = memory["simulate"] / memory["Diffrax"]
    return rows


def _squares(trajectory: Any) -> jax.Array:
    return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(trajectory.final()))


def _stock_fixed(field: Callable[..., Any], step: float, y0: jax.Array) -> Callable[[Any], jax.Array]:
    def right(t, y, p):
        rates = field(t, y, p)
        return jnp.stack(rates) if isinstance(rates, list) else rates

    def loss(p):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(right), diffrax.Tsit5(), 0.0, step * STEPS, step, y0, args=p, max_steps=STEPS
        )
        return jnp.sum(solution.ys[-1] ** 2)

    return loss
