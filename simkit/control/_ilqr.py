"""Model predictive control: a plan over a horizon, improved by linear-quadratic problems along its own path."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .._doors import check_count, check_function, check_kind
from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import System, as_inputs, as_state, check_system, full_products
from ..engine import transition
from ..solvers import SolverLike, Stepper, as_solver
from ._actions import as_bounds, check_actions, check_interval, held, limits
from ._riccati import Quadratic, riccati

SHORTER, LEAST_SHARE = 0.3, 0.01
"""Factor of the share of an offset that is tried next where the cost rises, and the share at which a plan stays as it is."""


class Plan(NamedTuple):
    """A plan over a horizon.

    - `actions`: one row for each interval, within the bounds.
    - `states`: the predicted flat states at both ends of the intervals.
    - `gains`: how the actions answer to other states than those, as the last iteration found; zero where a bound holds.
    - `cost`: the sum of squares of all residuals.
    """

    actions: Float[Array, "N m"]
    states: Float[Array, "N+1 n"]
    gains: Float[Array, "N m n"]
    cost: Float[Array, ""]


class ILQR(eqx.Module):
    r"""A model predictive controller by iterated linear-quadratic regulators.

    Over N intervals of length h it minimises

    $$J = \sum_{k=0}^{N-1} |r(x_k, u_k)|^2 + |r_N(x_N)|^2, \qquad x_{k+1} = F(x_k, u_k), \qquad u_{low} \le u_k \le u_{high}$$

    where F is the system over one interval with the actions u held. An iteration linearises F and the residuals along the present
    path (Gauss and Newton), solves that problem by Riccati's recursion within the bounds, and follows the policy that it finds,
    with a smaller share of its offset where the cost would rise. The number of iterations is fixed.

    **Arguments:**

    - `system`: a system of differential equations with inputs.
    - `actions`: name of an input -> its bounds, such as `{"force": (-10.0, 10.0)}`; `math.inf` for none.
    - `residuals`: a function (state, action) -> a vector of residuals; `action` has an entry for each of `actions`.
    - `final`: a function (state) -> residuals of the end of the horizon; None for none.
    - `interval`: h, in the system's unit of time; `horizon`: N.
    - `iterations`: of one decision. One is enough where plans are made often, from the last one.
    - `damping`: added to the curvature by the actions, as a share of it.
    - `solver`: an explicit method with fixed steps, `substeps` of them in an interval.
    - `inputs`: the other inputs, constant over the horizon.

    **Good values:** horizons of 10 to 50, intervals in which the fastest motion turns by less than half a radian.

    **Raises:** an `ArgumentError` for arguments of other kinds.

    **Reference:** Li & Todorov (2004), Iterative linear quadratic regulator design for nonlinear biological movement systems,
    ICINCO; Diehl, Bock & Schloeder (2005), SIAM Journal on Control and Optimization 43:1714, doi:10.1137/S0363012902400713.

    ```python
    import jax, jax.numpy as jnp, simkit
    cart, y0, *_ = simkit.odes.CartPole.example()
    residuals = lambda y, u: jnp.array([2 * jnp.sin(y.angle / 2), 0.3 * y.position, 0.1 * y.spin, 0.01 * u[0]])
    controller = simkit.control.ILQR(cart, {"force": (-10.0, 10.0)}, residuals, interval=0.05, horizon=20)
    plan = controller.start(y0)
    action, plan = jax.jit(controller)(y0, plan)
    print(action)
    ```
    """

    system: System
    actions: tuple[tuple[str, tuple[float, float]], ...] = eqx.field(static=True)
    residuals: Callable[[State, Array], Array]
    final: Callable[[State], Array] | None
    interval: float = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    damping: float = eqx.field(static=True)
    solver: Stepper
    substeps: int = eqx.field(static=True)
    inputs: Inputs

    def __init__(
        self,
        system: System,
        actions: Mapping[str, tuple[float, float]],
        residuals: Callable[[State, Array], Array],
        final: Callable[[State], Array] | None = None,
        *,
        interval: float,
        horizon: int,
        iterations: int = 1,
        damping: float = 0.0,
        solver: SolverLike = "rk4",
        substeps: int = 1,
        inputs: Inputs = None,
    ):
        check_kind("system", system, System, "a system", "Write `simkit.odes.CartPole()`.")
        check_actions(system, actions)
        check_function("residuals", residuals, ("state", "action"))
        if final is not None:
            check_function("final", final, ("state",))
        check_interval(interval)
        for name, count in (("horizon", horizon), ("iterations", iterations), ("substeps", substeps)):
            check_count(name, count)
        self.solver = explicit(solver)
        self.system, self.actions, self.residuals, self.final = system, as_bounds(actions), residuals, final
        self.interval, self.horizon, self.iterations = float(interval), int(horizon), int(iterations)
        self.damping, self.substeps, self.inputs = float(damping), int(substeps), inputs

    def __hash__(self) -> int:
        # `jax.jit` asks for one where its methods are given to it; arrays have none.
        return id(self)

    @full_products
    def start(self, y0: State) -> Plan:
        """A first plan from a state: actions of zero, or the nearest that the bounds allow."""
        check_system(self.system, y0)
        x, way = self._flat(y0)
        low, high = limits(self.actions, x.dtype)
        actions = jnp.broadcast_to(jnp.clip(jnp.zeros_like(low), low, high), (self.horizon, len(low)))
        nothing = jnp.zeros((*actions.shape, len(x)), x.dtype), jnp.zeros((self.horizon, len(x)), x.dtype)
        return self._followed(way, x, actions, *nothing)

    @full_products
    def plan(self, y0: State, plan: Plan) -> Plan:
        """A better plan from a state, `iterations` of them after the actions of `plan`."""
        x, way = self._flat(y0)
        # With gains, since over a long horizon what an unstable system does with the actions alone says nothing.
        plan = self._followed(way, x, plan.actions, plan.gains, plan.states[:-1])
        if self.iterations == 1:
            return self._improved(way, plan)
        return jax.lax.fori_loop(0, self.iterations, lambda _, plan: self._improved(way, plan), plan)

    def __call__(self, y: State, plan: Plan) -> tuple[Float[Array, " m"], Plan]:
        """The action to apply now, and the plan to start from at the next interval: that of now, one interval on."""
        found = self.plan(y, plan)
        on = lambda x: jnp.concatenate([x[1:], x[-1:]])
        return found.actions[0], found._replace(
            actions=on(found.actions), states=on(found.states), gains=on(found.gains)
        )

    def _flat(self, y: State) -> tuple[Array, Callable[[Array], State]]:
        return ravel_pytree(as_state(self.system, y))

    def _next(self, way: Callable[[Array], State], t: Array, x: Array, u: Array) -> Array:
        """F: the flat state after one interval."""
        y = way(x)
        inputs = as_inputs(self.system, {**(self.inputs or {}), **held(dict(self.actions), u)}, y)
        length = jnp.asarray(self.interval, x.dtype)
        return ravel_pytree(transition(self.system, self.solver, self.substeps, t, length, y, inputs))[0]

    def _misses(self, way: Callable[[Array], State], x: Array, u: Array) -> Array:
        return jnp.atleast_1d(self.residuals(way(x), u)).astype(x.dtype).reshape(-1)

    def _ends(self, way: Callable[[Array], State], x: Array) -> Array:
        if self.final is None:
            return jnp.zeros(1, x.dtype)
        return jnp.atleast_1d(self.final(way(x))).astype(x.dtype).reshape(-1)

    def _followed(self, way: Callable[[Array], State], x: Array, actions: Array, gains: Array, around: Array) -> Plan:
        """The path from a state with actions that answer to what differs from the states `around`."""
        low, high = limits(self.actions, x.dtype)
        zero = jnp.zeros((), x.dtype)

        def on(x: Array, row: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            u, gain, reference = row
            u = jnp.clip(u + jnp.sum(gain * (x - reference)[None], axis=1), low, high)
            return self._next(way, zero, x, u), (x, u)

        last, (states, taken) = jax.lax.scan(on, x, (actions, gains, around))
        misses = jax.vmap(lambda x, u: self._misses(way, x, u))(states, taken)
        cost = jnp.sum(misses**2) + jnp.sum(self._ends(way, last) ** 2)
        return Plan(taken, jnp.concatenate([states, last[None]]), gains, cost)

    def _problem(self, way: Callable[[Array], State], plan: Plan) -> Quadratic:
        """The linear-quadratic problem along the path of a plan."""
        x, u = plan.states[:-1], plan.actions
        count, n, zero = len(x), x.shape[1], jnp.zeros((), x.dtype)
        z = jnp.concatenate([x, u], axis=1)
        # A turn for each direction: the compiler makes one kernel of that loop, where all directions at once are hundreds of them.
        each = jnp.eye(z.shape[1], dtype=z.dtype)
        push = lambda pair: jax.jvp(lambda z: self._next(way, zero, z[:n], z[n:]), pair[:1], pair[1:])[1]
        moved = jax.lax.map(push, (jnp.repeat(z, len(each), axis=0), jnp.tile(each, (count, 1))))
        moved = jnp.swapaxes(moved.reshape(count, len(each), n), 1, 2)
        rows = jax.vmap(_with_values(lambda z: self._misses(way, z[:n], z[n:]), n))(z)
        ends = _with_values(lambda x: self._ends(way, x), n)(plan.states[-1])
        one = jnp.zeros((count, 1, z.shape[1] + 1), x.dtype).at[:, :, n].set(1)
        dynamics = jnp.concatenate([moved[:, :, :n], jnp.zeros_like(moved[:, :, :1]), moved[:, :, n:]], axis=2)
        squares = lambda rows: jnp.sum(rows[..., :, None] * rows[..., None, :], axis=-3)
        return Quadratic(jnp.concatenate([dynamics, one], axis=1), squares(rows), squares(ends))

    def _improved(self, way: Callable[[Array], State], plan: Plan) -> Plan:
        """One iteration."""
        x, u = plan.states[:-1], plan.actions
        low, high = limits(self.actions, x.dtype)
        policy = riccati(self._problem(way, plan), low[None] - u, high[None] - u, jnp.asarray(self.damping, x.dtype))

        def tried(share: Array) -> Plan:
            return self._followed(way, x[0], u + share * policy.offset, policy.gain, x)

        def shorter(carry: tuple[Array, Plan]) -> tuple[Array, Plan]:
            share = carry[0] * SHORTER
            return share, tried(share)

        worse = lambda found: ~(found.cost <= plan.cost)
        one = jnp.ones((), x.dtype)
        going = lambda carry: worse(carry[1]) & (carry[0] > LEAST_SHARE)
        _, found = jax.lax.while_loop(going, shorter, (one, tried(one)))
        return jax.tree.map(lambda new, old: jnp.where(worse(found), old, new), found, plan)


def _with_values(function: Callable[[Array], Array], place: int) -> Callable[[Array], Array]:
    """The rows of a function's Jacobian with its values between the columns, before number `place`."""

    def rows(z: Array) -> Array:
        jacobian, values = jax.jacfwd(lambda z: (lambda r: (r, r))(function(z)), has_aux=True)(z)
        return jnp.concatenate([jacobian[:, :place], values[:, None], jacobian[:, place:]], axis=1)

    return rows


def explicit(solver: SolverLike) -> Stepper:
    """A solver that takes fixed steps without solving equations.

    **Raises:** an `ArgumentError` for another one.
    """
    found = as_solver(solver)
    if found is None or found.multistep or found.stiff:
        raise ArgumentError(
            'Argument `solver` must be an explicit method of one step, such as "rk4" or "euler", but it is '
            f"{type(found).__name__}. For a stiff system take more `substeps`."
        )
    return found
