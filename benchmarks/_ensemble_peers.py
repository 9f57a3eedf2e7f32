"""The peers of `ensembles.py`: Diffrax in this process, our C program, and numbalsoda and torchode in environments of their own."""

import functools
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import _harness
import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from _ensemble_problems import Case

C_SOURCE = _harness.HERE / "peers" / "ensemble.c"
GROUPS = (1, 2, 3, 4)  # vectors that step together in the C program; 1 is the plain way to write it
FIRST_STEP = 1e-3


class Answer(NamedTuple):
    """What a program in another process found: CPU seconds a solve, final states (member, state), steps a member where it tells."""

    cpu: np.ndarray
    y: np.ndarray
    steps: str = "-"

    def with_more(self, other: "Answer") -> "Answer":
        return self._replace(cpu=np.concatenate([self.cpu, other.cpu]))


def stock(case: Case, count: int, solver: Any, **numerics: Any) -> Callable[[Any, Any], tuple[Any, Any, Any]]:
    """`vmap(diffeqsolve)` as its documentation writes it: states at the times, accepted and rejected steps."""

    def one(y0, p):
        times = jnp.asarray(case.times(count))
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, p: jnp.stack(case.field(t, y, p))),
            solver,
            times[0],
            times[-1],
            None,
            y0,
            args=p,
            saveat=diffrax.SaveAt(t1=True) if count == 2 else diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=case.rtol, atol=case.atol),
            **numerics,
        )
        return solution.ys, solution.stats["num_accepted_steps"], solution.stats["num_rejected_steps"]

    return jax.vmap(one)


@functools.cache
def compiled(groups: int) -> pathlib.Path:
    """The C program, compiled for this machine."""
    program = _harness.ENVIRONMENTS / f"ensemble_{groups}"
    program.parent.mkdir(exist_ok=True)
    flags = ["-std=gnu11", "-O3", "-march=native", f"-DGROUPS={groups}"]
    subprocess.run(["cc", *flags, C_SOURCE, "-o", program], check=True, stdin=subprocess.DEVNULL)
    return program


def c_command(case: Case, groups: int, samples: int, folder: str) -> list[Any]:
    """The command that solves a case in C; its input is written to the folder."""
    given, found = pathlib.Path(folder, "given"), pathlib.Path(folder, "found")
    sizes = np.array([case.members, case.y0.shape[1], case.p.shape[1]], float)
    np.concatenate([sizes, case.y0.ravel(), case.p.ravel()]).tofile(given)
    numbers = (f"{x!r}" for x in (float(case.rtol), float(case.end), FIRST_STEP, samples))
    return [compiled(groups), case.name, *numbers, given, found]


def in_c(case: Case, groups: int, samples: int = 15) -> Answer:
    """The case in the C program."""
    with tempfile.TemporaryDirectory() as folder:
        command = c_command(case, groups, samples, folder)
        told = subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
        found = np.fromfile(pathlib.Path(folder, "found"))
    y, accepted, rejected = np.split(found, [case.y0.size, case.y0.size + case.members])
    return Answer(np.array(told.split(), float), y.reshape(case.y0.shape), steps(accepted, rejected))


def steps(accepted: Any, rejected: Any) -> str:
    """Accepted and rejected steps a member, in words."""
    return f"{np.mean(np.asarray(accepted)):.1f} + {np.mean(np.asarray(rejected)):.1f}"


def in_numbalsoda(cases: Sequence[Case], samples: int = 5) -> dict[tuple[str, str], Answer]:
    """(case, solver) -> answer. Its DOP853 needs a Fortran compiler to build: without one, its LSODA alone is built and run."""
    arrays = {f"{case.name}.y0": case.y0 for case in cases} | {f"{case.name}.p": case.p for case in cases}
    options = {"cases": {case.name: (case.end, case.rtol, case.atol) for case in cases}, "samples": samples}
    name, packages = "numbalsoda", ["numbalsoda"]
    if shutil.which("gfortran") is None:
        name, packages = "numbalsoda_lsoda", ["numba", "numpy"]
        options["library"] = str(_lsoda_alone())
    found = _peer(name, packages, "numbalsoda_ensembles.py", arrays, options)
    pairs = [(case.name, solver) for case in cases for solver in ("lsoda", "dop853")]
    answers = {}
    for name, solver in pairs:
        if f"{name}.{solver}.y" in found:
            answers[name, solver] = Answer(found[f"{name}.{solver}.cpu"], found[f"{name}.{solver}.y"])
    return answers


@functools.cache
def _lsoda_alone() -> pathlib.Path:
    """numbalsoda's LSODA as a library, from its source distribution: C++ alone, with the optimisation of its own build."""
    library = _harness.ENVIRONMENTS / "liblsoda.so"
    with tempfile.TemporaryDirectory() as folder:
        download = [
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "numbalsoda",
            "-d",
            folder,
            "numbalsoda",
        ]
        subprocess.run([_harness.environment("numbalsoda_lsoda", ["numba", "numpy"]), *download], check=True)
        (archive,) = pathlib.Path(folder).glob("*.tar.gz")
        shutil.unpack_archive(archive, folder, filter="data")
        sources = [next(pathlib.Path(folder).glob(f"*/src/{name}")) for name in ("LSODA.cpp", "wrapper.cpp")]
        flags = ["-std=c++11", "-O3", "-DNDEBUG", "-shared", "-fPIC"]
        subprocess.run(["c++", *flags, *sources, "-o", library], check=True, stdin=subprocess.DEVNULL)
    return library


def in_torchode(case: Case, samples: int = 5) -> dict[str, Answer]:
    """Way -> answer, for the Lorenz ensemble."""
    options = {"end": case.end, "tolerance": case.rtol, "samples": samples}
    found = _peer("torchode", ["torchode", "numpy"], "torchode_ensembles.py", {"y0": case.y0, "p": case.p}, options)
    answers = {}
    for way in ("eager", "compiled"):
        if f"{way}.y" in found:
            told = f"{np.mean(found[f'{way}.steps']):.1f} in all"
            answers[way] = Answer(found[f"{way}.cpu"], found[f"{way}.y"], told)
    return answers


def _peer(name: str, packages: list[str], script: str, arrays: Any, options: Any) -> dict[str, np.ndarray]:
    try:
        return _harness.run_peer(name, packages, script, arrays, options)[0]
    except subprocess.CalledProcessError as error:
        print(f"{name} did not run here ({error}): its rows are left out.", flush=True)
        return {}
