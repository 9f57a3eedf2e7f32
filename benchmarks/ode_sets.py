"""Claim: no problem of the public sets for differential equations ends wrong at tolerances from 1e-3 to 1e-9.

NONSTIFF and STIFF DETEST (Enright and Pryce 1987, after Hull et al. 1972 and Enright et al. 1975), the Test Set for IVP Solvers
(Mazzia and Magherini 2008), and equations with delays: those of DDETST (Enright and Hayashi 1997) and of
RADAR5. All but two (`NAMED`) go by the solver that simkit chooses, and fields that jump or bend at known times take an input
there. The error of an end (of delays, at ten times) is relative to the size of a component or the floor of the problem. A problem
is

- right where at every tolerance the error is at most 100 tolerances, or 10 times that of SciPy with a method of the same order
  (RK45, or Radau with the exact Jacobian) at the same tolerance, since orbits and swings multiply errors (the largest of three
  errors in tolerances, at the tolerance, at thrice and at a third of it);
- refused where an error names what simkit does not have; failed where a status says so at some tolerance; else wrong.

References are published, exact, or those of `benchmarks/ode_set_ends.json`: SciPy's DOP853 at 1e-13 or Radau at 1e-11, kept with
how far they are from a tolerance ten times larger (`python benchmarks/ode_sets.py references`). Run:
`python benchmarks/ode_sets.py [PART [NAMES]]`; counts and errors go to `benchmarks/ode_sets.json`.
"""

import itertools
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate

import simkit

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

TOLERANCES = (1e-3, 1e-5, 1e-7, 1e-9)
ALLOWED, BESIDE_PEER = 100.0, 10.0
BESIDE = (1.0, 3.0, 1 / 3)
"""Shares of a tolerance at which SciPy is asked: where errors of phase pass zero, a single one tells nothing."""
RECORDED, ENDS = HERE / "ode_sets.json", HERE / "ode_set_ends.json"
STEPS = 400_000

NAMED = {"BEAM": "rodas5p", "E5": "bdf"}
"""Solvers of problems that do not go by the one that is chosen. With that one the beam, whose fast oscillations are hardly damped,
takes 37,000 explicit steps and ends 10,000 tolerances off, and E5, whose end is a difference of 1e-22 of states that were 1e-10,
has an error of 0.8 at a tolerance of 1e-3."""

KNOWN_TO = {"slider crank": 1e-5}
"""Relative errors of published ends: the crank's start is printed with nine digits, and its small angles are differences."""

NOT_ENTERED: dict[str, dict[str, Any]] = {
    "Test Set for IVP Solvers": {
        "NAND gate": {"ended": "refused", "said": "`mass` must be a function of (t)"},
        "car axis, index 3": {"ended": "refused", "said": "the index is above 1"},
        **{name: {"ended": "not run"} for name in ("charge pump", "two-bit adder", "wheelset", "water tube")},
    },
    "delays": {f"Waltman {i}": {"ended": "not run"} for i in range(1, 6)},
}
"""Problems that the sets have besides: refused ones, which `tests/validation/test_mechanics.py` holds, and those not entered."""

Case = tuple[Callable[[float], tuple[int, float]], Callable[[float], float] | None]
"""One problem: tolerance -> status and error by simkit, and tolerance -> error by SciPy, None where it has no method."""


# ---- Ordinary equations ----


def jacobian(problem: Any) -> Callable[[Any, Any], np.ndarray]:
    from validation.test_stiff_sets import stacked

    of = jax.jit(jax.jacfwd(lambda y, t: stacked(problem.field(jnp, t, y))))
    return lambda t, y: np.asarray(of(y, t))


def by_scipy(problem: Any, rtol: float, method: str, pieces: int = 1) -> np.ndarray:
    """The end by SciPy, in so many pieces, which end at kinks of the field where it is told of them."""
    options: dict[str, Any] = {"jac": jacobian(problem)} if method == "Radau" else {}
    field = lambda t, y: np.asarray(problem.field(np, t, y), float)
    y, knots = np.array(problem.start, float), np.linspace(0.0, problem.end, pieces + 1)
    for begin, end in itertools.pairwise(knots):
        found = scipy.integrate.solve_ivp(
            field, (begin, end), y, method=method, rtol=rtol, atol=rtol * problem.floor, **options
        )
        if not found.success:
            raise RuntimeError(found.message)
        y = found.y[:, -1]
    return y


def error(problem: Any, end: np.ndarray, expected: np.ndarray) -> float:
    kept = slice(None) if problem.kept is None else list(problem.kept)
    return float(np.max(np.abs(end[kept] - expected) / np.maximum(np.abs(expected), problem.floor)))


def reference(name: str, problem: Any) -> np.ndarray:
    if problem.reference is not None:
        return np.array(problem.reference)
    return np.array(json.loads(ENDS.read_text())[name]["end"])


def posed(name: str, problem: Any) -> Case:
    """A problem without constraints."""
    from validation.test_stiff_sets import Field

    times, start = jnp.array([0.0, problem.end]), jnp.array(problem.start, float)

    def ours(tolerance: float) -> tuple[int, float]:
        step = simkit.Adaptive(tolerance, tolerance * problem.floor, max_steps=STEPS)
        solver = NAMED.get(name)
        found = simkit.simulate(Field(rates=problem.field), start, times, solver=solver, step=step, on_failure="mark")
        return int(found.status), error(problem, np.asarray(found.ys[-1]), reference(name, problem))

    method = "Radau" if problem.stiff else "RK45"
    return ours, lambda tolerance: error(problem, by_scipy(problem, tolerance, method), reference(name, problem))


def of_system(
    system: Any, y0: Any, times: Any, measured: Callable[[Any], float], atol: Any = None, **given: Any
) -> Case:
    """A problem that is written as a system; `measured` gives the error of the final state."""

    def ours(tolerance: float) -> tuple[int, float]:
        step = simkit.Adaptive(tolerance, None if atol is None else tolerance * atol, max_steps=STEPS)
        found = simkit.simulate(system, y0, times, step=step, on_failure="mark", **given)
        return int(found.status), measured(found.final())

    return ours, None


class Swinging(simkit.PlainSystem):
    """F3 of the nonstiff set, whose slope |sin(pi t)| has a kink at each whole number, where `inputs["sign"]` changes."""

    damping: simkit.Scalar = simkit.quantity(0.01)

    def vector_field(self, t: Any, y: Any, inputs: Any) -> Any:
        push = inputs["sign"] * jnp.sin(jnp.pi * t)
        return jnp.stack([y[1], self.damping * y[1] * (1 - y[0] ** 2) - y[0] - push])

    @classmethod
    def example(cls) -> Any:
        return simkit.Example(cls(), jnp.zeros(2), jnp.array([0.0, 20.0]))


def detest(stiff: bool) -> dict[str, Case]:
    from validation.enright_pryce import NONSTIFF, STIFF
    from validation.stiff_problems import Posed
    from validation.test_stiff_sets import Jumping, jumping_end, kinks

    if stiff:
        return {name: posed(name, problem) for name, problem in STIFF.items()}
    cases = {name: posed(name, problem) for name, problem in NONSTIFF.items()}
    signs = simkit.PiecewiseConstant(jnp.arange(20.0), jnp.tile(jnp.array([1.0, -1.0]), 10))
    sizes = np.abs(jumping_end()[[0, 0, 2]]) * np.array([1.0, np.pi, 1.0])
    off = lambda y: np.abs(np.asarray(y) - jumping_end()) / sizes
    jumping = lambda rows: of_system(
        Jumping(),
        jnp.array([0.0, 0.0, 110.0]),
        jnp.array([0.0, 20.0]),
        lambda y: float(off(y)[rows].max()),
        1.0,
        inputs={"sign": signs},
    )
    cases |= {"NF1": jumping(slice(0, 2)), "NF2": jumping(slice(2, 3))}
    nf3, given = NONSTIFF["NF3"], {"sign": signs}
    off_nf3 = lambda y: error(nf3, np.asarray(y), reference("NF3", nf3))
    cases["NF3"] = of_system(*Swinging.example()[:3], off_nf3, nf3.floor, inputs=given)
    # The logarithm of the solution is symmetric about 10: it ends where it began.
    return cases | {"NF5": posed("NF5", Posed(kinks, (1.0,), 20.0, 1e-6, (1.0,), stiff=False))}


def test_set() -> dict[str, Case]:
    from validation import algebraic_problems
    from validation.mechanics_problems import BEAM, FEKETE_END, PLEIADES, SQUEEZER_END, Fekete, Squeezer, car_axis
    from validation.stiff_problems import TEST_SET
    from validation.test_emep import PLACE, emep, emep_error
    from validation.test_odes import CASES

    cases = {name: posed(name, problem) for name, problem in TEST_SET.items()}
    cases |= {"PLEIADES": posed("PLEIADES", PLEIADES), "BEAM": posed("BEAM", BEAM)}
    relative = lambda found, published, floor: float(
        np.max(np.abs(np.asarray(found) - published) / np.maximum(np.abs(published), floor))
    )
    end, published = CASES["pollu"]
    system, y0, _, _ = simkit.odes.POLLU.example()
    flat = lambda y: np.asarray(jax.flatten_util.ravel_pytree(y)[0])
    cases["POLLU"] = of_system(system, y0, [0.0, end], lambda y: relative(flat(y), published, 1e-8), 1e-8)
    system, y0, times, inputs = emep()
    kept = np.arange(y0.size) != PLACE["OP"]  # of which the reference has lost 1.5e-5
    cases["EMEP"] = of_system(system, y0, times, lambda y: float(emep_error(y)[kept].max()), 1.0, inputs=inputs)
    for name in ("chemical Akzo Nobel", "transistor amplifier", "slider crank"):
        p = algebraic_problems.problems()[name]
        cases[name] = of_system(
            p.system, p.y0, p.times, lambda y, p=p: float(np.abs(flat(y)[p.compared] / p.published - 1).max())
        )
    axis = car_axis()

    def of_axis(y: Any) -> float:
        kinds = np.split(np.arange(10), [2, 6])
        off = np.abs(flat(y) - axis.published)
        return max(float(off[kind].max() / np.abs(axis.published[kind]).max()) for kind in kinds)

    cases["car axis"] = of_system(axis.system, axis.y0, axis.times, of_axis)
    places = lambda y: max(
        float(np.abs(np.asarray(y["p"][k]) - np.array(place)).max()) for k, place in FEKETE_END.items()
    )
    cases["Fekete"] = of_system(*Fekete.example()[:3], places)
    squeezer = lambda y: relative(y["p"], np.array(SQUEEZER_END), 1e-6)
    return cases | {"Andrews' squeezer": of_system(*Squeezer.example()[:3], squeezer)}


# ---- Delays ----


def delays() -> dict[str, Case]:
    from validation.delay_problems import PROBLEMS, by_steps, error, simulated
    from validation.neutral_problems import NEUTRAL

    cases: dict[str, Case] = {}
    for name, problem in {**PROBLEMS, **NEUTRAL}.items():
        if problem.switches:  # a lag goes to zero there, where steps shorter than it are too many for SciPy
            continue
        held = json.loads(ENDS.read_text()).get(name) if ENDS.exists() else None
        expected = (
            np.array(problem.exact(problem.times)).T
            if problem.exact
            else None
            if held is None
            else np.array(held["end"])
        )

        def ours(tolerance: float, problem: Any = problem, expected: Any = expected) -> tuple[int, float]:
            found = simulated(problem, tolerance)
            return int(found.status), error(problem, np.asarray(found.ys), expected)

        def theirs(tolerance: float, problem: Any = problem, expected: Any = expected) -> float:
            method = scipy.integrate.Radau if problem.stiff else scipy.integrate.RK45
            return error(problem, by_steps(problem, tolerance, method=method), expected)

        alone = name in ("B1", "D1", *NEUTRAL)  # whose lags vanish on the way, or whose slopes SciPy does not keep
        cases[name] = ours, None if alone else theirs
    return cases


PARTS: dict[str, Callable[[], dict[str, Case]]] = {
    "NONSTIFF DETEST": lambda: detest(False),
    "STIFF DETEST": lambda: detest(True),
    "Test Set for IVP Solvers": test_set,
    "delays": delays,
}


def judge(case: Case, tolerances: tuple[float, ...] = TOLERANCES, known_to: float = 0.0) -> dict[str, Any]:
    """How a problem ends: a word, and the errors over the tolerances, SciPy's where those of simkit are more than 100."""
    ours, theirs = case
    word, ratios, peers = "right", [], []
    for tolerance in tolerances:
        try:
            status, found = ours(tolerance)
        except (simkit.ArgumentError, simkit.SimulationError) as refusal:
            return {"ended": "refused", "said": str(refusal).splitlines()[0][:160]}
        ratios.append(found / tolerance)
        if status != 0:
            word = "failed" if word == "right" else word
        elif not found <= max(ALLOWED * tolerance, known_to):
            try:
                peer = np.inf if theirs is None else max(theirs(tolerance * x) / x for x in BESIDE)
            except (RuntimeError, AssertionError):
                peer = np.inf  # SciPy fails where simkit has an end: that excuses nothing
            peers.append(f"{tolerance:.0e}: {peer / tolerance:.3g}")
            if not (np.isfinite(peer) and found <= BESIDE_PEER * peer):
                word = "wrong"
    return {"ended": word, "over": [float(f"{x:.3g}") for x in ratios]} | ({"scipy": peers} if peers else {})


def references() -> None:
    """Compute the ends that are not published, and keep them."""
    from validation.delay_problems import PROBLEMS, by_steps
    from validation.enright_pryce import NONSTIFF, STIFF
    from validation.neutral_problems import NEUTRAL, by_lags

    kept: dict[str, Any] = json.loads(ENDS.read_text()) if ENDS.exists() else {}

    def keep(name: str, by: Callable[[float], np.ndarray], rtol: float, size: Any) -> None:
        if name in kept:
            return
        began = time.monotonic()
        end, coarse = by(rtol), by(10 * rtol)
        apart = float(np.max(np.abs(end - coarse) / np.maximum(np.abs(end), size)))
        kept[name] = {"end": end.tolist(), "apart": float(f"{apart:.1e}")}
        ENDS.write_text(json.dumps(kept, indent=0).replace(",\n", ", ").replace("[\n", "[") + "\n")
        print(f"{name:<12} {apart:.1e} {time.monotonic() - began:.0f} s", flush=True)

    for name, problem in {**NONSTIFF, **STIFF}.items():
        if problem.reference is None:
            method, rtol = ("Radau", 1e-11) if problem.stiff else ("DOP853", 1e-13)
            pieces = 20 if name in ("NF3", "NF4") else 1
            keep(name, lambda r, p=problem, m=method, n=pieces: by_scipy(p, r, m, n), rtol, problem.floor)
    for name, problem in PROBLEMS.items():
        if problem.exact is None and not problem.switches:
            keep(name, lambda r, p=problem: by_steps(p, r), 1e-10 if problem.stiff else 1e-12, problem.floor)
    for name in ("E1", "E2"):
        keep(name, lambda r, p=NEUTRAL[name]: by_lags(p, r), 1e-12, NEUTRAL[name].floor)


def main(parts: tuple[str, ...] = tuple(PARTS), names: tuple[str, ...] = ()) -> dict[str, float]:
    """Judge all problems of some parts, or some by name, and record how they end."""
    simkit.enable_x64()
    for part in parts:
        for name, case in PARTS[part]().items():
            if names and name not in names:
                continue
            began = time.monotonic()
            row = judge(case, known_to=KNOWN_TO.get(name, 0.0))
            print(f"{part}: {name:<22} {json.dumps(row)} {time.monotonic() - began:.0f} s", flush=True)
            record(part, name, row)
    found = json.loads(RECORDED.read_text())
    return {f"{part}, wrong": float(found[part].get("wrong", 0)) for part in found}


def record(part: str, name: str, row: dict[str, Any]) -> None:
    """Put the end of a problem into the record, and count anew."""
    found: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    rows = found.get(part, {}).get("problems", {}) | {name: row} | NOT_ENTERED.get(part, {})
    ends = [one["ended"] for one in rows.values()]
    counts = {word: ends.count(word) for word in ("right", "refused", "failed", "wrong", "not run") if word in ends}
    found[part] = counts | {"problems": rows}
    lines = [f" {json.dumps(key)}: {_lines(value)}" for key, value in found.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _lines(part: dict[str, Any]) -> str:
    """A part of the record, a line a problem."""
    heads = [f"  {json.dumps(key)}: {value}" for key, value in part.items() if key != "problems"]
    rows = [f"   {json.dumps(name)}: {json.dumps(row)}" for name, row in part["problems"].items()]
    return "{\n" + ",\n".join([*heads, '  "problems": {\n' + ",\n".join(rows) + "\n  }"]) + "\n }"


if __name__ == "__main__":
    if sys.argv[1:] == ["references"]:
        simkit.enable_x64()
        references()
    else:
        main(tuple(sys.argv[1:2]) or tuple(PARTS), tuple(sys.argv[2:]))
