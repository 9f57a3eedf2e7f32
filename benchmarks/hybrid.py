"""Events that change the state: their error, and what they cost beside the same solves without them.

- `ball_error`: the largest relative error of the times of some 10,000 bounces, against the closed form.
- `idle_events_cost`: CPU time with an event that never happens over that without it, of a single solve and of 5,000 members.
- `gradient_vs_forward`: CPU time of a gradient over that of its value, through 100 bounces and through 50 doses; `gradient_error`:
  its relative distance from that of the closed form.
- `doses_cost`: the log likelihood of 100 subjects with 10 doses each, at times of their own, over that without doses.
- `infusions_cost`: 100 members with 10 infusions each over the same amounts given at once. `steady_cost`: a steady state of doses
  over the 60 doses that lead to it within 1e-6, value and gradient; `steady_error`: its relative distance from the closed form.
- `izhikevich_ms`: CPU ms of 1,000 neurons of Izhikevich (2003) with currents of their own for 1 s, at a relative tolerance of 1e-5;
  `izhikevich_speedup_...`: the CPU time of Brian2 2.9 (RK4, compiled) with steps of that length over it.
- `delays_right` of `delays_of` problems with delays (DDETST A1 to D2, RADAR5's three) are within ten tolerances of their references
  at a tolerance of 1e-6; `delays_worst_error_over_tolerance` is of the worst of them all.
- `sbml_events_right`, `..._wrong`, `..._refused`, `..._failed`: cases of the SBML test suite with events that ended so, and
  `sbml_right` of all its cases; read from `benchmarks/sbml_suite.json`, which says when and how they were counted.

Both sides of a ratio run in turns in this process; minima of CPU time. Run: `python benchmarks/hybrid.py`.
"""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit.odes import LotkaVolterra, from_function
from simkit.problem import Dose, Doses, dose_event

SAMPLES = 15
BRIAN = ("brian2==2.9.0", "numpy<2", "cython", "setuptools<80")
BRIAN_STEPS = (0.1, 0.02, 0.005)
"""Lengths of Brian2's time step in ms; it looks for spikes at the ends of steps, so that its spikes are late by one."""


def cpu(functions: dict[str, Callable[[], Any]], samples: int = SAMPLES) -> dict[str, float]:
    """The least CPU time of each function, called in turns after a first call."""
    timings = _harness.compare(functions, samples=samples)
    return {name: timing.minimum for name, timing in timings.items()}


def flying(t: Any, y: Any, p: Any) -> Any:
    return {"height": y["speed"], "speed": -p["gravity"] + 0 * y["speed"]}


BOUNCE = simkit.Event(
    lambda system, t, y, inputs: y["height"],
    "down",
    lambda system, t, y, inputs: {**y, "speed": -system.parameters["kept"] * y["speed"]},
)


def ball(gravity: Any, kept: Any, end: float) -> simkit.Trajectory:
    system = from_function(flying, {"gravity": gravity, "kept": kept})
    start = {"height": 1.0 + 0 * gravity, "speed": 0.0 * gravity}
    step = simkit.Adaptive(1e-8, 1e-10, max_steps=50_000)
    return simkit.simulate(system, start, [0.0, end], events=BOUNCE, step=step, solver="tsit5", on_failure="mark")


def bounces() -> dict[str, float]:
    found = ball(jnp.asarray(9.81), jnp.asarray(0.9999), 5710.0)
    count = int(found.events.count)
    first = np.sqrt(2 / 9.81)
    exact = first * (1 + 2 * 0.9999 * (1 - 0.9999 ** np.arange(count)) / (1 - 0.9999))
    error = float(np.abs(np.asarray(found.events.times[:count]) / exact - 1).max())
    spent = cpu({"ball": lambda: ball(jnp.asarray(9.81), jnp.asarray(0.9999), 5710.0).ys}, 5)
    _harness.print_table(
        "Bounces", ["bounces", "error", "CPU s"], [[str(count), f"{error:.1e}", f"{spent['ball']:.3g}"]]
    )
    return {"ball_error": error, "ball_bounces": count}


NEVER = simkit.Event(lambda system, t, y, inputs: y.hare - 1e6, "up", lambda system, t, y, inputs: y)


def idle() -> dict[str, float]:
    _, y0, times, _ = LotkaVolterra.example()
    growth = jnp.linspace(0.4, 0.6, 5000)
    rows = {}
    for name, members in (("one", None), ("members", growth)):

        def run(events: Any, members: Any = members) -> Any:
            one = lambda g: (
                simkit.simulate(
                    LotkaVolterra(growth=g), y0, times, events=events, solver="tsit5", step=simkit.Adaptive(1e-6, 1e-8)
                ).ys
            )
            compiled = jax.jit(one if members is None else jax.vmap(one))
            given = jnp.asarray(0.5) if members is None else members
            return lambda: compiled(given)

        spent = cpu({"without": run(None), "with": run(NEVER)}, 200 if members is None else SAMPLES)
        rows[f"idle_events_cost_{name}"] = spent["with"] / spent["without"]
    _harness.print_table("Idle events", ["solve", "with over without"], [[k, f"{v:.3g}"] for k, v in rows.items()])
    return rows


def dosed(rate: Any, at: Any, amount: Any) -> Any:
    event = simkit.Event(at=at, values=amount, change=lambda s, t, y, i, dose: {"amount": y["amount"] + dose})
    system = from_function(lambda t, y, p: {"amount": -p["rate"] * y["amount"]}, {"rate": rate})
    step = simkit.Adaptive(1e-8, 1e-10)
    return simkit.simulate(system, {"amount": 0.0 * rate}, [0.0, 51.0], events=event, step=step, solver="tsit5")


def gradients() -> dict[str, float]:
    flight = np.sqrt(2 / 9.81)
    end = float(
        flight * (1 + 2 * 0.99 * (1 - 0.99**99) / (1 - 0.99) + 0.7 * 0.99**100)
    )  # within a flight, after 100 bounces
    at, amount = jnp.arange(50.0), jnp.linspace(1.0, 2.0, 50)

    def height(gravity: Any) -> Any:
        """Return the height in the flight after 100 bounces."""
        first = jnp.sqrt(2 / gravity)
        left = end - first * (1 + 2 * 0.99 * (1 - 0.99**99) / (1 - 0.99))
        return gravity * first * 0.99**100 * left - 0.5 * gravity * left**2

    total = lambda rate: jnp.sum(amount * jnp.exp(-rate * (51.0 - at)))
    problems = {
        "bounces": (lambda x: ball(x, jnp.asarray(0.99), end).ys["height"][-1], height, 9.81),
        "doses": (lambda x: dosed(x, at, amount).ys["amount"][-1], total, 0.3),
    }
    rows, table = {}, []
    for name, (function, exact, x) in problems.items():
        value, slope = jax.jit(function), jax.jit(jax.grad(function))
        x = jnp.asarray(x)
        spent = cpu({"value": lambda f=value, x=x: f(x), "slope": lambda f=slope, x=x: f(x)}, 50)
        rows[f"gradient_vs_forward_{name}"] = spent["slope"] / spent["value"]
        rows[f"gradient_error_{name}"] = abs(float(slope(x) / jax.grad(exact)(x)) - 1)
        table.append([name, *(f"{rows[f'gradient_{kind}_{name}']:.3g}" for kind in ("vs_forward", "error"))])
    _harness.print_table("Gradients", ["through", "cost over the value", "relative error"], table)
    return rows


def population() -> dict[str, float]:
    system = from_function(
        lambda t, y, p: {"gut": -p["ka"] * y["gut"], "blood": p["ka"] * y["gut"] - p["ke"] * y["blood"]},
        {"ka": 1.2, "ke": 0.15},
    )
    rng = np.random.default_rng(0)
    made: dict[str, list[simkit.Experiment]] = {"with": [], "without": []}
    for i in range(100):
        times = np.sort(rng.uniform(0.5, 119.5, 15))
        doses = Doses([Dose(100.0, t, "gut") for t in np.sort(rng.uniform(0.0, 110.0, 10))])
        data = {"blood": rng.uniform(1.0, 50.0, 15)}
        made["with"].append(
            simkit.Experiment(f"{i}", times, data, start=0.0, doses=doses, y0={"gut": 0.0, "blood": 0.0})
        )
        made["without"].append(simkit.Experiment(f"{i}", times, data, start=0.0, y0={"gut": 100.0, "blood": 0.0}))
    free = {"ka": simkit.Free(bounds=(0.1, 10.0)), "ke": simkit.Free(bounds=(0.01, 1.0))}
    step = simkit.Adaptive(1e-6, 1e-6)
    functions, theta = {}, jnp.array([1.2, 0.15])
    for name, experiments in made.items():
        noise = {"blood": simkit.noise.Normal(1.0)}
        problem = simkit.Problem(system, experiments, free=free, noise=noise, step=step, solver="tsit5")
        density = jax.jit(lambda theta, p=problem: p.log_likelihood(theta)[0])
        functions[name] = lambda f=density: f(theta)
    spent = cpu(functions)
    cost = spent["with"] / spent["without"]
    _harness.print_table("Population", ["objective", "CPU ms"], [[k, f"{1e3 * v:.3g}"] for k, v in spent.items()])
    return {"doses_cost": cost}


def regimens() -> dict[str, float]:
    field = lambda t, y, p: {"gut": -p["ka"] * y["gut"], "blood": p["ka"] * y["gut"] - p["ke"] * y["blood"]}
    empty, rates = {"gut": 0.0, "blood": 0.0}, jnp.linspace(0.1, 0.3, 100)
    step, dose = simkit.Adaptive(1e-6, 1e-6), {"every": 12.0, "additional": 9}

    def members(event: simkit.Event) -> Callable[[], Any]:
        system, over = from_function(field, {"ka": 1.2, "ke": 0.15}), {"ke": rates}
        options = {"events": {"dose": event}, "step": step, "solver": "tsit5"}
        return lambda: simkit.ensemble(system, empty, [0.0, 120.0], over=over, **options).ys["blood"]

    made = {"at once": Dose(100.0, 0.0, "blood", **dose), "infused": Dose(100.0, 0.0, "blood", duration=2.0, **dose)}
    spent = cpu({name: members(dose_event(Doses(one), empty)) for name, one in made.items()})

    def trough(ke: Any, given: Doses, end: float) -> Any:
        system = from_function(field, {"ka": 1.2, "ke": ke})
        event, tight = {"dose": dose_event(given, empty)}, simkit.Adaptive(1e-8, 1e-8)
        return simkit.simulate(system, empty, [0.0, end], events=event, step=tight, solver="tsit5").ys["blood"][-1]

    steady, many = (
        Doses(Dose(100.0, 0.0, "gut", every=12.0, steady=True)),
        Doses(Dose(100.0, 0.0, "gut", every=12.0, additional=59)),
    )
    both = {"steady": (steady, 12.0), "many": (many, 720.0)}
    x = jnp.asarray(0.02)  # exp(-720 x) is 6e-7
    functions = {name: jax.jit(lambda ke, a=a: jax.value_and_grad(trough)(ke, *a)) for name, a in both.items()}
    ran = cpu({name: lambda f=f: f(x) for name, f in functions.items()})
    left = lambda k: jnp.exp(-12 * k) / (1 - jnp.exp(-12 * k))
    exact = lambda ke: 100 * 1.2 / (1.2 - ke) * (left(ke) - left(1.2))
    errors = [abs(float(a / b) - 1) for a, b in zip(functions["steady"](x), jax.value_and_grad(exact)(x), strict=True)]
    found = {
        "infusions_cost": spent["infused"] / spent["at once"],
        "steady_cost": ran["steady"] / ran["many"],
        "steady_error": max(errors),
    }
    _harness.print_table("Regimens", list(found), [[f"{value:.2g}" for value in found.values()]])
    return found


def neuron(t: Any, y: Any, p: Any) -> Any:
    v, u = y["v"], y["u"]
    return {"v": 0.04 * v**2 + 5 * v + 140 - u + p["current"], "u": 0.02 * (0.2 * v - u)}


SPIKE = simkit.Event(
    lambda system, t, y, inputs: y["v"] - 30.0,
    "up",
    lambda system, t, y, inputs: {"v": -65.0 + 0 * y["v"], "u": y["u"] + 8.0},
    keep=64,
)


def neurons() -> dict[str, float]:
    currents = jnp.linspace(4.0, 14.0, 1000)
    system = from_function(neuron, {"current": 10.0})
    start = {"v": -65.0, "u": -13.0}

    def run(rtol: float) -> simkit.Trajectory:
        step = simkit.Adaptive(rtol, rtol, max_steps=100_000)
        return simkit.ensemble(
            system, start, [0.0, 1000.0], over={"current": currents}, events=SPIKE, step=step, solver="tsit5"
        )

    coarse, fine = run(1e-5), run(1e-9)
    same = coarse.events.count == fine.events.count
    apart = np.where(np.isfinite(fine.events.times), np.abs(coarse.events.times - fine.events.times), 0)[
        np.asarray(same)
    ]
    spent = cpu({"neurons": lambda: run(1e-5).ys}, 5)
    spikes = int(np.sum(np.asarray(coarse.events.count)))
    ours = [str(spikes), f"{float(np.mean(same)):.3f}", f"{apart.max():.2g}", f"{1e3 * spent['neurons']:.4g}"]
    rows = {"izhikevich_ms": 1e3 * spent["neurons"], "izhikevich_apart_ms": float(apart.max())}
    table, speedup = [["simkit", *ours]], {}
    given = {"current": np.asarray(currents)}
    asked = {"steps_ms": BRIAN_STEPS, "method": "rk4", "end_ms": 1000.0}
    try:
        arrays, _ = _harness.run_peer("brian2", BRIAN, "brian2_neurons.py", given, asked)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"Brian2 did not run: {error}")
        arrays = {}
    for k, length in enumerate(BRIAN_STEPS if arrays else ()):
        count, late = _spikes_apart(arrays[f"{k}.t"], arrays[f"{k}.i"], fine)
        peer = 1e3 * float(arrays[f"{k}.cpu"].min())
        table.append(
            [f"Brian2, {length:g} ms", str(arrays[f"{k}.t"].size), f"{count:.3f}", f"{late:.2g}", f"{peer:.4g}"]
        )
        speedup[f"izhikevich_speedup_{length:g}ms"] = peer / (1e3 * spent["neurons"])
    _harness.print_table("Neurons", ["", "spikes", "neurons with equal counts", "spikes apart, ms", "CPU ms"], table)
    return rows | speedup


def _spikes_apart(times: np.ndarray, which: np.ndarray, fine: simkit.Trajectory) -> tuple[float, float]:
    """The share of neurons with as many spikes as the reference, and the largest distance of a spike of theirs from it."""
    counts, reference = np.asarray(fine.events.count), np.asarray(fine.events.times)
    same, late = [], 0.0
    for i, count in enumerate(counts):
        own = np.sort(times[which == i])
        same.append(own.size == count)
        if same[-1] and count:
            late = max(late, float(np.abs(own - reference[i, :count]).max()))
    return float(np.mean(same)), late


def delays() -> dict[str, float]:
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))
    from validation.delay_problems import PROBLEMS, error, reference, simulated

    tolerance, ratios, table = 1e-6, {}, []
    for name, problem in PROBLEMS.items():
        found = simulated(problem, tolerance)
        ratios[name] = error(problem, np.asarray(found.ys), reference(problem)) / tolerance
        table.append([name, str(found.steps), f"{ratios[name]:.2g}"])
    _harness.print_table("Delays", ["problem", "steps", "error over tolerance"], table)
    return {
        "delays_right": float(sum(ratio <= 10 for ratio in ratios.values())),
        "delays_of": float(len(ratios)),
        "delays_worst_error_over_tolerance": max(ratios.values()),
    }


def sbml() -> dict[str, float]:
    """Count the cases of the SBML test suite that `sbml_suite.py` has written down."""
    ends = json.loads(pathlib.Path(__file__).with_name("sbml_suite.json").read_text())
    number = lambda kind, end: float(len(ends[kind].get(end, "").split()))
    events = {f"sbml_events_{end}": number("events", end) for end in ("right", "wrong", "refused", "failed")}
    return events | {"sbml_right": number("events", "right") + number("others", "right")}


def main() -> dict[str, float]:
    """Run all and return the rows."""
    simkit.enable_x64()
    return bounces() | idle() | gradients() | population() | regimens() | neurons() | delays() | sbml()


if __name__ == "__main__":
    print(main())
