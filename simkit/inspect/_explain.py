"""explain: what JAX makes of a simulation, an ensemble, a likelihood or any function."""

import collections
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray, PyTree

from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import ParticleSystem, StaticSystem, System, Trajectory, as_inputs, as_state, named_leaves
from ..engine import Fixed, Varying, count_compilations, ensemble, simulate
from ..fitting import local_model, some_start
from ..problem import Problem
from ..solvers import BDF, Rodas5P, Stepper, as_solver, choose, jacobian_structure
from ._explanation import Calls, Explanation, Stage, Steps
from ._machine import joules, machine
from ._program import ProgramReport, Seconds, report

MADE = ("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration")


def explain(
    target: object,
    y0: State = None,
    times: ArrayLike | Sequence[float] | None = None,
    *,
    over: Mapping[str, Any] | None = None,
    arguments: Sequence[Any] | None = None,
    gradient: bool = True,
    solver: Stepper | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: PRNGKeyArray | None = None,
    devices: Sequence[Any] | None = None,
) -> Explanation:
    """Run something under observation: what was traced and compiled, how long each part took, what it computes and where.

    Operations and bytes are counted through every loop, as often as it ran in this very run: bodies of scans times their length,
    of while loops times their turns, branches as often as they were taken. (The cost analysis of a compiled program counts the body
    of a loop once.)

    **Arguments:**

    - `target`: a system, with `y0` and `times`, for `simulate`, and with `over` for `ensemble`; a `Problem` for its log-likelihood,
        the gradient and a step of a fit; or any function of pytrees of arrays, with `arguments`.
    - `gradient`: whether to look at the derivative as well: of the sum of all states by system and start, or of a function's
        result, if that is one number.
    - `solver`, `step`, `inputs`, `key`, `devices`: as in `simulate` and `ensemble`.

    **Returns:** an `Explanation`, which prints itself; `to_json()` for machines, `svg()` for the picture of the data's flow.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    print(simkit.explain(system, y0, times, gradient=False))
    ```
    """
    if isinstance(target, System):
        if times is None:
            raise ArgumentError("Argument `times` must be given with a system, but it is None.")
        numerics = {"solver": solver, "step": step, "inputs": inputs, "key": key}
        programs, call, stages = _of_system(target, y0, times, over, gradient, devices, numerics)
    elif isinstance(target, Problem):
        programs, call, stages = _of_problem(target, gradient)
    elif callable(target):
        programs, call, stages = _of_function(target, tuple(arguments or ()), gradient)
    else:
        raise ArgumentError(
            f"Argument `target` must be a system, a Problem or a function, but it is a {type(target).__name__}."
        )
    calls, made, result = _calls(call)
    found = [report(*programs[0], run=made.run), *(report(*program) for program in programs[1:])]
    found[0] = found[0]._replace(seconds=made._replace(run=found[0].seconds.run))
    double = any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(programs[0][2]) if eqx.is_array(leaf))
    steps = structure = None
    if isinstance(result, Trajectory) and isinstance(target, System) and not isinstance(target, StaticSystem):
        steps = _steps(result, found[0], choose(target, y0, times, inputs, fixed=False).reason)
        if result.solver.startswith((Rodas5P.__name__, BDF.__name__)):
            start = as_state(target, y0)
            begin, given = jnp.asarray(np.ravel(np.asarray(times))[0], float), as_solver(solver)
            krylov = given.krylov if isinstance(given, BDF) else None
            pattern = given.pattern if isinstance(given, BDF | Rodas5P) else None
            structure = jacobian_structure(target, start, begin, as_inputs(target, inputs, start), krylov, pattern)
    return Explanation(_name(target), found, calls, stages(), machine(double), steps, _energy(call), structure)


Row = tuple[str, str, tuple[int, ...]]
Program = tuple[str, Callable[..., Any], tuple[Any, ...]]


def _of_system(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[float],
    over: Mapping[str, Any] | None,
    gradient: bool,
    devices: Sequence[Any] | None,
    numerics: dict[str, Any],
) -> tuple[list[Program], Callable[[], Any], Callable[[], list[Stage]]]:
    options: Any = {name: value for name, value in numerics.items() if name != "key"}

    def one(system: System, y0: State, key: PRNGKeyArray | None) -> Any:
        return simulate(system, y0, times, key=key, on_failure="mark", **options)

    def many(system: System, y0: State, key: PRNGKeyArray | None, over: dict[str, Array]) -> Any:
        return ensemble(system, y0, times, over=over, key=key, devices=devices, **options)

    y0 = jax.tree.map(jnp.asarray, y0)
    if isinstance(system, ParticleSystem):
        system = system.prepared(y0)
    arguments: tuple[Any, ...] = (system, y0, numerics["key"])
    function, name, values = one, "simulate", {}
    if over is not None:
        values = {path: jnp.asarray(value) for path, value in over.items()}
        arguments, function, name = (*arguments, values), many, "ensemble"

    def stages() -> list[Stage]:
        single = eqx.filter_eval_shape(lambda *given: one(*given).ys, *arguments[:3])
        return _stages({"": system, "y0": y0}, _shapes({"ys": single}), values, devices, gradient)

    programs: list[Program] = [(name, function, arguments)]
    if gradient:

        def total(moving: PyTree, rest: PyTree) -> Any:
            found = function(*eqx.combine(moving, rest))
            return sum(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(found.ys))

        moving, rest = eqx.partition(arguments, eqx.is_inexact_array)
        programs.append((f"grad of {name}", jax.value_and_grad(total), (moving, rest)))
    return programs, lambda: function(*arguments), stages


def _stages(
    given: dict[str, Any],
    single: list[Row],
    values: dict[str, Any],
    devices: Sequence[Any] | None,
    gradient: bool,
) -> list[Stage]:
    """Return the shapes of one member under `vmap` and `shard_map`, and those of the numbers under `grad`."""
    numbers = _shapes(given)
    stages = [Stage("parameters and start", numbers, "given")]
    members = len(next(iter(values.values()))) if values else 0
    if values:
        stages.append(Stage(f"vmap: {members} members", _shapes(values), "in lanes that refill"))
        used = jax.local_devices() if devices is None else list(devices)
        if len(used) > 1:
            rows = [(path, dtype, (-(-members // len(used)), *shape[1:])) for path, dtype, shape in _shapes(values)]
            stages.append(Stage(f"shard_map: {len(used)} devices", rows, "on each device"))
    stages.append(Stage("simulate", single, "one member" if values else ""))
    if values:
        stages.append(
            Stage("trajectory", [(path, dtype, (members, *shape)) for path, dtype, shape in single], "gathered")
        )
    if gradient:
        stages.append(Stage("grad", numbers, "one derivative for each number given"))
    return stages


def _of_problem(problem: Problem, gradient: bool) -> tuple[list[Program], Callable[[], Any], Callable[[], list[Stage]]]:
    z = some_start(problem)
    theta = problem.natural(z)
    likelihood = lambda problem, theta: problem.log_likelihood(theta)[0]
    call = eqx.filter_jit(likelihood)
    programs: list[Program] = [("log-likelihood", likelihood, (problem, theta))]
    stages = [
        Stage("free parameters", [("theta", str(theta.dtype), theta.shape)], ", ".join(problem.names)),
        Stage(
            "heads", [(k, str(v.dtype), v.shape) for k, v in problem.data.items()], "location and noise of every datum"
        ),
        Stage("log-likelihood", [("value", str(theta.dtype), ())], "a sum"),
    ]
    if gradient:
        reverse = problem.default_gradient == "reverse"
        derivative = jax.grad(likelihood, 1) if reverse else jax.jacfwd(likelihood, 1)
        programs.append((f"gradient, {problem.default_gradient} mode", derivative, (problem, theta)))
        programs.append(("fit step (local model)", local_model, (problem, z)))
        stages.append(Stage("gradient", [("theta", str(theta.dtype), theta.shape)], f"{problem.default_gradient} mode"))
    return programs, lambda: call(problem, theta), lambda: stages


def _of_function(
    function: Callable[..., Any], arguments: tuple[Any, ...], gradient: bool
) -> tuple[list[Program], Callable[[], Any], Callable[[], list[Stage]]]:
    arguments = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, int | float | np.ndarray) else x, arguments)
    call = eqx.filter_jit(function)
    out = eqx.filter_eval_shape(function, *arguments)
    name = getattr(function, "__name__", type(function).__name__)
    programs: list[Program] = [(name, function, arguments)]
    stages = [Stage("arguments", _shapes(dict(enumerate(arguments))), ""), Stage(name, _shapes({"": out}), "")]
    leaves = jax.tree.leaves(out)
    if gradient and len(leaves) == 1 and leaves[0].shape == () and jnp.issubdtype(leaves[0].dtype, jnp.floating):
        moving, rest = eqx.partition(arguments, eqx.is_inexact_array)
        only = lambda moving, rest: jax.tree.leaves(function(*eqx.combine(moving, rest)))[0]
        programs.append((f"grad of {name}", jax.value_and_grad(only), (moving, rest)))
        stages.append(Stage("grad", stages[0].rows, ""))
    return programs, lambda: call(*arguments), lambda: stages


def _steps(found: Trajectory, program: ProgramReport, stiffness: str) -> Steps:
    accepted, rejected, evaluations = (
        int(np.sum(np.asarray(x))) for x in (found.steps, found.rejected, found.evaluations)
    )
    places = sum(loop.runs * loop.lanes for loop in program.loops)
    idle = 1 - (accepted + rejected) / places if places and found.over else None
    return Steps(accepted, rejected, evaluations, idle, found.solver, stiffness)


def _calls(call: Callable[[], Any]) -> tuple[Calls, Seconds, Any]:
    """The verb itself, twice: the second call should compile nothing."""
    spent: dict[str, float] = collections.defaultdict(float)

    def listen(event: str, duration_secs: float, **_: object) -> None:
        spent[event.rsplit("/", 1)[-1]] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        with count_compilations() as first:
            result = call()
            jax.block_until_ready(eqx.filter(result, eqx.is_array))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    begin = time.perf_counter()
    with count_compilations() as second:
        jax.block_until_ready(eqx.filter(call(), eqx.is_array))
    run = time.perf_counter() - begin
    trace, lower, compile_ = (spent[name] for name in MADE)
    made = Seconds(trace, lower, compile_, run)
    compiled = first.compilations + first.from_disk
    return Calls(first.traces, compiled, second.compilations, (*first.reasons, *second.reasons)), made, result


def _energy(call: Callable[[], Any]) -> float | None:
    """Measure the energy of one run, where the processor counts it."""
    before = joules()
    if before is None:
        return None
    jax.block_until_ready(eqx.filter(call(), eqx.is_array))
    return (joules() or before) - before


def _shapes(trees: Mapping[Any, Any]) -> list[tuple[str, str, tuple[int, ...]]]:
    """Name, float type and shape of every array, or of what stands for one."""
    rows = []
    for root, tree in trees.items():
        for path, leaf in named_leaves(jax.tree.map(_stand_in, tree)).items():
            rows.append((".".join(filter(None, (str(root), path))), str(leaf.dtype), tuple(leaf.shape)))
    return rows


def _stand_in(leaf: object) -> Any:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or isinstance(dtype, jax.dtypes.extended):
        return leaf
    return np.broadcast_to(np.zeros((), dtype), shape)


def _name(target: object) -> str:
    if isinstance(target, Problem):
        return f"Problem of {type(target.base.system).__name__}"
    return type(target).__name__ if isinstance(target, System) else getattr(target, "__name__", "function")
