"""Patches: one model and a matrix of exchange in, one system of many patches out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._doors import check_function, check_kind, check_mapping, shown
from .._errors import ArgumentError, check_known
from ._given_system import check_movers, check_system
from ._jump_diffusion import refuse_jumps
from ._names import Setup
from ._patched_system import Exchange, PatchedSystem, PlainPatches, StochasticPatches
from ._quantity import as_float_array
from ._system import KnownJacobian, PlainSystem, SeparableSystem, StochasticSystem, System
from ._traced import traced

SERVED = PlainSystem, SeparableSystem, KnownJacobian, StochasticSystem
"""Families of models that may stand in patches."""


def Patches(
    system: System,
    exchange: Any,
    *,
    each: Mapping[str, Any] | None = None,
    inputs: Sequence[str] = (),
    invariants: Callable[..., Any] | None = None,
) -> PatchedSystem:
    r"""One model in many patches, with linear exchange between them, as one system:

    $$\frac{dy_i}{dt} = f(t, y_i, \theta_i) + s \sum_j (E_{ij} y_j - E_{ji} y_i)$$

    Its states and outputs are those of the model with an axis of the n patches in front. What moves is conserved to rounding.

    **Arguments:**

    - `system`: the model of one patch. Its parameters have the paths `patch.growth`, `patch.growth.3`.
    - `exchange`: E, shape `(n, n)`, for all states alike: `exchange[i, j]` is the rate, in 1 over the unit of time, at which what
        is in patch j moves to patch i; its diagonal is zero. Or a dictionary of such matrices by the names of the states that move.
        A sparse matrix of SciPy moves along its entries alone, and gives stiff solvers a sparse Jacobian. Paths are
        `exchange.rate`, of a dictionary `exchange.infected.rate`: the matrix, `exchange.rate.0.1`, or of a sparse one its entries
        row by row; and the factor s, 1 at first, `exchange.strength`.
    - `each`: path of a parameter of the model -> its values in the patches, shape `(n, ...)`; others are shared.
    - `inputs`: names of inputs whose values have an axis of the patches, such as `Constant` of one number a patch; others are
      the same in all of them.
    - `invariants`: `invariants(system, t, y)`, a dictionary of what the whole conserves.

    **Returns:** a `PlainSystem`, or a `StochasticSystem` where the model is one, each patch with noise of its own.

    **Raises:** an `ArgumentError` for a matrix that is no exchange and for a model of another family; an `UnknownNameError` for
    parameters in `each` and states in `exchange` that the model does not have; the latter when a state is given where the model
    does not declare its own.

    ```python
    import simkit
    towns = simkit.Patches(simkit.odes.SIR(), [[0.0, 0.1], [0.1, 0.0]], each={"transmission": [1.7, 1.2]})
    start = {"susceptible": [999.0, 500.0], "infected": [1.0, 0.0], "recovered": [0.0, 0.0]}
    run = simkit.simulate(towns, start, [0.0, 60.0])
    print(round(float(sum(x.sum() for x in run.final().__dict__.values()))))  # prints 1500
    ```
    """
    check_system(system)
    if not isinstance(system, SERVED):
        names = ", ".join(family.__name__ for family in SERVED)
        raise ArgumentError(
            f"Argument `system` must be of a family that patches serve, {names}, but it is a `{type(system).__name__}`."
        )
    refuse_jumps(system, "The models of `Patches` have no random jumps yet", "write the whole as one StochasticSystem.")
    if invariants is not None:
        check_function("invariants", invariants, ("system", "t", "y"))
    if isinstance(exchange, Mapping):
        check_mapping("exchange", exchange, "matrices", '{"infected": [[0.0, 0.1], [0.1, 0.0]]}')
        if not exchange:
            raise ArgumentError("Argument `exchange` must hold at least one matrix, but it is empty.")
        check_movers(system, exchange)
        movers: Any = {name: _exchange(f"exchange[{name!r}]", matrix) for name, matrix in exchange.items()}
        counts = {name: count for name, (_, count) in movers.items()}
        if len(set(counts.values())) != 1:
            raise ArgumentError(
                f"The matrices of argument `exchange` must have one size, the number of patches, but their sizes are {counts}."
            )
        mover, count = {name: found for name, (found, _) in movers.items()}, next(iter(counts.values()))
    else:
        mover, count = _exchange("exchange", exchange)
    check_kind("inputs", inputs, list | tuple, "a list of names", 'Write `["arrivals"]`.')
    declared = system.reads()
    for name in inputs:
        check_kind("inputs", name, str, "a list of names of inputs", 'Write `["arrivals"]`.')
        if declared is not None:
            check_known(name, declared, f"input of `{type(system).__name__}`")
    patch = _with_values(system, each or {}, count)
    kind = StochasticPatches if isinstance(system, StochasticSystem) else PlainPatches
    return kind(patch, mover, count, tuple(each or ()), tuple(inputs), invariants)


def _exchange(name: str, matrix: Any) -> tuple[Exchange, int]:
    """The exchange by a matrix, and the number of patches."""
    import scipy.sparse  # takes a tenth of a second, which systems without patches need not wait for

    links = None
    if scipy.sparse.issparse(matrix):
        shape, entries = matrix.shape, scipy.sparse.csr_array(matrix).tocoo()
        rate: Any = entries.data
        there, here = (np.asarray(places, int).tolist() for places in entries.coords)
        links, own = tuple(zip(there, here, strict=True)), rate[entries.coords[0] == entries.coords[1]]
    else:
        try:
            rate = as_float_array(matrix)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"Argument `{name}` must be a matrix of rates, but it is {shown(matrix)}.") from error
        shape = rate.shape
        own = np.zeros(0) if len(shape) != 2 or traced(rate) else np.diag(np.asarray(rate))
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise ArgumentError(
            f"Argument `{name}` must be a square matrix with a row and a column for each patch, but its shape is {shape}."
        )
    if not traced(rate) and not np.all(np.isfinite(rate) & (np.asarray(rate) >= 0)):
        raise ArgumentError(
            f"Argument `{name}` must hold rates, which are finite and not negative, but some are not. Entry [i, j] is the "
            "rate of moving from patch j to patch i."
        )
    if np.any(own != 0):
        raise ArgumentError(
            f"Argument `{name}` must have zeros on its diagonal, but one entry there is {own[own != 0][0]:g}. What leaves a patch "
            "follows from the other entries of its column: leave the diagonal out."
        )
    return Exchange(rate, links=links), shape[0]


def _with_values(system: System, each: Mapping[str, Any], count: int) -> System:
    """The model with the values of all patches in place of some of its parameters."""
    check_mapping("each", each, "values in the patches", '{"growth": [0.5, 0.7]}')
    setup, values = Setup(system), {}
    for path, given in each.items():
        _, index = setup.locate(path, "parameter of the model")
        if index:
            raise ArgumentError(f"Argument `each` must name whole parameters, but `{path}` is an element of one.")
        try:
            values[path] = as_float_array(given)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"Entry `{path}` of argument `each` must hold numbers, but it is {shown(given)}."
            ) from error
        wanted = (count, *np.shape(setup.get(path)))
        if values[path].shape != wanted:
            raise ArgumentError(
                f"Entry `{path}` of argument `each` must have a value for each patch, shape {wanted}, but its shape is "
                f"{values[path].shape}."
            )
    return setup.put(values).system if values else system
