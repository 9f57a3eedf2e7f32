"""export: a simulation as a compiled-anywhere program in a file, which runs without the model's code."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray

from .._doors import check_key
from .._errors import ArgumentError, ResultFileError, check_known
from .._types import Inputs, State
from ..core import ParticleSystem, Setup, System, as_inputs, as_state, check_system, full_products, named_leaves
from ..engine import Fixed, Varying, simulate
from ..linear import one_thread
from ..solvers import Stepper

MOST_BYTES = 512 * 2**20
"""Bytes of an exported program when it is unpacked."""
FORMAT = "simkit program 1"


class Exported:
    """A simulation that was exported: arrays of any number of members in, their states out.

    - `over`: the paths of the numbers it takes, each with the shape of one member; `outputs`: the names and shapes of what
        it returns.
    - `times`: where the states are; `platforms`: what it runs on.

    Call it with a mapping from path to values, the members along the first axis.
    """

    def __init__(self, program: jax.export.Exported, about: Mapping[str, Any]):
        self.program = program
        self.over: dict[str, tuple[int, ...]] = {name: tuple(shape) for name, shape in about["over"].items()}
        self.outputs: dict[str, tuple[int, ...]] = {name: tuple(shape) for name, shape in about["outputs"].items()}
        self.times = np.asarray(about["times"])
        self.model: str = about["model"]
        self.gradient_included: bool = about["gradient"]
        self._dtype = about["dtype"]

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(self.program.platforms)

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Array]:
        """The states of all members by name, `(members, times, ...)`, and their `status` (0 is success)."""
        return dict(self.program.call(*self._given(values)))

    def pull_back(self, values: Mapping[str, Any], cotangents: Mapping[str, Any]) -> dict[str, Array]:
        """The transposed derivative: cotangents of states by name in, cotangents of the values by path out; missing names
        count as zero."""
        if not self.gradient_included:
            raise ArgumentError("The program was exported without its gradient. Export it with `gradient=True`.")
        for name in cotangents:
            check_known(name, self.outputs, "output")
        given = self._given(values)
        members = given[0].shape[0]
        full = {
            name: jnp.asarray(cotangents.get(name, 0.0), self._dtype) + jnp.zeros((members, *shape), self._dtype)
            for name, shape in self.outputs.items()
        }
        status = np.zeros((members,), jax.dtypes.float0)
        ordered = {**full, "status": status}
        found = self.program.vjp().call(*given, *jax.tree.leaves(ordered))
        return dict(zip(self.over, found, strict=True))

    def save(self, path: str | Path) -> Path:
        """Write it to a file: a zip archive of `about.json` and `program.bin`, the latter for `jax.export.deserialize`."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {
            "format": FORMAT,
            "model": self.model,
            "over": self.over,
            "outputs": self.outputs,
            "times": self.times.tolist(),
            "gradient": self.gradient_included,
            "dtype": self._dtype,
        }
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("about.json", json.dumps(about, indent=1))
            archive.writestr("program.bin", bytes(self.program.serialize(vjp_order=int(self.gradient_included))))
        return path

    def __repr__(self) -> str:
        given = ", ".join(f"{name}{[*shape]}" for name, shape in self.over.items())
        out = ", ".join(f"{name}{[*shape]}" for name, shape in self.outputs.items())
        with_gradient = "with gradient" if self.gradient_included else "without gradient"
        return f"Exported {self.model} ({self._dtype}, {', '.join(self.platforms)}, {with_gradient}): members of {given} -> {out}"

    def _given(self, values: Mapping[str, Any]) -> list[Array]:
        if set(values) != set(self.over):
            raise ArgumentError(f"Argument `values` must hold {sorted(self.over)}, but it holds {sorted(values)}.")
        given = [jnp.asarray(values[name], self._dtype) for name in self.over]
        members = given[0].shape[:1]
        for (name, shape), array in zip(self.over.items(), given, strict=True):
            if array.shape != (*members, *shape):
                raise ArgumentError(
                    f"The values of `{name}` must have shape {(*(members or ('members',)), *shape)}, but it is {array.shape}."
                )
        return given


@full_products
def export(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[float],
    *,
    over: Sequence[str],
    gradient: bool = True,
    platforms: Sequence[str] = ("cpu", "cuda"),
    solver: Stepper | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: PRNGKeyArray | None = None,
) -> Exported:
    """A simulation as a program in StableHLO, for serving: it needs neither the model's code nor its solver to run.

    **Arguments:**

    - `system`, `y0`, `times`, `solver`, `step`, `inputs`: as in `simulate`; they are constants of the program.
    - `over`: the paths of the numbers that the program takes.
    - `gradient`: whether the transposed derivative goes into the file as well.
    - `platforms`: what it shall run on: "cpu", "cuda", "rocm", "tpu".
    - `key`: a random key, needed by stochastic systems; a constant of the program, of which member i draws by `fold_in(key, i)`.

    **Returns:** an `Exported`: call it, or `save` it and read it elsewhere with `load_exported`. The number of members is
    left open. They
    are computed one after the other; failures are marked in `status`.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    program = simkit.inspect.export(system, y0, times, over=["growth"], gradient=False, platforms=["cpu"])
    print(program({"growth": [0.5, 0.6]})["hare"].shape)  # prints (2, 81)
    ```
    """
    if not over:
        raise ArgumentError("Argument `over` must name at least one number, but it is empty.")
    check_system(system, y0)
    check_key(key)
    y0 = as_state(system, y0)
    if isinstance(system, ParticleSystem):
        system = system.prepared(y0)
    setup = Setup(system, y0, as_inputs(system, inputs, y0))
    shapes = {path: jnp.shape(setup.get(path)) for path in over}
    dtype = jnp.result_type(*jax.tree.leaves(y0))

    def one(member: ArrayLike, *values: Array) -> dict[str, Array]:
        changed = setup.put(dict(zip(over, values, strict=True)))
        numerics: dict[str, Any] = {"solver": solver, "step": step, "inputs": changed.inputs, "on_failure": "mark"}
        own = None if key is None else jax.random.fold_in(key, member)
        found = simulate(changed.system, changed.y0, times, key=own, **numerics)
        return {**{name or "y": leaf for name, leaf in named_leaves(found.ys).items()}, "status": found.status}

    (members,) = jax.export.symbolic_shape("members")
    arguments = [jax.ShapeDtypeStruct((members, *shape), dtype) for shape in shapes.values()]
    together = jax.jit(
        lambda *values: jax.lax.map(lambda rows: one(*rows), (jnp.arange(values[0].shape[0], dtype=jnp.int32), *values))
    )
    program = jax.export.export(together, platforms=tuple(platforms))(*arguments)
    out = jax.eval_shape(one, np.int32(0), *(jax.ShapeDtypeStruct(shape, dtype) for shape in shapes.values()))
    about = {
        "over": shapes,
        "outputs": {name: leaf.shape for name, leaf in out.items() if name != "status"},
        "times": np.asarray(times).tolist(),
        "model": type(system).__name__,
        "gradient": gradient,
        "dtype": str(dtype),
    }
    return Exported(program, about)


def load_exported(path: str | Path) -> Exported:
    """Read an exported program; no model is imported, only JAX.

    **Raises:** a `ResultFileError` where the file is none.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(_member(archive, "about.json"))
            if about.get("format") != FORMAT:
                raise ResultFileError(f"`{path}` is of the format {about.get('format')!r}, not {FORMAT!r}.")
            one_thread()  # as where programs are traced
            return Exported(jax.export.deserialize(bytearray(_member(archive, "program.bin"))), about)
    except ResultFileError:
        raise
    # A damaged archive makes its readers raise nearly anything.
    except Exception as error:
        raise ResultFileError(f"`{path}` is not an exported program, or it is damaged: {error}.") from error


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file of the archive, which must not be far larger than it says."""
    size = archive.getinfo(name).file_size
    if size > MOST_BYTES:
        raise ResultFileError(
            f"`{archive.filename}` must hold at most {MOST_BYTES // 2**20} MiB, but its `{name}` has {size} bytes."
        )
    return archive.read(name)
