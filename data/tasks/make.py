"""Make the data of the tutorials anew, by SciPy and seeded noise: `python data/tasks/make.py` writes the files beside it."""

import csv
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

HERE = pathlib.Path(__file__).parent


def solved(field: Any, times: np.ndarray, y0: Sequence[float]) -> np.ndarray:
    span = (0.0, float(times[-1]))
    return solve_ivp(field, span, y0, t_eval=times, rtol=1e-10, atol=1e-12, method="LSODA").y


def write(name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open(HERE / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows([[f"{x:.4g}" if isinstance(x, float) else x for x in row] for row in rows])


def pond() -> None:
    """Algae and water fleas in three tanks: logistic growth, grazing that saturates (Holling II), counts of fleas."""
    noise, rows = np.random.default_rng(1), []
    growth, capacity, grazing, half, gain, death = 0.9, 8.0, 0.5, 1.5, 3.0, 0.25
    field = lambda t, y: [
        growth * y[0] * (1 - y[0] / capacity) - grazing * y[0] / (half + y[0]) * y[1] / 3,
        gain * grazing * y[0] / (half + y[0]) * y[1] / 3 - death * y[1],
    ]
    times = np.arange(0.0, 31.0, 1.5)
    for tank, start in (("A", 0.5), ("B", 2.0), ("C", 6.0)):
        algae, fleas = solved(field, times, (start, 2.0))
        for t, a, f in zip(times[1:], algae[1:], fleas[1:], strict=True):
            seen = "" if noise.random() < 0.08 else float(a * np.exp(0.1 * noise.normal()))
            rows.append([tank, float(t), seen, int(noise.poisson(f))])
    write("pond", ["tank", "day", "algae_mg_per_l", "fleas_per_l"], rows)


def antibiotic() -> None:
    """A drug infused into 24 patients: one compartment, clearance by weight, a limit of quantification of 1 mg/l."""
    noise, rows = np.random.default_rng(2), []
    for patient in range(1, 25):
        weight = float(noise.uniform(50, 100))
        clearance = 4.0 * (weight / 70) ** 0.75 * np.exp(0.3 * noise.normal())
        volume = 30.0 * np.exp(0.2 * noise.normal())
        rows.append([patient, 0.0, 1, 500.0, 1.0, ".", 0, round(weight, 1)])
        for t in (1.0, 2.0, 4.0, 8.0, 12.0, 24.0, 36.0):
            k = clearance / volume
            level = 500.0 / 1.0 / clearance * (1 - np.exp(-k)) * np.exp(-k * (t - 1.0))
            seen = level * np.exp(0.15 * noise.normal())
            rows.append([patient, t, 0, ".", ".", max(seen, 1.0), int(seen < 1.0), round(weight, 1)])
    write("antibiotic", ["ID", "TIME", "EVID", "AMT", "DUR", "DV", "CENS", "WT"], rows)


def kinase() -> None:
    """A kinase switched on by a stimulus of three strengths, its inhibitor made after; phosphorylated fraction measured."""
    noise, rows = np.random.default_rng(3), []
    for dose in (0.1, 1.0, 10.0):
        field = lambda t, y, dose=dose: [
            0.8 * dose / (1 + dose) * (1 - y[0]) - (0.2 + 1.5 * y[1]) * y[0],
            0.3 * y[0] - 0.1 * y[1],
        ]
        times = np.array([0.0, 1, 2, 3, 5, 8, 12, 18, 25, 35, 50])
        active, _ = solved(field, times, (0.0, 0.0))
        for t, a in zip(times[1:], active[1:], strict=True):
            rows.append([dose, float(t), float(a + 0.02 * noise.normal())])
    write("kinase", ["stimulus_nM", "minute", "active_fraction"], rows)


def decomposition() -> None:
    """A to B to C at three temperatures, both steps by Arrhenius' law; concentrations by a chromatograph."""
    noise, rows = np.random.default_rng(4), []
    for kelvin in (330.0, 345.0, 360.0):
        rate = lambda at345, energy, kelvin=kelvin: at345 * np.exp(-energy / 8.314 * (1 / kelvin - 1 / 345.0))
        first, second = rate(0.02, 85e3), rate(0.008, 60e3)
        field = lambda t, y, first=first, second=second: [-first * y[0], first * y[0] - second * y[1], second * y[1]]
        times = np.array([0.0, 10, 20, 40, 60, 90, 120, 180, 240])
        for t, *y in zip(times[1:], *solved(field, times, (1.0, 0.0, 0.0))[:, 1:], strict=True):
            rows.append([kelvin, float(t), *(float(x + 0.01 * noise.normal()) for x in y)])
    write("decomposition", ["kelvin", "minute", "a_mol_per_l", "b_mol_per_l", "c_mol_per_l"], rows)


def channel() -> None:
    """Flow between plates driven by a pressure that is switched on: the speed in the middle, which tells the viscosity."""
    noise = np.random.default_rng(5)
    nu, force, width = 0.02, 0.05, 1.0
    times = np.linspace(0.5, 15.0, 30)
    n = np.arange(1, 400, 2)[:, None]
    decay = np.exp(-nu * (n * np.pi / width) ** 2 * times)
    middle = force * width**2 / (8 * nu) - np.sum(
        4 * force * width**2 / (nu * np.pi**3 * n**3) * np.sin(n * np.pi / 2) * decay, axis=0
    )
    rows = [[float(t), float(u + 0.005 * noise.normal())] for t, u in zip(times, middle, strict=True)]
    write("channel", ["second", "middle_m_per_s"], rows)


def motor() -> None:
    """A motor with a flexible load: voltage steps in, the speed of the motor out, measured 50 times a second."""
    noise = np.random.default_rng(6)
    voltage = lambda t: 6.0 if t % 4.0 < 2.0 else -3.0
    # States: motor speed, load speed, twist of the shaft.
    field = lambda t, y: [
        (2.0 * voltage(t) - 0.8 * y[0] - 30.0 * y[2]) / 0.4,
        (30.0 * y[2] - 0.3 * y[1]) / 1.2,
        y[0] - y[1],
    ]
    times = np.arange(0.0, 8.0, 0.02)
    speed = solve_ivp(field, (0.0, 8.0), (0.0, 0.0, 0.0), t_eval=times, max_step=0.01, rtol=1e-9, atol=1e-10).y[0]
    rows = [[float(t), voltage(t), float(w + 0.1 * noise.normal())] for t, w in zip(times[1:], speed[1:], strict=True)]
    write("motor", ["second", "volt", "rad_per_s"], rows)


def spirals() -> None:
    """Twenty paths of a damped oscillator whose damping depends on its amplitude: for a network to learn."""
    noise, rows = np.random.default_rng(7), []
    field = lambda t, y: [y[1], -2.0 * y[0] - 0.1 * y[1] - 0.4 * y[0] ** 2 * y[1]]
    times = np.linspace(0.0, 6.0, 31)
    for path in range(20):
        x, v = solved(field, times, noise.uniform(-2, 2, 2))
        rows += [
            [path, float(t), float(a + 0.02 * noise.normal()), float(b + 0.02 * noise.normal())]
            for t, a, b in zip(times, x, v, strict=True)
        ]
    write("spirals", ["path", "t", "x", "v"], rows)


if __name__ == "__main__":
    for make in (pond, antibiotic, kinase, decomposition, channel, motor, spirals):
        make()
