"""Figures of differential equations for the page of validation."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.special import lambertw

import simkit
from simkit import odes, solvers
from simkit.study import REGISTRIES
from simkit.viz._style import Drawing, color, new_figure, styled

INK = "#222222"


@styled
def orders() -> tuple[Drawing, dict[str, float]]:
    """Errors of solvers over the number of steps, on a problem with an exact solution, and lines of each solver's order."""
    from solvers.problems import Curved

    cases = {
        "Euler": (solvers.Euler(), 1, 7),
        "Heun": (solvers.Heun(), 2, 7),
        "RK4": (solvers.RK4(), 4, 7),
        "Tsit5": (solvers.Tsit5(), 5, 6),
        "Rodas5P": (solvers.Rodas5P(), 5, 6),
        "Dopri8": (solvers.Dopri8(), 8, 4),
    }
    figure = new_figure(5.2, 3.6)
    axes, found = figure.subplots(), {}
    exact = np.asarray(ravel_pytree(Curved.exact(jnp.asarray(1.0)))[0])
    for k, (name, (solver, order, levels)) in enumerate(cases.items()):
        steps = 4 * 2 ** np.arange(levels)
        errors = []
        for count in steps:
            run = simkit.simulate(Curved(), Curved.start(), [0.0, 1.0], solver=solver, step=simkit.Fixed(int(count)))
            errors.append(np.abs(ravel_pytree(run.final())[0] - exact).max())
        errors = np.array(errors)
        axes.loglog(steps, errors, "os^DvX"[k], color=color(k), label=f"{name}: order {order}")
        axes.loglog(steps, errors[-1] * (steps[-1] / steps) ** order, "--", color=color(k), linewidth=0.8)
        found[name] = float(np.log2(errors[-2] / errors[-1]))
    axes.set(xlabel="steps", ylabel="largest error at the end")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure, found


@styled
def robertson() -> tuple[Drawing, dict[str, float]]:
    """Robertson's reactions beside SciPy's Radau and the printed digits, and how errors follow the tolerance."""
    from validation.test_odes import CASES, radau

    figure = new_figure(7.0, 2.9)
    left, right = figure.subplots(1, 2)
    system, y0, _, _ = odes.Robertson.example()
    end, printed = CASES["robertson"]
    times = np.concatenate([[0.0], np.geomspace(1e-6, end, 150)])
    step = simkit.Adaptive(1e-8, 1e-22, max_steps=200_000)
    run = simkit.simulate(system, y0, times, solver=solvers.Rodas5P(), step=step)
    rows = np.stack([ravel_pytree(row)[0] for row in _rows(run, len(times))])
    some = np.geomspace(1e-5, 1e10, 9)
    others = np.array([radau(system, y0, t) for t in some])
    for k, (scale, name) in enumerate([(1, "A"), (1e4, "10⁴ B"), (1, "C")]):
        left.semilogx(times[1:], scale * rows[1:, k], color=color(k), label=name)
        left.plot(some, scale * others[:, k], "o", color=color(k), markersize=4, markerfacecolor="none")
        left.plot(end, scale * printed[k], "*", color=color(k), markersize=9)
    left.set(xlabel="time [s]", ylabel="concentration", title="Robertson")
    left.legend(loc="center left")
    found = {}
    for k, (name, (end, printed)) in enumerate(CASES.items()):
        system, y0, _, _ = REGISTRIES["systems"][name].example()
        tolerances, errors = 10.0 ** -np.arange(4.0, 11.0), []
        for tolerance in tolerances:
            step = simkit.Adaptive(tolerance, 1e-14 * tolerance, max_steps=200_000)
            final = simkit.simulate(system, y0, [0.0, end], solver=solvers.Rodas5P(), step=step).final()
            errors.append(np.abs(np.asarray(ravel_pytree(final)[0]) / printed - 1).max())
        right.loglog(tolerances, errors, "o-", color=color(k), label=name.upper() if k < 2 else "Robertson")
        found[f"{name} at 1e-8"] = float(errors[4])
    right.loglog(tolerances, tolerances, "--", color=INK, linewidth=0.8, label="the tolerance")
    right.invert_xaxis()
    right.set(xlabel="relative tolerance", ylabel="largest relative error", title="against printed digits")
    right.legend()
    return figure, found


def _rows(run, count):
    return [jax.tree.map(lambda x, i=i: x[i], run.ys) for i in range(count)]


@styled
def quantum() -> tuple[Drawing, dict[str, float]]:
    """A driven qubit by Rabi's formula, and a coherence that decays and loses its phase."""
    z, x = np.diag([1.0, -1.0]).astype(complex), np.array([[0, 1], [1, 0]], complex)
    times, tight = np.linspace(0.0, 20.0, 201), simkit.Adaptive(1e-10, 1e-12)
    figure = new_figure(7.0, 2.6)
    left, right = figure.subplots(1, 2)
    worst, drive = 0.0, 0.8
    for k, detuning in enumerate((0.0, 0.6, 1.6)):
        system = odes.Schrodinger(-0.5 * detuning * z + 0.5 * drive * x)
        run = simkit.simulate(system, odes.Schrodinger.State.of([1.0, 0.0]), times, step=tight)
        ours = np.abs(np.asarray(run.ys.amplitudes)[:, 1]) ** 2
        frequency = np.hypot(drive, detuning)
        exact = (drive / frequency) ** 2 * np.sin(frequency * times / 2) ** 2
        _dots(left, times, ours, exact, k, f"detuning {detuning:g}")
        worst = max(worst, np.abs(ours - exact).max())
    left.set(xlabel="time", ylabel="share excited", title="Rabi's formula", ylim=(-0.05, 1.25))
    left.legend(loc="upper center", ncols=3, columnspacing=0.8, handletextpad=0.0)
    decay, dephasing = 0.2, 0.1
    lower = np.array([[0, 1], [0, 0]], complex)
    system = odes.Lindblad(np.zeros((2, 2)), [lower, z], [decay, dephasing])
    state = odes.Lindblad.State.of(np.array([1.0, 1.0]) / np.sqrt(2))
    rho = np.asarray(simkit.simulate(system, state, times, step=tight).ys.matrix)
    pairs = {
        "excited": (rho[:, 1, 1].real, 0.5 * np.exp(-decay * times)),
        "coherence": (np.abs(rho[:, 0, 1]), 0.5 * np.exp(-(decay / 2 + 2 * dephasing) * times)),
    }
    for k, (name, (ours, exact)) in enumerate(pairs.items()):
        _dots(right, times, ours, exact, k, name)
    right.set(xlabel="time", title="decay and dephasing")
    right.legend()
    lost = max(np.abs(ours - exact).max() for ours, exact in pairs.values())
    return figure, {"Rabi": float(worst), "decay": float(lost)}


def _dots(axes, x, ours, exact, k, label) -> None:
    axes.plot(x, exact, color=color(k), linewidth=1)
    axes.plot(x[::8], ours[::8], "o", color=color(k), markersize=3.5, label=label)


@styled
def epidemics() -> tuple[Drawing, dict[str, float]]:
    """How many fall ill in all: epidemics that are over, and the equation of Kermack and McKendrick (1927)."""
    number = np.geomspace(1.1, 8.0, 40)
    people = odes.SIR.State(susceptible=1e6, infected=10.0, recovered=0.0)
    system = odes.SIR(transmission=0.2, recovery=0.2)
    run = simkit.ensemble(
        system, people, [0.0, 3000.0], over={"transmission": 0.2 * number}, step=simkit.Adaptive(1e-9, 1e-9)
    )
    ours = 1 - np.asarray(run.final().susceptible) / 1e6
    a = number * 1e6 / (1e6 + 10)
    exact = 1 + lambertw(-a * np.exp(-number)).real / a
    figure = new_figure(4.2, 2.8)
    axes = figure.subplots()
    axes.plot(number, exact, color=color(1), label="Kermack and McKendrick")
    axes.plot(number, ours, "o", color=INK, markersize=3, label="simkit")
    axes.set(xlabel="basic reproduction number", ylabel="share that was ill", ylim=(0, 1.02))
    axes.legend()
    return figure, {"largest difference": float(np.abs(ours - exact).max())}
