"""Recordings: parts on disk, interrupts, the same bits, and what is refused."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids, md
from simkit.recordings import open as open_recording

KEY = jax.random.key(3)
SYSTEM, Y0, _, _ = simkit.odes.LotkaVolterra.example()
TIMES = np.linspace(0.0, 20.0, 41)
ASKED = {"frames": 4, "every": 8, "probes": {"hare": lambda system, t, y: y.hare}}


class Stop(Exception):
    pass


def stop_at(end):
    def callback(run):
        if run.end >= end:
            raise Stop

    return callback


def same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def interrupted(tmp_path, system, y0, times, end, **asked):
    """A run at one go, and one that was interrupted and called again."""
    whole = simkit.record(system, y0, times, store=tmp_path / "whole", **asked)
    with pytest.raises(Stop):
        simkit.record(system, y0, times, store=tmp_path / "broken", callback=stop_at(end), **asked)
    assert open_recording(tmp_path / "broken").end < times[-1]
    return whole, simkit.record(system, y0, times, store=tmp_path / "broken", **asked)


def test_what_is_recorded(tmp_path):
    reduce = {"mean": simkit.reducers.Mean()}
    step = simkit.Fixed(10)
    run, again = interrupted(tmp_path, SYSTEM, Y0, TIMES, 8.0, reduce=reduce, step=step, **ASKED)
    full = simkit.simulate(SYSTEM, Y0, TIMES, step=step)
    np.testing.assert_allclose(run["hare"], full.ys.hare, rtol=1e-12)
    np.testing.assert_array_equal(run.probe_times, TIMES)
    np.testing.assert_array_equal(run.times, TIMES[::4])
    np.testing.assert_allclose(run.trajectory().ys.lynx, full.ys.lynx[::4], rtol=1e-12)
    found = simkit.simulate(SYSTEM, Y0, TIMES, step=step, reduce=reduce).reduced["mean"]
    np.testing.assert_allclose(run.reduced["mean"].hare, found.hare, rtol=1e-12)
    part = run.trajectory(5.0, 11.0)
    np.testing.assert_array_equal(part.times, [6.0, 8.0, 10.0])
    assert int(run.trajectory().steps) == 400
    assert type(run.final()) is type(Y0)
    same(run.trajectory(), again.trajectory())
    same((run.final(), run.reduced, run["hare"]), (again.final(), again.reduced, again["hare"]))
    assert "frames   11 from 0 to 20" in repr(run)
    assert "probes   hare at 41 times" in repr(again)


def test_without_the_system(tmp_path):
    run = simkit.record(SYSTEM, Y0, TIMES, store=tmp_path / "run", reduce={"mean": simkit.reducers.Mean()}, **ASKED)
    plain = open_recording(tmp_path / "run")
    assert set(plain.final()) == {"hare", "lynx"}
    assert float(plain.reduced["mean.hare"]) == float(run.reduced["mean"].hare)
    typed = open_recording(tmp_path / "run", Y0)
    same(typed.final(), run.final())
    assert type(typed.trajectory().ys) is type(Y0)
    # A dictionary of a file goes on as the state that the system declares.
    more = simkit.simulate(SYSTEM, plain.final(), [20.0, 21.0])
    assert type(more.final()) is type(Y0)


def test_longer(tmp_path):
    """More times at the end make a run longer; other ones are refused."""
    first = simkit.record(SYSTEM, Y0, TIMES, store=tmp_path / "run", **ASKED).final()
    longer = np.linspace(0.0, 30.0, 61)
    run = simkit.record(SYSTEM, Y0, longer, store=tmp_path / "run", **ASKED)
    assert run.end == 30.0
    same(run.trajectory(20.0, 20.0).final(), first)
    full = simkit.simulate(SYSTEM, Y0, longer, step=simkit.Adaptive(rtol=1e-10))
    np.testing.assert_allclose(run["hare"], full.ys.hare, rtol=1e-3)
    assert simkit.record(SYSTEM, Y0, longer[:31], store=tmp_path / "run", **ASKED).end == 30.0
    with pytest.raises(simkit.StoreError, match="other times"):
        simkit.record(SYSTEM, Y0, longer * np.where(longer > 5, 1.1, 1.0), store=tmp_path / "run", **ASKED)


def test_another_run_is_refused(tmp_path):
    simkit.record(SYSTEM, Y0, TIMES, store=tmp_path / "run", **ASKED)
    other = simkit.odes.LotkaVolterra(growth=0.9)
    with pytest.raises(simkit.StoreError, match="growth"):
        simkit.record(other, Y0, TIMES, store=tmp_path / "run", **ASKED)
    with pytest.raises(simkit.StoreError, match="frames"):
        simkit.record(SYSTEM, Y0, TIMES, store=tmp_path / "run", **(ASKED | {"frames": 2}))
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "thesis.tex").write_text("")
    with pytest.raises(simkit.StoreError, match="thesis"):
        simkit.record(SYSTEM, Y0, TIMES, store=tmp_path / "else")
    with pytest.raises(simkit.ResultFileError, match="there is none"):
        open_recording(tmp_path / "nothing")


def test_damage_is_done_again(tmp_path):
    whole = simkit.record(SYSTEM, Y0, TIMES, store=tmp_path / "run", **ASKED)
    final = whole.final()
    parts = sorted((tmp_path / "run").glob("part-*.h5"))
    content = bytearray(parts[2].read_bytes())
    content[len(content) // 2] ^= 1
    parts[2].write_bytes(content)
    assert open_recording(tmp_path / "run").end == 20.0
    with pytest.raises(simkit.ResultFileError, match="Part 2 of the recording"):
        open_recording(tmp_path / "run").trajectory()
    same(simkit.record(SYSTEM, Y0, TIMES, store=tmp_path / "run", **ASKED).final(), final)


def test_failure_keeps_what_was_before(tmp_path):
    class Explodes(simkit.PlainSystem):
        def vector_field(self, t, y, inputs):
            return y**2

        @classmethod
        def example(cls):
            return simkit.Example(cls(), jnp.asarray(1.0), np.linspace(0.0, 2.0, 21))

    with pytest.raises(simkit.SimulationError, match=r"before time 0\.9 is kept"):
        simkit.record(Explodes(), jnp.asarray(1.0), np.linspace(0.0, 2.0, 21), store=tmp_path / "run", every=3)
    run = open_recording(tmp_path / "run")
    np.testing.assert_allclose(run.final(), 1 / (1 - run.end), rtol=1e-3)


def test_refused(tmp_path):
    store = tmp_path / "run"
    record = lambda *arguments, **more: simkit.record(*arguments, store=store, **more)
    with pytest.raises(simkit.ArgumentError, match="`every` must be a whole number"):
        record(SYSTEM, Y0, TIMES, every=0)
    with pytest.raises(simkit.ArgumentError, match="`frames` must be a whole number"):
        record(SYSTEM, Y0, TIMES, frames=-1)
    with pytest.raises(simkit.ArgumentError, match="must increase"):
        record(SYSTEM, Y0, TIMES[::-1])
    with pytest.raises(simkit.UnknownNameError, match="hare"):
        record(SYSTEM, Y0, TIMES, probes=["hares"])
    with pytest.raises(simkit.ArgumentError, match="outside of `jit`"):
        jax.jit(lambda y0: record(SYSTEM, y0, TIMES).end)(Y0)
    delayed, y0, times, _ = simkit.odes.MackeyGlass.example()
    with pytest.raises(simkit.ArgumentError, match="depends on its past"):
        record(delayed, y0, times)
    static = simkit.odes.from_response(lambda x, p: p["a"] * x, {"a": 2.0})
    with pytest.raises(simkit.ArgumentError, match="must have dynamics"):
        record(static, None, TIMES)
    assert not store.exists()


CELL = md.StochasticCellRescaling(1.5, 1.0, 0.5, 2.5, 0.1)  # the start has no cell of its own
CHAIN = md.NoseHoover(1.5, 0.2)


@pytest.mark.parametrize(
    "dynamics", [md.NVE(), md.Langevin(1.5, 2.0), CELL, CHAIN], ids=["nve", "langevin", "cell", "chain"]
)
def test_particles(tmp_path, dynamics):
    start = md.crystal("fcc", 1.7, 3)
    system = md.Particles(md.LennardJones(1.0, 1.0, cutoff=2.5), start.space, dynamics=dynamics)
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(KEY, jnp.ones(108), 1.5))
    asked = {"step": 0.005, "key": KEY if dynamics.noisy else None, "every": 4, "probes": ["temperature"]}
    times = np.arange(13) * 0.05
    run, again = interrupted(tmp_path, system, atoms, times, 0.2, **asked)
    same((run.trajectory(), run["temperature"]), (again.trajectory(), again["temperature"]))
    assert run["temperature"].shape == (13,)
    assert isinstance(run.final(), md.Atoms)
    full = simkit.simulate(system, atoms, times, step=0.005, key=asked["key"])
    np.testing.assert_allclose(run.final().position, full.final().position, rtol=1e-9)


def test_a_flow(tmp_path):
    system, y0, _, _ = fluids.SpectralFlow2D.example()
    asked = {"step": 0.025, "every": 2, "frames": 2, "probes": ["energy"]}
    run, again = interrupted(tmp_path, system, y0, np.linspace(0.0, 2.0, 9), 0.5, **asked)
    same(run.trajectory(), again.trajectory())
    assert run["energy"][-1] < run["energy"][0]
    more = simkit.simulate(system, run.final(), [2.0, 2.5], step=0.025)
    assert bool(jnp.isfinite(jax.tree.leaves(more.final())[0]).all())


def test_noise(tmp_path):
    """The noise of fixed steps is that of one simulation; each part of a jump process has its own."""
    system, y0, _, _ = simkit.odes.OrnsteinUhlenbeck.example()
    times, step = np.linspace(0.0, 5.0, 21), simkit.Fixed(4)
    run, again = interrupted(tmp_path, system, y0, times, 2.0, every=4, step=step, key=KEY)
    same(run.final(), again.final())
    same(run.final(), simkit.simulate(system, y0, times, step=step, key=KEY).final())


class Births(simkit.JumpSystem):
    rate: simkit.Scalar = simkit.quantity(9.0)

    def propensities(self, t, y, inputs):
        return {"birth": self.rate}

    def jumps(self):
        return {"birth": {"animals": 1}}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"animals": 0.0}, np.arange(4.0))


def test_jumps(tmp_path):
    """Births at a constant rate: counts of 200 parts are those of a Poisson process, and differ from part to part."""
    run = simkit.record(Births(), {"animals": 0.0}, np.arange(201.0), store=tmp_path / "run", every=1, key=KEY)
    births = np.diff(np.asarray(run.trajectory().ys["animals"]))
    assert abs(births.mean() - 9.0) < 4 * np.sqrt(9.0 / 200)
    assert abs(births.var(ddof=1) / births.mean() - 1) < 4 * np.sqrt(2 / 199)


PROGRAM = """
    import numpy as np, simkit, sys, time
    simkit.enable_x64()
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    slow = (lambda run: time.sleep(0.2)) if "slow" in sys.argv else None
    run = simkit.record(system, y0, np.linspace(0.0, 20.0, 41), store=sys.argv[1], every=4, callback=slow)
    print(run.final().hare)
"""


def test_killed(tmp_path):
    """A process that is killed without warning loses the part that it was at, and nothing else."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    process = subprocess.Popen([*command, str(tmp_path / "killed"), "slow"])
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "killed").glob("part-*.h5"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = sorted((tmp_path / "killed").glob("part-*.h5"))
    assert 3 <= len(kept) < 10
    written = kept[0].stat().st_mtime_ns
    ends = [
        subprocess.run([*command, str(tmp_path / name)], capture_output=True, text=True, check=True).stdout
        for name in ("killed", "whole")
    ]
    assert ends[0] == ends[1]
    assert kept[0].stat().st_mtime_ns == written


def test_names_with_slashes_and_dots(tmp_path):
    """Names are what the user says; two arrays of one dotted name are refused."""
    probes = {"a/b": lambda system, t, y: y.hare, "a/c": lambda system, t, y: {"100 %": y.lynx}}
    reduce = {"x/y": simkit.reducers.Mean()}
    run = simkit.record(SYSTEM, Y0, TIMES, store=tmp_path / "run", probes=probes, reduce=reduce, every=20)
    assert run.names == ("a/b", "a/c.100 %")
    assert run["a/b"].shape == run["a/c.100 %"].shape == (41,)
    assert float(run.reduced["x/y"].hare) == pytest.approx(float(run["a/b"].mean()))
    plain = simkit.from_function(lambda t, y, p: {"u/v": -y["u/v"], "u/w": -y["u/w"]}, {"k": 1.0})
    run = simkit.record(plain, {"u/v": 1.0, "u/w": 2.0}, [0.0, 1.0], store=tmp_path / "slash")
    np.testing.assert_allclose(run.trajectory().ys["u/w"], [2.0, 2 / np.e], rtol=1e-3)
    twice = {"a.b": lambda system, t, y: y.hare, "a": lambda system, t, y: {"b": y.lynx}}
    with pytest.raises(simkit.ArgumentError, match=r"two are called `probes\.a\.b`"):
        simkit.record(SYSTEM, Y0, TIMES, store=tmp_path / "twice", probes=twice)


def test_probes_and_callbacks_that_cannot_work(tmp_path):
    record = lambda **asked: simkit.record(SYSTEM, Y0, TIMES, store=tmp_path / "run", **asked)
    with pytest.raises(simkit.ArgumentError, match=r"must be a function \(system, t, y\)"):
        record(probes={"hare": lambda t, y: y.hare})
    for nothing in ("a word", None):
        with pytest.raises(simkit.ArgumentError, match="must return numbers"):
            record(probes={"hare": lambda system, t, y, nothing=nothing: nothing})
    assert not (tmp_path / "run").exists()
    run = record()
    with pytest.raises(simkit.ArgumentError, match="which holds hare, lynx, but it holds x"):
        open_recording(run.store, {"x": 1.0}).final()
    (tmp_path / "file").write_text("")
    with pytest.raises(simkit.ResultFileError, match="but it is a file"):
        open_recording(tmp_path / "file")


def test_complex_states_are_refused():
    decay = simkit.from_function(lambda t, y, p: -p["k"] * y, {"k": 2.0})
    with pytest.raises(simkit.ArgumentError, match="`y0` must hold numbers"):
        simkit.simulate(decay, jnp.array([1 + 2j]), [0.0, 1.0])
