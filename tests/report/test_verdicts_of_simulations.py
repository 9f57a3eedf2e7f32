"""Verdicts on flows, particles and sweeps: each question told from data made to be good, doubtful or bad."""

import pathlib

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal
import scipy.stats

import simkit
from simkit import fluids, md, odes, sweeps
from simkit.cli import main
from simkit.report import _particles, _simulated, _sweep, report
from simkit.report._simulated import tail_share


def grades(found):
    return {answer.question: answer.grade for answer in found}


def results(tmp_path, trajectory):
    simkit.save(tmp_path / "r.h5", trajectory=trajectory, overwrite=True)
    return simkit.load(tmp_path / "r.h5")


def series(**columns):
    """Averages over 400 times, by hand."""
    times = jnp.arange(400.0)
    return md.Averages(times=times, series={name: jnp.asarray(values) for name, values in columns.items()})


NOISE = np.random.default_rng(0).normal(size=400)


def test_the_tail_of_a_spectrum_is_the_share_of_the_waves_that_make_it():
    """A sum of cosines that the transform has as its waves: shares are squares of amplitudes."""
    x = (np.arange(32) + 0.5) / 32
    slow, fast = np.cos(np.pi * 3 * x), np.cos(np.pi * 30 * x)
    np.testing.assert_allclose(tail_share(5.0 + slow + 0.5 * fast, 1), 0.25 / 1.25, rtol=1e-12)
    assert tail_share(np.full((16, 16), 3.0), 2) == 0.0
    vector = np.stack([slow[:, None] * np.ones(32), fast[:, None] * np.ones(32)])
    np.testing.assert_allclose(tail_share(vector, 2), 0.5, rtol=1e-12)


def test_a_flow_is_judged_by_its_grid_and_its_steps(tmp_path):
    system, y0, _, _ = fluids.SpectralFlow2D.example()
    study = system, {"step": 0.1}, None, y0
    zero = jnp.zeros((), int)
    speed = np.abs(np.asarray(system.velocity(y0))).max(axis=(1, 2)).sum()
    cell = 2 * np.pi / 48
    for count, wanted in ((int(2 * speed / cell) + 1, "yes"), (int(0.5 * speed / cell), "care")):
        still = simkit.Trajectory(
            jnp.array([0.0, 1.0]), type(y0)(jnp.stack([y0.vorticity] * 2)), zero, zero + count, zero, zero
        )
        found = _simulated.run_answers(results(tmp_path, still), *study)
        assert grades(found)["Were the steps fine enough?"] == wanted
        number = float(found[-1].found.split("crosses ")[1].split(" ")[0])
        np.testing.assert_allclose(number, speed / cell / count, rtol=0.02)  # told with two digits
        assert grades(found)["Does the grid resolve the fields?"] == "yes"
    rough = type(y0)(jnp.asarray(np.random.default_rng(1).normal(size=(2, 48, 48))))
    run = simkit.Trajectory(jnp.array([0.0, 1.0]), rough, zero, zero + 9, zero, zero)
    found = _simulated.run_answers(results(tmp_path, run), *study)
    assert grades(found)["Does the grid resolve the fields?"] == "care"


def test_conserved_numbers_and_failures_are_seen(tmp_path):
    system, y0, times, _ = odes.LotkaVolterra.example()
    study = system, {"step": None}, None, y0
    good = simkit.simulate(system, y0, times)
    assert set(grades(_simulated.run_answers(results(tmp_path, good), *study)).values()) == {"yes"}
    coarse = simkit.simulate(system, y0, times, solver=simkit.solvers.Euler(), step=0.25)
    question = "Is what should be conserved constant?"
    assert grades(_simulated.run_answers(results(tmp_path, coarse), *study))[question] == "no"
    blown = simkit.Trajectory(good.times, good.ys, good.status + 1, good.steps, good.rejected, good.evaluations)
    assert _simulated.run_answers(results(tmp_path, blown), *study)[0].grade == "no"
    fixed = system, {"step": 0.1}, None, y0
    found = grades(_simulated.run_answers(results(tmp_path, good), *fixed))
    assert found["Were the steps fine enough?"] == "untested"


def test_particles_are_judged_by_energy_temperature_and_rest():
    held = series(kinetic_energy=50.0 + NOISE, potential_energy=-100.0 - NOISE)
    drifting = series(kinetic_energy=50.0 + NOISE, potential_energy=-100.0 - NOISE + 0.01 * np.arange(400))
    assert _particles.energy(held)[0].grade == "yes"
    (found,) = _particles.energy(drifting)
    assert found.grade == "no"
    assert "drifted by 0.08 " in found.found  # 0.01 a time over 399 times, over 50
    assert _particles.settled(series(pressure=NOISE)).grade == "yes"
    assert _particles.settled(series(pressure=NOISE + 0.005 * np.arange(400))).grade == "care"
    warm = series(temperature=1.0 + 0.02 * NOISE)
    # One frame of 200 degrees of freedom fluctuates by 0.1, and the mean of these by 0.001.
    told = [_particles.temperature(warm, wanted, 200.0).grade for wanted in (1.0, 1.06, 1.3)]
    assert told == ["yes", "care", "no"]
    assert _particles.temperature(series(temperature=np.ones(400)), 1.0).grade == "yes"


def remembering(rng, count, memory):
    """An autoregressive series of variance 1 with a correlation time, which is its mean and its deviation from it."""
    phi = np.exp(-1 / memory)
    return scipy.signal.lfilter([np.sqrt(1 - phi**2)], [1, -phi], rng.normal(size=count + 50 * int(memory)))[-count:]


def test_correlated_temperatures_are_doubted_as_seldom_as_said():
    """The t-test by longer blocks keeps its chance of 1 %, within a factor of two, where blocks that just pass have 6 %."""
    rng, tried = np.random.default_rng(0), 400
    found = [
        _particles.temperature(series(temperature=1 + 0.05 * remembering(rng, 400, 3)), 1.0).grade for _ in range(tried)
    ]
    assert found.count("care") + found.count("no") <= scipy.stats.binom.ppf(0.999, tried, 2 * _particles.CHANCE)
    off = [
        _particles.temperature(series(temperature=1.2 + 0.05 * remembering(rng, 400, 3)), 1.0, 200.0).grade
        for _ in range(20)
    ]
    assert set(off) <= {"no", "untested"}
    assert off.count("no") >= 15  # 1 of 20 is too short by its own measure


def test_a_run_of_few_correlation_times_is_too_short_to_be_judged():
    rng = np.random.default_rng(1)
    answers = [_particles.temperature(series(temperature=2 + 0.05 * remembering(rng, 400, 80)), 1.0) for _ in range(20)]
    assert [answer.grade for answer in answers].count("no") <= 2  # 5 correlation times, which look like more by chance
    short = next(answer for answer in answers if answer.grade == "untested")
    assert short.advice[0].startswith("The run is too short to tell its temperature: that takes 32 correlation times")


@pytest.fixture
def swept(tmp_path):
    """A sweep of a decay with one member that cannot be computed in the steps that it has."""
    system, y0, _, _ = odes.ExponentialDecay.example()
    values = {"rate": np.array([0.1, 0.2, 0.4, 1e7])}
    return sweeps.sweep(
        system, y0, [0.0, 1.0, 50.0], over=values, store=tmp_path / "held", chunk=2, solver=simkit.solvers.Tsit5(),
        step=simkit.Adaptive(max_steps=200),
    )  # fmt: skip


def test_a_sweep_is_judged_by_its_members(swept):
    found = _sweep.sweep_answers(swept, _sweep.numbers_of(swept))
    assert grades(found) == {
        "Were all members computed?": "yes",
        "Did all members succeed?": "no",
        "Are the results finite?": "yes",
        "Were the steps fine enough?": "yes",
        "Are the files whole?": "yes",
    }
    assert "1 of 4 failed" in found[1].found
    page = report(swept)
    assert "Not yet. Mend first what was found under &quot;Did all members succeed?&quot;" in page
    assert "<td>STEP_LIMIT</td><td>rate 1e+07</td>" in page
    start = float(swept["amount"][0, 0])
    last = _sweep.numbers_of(swept).results["amount at the end"][:3]
    np.testing.assert_allclose(
        last, start * np.exp(-50 * np.array([0.1, 0.2, 0.4])), atol=1e-6 * start
    )  # far below the first amount
    chunk = next(swept.store.glob("chunk-000000*"))
    chunk.unlink()
    again = sweeps.open(swept.store)
    answers = _sweep.sweep_answers(again, _sweep.numbers_of(again))
    assert grades(answers)["Were all members computed?"] == "no"
    assert "2 of 4 members were computed" in answers[0].found


def test_the_command_writes_the_report_of_a_sweep(swept, tmp_path, capsys):
    assert main(["report", str(swept.store)]) == 0
    page = pathlib.Path(swept.store / "report.html").read_text(encoding="utf-8")
    assert 'alt="Results over rate' in page
    assert (swept.store / "figures" / "sweep_rate.png").exists()
    assert main(["report", str(swept.store)]) == 2
    assert "report.html" in capsys.readouterr().err
