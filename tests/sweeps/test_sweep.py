"""sweep: its numbers, what it stores, how it is read, and what it refuses."""

import dataclasses
import re
import subprocess
import sys
import time

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sweep_models
import xarray
from sweep_models import CHUNK, COUNT, RATES, TIMES, setup

import simkit
from simkit import ArgumentError, SimulationError, StoreError, UnknownNameError
from simkit._progress import Progress, clock


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A finished sweep that stores states; tests must not change it."""
    return simkit.sweep(**setup(store=tmp_path_factory.mktemp("sweep") / "states"))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A finished sweep that stores a measure."""
    return simkit.sweep(**setup(store=tmp_path_factory.mktemp("sweep") / "measure", measure=sweep_models.final))


def name_of(found):
    (name,) = found.names
    return name


def test_numbers_are_those_of_the_ensemble(stored):
    arguments = setup()
    del arguments["chunk"]
    expected = simkit.ensemble(**arguments)
    found = stored.trajectory(slice(None))
    assert jax.tree.structure(found.ys) == jax.tree.structure(expected.ys)
    for a, b in zip(jax.tree.leaves(found.ys), jax.tree.leaves(expected.ys), strict=True):
        # The same steps in batches of another size: rounding alone may differ.
        np.testing.assert_allclose(a, b, rtol=1e-14)
    assert (stored.status == 0).all()
    assert np.array_equal(found.steps, expected.steps)


def test_numbers_and_files_do_not_depend_on_the_call(stored, tmp_path):
    again = simkit.sweep(**setup(store=tmp_path / "again"))
    assert [p.name for p in sorted(again.store.glob("chunk-*"))] == [
        p.name for p in sorted(stored.store.glob("chunk-*"))
    ]
    other = simkit.sweep(**setup(store=tmp_path / "other", chunk=1000))
    # Batches of another size are other programs: rounding alone may differ.
    np.testing.assert_allclose(other[name_of(other)][:], stored[name_of(stored)][:], rtol=1e-14)


def test_measures_take_the_place_of_states(measured):
    assert set(measured.names) == {"final", "decayed.part"}
    scale = float(jax.tree.leaves(setup()["y0"])[0])
    # Fixed(4) makes steps of 0.125 with Tsit5: its error lies below 1e-8 here.
    np.testing.assert_allclose(measured["final"][:], scale * np.exp(-RATES * TIMES[-1]), rtol=1e-7)
    np.testing.assert_allclose(measured["decayed.part"][3], 1 - np.exp(-RATES[3] * TIMES[-1]), rtol=1e-7)
    with pytest.raises(ArgumentError, match="states of this sweep are not stored"):
        measured.trajectory(0)


def test_columns_are_read_by_member(stored):
    column = stored[name_of(stored)]
    whole = np.asarray(column)
    assert column.shape == whole.shape == (COUNT, TIMES.size)
    rows = [COUNT - 1, 0, CHUNK, -2]
    assert np.array_equal(column[rows], whole[rows])
    assert np.array_equal(column[3:11:2, -1], whole[3:11:2, -1])
    assert np.array_equal(column[RATES > 0.5], whole[RATES > 0.5])
    assert column[7, 2] == whole[7, 2]
    assert np.array_equal(stored["rate"][2:5], RATES[2:5])
    assert np.array_equal(stored.values["rate"], RATES)
    with pytest.raises(ArgumentError, match="numbers of members below 22"):
        column[COUNT]
    with pytest.raises(UnknownNameError, match="Close matches: `rate`"):
        stored["rates"]


def test_trajectories_of_some_members(stored):
    one = stored.trajectory(5)
    assert one.status.shape == ()
    assert one.times.shape == TIMES.shape
    some = stored.trajectory([5, 20])
    assert some.status.shape == (2,)
    for a, b in zip(jax.tree.leaves(one.ys), jax.tree.leaves(some.ys), strict=True):
        assert np.array_equal(a, b[0])
    assert one.solver == "Tsit5"
    assert np.array_equal(some.over["rate"], RATES[[5, 20]])


def test_another_process_needs_no_model(stored):
    opened = simkit.sweeps.open(stored.store)
    assert opened.finished == COUNT
    found, expected = opened.trajectory([1, 2]).ys, stored.trajectory([1, 2]).ys
    assert np.array_equal(found[name_of(stored)], jax.tree.leaves(expected)[0])
    assert repr(opened).splitlines()[0].startswith("Sweep in")


def test_the_view_is_one_file_over_all(stored, measured, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # the view finds its chunks from anywhere
    name = name_of(stored)
    with h5py.File(stored.view) as file:
        assert file[name].is_virtual
        assert np.array_equal(file[name][:], stored[name][:])
        assert np.array_equal(file["rate"][:], RATES)
    with xarray.open_dataset(stored.view, engine="h5netcdf") as data:
        assert dict(data.sizes) == {"member": COUNT, "time": TIMES.size}
        assert np.array_equal(data["time"], TIMES)
        assert np.array_equal(data[name].values, stored[name][:])
    with xarray.open_dataset(measured.view, engine="h5netcdf") as data:
        assert data["decayed.part"].dims == ("member",)


def test_arrays_and_elements_of_arrays(tmp_path):
    system, y0, _, _ = simkit.odes.Lorenz96.example()
    (state,) = jax.tree.leaves(y0)
    name = next(iter(simkit.core.Setup(system, y0).names()[-1:]))
    starts = np.asarray(state) + np.linspace(0.0, 1.0, 3)[:, None]
    found = simkit.sweep(
        system, y0, [0.0, 0.01], over={name: starts}, store=tmp_path / "s", chunk=2, step=simkit.Fixed(1)
    )
    assert np.array_equal(found[found.names[0]][:, 0], starts)
    with xarray.open_dataset(found.view, engine="h5netcdf") as data:
        assert data[name].shape == starts.shape
    with pytest.raises(ArgumentError, match=r"must have the shape \(members, \d+\), but it is \(3,\)"):
        simkit.sweep(system, y0, [0.0, 0.01], over={name: starts[:, 0]}, store=tmp_path / "t")


def test_float32(tmp_path):
    arguments = setup(store=tmp_path / "s")
    arguments["system"], arguments["y0"] = simkit.cast((arguments["system"], arguments["y0"]), jnp.float32)
    found = simkit.sweep(**arguments)
    assert found[name_of(found)].dtype == np.float32
    assert found.trajectory([0]).times.dtype == np.float32


def test_members_that_fail_are_marked_and_told(tmp_path):
    rates = RATES.copy()
    rates[[6, 9]] = np.nan
    arguments = setup(over={"rate": rates, "y0." + name_of_state(): np.full(COUNT, 3.0)}, measure=sweep_models.final)
    found = simkit.sweep(**arguments, store=tmp_path / "s")
    assert np.flatnonzero(found.status).tolist() == [6, 9]
    assert np.flatnonzero(np.isnan(found["final"][:])).tolist() == [6, 9]
    text = repr(found)
    assert "2 with NON_FINITE, the first is member 6: rate nan, y0." in text
    assert "Check the parameters" in text
    assert found.finished == COUNT


def name_of_state():
    return next(iter(simkit.core.named_leaves(setup()["y0"])))


def test_stochastic_members_have_keys_of_their_own(tmp_path):
    system, y0, _, _ = simkit.odes.OrnsteinUhlenbeck.example()
    path = simkit.core.Setup(system).names()[0]
    over = {path: np.full(9, 1.0)}
    settings = {"over": over, "step": simkit.Fixed(3), "measure": sweep_models.final}
    times, key = [0.0, 0.5, 1.0], jax.random.key(3)
    first = simkit.sweep(system, y0, times, key=key, chunk=4, store=tmp_path / "a", **settings)["final"][:]
    assert len(set(first.tolist())) == 9
    other = simkit.sweep(system, y0, times, key=key, chunk=5, store=tmp_path / "b", **settings)["final"][:]
    # The keys are those of the members, not of the chunks: rounding alone may differ.
    np.testing.assert_allclose(first, other, rtol=1e-12)
    with pytest.raises(StoreError, match=r"`key` is threefry2x32 .* there and threefry2x32 .* here"):
        simkit.sweep(system, y0, times, key=jax.random.key(4), chunk=4, store=tmp_path / "a", **settings)
    with pytest.raises(ArgumentError, match="argument `key` must be a random key"):
        simkit.sweep(system, y0, times, chunk=4, store=tmp_path / "c", **settings)


def test_responses_store_their_outputs(tmp_path):
    line = simkit.from_response(lambda x, p: {"height": p["slope"] * x + p["offset"]}, {"slope": 2.0, "offset": 1.0})
    found = simkit.sweep(line, None, [0.0, 1.0, 2.0], over={"slope": [1.0, 2.0, 3.0]}, store=tmp_path / "s", chunk=2)
    assert np.array_equal(found["height"][:], np.asarray([[1.0, 2.0, 3.0], [1.0, 3.0, 5.0], [1.0, 4.0, 7.0]]))
    with xarray.open_dataset(found.view, engine="h5netcdf") as data:
        assert data["height"].shape == (3, 3)


def test_progress_is_told_by_line(tmp_path, capsys):
    lines = []
    simkit.sweep(**setup(store=tmp_path / "s", progress=lines.append))
    assert len(lines) == 6
    assert lines[-1].startswith("22 of 22 members, ")
    assert "a second, 0:00 left" in lines[-1]
    simkit.sweep(**setup(store=tmp_path / "t", progress=True))
    assert "22 of 22 members" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"over": {"rat": RATES}}, UnknownNameError, "Close matches: `rate`"),
        ({"over": {}}, ArgumentError, "at least one path"),
        ({"over": {"rate": RATES[:, None]}}, ArgumentError, r"must have the shape \(members\), but it is \(22, 1\)"),
        ({"over": {"rate": []}}, ArgumentError, r"must have the shape \(members\)"),
        ({"over": {"rate": ["fast"]}}, ArgumentError, "`rate` in `over` must be numbers"),
        ({"chunk": 0}, ArgumentError, "`chunk` must be a whole number of at least 1"),
        ({"key": 3}, ArgumentError, r"`key` must be a random key, such as `jax.random.key\(0\)`, but it is 3"),
        ({"retries": -1}, ArgumentError, "`retries` must be a whole number of at least 0"),
        ({"measure": lambda system, trajectory: trajectory.steps}, ArgumentError, "must return named arrays"),
        ({"measure": lambda system, trajectory: {"status": 1.0}}, ArgumentError, r"but it returned \['status'\]"),
    ],
)
def test_refusals(changes, error, words, tmp_path):
    with pytest.raises(error, match=words):
        simkit.sweep(**setup(store=tmp_path / "s") | changes)
    # A slip does not keep the folder for itself.
    assert simkit.sweep(**setup(store=tmp_path / "s")).finished == COUNT


def test_lengths_that_disagree_are_named(tmp_path):
    over = {"rate": RATES, "y0." + name_of_state(): RATES[:3]}
    with pytest.raises(ArgumentError, match=r"`rate` 22, `y0\.\w+` 3"):
        simkit.sweep(**setup(store=tmp_path / "s", over=over))


def test_a_sweep_in_which_nothing_works_raises(tmp_path):
    arguments = setup(store=tmp_path / "s", over={"rate": [1.0, 1.1]}, measure=sweep_models.raising)
    with pytest.raises(SimulationError, match=r"No chunk could be computed; the last one failed with .*"):
        simkit.sweep(**arguments, retries=0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"times": TIMES * 2}, r"`times` is float64\[5\] with hash \w{8}... there and float64\[5\] with hash"),
        ({"over": {"rate": RATES * 2}}, "`over rate` is"),
        ({"over": {"rate": RATES, "y0.{state}": RATES}}, r"`over y0.\w+` is absent there"),
        ({"step": simkit.Fixed(5)}, r"`step.substeps` is 4 there and 5 here"),
        ({"measure": sweep_models.final}, "`measure` is None there and sweep_models.final here"),
        ({"solver": simkit.solvers.RK4()}, r"`solver` is simkit.solvers._tsit5.Tsit5 there and .*RK4 here"),
        ({"chunk": 5}, r"`chunk` is 4 there and 5 here"),
    ],
)
def test_a_store_of_another_sweep_is_refused(changes, words, stored):
    if len(over := changes.get("over", {})) > 1:
        changes = {"over": {path.format(state=name_of_state()): value for path, value in over.items()}}
    with pytest.raises(StoreError, match=words) as caught:
        simkit.sweep(**setup(store=stored.store) | changes)
    assert "belongs to another sweep" in str(caught.value)
    assert simkit.sweeps.open(stored.store).finished == COUNT


def test_other_physics_is_another_sweep(tmp_path):
    def system(source):
        space = {}
        exec(source, space)
        return simkit.from_function(space["slope"], {"rate": 1.0})

    first = "def slope(t, y, p):\n    return {'x': -p['rate'] * y['x']}\n"
    settings = {"over": {"rate": [1.0, 2.0]}, "store": tmp_path / "s", "step": simkit.Fixed(2)}
    simkit.sweep(system(first), {"x": 1.0}, [0.0, 1.0], **settings)
    with pytest.raises(StoreError, match=r"the source of function \(slope\) differs"):
        simkit.sweep(system(first.replace("-p", "-2 * p")), {"x": 1.0}, [0.0, 1.0], **settings)
    with pytest.raises(StoreError, match=r"`y0\.x` is 1\.0 \(float64\) there and 1\.5 \(float64\) here"):
        simkit.sweep(system(first), {"x": 1.5}, [0.0, 1.0], **settings)


def test_a_value_that_is_swept_over_is_no_difference(stored):
    arguments = setup(store=stored.store)
    arguments["system"] = dataclasses.replace(arguments["system"], rate=9.0)
    assert simkit.sweep(**arguments).finished == COUNT


def test_docstrings_and_comments_are_no_difference():
    from simkit.stores._definition import _source

    def measure(system, trajectory):
        """One."""
        return {"a": 1.0}  # comment

    first = measure

    def measure(system, trajectory):
        return {"a": 1.0}

    assert _source(first) == _source(measure)


TYPED = """
import simkit
class Typed(simkit.PlainSystem):
    rate: simkit.Scalar = simkit.quantity(0.5)
    def vector_field(self, t, y, inputs):
        return {"x": -FACTOR * self.rate * y["x"] if "x" in {"x", "y", "z"} else 0.0}
    def outputs(self, t, y, inputs): return y
    def invariants(self, t, y): return {}
    @classmethod
    def example(cls): return simkit.Example(cls(), {"x": 1.0}, [0.0, 1.0])
import simkit.stores._definition as definition
print(definition.fingerprint(definition.describe({"system": Typed()})))
"""


def test_what_is_typed_into_a_prompt_is_told_by_its_compiled_code():
    def fingerprint(factor):
        # Without a file there is no source; the order of sets differs from process to process.
        command = [sys.executable, "-c", f"exec({TYPED.replace('FACTOR', factor)!r})"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert fingerprint("2.0") == fingerprint("2.0") != fingerprint("3.0")


def test_times_left():
    progress = Progress(1000, 100, None)
    progress.since = progress.ended = time.perf_counter() - 40.0
    progress.add(50, 1)  # 40 seconds, most of them compilation
    progress.ended = time.perf_counter() - 10.0
    progress.add(100, 0)  # 10 seconds
    # On a busy machine more than 10 seconds have passed when the line is read.
    assert re.fullmatch(r"250 of 1000 members, (10|9\.\d+) a second, 1:(1[5-9]|2\d) left, 1 failed", progress.line())
    assert [clock(seconds) for seconds in (0.4, 7.0, 750.0, 11100.0)] == ["0:00", "0:07", "12:30", "3:05:00"]


def test_folders_with_other_files_are_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match=r"holds other files, such as `thesis.tex`"):
        simkit.sweep(**setup(store=tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.tex"}
    with pytest.raises(StoreError, match="could not be written"):
        simkit.sweep(**setup(store=tmp_path / "thesis.tex"))


def test_one_stiff_member_makes_the_solver_stiff(tmp_path):
    system, y0, _, _ = simkit.odes.VanDerPol.example()
    path = simkit.core.Setup(system).names()[0]
    found = simkit.sweep(system, y0, np.array([0.0, 10.0]), over={path: [1.0, 2.0, 500.0]}, store=tmp_path / "s")
    assert found.definition["solver"].endswith("Rodas5P")
    assert (found.status == 0).all()


def test_events_end_and_change_members(tmp_path):
    ends = {"half": simkit.Event(sweep_models.half, "down", ends=True)}
    found = simkit.sweep(**setup(store=tmp_path / "ends", events=ends, step=simkit.Adaptive()))
    exact = np.exp(-RATES[:, None] * TIMES)
    np.testing.assert_allclose(found[name_of(found)][:], np.where(exact >= 0.5, exact, np.nan), rtol=1e-5)
    with pytest.raises(StoreError, match="events"):
        simkit.sweep(**setup(store=tmp_path / "ends", step=simkit.Adaptive()))
    doubling = simkit.Event(sweep_models.half, "down", sweep_models.doubled, keep=2)
    doses = simkit.Event(at=[0.5], change=sweep_models.doubled)
    over = {"rate": RATES, "events.dose.at": np.full((COUNT, 1), 0.25)}
    events = {"half": doubling, "dose": doses}
    arguments = setup(over=over, events=events, measure=sweep_models.passed)
    seen = simkit.sweep(**arguments, store=tmp_path / "measured")
    assert seen["times"][:].shape == (COUNT, 3)  # two of a condition and one known
    # 2 exp(-r t) passes a half at log(4) / r
    half, passes = np.log(4) / RATES, np.log(4) / RATES <= 2.0
    np.testing.assert_allclose(seen["first"][:], 0.25)
    np.testing.assert_allclose(seen["times"][:][passes, 1], half[passes], rtol=1e-5)
    np.testing.assert_array_equal(seen["often"][:][~passes], 1)


RATE = 1.0
"""What `reads_rate` reads of this module."""


def reads_rate(t, y, p):
    return {"x": -RATE * p["k"] * y["x"]}


def test_definitions_hold_the_constants_of_a_module_that_code_reads(monkeypatch):
    from simkit.stores import describe

    class Pond(simkit.PlainSystem):
        def vector_field(self, t, y, inputs):
            return {"x": -RATE * y["x"]}

        @classmethod
        def example(cls):
            raise NotImplementedError

    before = [describe({"field": reads_rate}), describe({"system": Pond()})]
    assert before == [describe({"field": reads_rate}), describe({"system": Pond()})]
    monkeypatch.setitem(globals(), "RATE", 5.0)
    for old, new in zip(before, [describe({"field": reads_rate}), describe({"system": Pond()})], strict=True):
        assert {name for name in new if old[name] != new[name]} <= {name for name in new if name.endswith("RATE")}
        assert old != new
