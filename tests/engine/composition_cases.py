"""What the composition matrix is made of: one small system of every family, the solvers, and their plain numbers."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import md
from simkit.core import PlainSystem, SeparableSystem, SplitSystem, StochasticSystem, System, quantity
from simkit.md.neighbours._neighbours import NeighbourPlan
from simkit.odes import from_response

# Constant, cosine, sine and the shortest wave on four points, orthonormal.
WAVES = jnp.array(
    [[0.5, 0.5, 0.5, 0.5], [0.5**0.5, 0.0, -(0.5**0.5), 0.0], [0.0, 0.5**0.5, 0.0, -(0.5**0.5)], [0.5, -0.5, 0.5, -0.5]]
)


class Predation(PlainSystem):
    """Two species, scaled."""

    a: Any = quantity()
    b: Any = quantity()

    def vector_field(self, t, y, inputs):
        return jnp.stack([self.a * y[0] - y[0] * y[1], y[0] * y[1] - self.b * y[1]])

    outputs = invariants = example = lambda *_: {}


class Stiff(PlainSystem):
    """Van der Pol's equation in slow time, forty times as fast in one direction as in the other."""

    a: Any = quantity()
    b: Any = quantity()

    def vector_field(self, t, y, inputs):
        return jnp.stack([y[1], 40 * self.a * (1 - y[0] ** 2) * y[1] - self.b * y[0]])

    outputs = invariants = example = lambda *_: {}


class Swing(SeparableSystem):
    """A pendulum."""

    a: Any = quantity()
    b: Any = quantity()

    def velocity(self, momentum):
        return momentum / self.b

    def force(self, t, position, inputs):
        return -self.a * jnp.sin(position)

    outputs = invariants = example = lambda *_: {}


class Spectrum(SplitSystem):
    """Diffusion, transport and growth on a ring of four points; the encoded state is its complex Fourier spectrum."""

    a: Any = quantity()
    b: Any = quantity()

    def linear(self):
        return jax.lax.complex(-0.3 * self.a * jnp.array([0.0, 1.0, 4.0]), -0.2 * self.b * jnp.array([0.0, 1.0, 0.0]))

    def nonlinear(self, t, state, inputs):
        y = self.decode(state)
        return self.encode(self.b * y * (1 - y))

    def encode(self, y):
        mean, cosine, sine, shortest = WAVES @ y
        zero = jnp.zeros_like(mean)
        return jax.lax.complex(jnp.stack([mean, cosine, shortest]), jnp.stack([zero, sine, zero]))

    def decode(self, state):
        mean, cosine, shortest = state.real
        return WAVES.T @ jnp.stack([mean, cosine, state.imag[1], shortest])

    outputs = invariants = example = lambda *_: {}


class Wandering(StochasticSystem):
    """A value that returns to a mean, with noise of its own size."""

    a: Any = quantity()
    b: Any = quantity()
    interpretation: Any = eqx.field(static=True, default="ito")
    noise_kind: Any = eqx.field(static=True, default="diagonal")

    def drift(self, t, y, inputs):
        return self.a - y**2

    def diffusion(self, t, y, inputs):
        return self.b * (jnp.ones_like(y) if self.noise_kind == "additive" else 0.3 * y)

    outputs = invariants = example = lambda *_: {}


def bouncing(a: Any, b: Any) -> System:
    """A ball with drag."""
    field = lambda t, y, p: {"height": y["speed"], "speed": -10 * p["a"] - 0.2 * p["b"] * y["speed"]}
    return simkit.odes.from_function(field, {"a": a, "b": b})


def _bounced(system: Any, t: Any, y: Any, inputs: Any) -> Any:
    return {**y, "speed": -0.8 * system.parameters["b"] * y["speed"]}


def absorbing(a: Any, b: Any) -> System:
    """A gut and blood."""
    field = lambda t, y, p: {"gut": -p["a"] * y["gut"], "blood": p["a"] * y["gut"] - p["b"] * y["blood"]}
    return simkit.odes.from_function(field, {"a": a, "b": b, "lag": 0.1 * b})


def fed_back(a: Any, b: Any) -> System:
    """A population that is born a lag after its parents' crowding."""
    field = lambda t, y, past, p: {"x": 2 * p["a"] * past(t - p["b"])["x"] / (1 + past(t - p["b"])["x"] ** 4) - y["x"]}
    return simkit.odes.from_delayed_function(field, {"a": a, "b": b}, lags="b", history=lambda t, p: {"x": p["a"] - t})


def tanks(a: Any, b: Any) -> System:
    """A tank that drains into another, which a controller holds."""
    tank = lambda drain: simkit.odes.from_function(
        lambda t, y, p, u: {"level": u["inflow"] - p["drain"] * y["level"]},
        {"drain": drain},
        outputs=lambda t, y, p: {"outflow": p["drain"] * y["level"]},
        inputs={"inflow": simkit.Input("m3/s", default=0.0)},
    )
    wires = {"lower.inflow": "upper.outflow", "upper.inflow": lambda s, t, y, outputs: 1 - y["lower"]["level"] ** 2}
    return simkit.Coupled({"upper": tank(a), "lower": tank(b)}, wires)


def patches(a: Any, b: Any) -> System:
    """Three patches of a population that grows up to a limit, each with a limit of its own, and exchange of rate b."""
    grow = simkit.odes.from_function(
        lambda t, y, p: {"x": y["x"] * (p["growth"] - p["crowding"] * y["x"])}, {"growth": a, "crowding": 1.0}
    )
    moves = b * jnp.array([[0.0, 0.4, 0.0], [0.2, 0.0, 0.3], [0.0, 0.1, 0.0]])
    return simkit.Patches(grow, moves, each={"crowding": [1.0, 0.7, 1.3]})


def driven(a: Any, b: Any, interpretation: str, noise_kind: str) -> System:
    """Two noisy numbers that drive a plain part by a wire."""
    follower = simkit.odes.from_function(
        lambda t, y, p, u: {"z": u["push"] - p["rate"] * y["z"]}, {"rate": b}, inputs={"push": simkit.Input()}
    )
    wires = {"follower.push": lambda s, t, y, outputs: y["noisy"][0] * y["noisy"][1]}
    return simkit.Coupled({"noisy": Wandering(a, b, interpretation, noise_kind), "follower": follower}, wires)


EMPTY = {"gut": 0.0, "blood": 0.0}
REGIMEN = simkit.problem.Doses(
    [
        simkit.problem.Dose(1.0, 0.1, "gut", every=0.6, additional=1),
        simkit.problem.Dose(0.7, 0.3, "blood", duration=0.45),
    ]
)
EVENTS: dict[str, Any] = {
    "events": {
        "bounce": simkit.Event(lambda system, t, y, inputs: y["height"], "down", _bounced),
        "kick": simkit.Event(
            at=[0.45],
            values=[0.5],
            change=lambda s, t, y, inputs, v: {**y, "speed": y["speed"] + v * s.parameters["a"]},
        ),
    },
    "doses": {"dose": simkit.problem.dose_event(REGIMEN, EMPTY, lag={"gut": "lag"})},
    "delayed": {"dose": simkit.Event(at=[0.45], values=[0.3], change=lambda s, t, y, inputs, v: {"x": y["x"] + v})},
}


LATTICE = md.crystal("sc", 1.2, (3, 3, 3))
BASE = jnp.asarray(LATTICE.position) + 0.1 * jnp.sin(7.0 * jnp.arange(81.0).reshape(27, 3))


@functools.cache
def particles_plan(method: Any) -> NeighbourPlan:
    with jax.ensure_compile_time_eval():
        return md.plan_neighbours(md.LennardJones(cutoff=1.7), LATTICE.space, BASE, method=method, skin=0.1)


def particles(a: Any, b: Any, method: Any) -> System:
    """Twenty-seven atoms in a periodic box; with clusters, lists that are made again now and then."""
    potential = md.LennardJones(sigma=a, epsilon=b, cutoff=1.7, truncation=md.Switched(1.3))
    return md.Particles(potential, LATTICE.space, plan=particles_plan(method))


def atoms(f: Any) -> md.Atoms:
    """Momenta that take the fastest further than the skin."""
    return md.Atoms(BASE, 2.0 * f * jnp.cos(5.0 * jnp.arange(81.0).reshape(27, 3)))


class Family(NamedTuple):
    """How a family is built from the vector q that derivatives are taken by: two parameters and a factor of the initial state."""

    build: Callable[..., System]
    start: Callable[[Any], Any]
    horizon: float
    substeps: int


FAMILIES = {
    "plain": Family(Predation, lambda f: jnp.array([1.2, 0.7]) * f, 1.0, 12),
    "separable": Family(Swing, lambda f: SeparableSystem.State(1.0 * f, 0.3 * f), 1.0, 12),
    "split": Family(Spectrum, lambda f: jnp.array([0.2, 0.6, 0.9, 0.4]) * f, 1.0, 12),
    "stochastic": Family(Wandering, lambda f: jnp.array([0.8, 1.3]) * f, 1.0, 12),
    "stiff": Family(Stiff, lambda f: jnp.array([1.6, -0.02]) * f, 0.5, 40),
    "particles": Family(particles, atoms, 0.1, 10),
    "events": Family(bouncing, lambda f: {"height": 0.5 * f, "speed": 0.0 * f}, 1.0, 12),
    "doses": Family(absorbing, lambda f: {"gut": 0.0 * f, "blood": 1.0 * f}, 1.0, 12),
    "delayed": Family(fed_back, lambda f: {"x": 1.2 * f}, 2.5, 12),
    "coupled": Family(tanks, lambda f: {"upper": {"level": 0.3 * f}, "lower": {"level": 0.1 * f}}, 1.0, 12),
    "patches": Family(patches, lambda f: {"x": jnp.array([0.3, 0.5, 0.1]) * f}, 1.0, 12),
    "coupled noise": Family(
        driven, lambda f: {"noisy": jnp.array([0.8, 1.3]) * f, "follower": {"z": 0.2 * f}}, 1.0, 12
    ),
    "static": Family(
        lambda a, b: from_response(lambda x, p: p["a"] * jnp.exp(-p["b"] * x), {"a": a, "b": b}), None, 1.0, 1
    ),
}
SOLVERS = {
    "plain": ("Tsit5", "Dopri8", "Heun", "RK4", "Euler", "Rodas5P"),
    "separable": ("VelocityVerlet", "Tsit5"),
    "split": ("ETDRK4", "KenCarp4"),
    "stochastic": ("EulerMaruyama", "Milstein", "StratonovichHeun", "SRA1"),
    "stiff": ("Rodas5P",),
    "particles": ("dense", "clusters"),
    "events": ("Tsit5",),
    "doses": ("Tsit5",),
    "delayed": ("Tsit5",),
    "coupled": ("Tsit5",),
    "patches": ("Tsit5",),
    "coupled noise": ("SRA1",),
    "static": ("none",),
}
ADAPTIVE_ALONE = ("events", "doses", "delayed", "coupled", "patches")
# With Dopri8 a tighter tolerance makes the length of the second step follow the rounding of the first one's error, which differs
# between programs; the cells compare to rounding.
TOLERANCES = {"Tsit5": 1e-9, "Dopri8": 1e-5, "Heun": 1e-6, "KenCarp4": 1e-7, "Rodas5P": 1e-8}
NOISE = {
    "EulerMaruyama": ("ito", "diagonal"),
    "Milstein": ("ito", "diagonal"),
    "StratonovichHeun": ("stratonovich", "diagonal"),
    "SRA1": ("ito", "additive"),
}

Q = jnp.array([1.1, 0.9, 1.0])
QS = jnp.stack([Q * factor for factor in (0.93, 1.0, 1.04, 1.1)])
BASIS = jnp.eye(3)


class Case(NamedTuple):
    """A row of the table."""

    family: str
    solver: str
    step: str

    @property
    def label(self) -> str:
        return f"{self.family}-{self.solver}-{self.step}"


@functools.cache
def all_cases() -> tuple[Case, ...]:
    found = []
    for family, solvers in SOLVERS.items():
        for solver in solvers:
            if family not in ADAPTIVE_ALONE:
                found.append(Case(family, solver, "none" if family == "static" else "fixed"))
            if solver in TOLERANCES:
                found.append(Case(family, solver, "adaptive"))
    return tuple(found)


CASES = all_cases()


class Subject:
    """A case with its plain numbers, computed once: the states and their derivatives at single points, in forward mode."""

    def __init__(self, case: Case):
        self.case = case
        self._plain = jax.jit(self.states)
        self._first = jax.jit(lambda q, v: jax.jvp(self.states, (q,), (v,))[1])
        self._second = jax.jit(lambda q, u, v: jax.jvp(lambda q: jax.jvp(self.loss, (q,), (v,))[1], (q,), (u,))[1])

    def states(self, q: Any, filled: bool = False) -> Any:
        """The saved states, flat, as a function of parameters and initial state; those of a failed member are 0 where `filled`."""
        family = FAMILIES[self.case.family]
        times = jnp.linspace(0.0, family.horizon, 3)
        if self.case.family == "static":
            system = family.build(q[0], q[1])
            trajectory = simkit.simulate(system, {"x": q[2]}, times)
            return jnp.concatenate([trajectory.ys["x"], jax.vmap(lambda x: system.outputs(x, None, None)["y"])(times)])
        given = NOISE.get(self.case.solver, ())
        if self.case.family == "particles":
            given = (self.case.solver,)
        step = simkit.Fixed(family.substeps)
        if self.case.step == "adaptive":
            tolerance = TOLERANCES[self.case.solver]
            step = simkit.Adaptive(tolerance, tolerance / 100)
        trajectory = simkit.simulate(
            family.build(q[0], q[1], *given),
            family.start(q[2]),
            times,
            solver=None if self.case.family == "particles" else getattr(simkit.solvers, self.case.solver)(),
            step=step,
            events=EVENTS.get(self.case.family),
            key=jax.random.key(3) if self.case.solver in NOISE else None,
            on_failure="mark",
        )
        trajectory = trajectory.filled() if filled else trajectory
        rows = [jnp.reshape(leaf, (times.shape[0], -1)) for leaf in jax.tree.leaves(trajectory.ys)]
        return jnp.concatenate(rows, axis=1)[1:].reshape(-1)

    def loss(self, q: Any, filled: bool = False) -> Any:
        """A number that is not linear in the states."""
        ys = self.states(q, filled)
        return jnp.sum(jnp.sin(ys) * jnp.cos(jnp.arange(ys.size, dtype=ys.dtype)))

    @functools.cached_property
    def values(self) -> Any:
        return np.stack([self._plain(q) for q in QS])

    def jacobian(self, q: Any) -> Any:
        return np.stack([self._first(q, v) for v in BASIS], axis=1)

    def slope(self, q: Any) -> Any:
        """The gradient of the loss by the chain rule."""
        ys = self._plain(q)
        return np.asarray(jnp.cos(ys) * jnp.cos(jnp.arange(ys.size, dtype=ys.dtype))) @ self.jacobian(q)

    @functools.cached_property
    def slopes(self) -> Any:
        return np.stack([self.slope(q) for q in QS])

    def curvature(self, q: Any) -> Any:
        return np.array([[self._second(q, u, v) for u in BASIS] for v in BASIS])

    @functools.cached_property
    def curvatures(self) -> Any:
        return np.stack([self.curvature(q) for q in QS[:2]])


@functools.cache
def subject(case: Case) -> Subject:
    return Subject(case)
