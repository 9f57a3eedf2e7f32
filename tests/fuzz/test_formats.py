"""Flipped bits and cuts in every format that simkit reads: the right answer or a `SimkitError`; no silent change where there is a
checksum. A few of each here, 200 each with `-m long`."""

import dataclasses
import pathlib
import shutil

import jax
import numpy as np
import pytest
import synthetic
from fuzzing import DOSED_HEAD, Told, damaged, judged
from helpers import tree_bitwise_equal
from petab_models import sbml, write_problem

import simkit
from simkit.core import Setup
from simkit.inspect._failure_file import read_failure, write_failure
from simkit.md import METAL, Frame, Orthorhombic
from simkit.md.files._eam_files import read_setfl
from simkit.stores import journal

FEW, MANY = 12, 200
ROOT = pathlib.Path(__file__).parents[2]
STUDY = """
[study]
title = "Two species"
[system]
model = "lotka_volterra"
parameters = { growth = 0.7 }
[y0]
hare = 30.0
lynx = 4.0
[solve]
rtol = 1e-6
[noise]
hare = { model = "normal", scale = 2.0 }
[free]
growth = { prior = { log_normal = [0.0, 0.5] }, bounds = [0.1, 2.0] }
[experiments.first]
file = "pelts.csv"
columns = { time = "year", hare = "hare" }
[sweep.over]
growth = { from = 0.1, to = 1.0, count = 10 }
"""
CSV = "# pelts\nyear,hare,lynx\n" + "".join(f"{1900 + i},{30 + i}.5,{4 + i}\n" for i in range(20))


def study(folder):
    (folder / "pelts.csv").write_text(CSV)
    (folder / "study.toml").write_text(STUDY)
    read = lambda path: dataclasses.replace(simkit.load_study(path), text="")
    return folder / "study.toml", lambda path: [experiment.data for experiment in read(path).experiments]


def table(folder):
    (folder / "pelts.csv").write_text(CSV)
    return folder / "pelts.csv", lambda path: simkit.io.read_table(path, {"time": "year", "hare": "hare"})


def result(folder):
    path = simkit.io.save(folder / "r.h5", fit=synthetic.fit_result(), posterior=synthetic.posterior(draws=8))

    def read(path):
        found = simkit.io.load(path)
        return found.fit, found.posterior, dataclasses.astuple(found.provenance)

    return path, read


def eventful(folder):
    """A saved trajectory with events: format 3."""
    ball = simkit.odes.from_function(lambda t, y, p: {"height": y["speed"], "speed": -9.81 * p["one"]}, {"one": 1.0})
    back = lambda system, t, y, inputs: {"height": y["height"], "speed": -0.8 * y["speed"]}
    events = {
        "bounce": simkit.Event(lambda system, t, y, inputs: y["height"], "down", back),
        "kick": simkit.Event(at=[0.3, 1.9], change=lambda system, t, y, inputs: y),
    }
    found = simkit.simulate(ball, {"height": 2.0, "speed": 0.0}, np.linspace(0.0, 2.0, 5), events=events)
    path = simkit.io.save(folder / "events.h5", found)

    def read(path):
        found = simkit.io.load(path).trajectory
        assert found is not None
        return found.ys, found.times, vars(found.events), repr(found)

    assert read(path)[2]["names"] == ("bounce", "kick")
    return path, read


SUBJECTS = """ID,TIME,EVID,AMT,CMT,RATE,ADDL,II,SS,DV,WT
anna,0,1,300,central,150,.,.,.,.,70.5
anna,1,0,.,.,.,.,.,.,5.25,70.5
anna,6,3,.,.,.,.,.,.,.,70.5
anna,7,4,100,peripheral,.,2,4,.,.,70.5
anna,16,0,.,.,.,.,.,.,4.0,70.5
ben,0,1,200,central,.,.,24,1,.,81
ben,2,0,.,.,.,.,.,.,4.0,81
"""
DOSED = (
    DOSED_HEAD
    + """bioavailability = { central = 0.5 }
[experiments.carl]
start = 0.0
times = [1.0, 6.0]
data = { concentration = [5.0, 4.0] }
doses = [{ amount = 300.0, into = "central", rate = 150.0 }, { amount = 20.0, time = 2.0, every = 1.0, additional = 3 }]
resets = [5.5, 5.75]
"""
)


def experiments(path):
    """What a study's experiments hold: data, times and the times and values of the events that its doses became."""
    found = simkit.load_study(path).experiments
    return [(e.name, np.asarray(e.times), e.data, jax.tree.leaves(e.events)) for e in found]


def dosed_study(folder):
    (folder / "doses.csv").write_text(SUBJECTS)
    (folder / "study.toml").write_text(DOSED)
    return folder / "study.toml", experiments


def dosing_table_of_a_study(folder):
    dosed_study(folder)
    return folder / "doses.csv", lambda path: experiments(folder / "study.toml")


def dosing_table(folder):
    (folder / "doses.csv").write_text(SUBJECTS)

    def read(path):
        found = simkit.io.read_doses(path, compartments=["central", "peripheral"])
        return [
            (s.name, np.asarray(s.times), s.data, s.covariates, [getattr(s.doses, key) for key in s.doses.__slots__])
            for s in found
        ]

    return folder / "doses.csv", read


def atoms():
    rng = np.random.default_rng(0)
    return [
        Frame(
            Orthorhombic([4.0, 5.0, 6.0]),
            rng.normal(size=(5, 3)),
            units=METAL,
            symbols=("O",) * 5,
            time=0.5 * k,
            step=k,
        )
        for k in range(3)
    ]


def told_of_frames(frames):
    return [(np.asarray(f.position), f.time, f.step, f.symbols) for f in frames]


def extended_xyz(folder):
    return simkit.io.write_extxyz(folder / "a.xyz", atoms()), lambda path: told_of_frames(simkit.io.read_extxyz(path))


def h5md(folder):
    with simkit.io.H5MDWriter(folder / "a.h5md", atoms()[0]) as file:
        for frame in atoms():
            file.write(frame)
    return folder / "a.h5md", lambda path: np.asarray(simkit.io.read_h5md(path).position)


def petab(table):
    def make(folder):
        text = sbml({"A": 1.0}, {"k": 0.5}, {"decay": ("A", "", "k * A")})
        write_problem(
            folder,
            text,
            "parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate\nk | log10 | 0.01 | 10 | 0.5 | 1",
            "observableId | observableFormula | noiseFormula\no | A + 1 | 0.1",
            "observableId | simulationConditionId | time | measurement\no | c0 | 1 | 2.0\no | c0 | 2 | 1.5",
        )

        def read(path):
            found = simkit.petab.load(folder / "problem.yaml")
            return np.asarray(found.nominal), found.problem.data

        return folder / table, read

    return make


def potential(name, read):
    def make(folder):
        path = folder / name
        shutil.copyfile(ROOT / "data" / "md" / "many_body" / name, path)
        return path, read

    return make


def failure(folder):
    system, y0, *_ = simkit.odes.LotkaVolterra.example()
    like = Setup(system, y0, None)
    return write_failure(folder / "f.h5", like, {"t": 1.5, "step": 3}), lambda path: (
        {k: np.asarray(v) for k, v in read_failure(path, like)[0].leaves().items()},
        read_failure(path, like)[1],
    )


def record(folder):
    """A record of a journal: what is damaged counts as not done."""
    store, definition = folder / "store", {"what": "fuzz"}
    with journal(store, "fit", definition, {}) as held:
        held.write("ends-1", {"x": np.arange(50.0)})
    (path,) = store.glob("ends-*.h5")

    def read(path):
        with journal(store, "fit", definition, {}) as held:
            found = held.read("ends-1")
        if found is None:
            raise simkit.StoreError("The record is not taken for finished.")
        return found["x"]

    return path, read


def manifest(folder):
    path, read = record(folder)
    return path.parent / "manifest.json", read


def exported(folder):
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    made = simkit.inspect.export(system, y0, times[:3], over=["growth"], step=simkit.Fixed(1), gradient=False)
    path = made.save(folder / "program.zip")

    def read(path):
        found = simkit.inspect.load_exported(path)
        return found.over, found.outputs, found.times, found.program.mlir_module_serialized

    return path, read


FORMATS = {
    "study": (study, False),
    "CSV table": (table, False),
    "result": (result, True),
    "result with events": (eventful, True),
    "study with doses": (dosed_study, False),
    "dosing table of a study": (dosing_table_of_a_study, False),
    "dosing table": (dosing_table, False),
    "extended XYZ": (extended_xyz, False),
    "H5MD": (h5md, False),
    **{
        f"PEtab {name}": (petab(name), False)
        for name in ("problem.yaml", "model.xml", "measurements.tsv", "parameters.tsv")
    },
    "EAM potential": (potential("binary.eam.alloy", lambda path: dataclasses.astuple(read_setfl(path))), False),
    "failure": (failure, True),
    "record of a store": (record, True),
    "manifest of a store": (manifest, False),
    "exported program": (exported, True),
}


def equal(a, b):
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, np.ndarray | jax.Array):
        return np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")
    return tree_bitwise_equal(a, b) if hasattr(a, "__dataclass_fields__") else a == b


def tried(folder, name, count):
    """Damage a file so many times each way, and count."""
    make, sealed = FORMATS[name]
    path, read = make(folder)
    content, expected, told = path.read_bytes(), read(path), Told()
    assert equal(read(path), expected)
    for what, changed in damaged(content, count, seed=1):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(changed)
        outcome = judged(told, f"{name}, {what}", lambda: read(path), lambda found: equal(found, expected))
        assert not (sealed and outcome == "other"), f"{name}, {what}: changed silently"
    return told


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMATS)
def test_damage(tmp_path, name):
    tried(tmp_path, name, 3 if name.startswith(("PEtab", "exported", "study with", "dosing table of")) else FEW)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMATS)
def test_much_damage(tmp_path, name, record_property):
    told = tried(tmp_path, name, MANY)
    record_property("told", str(told))
    print(f"\n{name}: {told}")
