"""Linear-quadratic regulators of an infinite horizon, and the linear systems that they are made for."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._doors import check_kind, check_mapping
from .._errors import ArgumentError, SimulationError
from .._types import State
from ..core import System, as_inputs, as_state, check_derivative, check_system, full_products, refuse_jumps, traced
from ..engine import transition
from ..linear import solve
from ..solvers import SolverLike
from ._actions import check_inputs, check_interval, held
from ._ilqr import explicit

DOUBLINGS = 40
"""Doublings of the horizon of a regulator, to some 1e12 intervals."""


class Regulator(NamedTuple):
    """A regulator u = -gain x, and the matrix P of its cost to go x^T P x."""

    gain: Float[Array, "m n"]
    cost: Float[Array, "n n"]


@full_products
def lqr(
    a: ArrayLike,
    b: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    *,
    continuous: bool = False,
) -> Regulator:
    r"""The linear-quadratic regulator of an infinite horizon.

    $$J = \sum_k x_k^T Q x_k + u_k^T R u_k, \quad x_{k+1} = A x_k + B u_k, \qquad \text{or} \qquad
    J = \int x^T Q x + u^T R u \, dt, \quad \dot x = A x + B u$$

    by structure-preserving doubling, after a Cayley transform where time is continuous.

    **Arguments:**

    - `a`, `b`: A `(n, n)` and B `(n, m)`, such as those of `linearise`; `q`, `r`: the weights, symmetric, R positive definite.
    - `continuous`: which of the two.

    **Returns:** a `Regulator`: u = -gain x.

    **Raises:** a `SimulationError` where no gain stabilises the system; under a transformation the result is NaN then.

    **Reference:** Chu, Fan & Lin (2005), Linear Algebra and its Applications 396:55, doi:10.1016/j.laa.2004.10.010; Chu, Fan, Lin &
    Wang (2004), International Journal of Control 77:767, doi:10.1080/00207170410001714988.

    ```python
    import jax.numpy as jnp, simkit
    print(simkit.control.lqr(jnp.array([[1.0, 0.1], [0.0, 1.0]]), jnp.array([[0.0], [0.1]]), jnp.eye(2), jnp.eye(1)).gain)
    ```
    """
    a, b, q, r = _matrices(a=a, b=b, q=q, r=r)
    g = b @ solve(r, b.T)
    p = _doubled(*(_cayley(a, g, q) if continuous else (a, g, q)))
    gain = solve(r, b.T @ p) if continuous else solve(r + b.T @ p @ b, b.T @ p @ a)
    closed = a - b @ gain
    left = closed.T @ p + p @ closed if continuous else closed.T @ p @ closed - p
    weight = q + gain.T @ r @ gain
    # Rounding errors of P are of its size times the conditions of the transform; a horizon that grew in vain leaves much more.
    size = jnp.max(jnp.abs(weight)) + jnp.max(jnp.abs(p)) * jnp.max(jnp.abs(a)) ** (1 if continuous else 0)
    good = jnp.max(jnp.abs(left + weight)) <= jnp.sqrt(jnp.finfo(a.dtype).eps) * size
    found = jax.tree.map(lambda x: jnp.where(good, x, jnp.nan), Regulator(gain, p))
    if not traced(good) and not bool(good):
        raise SimulationError(
            "No regulator was found: `b` must be able to stabilise all that grows in `a`, and `q` must weigh it."
        )
    return found


def _doubled(a: Array, g: Array, h: Array) -> Array:
    """P of P = H + A^T P (1 + G P)^-1 A."""
    one = jnp.eye(len(a), dtype=a.dtype)

    def twice(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        a, g, h = carry
        w = one + g @ h
        left = solve(w, a)
        further = solve(w, g)
        g = g + a @ further @ a.T
        h = h + a.T @ h @ left
        return (a @ left, (g + g.T) / 2, (h + h.T) / 2), None

    return jax.lax.scan(twice, (a, g, h), None, length=DOUBLINGS)[0][2]


def _cayley(a: Array, g: Array, h: Array) -> tuple[Array, Array, Array]:
    """The discrete problem with the same P as A^T P + P A - P G P + H = 0."""
    one = jnp.eye(len(a), dtype=a.dtype)
    size = jnp.sqrt(jnp.max(jnp.sum(jnp.abs(g), axis=1)) * jnp.max(jnp.sum(jnp.abs(h), axis=1)))
    shift = jnp.max(jnp.sum(jnp.abs(a), axis=1)) + size
    shifted = a - shift * one
    w = shifted.T + h @ solve(shifted, g)
    inner = solve(shifted, g)
    return (
        one + 2 * shift * solve(w, one).T,
        2 * shift * inner @ solve(w, one),
        2 * shift * solve(w, h @ solve(shifted, one)),
    )


@full_products
def linearise(
    system: System,
    y: State,
    actions: Mapping[str, float],
    *,
    interval: float | None = None,
    solver: SolverLike = "rk4",
    substeps: int = 1,
) -> tuple[Float[Array, "n n"], Float[Array, "n m"]]:
    """A and B of a system around a state: of its slope, or with an `interval` of its state after one.

    **Arguments:**

    - `y`: the state, of n numbers in their flat order.
    - `actions`: name of an input -> the value around which to linearise, m of them.
    - `interval`: for which the actions are held; None for continuous time.
    - `solver`, `substeps`: an explicit method, and its steps in the interval.

    ```python
    import simkit
    cart = simkit.odes.CartPole()
    a, b = simkit.control.linearise(cart, cart.State(0.0, 0.0, 0.0, 0.0), {"force": 0.0})
    print(a.shape, b.shape)
    ```
    """
    check_kind("system", system, System, "a system", "Write `simkit.odes.CartPole()`.")
    check_system(system, y)
    check_mapping("actions", actions, "values by the names of inputs", '{"force": 0.0}')
    check_inputs(system, actions)
    if not actions:
        raise ArgumentError(
            'Argument `actions` must give a value to at least one input, such as `{"force": 0.0}`, but it is empty: without one '
            "there is no B."
        )
    if interval is not None:
        check_interval(interval)
    method = explicit(solver)
    refuse_jumps(
        system, "A linear system is made of the drift", "write the mean of its jumps into a system of its own."
    )
    y = as_state(system, y)
    x, way = ravel_pytree(y)
    u, zero = jnp.asarray([float(v) for v in actions.values()], x.dtype), jnp.zeros((), x.dtype)
    check_derivative(system, system.encode(y), zero, as_inputs(system, held(actions, u), y))

    def moved(x: Array, u: Array) -> Any:
        y = way(x)
        inputs = as_inputs(system, held(actions, u), y)
        if interval is None:
            slope = system.vector_field(zero, system.encode(y), {name: f(zero) for name, f in inputs.items()})
            return ravel_pytree(slope)[0]
        return ravel_pytree(transition(system, method, substeps, zero, jnp.asarray(interval, x.dtype), y, inputs))[0]

    return jax.jacfwd(moved, argnums=(0, 1))(x, u)


def _matrices(**given: Any) -> tuple[Array, ...]:
    found = {name: jnp.asarray(x) for name, x in given.items()}
    n, m = (found["b"].shape * 2)[:2]
    shapes = {"a": (n, n), "b": (n, m), "q": (n, n), "r": (m, m)}
    for name, x in found.items():
        if x.shape != shapes[name] or x.ndim != 2 or jnp.issubdtype(x.dtype, jnp.complexfloating):
            raise ArgumentError(
                f"Argument `{name}` must be a real matrix of shape {shapes[name]}, after `b`, but its shape is {x.shape}."
            )
    kind = jnp.result_type(*found.values(), float(0))
    return tuple(x.astype(kind) for x in found.values())
