"""reproducibility: what of a result depends on how it was computed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from .._types import Inputs, State
from ..core import Setup, System, as_inputs, cast
from ..engine import Fixed, Varying, ensemble, simulate
from ..solvers import Stepper

TOLERANCE = 1e-6
"""Relative to the largest magnitude of an array: below it two results are equal to tolerance."""


class Reproducibility(eqx.Module):
    """Result of `reproducibility`; it prints a table.

    - `rows`: for each way to compute the same members what differs from the plain ensemble on one device: "bitwise equal", "equal
        to tolerance" or "different", and the largest difference relative to the largest magnitude of the array.
    """

    rows: dict[str, tuple[str, float]] = eqx.field(static=True)

    def __repr__(self) -> str:
        width = max(map(len, self.rows))
        return "Reproducibility, against one ensemble on one device\n" + "\n".join(
            f"  {name:<{width}}  {verdict}" + (f", {difference:.1e}" if difference else "")
            for name, (verdict, difference) in self.rows.items()
        )


def reproducibility(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[float],
    *,
    over: Mapping[str, Any],
    solver: Stepper | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
) -> Reproducibility:
    """Compute the same members in several ways, and say which agree to the last bit.

    Again; in the opposite order; in two halves; a few at a time; one by one with `simulate`; over two devices, where there
    are; in single
    precision, where the state is in double.

    **Arguments:** as of `ensemble`. **Returns:** a `Reproducibility`.

    ```python
    import numpy as np
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    print(simkit.testing.reproducibility(system, y0, times, over={"growth": np.linspace(0.4, 0.6, 6)}))
    ```
    """
    y0 = jax.tree.map(jnp.asarray, y0)
    values = {path: jnp.asarray(value) for path, value in over.items()}
    members = len(next(iter(values.values())))
    one = jax.local_devices()[:1]

    def together(
        values: Mapping[str, Array],
        devices: Sequence[Any] | None = one,
        lanes: int | None = None,
        kind: DTypeLike | None = None,
    ) -> list[np.ndarray]:
        given = system, y0, values
        if kind is not None:
            given = cast(given, kind)
        found = ensemble(
            *given[:2], times, over=given[2], devices=devices, lanes=lanes, solver=solver, step=step, inputs=inputs
        )
        return [np.asarray(leaf) for leaf in jax.tree.leaves(found.ys)]

    def parts(pieces: list[slice]) -> list[np.ndarray]:
        found = [together({path: value[piece] for path, value in values.items()}) for piece in pieces]
        return [np.concatenate(leaves) for leaves in zip(*found, strict=True)]

    def alone() -> list[np.ndarray]:
        setup, rows = Setup(system, y0, as_inputs(system, inputs, y0)), []
        for i in range(members):
            put = setup.put({path: value[i] for path, value in values.items()})
            found = simulate(put.system, put.y0, times, solver=solver, step=step, inputs=put.inputs, on_failure="mark")
            rows.append([np.asarray(leaf) for leaf in jax.tree.leaves(found.ys)])
        return [np.stack(leaves) for leaves in zip(*rows, strict=True)]

    turned = {path: value[::-1] for path, value in values.items()}
    half = max(members // 2, 1)
    ways: dict[str, Callable[[], list[np.ndarray]]] = {
        "again": lambda: together(values),
        "members in the opposite order": lambda: [leaf[::-1] for leaf in together(turned)],
        "in two halves": lambda: parts([slice(0, half), slice(half, members)] if members > 1 else [slice(0, 1)]),
        "three at a time": lambda: together(values, lanes=3),
        "one by one": alone,
    }
    if len(jax.local_devices()) > 1:
        ways["over two devices"] = lambda: together(values, devices=jax.local_devices()[:2])
    if all(leaf.dtype == jnp.float64 for leaf in jax.tree.leaves(y0)):
        ways["in single precision"] = lambda: together(values, kind=jnp.float32)
    plain = together(values)
    return Reproducibility({name: _verdict(plain, way()) for name, way in ways.items()})


def _verdict(before: list[np.ndarray], after: list[np.ndarray]) -> tuple[str, float]:
    if all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after, strict=True)):
        return "bitwise equal", 0.0
    worst = 0.0
    for a, b in zip(before, after, strict=True):
        if (np.isnan(a) != np.isnan(b)).any():
            return "different", float("inf")
        scale = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a))) or 1.0
        worst = max(worst, float(np.nanmax(np.abs(a - b.astype(a.dtype)))) / scale)
    return ("equal to tolerance" if worst <= TOLERANCE else "different"), worst
