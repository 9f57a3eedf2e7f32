"""Claims: a decision of a model predictive controller takes less than 100 us; environments beside those of Gymnasium.

Gymnasium is installed with simkit[gymnasium]; without it its rows are left out.
"""

import time
from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit.control import ILQR, Environment, to_gymnasium

MANY, DECISIONS = 1024, 10_000


def main() -> dict[str, float]:
    # Programs run in the thread that calls them; before the first array, since later it has no effect.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    simkit.enable_x64()
    return _decisions() | _environments()


def _decisions() -> dict[str, float]:
    cart, figures = simkit.odes.CartPole(), {}
    weights = jnp.array([3.0, 0.7, 0.2, 0.3, 0.03])
    residuals = lambda y, u: weights * jnp.stack([jnp.sin(y.angle / 2), y.position, y.velocity, y.spin, u[0]])
    final = lambda y: 3.0 * residuals(y, jnp.zeros(1))
    x, rows = np.array([0.0, 0.0, 0.3, 0.0]), []
    nothing = jax.jit(lambda x, plan: (x[:1], plan))
    for solver in ("rk4", "heun"):
        controller = ILQR(cart, {"force": (-10.0, 10.0)}, residuals, final, interval=0.05, horizon=20, solver=solver)
        decide = jax.jit(lambda x, plan, controller=controller: controller(cart.State(*x), plan))
        begin = time.perf_counter()
        plan = decide(x, controller.start(cart.State(*x)))[1]
        first = time.perf_counter() - begin
        for name, function in ((solver, decide), (f"{solver}: a call of nothing", nothing)):
            wall, cpu = _taken(function, x, plan)
            figures[f"decision, {name}, p50 us"] = float(np.quantile(wall, 0.5))
            cells = [f"{value:.0f}" for value in (wall.min(), *np.quantile(wall, [0.5, 0.99]), cpu)]
            rows.append([name, *cells, f"{first:.1f}"])
    _harness.print_table("A decision, us", ["", "least", "p50", "p99", "CPU, mean", "first call, s"], rows)
    return figures


def _taken(function: Any, x: np.ndarray, plan: Any) -> tuple[np.ndarray, float]:
    """Microseconds from a NumPy state to a NumPy action: each on the wall, and their mean of the processor."""
    wall, cpu = [], time.process_time()
    for _ in range(DECISIONS):
        begin = time.perf_counter()
        action, plan = function(x, plan)
        np.asarray(action)
        wall.append(time.perf_counter() - begin)
    return 1e6 * np.array(wall), 1e6 * (time.process_time() - cpu) / DECISIONS


def _environments() -> dict[str, float]:
    pendulum = simkit.odes.Pendulum(mass=0.75, length=2 / 3, gravity=10.0)
    environment = Environment(
        pendulum,
        {"torque": (-2.0, 2.0)},
        start=lambda key: pendulum.State(*jax.random.uniform(key, (2,), minval=-1.0)),
        reward=lambda y, u, after: (
            -((y.position % (2 * jnp.pi) - jnp.pi) ** 2) - 0.9 * y.momentum**2 - 0.001 * u[0] ** 2
        ),
        observe=lambda y: jnp.stack([-jnp.cos(y.position), -jnp.sin(y.position), 3 * y.momentum]),
        interval=0.05,
        limit=200,
    )

    def scanned(key: Any) -> Any:
        on = lambda state, _: (lambda found: (found.state, found.reward))(step(state, jnp.zeros((MANY, 1))))
        step, (state, _) = jax.vmap(environment.step), jax.vmap(environment.reset)(jax.random.split(key, MANY))
        return jax.lax.scan(on, state, None, length=200)[1]

    scanned = jax.jit(scanned)
    timings = _harness.compare({"simkit, scan": lambda: scanned(jax.random.key(0))}, samples=5)
    figures = {"simkit, 1,024 in a scan, steps a second": MANY * 200 / timings["simkit, scan"].minimum}
    try:
        import gymnasium
    except ImportError:
        return figures
    made = {
        "simkit, one": (to_gymnasium(environment), 1),
        "Gymnasium, one": (gymnasium.make("Pendulum-v1").unwrapped, 1),
        "simkit, 1,024": (to_gymnasium(environment, MANY), MANY),
        "Gymnasium, 1,024": (gymnasium.make_vec("Pendulum-v1", num_envs=MANY, vectorization_mode="sync"), MANY),
    }
    for env, _ in made.values():
        env.reset(seed=0)
    actions = {name: env.action_space.sample() for name, (env, _) in made.items()}
    timings = _harness.compare(
        {name: lambda e=env, a=actions[name]: e.step(a) for name, (env, _) in made.items()}, samples=7
    )
    _harness.print_timings("A step of an environment", timings)
    return figures | {f"{name}, steps a second": made[name][1] / timing.minimum for name, timing in timings.items()}


if __name__ == "__main__":
    main()
