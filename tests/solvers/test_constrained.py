"""Differential and algebraic equations together: exact circuits, orders, derivatives, starts, and words where there is none."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import simkit
from simkit import Adaptive, ConstrainedSystem, Example, Fixed, PiecewiseConstant, Scalar, quantity
from simkit.solvers import jacobian_structure

TIGHT = Adaptive(1e-10)


class Circuit(ConstrainedSystem):
    """A source and a resistor to the first node, a capacitor to the second, resistors to ground: M = C ((1, -1), (-1, 1))."""

    capacity: Scalar = quantity(1e-6, unit="F", doc="capacity")
    resistance: Scalar = quantity(1e3, unit="ohm", doc="resistance")

    def vector_field(self, t, y, inputs):
        first, second = y
        r = self.resistance
        return jnp.stack([(inputs["source"] - first) / r - first / (2 * r), -second / r])

    def mass(self, t):
        return self.capacity * jnp.asarray([[1.0, -1.0], [-1.0, 1.0]], self.capacity.dtype)

    @classmethod
    def example(cls):
        times = jnp.linspace(0.0, 4e-3, 9)
        return Example(cls(), jnp.zeros(2), times, {"source": PiecewiseConstant([-1.0, 1.3e-3], [5.0, -2.0])})


def circuit(times, capacity=1e-6, jump=1.3e-3):
    """The exact node voltages: the capacitor's voltage v follows C v' = ((V + v) / 2.5 - v) / R."""
    rate = 0.6 / (1e3 * capacity)
    relaxed = lambda t, start, source: source / 1.5 + (start - source / 1.5) * np.exp(-rate * t)
    before, after = relaxed(np.minimum(times, jump), 0.0, 5.0), relaxed(times - jump, relaxed(jump, 0.0, 5.0), -2.0)
    v = np.where(times > jump, after, before)
    first = (np.where(times > jump, -2.0, 5.0) + v) / 2.5
    return np.stack([first, first - v], -1)


class Weights(ConstrainedSystem):
    """A matrix M that depends on time: (1 + t) y' + 0.3 sin(t) z' = z - k y with z = sin(t) + y / 10."""

    rate: Scalar = quantity(1.0, doc="rate")

    def vector_field(self, t, y, inputs):
        return {"y": y["z"] - self.rate * y["y"], "z": y["z"] - jnp.sin(t) - 0.1 * y["y"]}

    def mass(self, t):
        return jnp.stack([jnp.stack([1 + t, 0.3 * jnp.sin(t)]), jnp.zeros_like(t, shape=(2,))])

    @classmethod
    def example(cls):
        return Example(cls(), {"y": 1.0, "z": 0.0}, jnp.linspace(0.0, 4.0, 5))


def weights(times):
    def slope(t, w):
        return (np.sin(t) + 0.1 * w - w - 0.3 * np.sin(t) * np.cos(t)) / (1 + t + 0.03 * np.sin(t))

    return solve_ivp(slope, (0, 4), [1.0], rtol=1e-12, atol=1e-13, t_eval=times, method="DOP853").y[0]


class Pendulum(ConstrainedSystem):
    """Cartesian coordinates; `level` 1 has the length differentiated twice, 3 the length itself."""

    gravity: Scalar = quantity(9.81, doc="gravity")
    length: Scalar = quantity(1.0, doc="length")
    level: int = eqx.field(static=True, default=1)

    def vector_field(self, t, y, inputs):
        x, z, u, v, tension = (y[name] for name in ("x", "z", "u", "v", "tension"))
        third = x * x + z * z - self.length**2
        first = u * u + v * v - tension * (x * x + z * z) - self.gravity * z
        last = first if self.level == 1 else third
        return {"x": u, "z": v, "u": -tension * x, "v": -tension * z - self.gravity, "tension": last}

    def mass(self, t):
        return {"x": 1.0, "z": 1.0, "u": 1.0, "v": 1.0, "tension": 0.0}

    def hidden(self, t, y, inputs):
        length = y["x"] ** 2 + y["z"] ** 2 - self.length**2
        return {} if self.level > 1 else {"length": length, "velocity": y["x"] * y["u"] + y["z"] * y["v"]}

    @classmethod
    def example(cls):
        return Example(cls(), _hanging(1.0), jnp.linspace(0.0, 10.0, 11))


def _hanging(x):
    return {"x": x, **dict.fromkeys(("z", "u", "v", "tension"), 0.0)}


class Line(ConstrainedSystem):
    """A line of capacitors and resistors, the currents on both sides of each as states: few equations hold their own unknown."""

    resistance: Scalar = quantity(1.0, doc="resistance")

    def vector_field(self, t, y, inputs):
        v, into, out = y["v"], y["into"], y["out"]
        before = jnp.concatenate([jnp.ones_like(out[:1]), out[:-1]])
        following = jnp.concatenate([v[1:], jnp.zeros_like(v[:1])])
        current = jnp.concatenate([into[1:], out[-1:]])
        return {"v": into - out, "into": before - into, "out": v - following - self.resistance * current}

    def mass(self, t):
        return {"v": 1.0, "into": 0.0, "out": 0.0}

    @classmethod
    def example(cls):
        return Example(cls(), {name: jnp.zeros(40) for name in ("v", "into", "out")}, jnp.linspace(0.0, 10.0, 5))


def test_a_circuit_whose_source_jumps():
    system, y0, times, inputs = Circuit.example()
    exact = circuit(np.asarray(times))
    found = simkit.simulate(system, y0, times, inputs=inputs, step=Adaptive(1e-8))
    assert np.abs(found.ys - exact)[1:].max() < 1e-7  # ten times the tolerance of voltages of a few volts
    # Twenty steps a window of at most 0.3 time constants, order 5: rounding.
    fixed = simkit.simulate(system, y0, times, inputs=inputs, step=Fixed(20))
    assert np.abs(fixed.ys - exact)[1:].max() < 1e-12
    # The start is a guess: only the voltage between the nodes is kept.
    assert np.allclose(found.ys[0], [2.0, 2.0], rtol=1e-12)


def test_derivatives_by_parameters_and_by_the_time_of_a_jump():
    system, y0, _, _ = Circuit.example()

    def first(p):
        inputs = {"source": PiecewiseConstant(jnp.stack([0 * p[1] - 1, p[1]]), jnp.asarray([5.0, -2.0]))}
        changed = eqx.tree_at(lambda s: s.capacity, system, p[0])
        times = jnp.asarray([0.0, 2e-3, 3e-3])
        return simkit.simulate(changed, y0, times, inputs=inputs, step=TIGHT).ys[1, 0]

    p = jnp.asarray(1e-6), jnp.asarray(1.3e-3)
    at = lambda capacity, jump: circuit(np.asarray([2e-3]), capacity, jump)[0, 0]
    expected = (
        (at(1e-6 * 1.00001, 1.3e-3) - at(1e-6 * 0.99999, 1.3e-3)) / 2e-11,
        (at(1e-6, 1.3e-3 + 1e-8) - at(1e-6, 1.3e-3 - 1e-8)) / 2e-8,
    )
    # Central differences of the closed form have errors of some 1e-9.
    assert np.allclose(jax.grad(first)(p), expected, rtol=1e-6)
    tangent = jax.jvp(first, (p,), ((jnp.ones(()), jnp.zeros(())),))[1]
    assert np.allclose(tangent, expected[0], rtol=1e-6)


def test_members_in_lanes_are_those_alone():
    system, y0, times, inputs = Circuit.example()
    capacities = np.geomspace(1e-7, 1e-5, 7)
    members = simkit.ensemble(system, y0, times, over={"capacity": capacities}, inputs=inputs)
    assert not members.failures()
    for capacity, ys in zip(capacities, np.asarray(members.ys), strict=True):
        assert np.abs(ys - circuit(np.asarray(times), capacity))[1:].max() < 1e-4  # rtol 1e-6, some volts, a stiff jump


def test_a_matrix_that_depends_on_time():
    system, y0, times, _ = Weights.example()
    exact = weights(np.asarray(times))
    found = simkit.simulate(system, y0, times, step=Adaptive(1e-8))
    assert np.abs(found.ys["y"] - exact).max() < 1e-7
    assert np.abs(found.ys["z"] - np.sin(times) - 0.1 * exact).max() < 1e-7
    errors = []
    for count in (8, 16, 32):
        end = simkit.simulate(system, y0, times[jnp.array([0, -1])], step=Fixed(count), solver="rodas5p")
        errors.append(abs(float(end.ys["y"][-1]) - exact[-1]))
    # Order 5 is asymptotic: single halvings give 5.5 and 5.1.
    assert np.log2(errors[0] / errors[2]) / 2 > 4.8


def test_a_pendulum_stays_on_its_circle():
    system, y0, times, _ = Pendulum.example()
    found = simkit.simulate(system, y0, times, step=Adaptive(1e-8))
    angle = simkit.from_function(lambda t, y, p: {"a": y["w"], "w": -p["g"] * jnp.sin(y["a"])}, {"g": 9.81})
    exact = simkit.simulate(angle, {"a": np.pi / 2, "w": 0.0}, times, step=Adaptive(1e-11, 1e-13))
    # Errors grow with the time, some five periods here.
    assert np.abs(found.ys["x"] - jnp.sin(exact.ys["a"])).max() < 1e-6
    end = found.final()
    assert abs(end["x"] ** 2 + end["z"] ** 2 - 1) < 1e-14  # projected at the end of each step
    assert abs(end["x"] * end["u"] + end["z"] * end["v"]) < 1e-13


@pytest.mark.slow
def test_first_and_second_derivatives_of_a_pendulum():
    system, _, _, _ = Pendulum.example()

    def end(length):
        changed = eqx.tree_at(lambda s: s.length, system, length)
        return simkit.simulate(changed, _hanging(length), [0.0, 2.0], step=TIGHT).final()["x"]

    gradient, tangent = jax.grad(end)(1.0), jax.jvp(end, (1.0,), (1.0,))[1]
    assert np.isclose(gradient, tangent, rtol=1e-11)
    # Central differences: of first order with a step of 1e-5 about 1e-9, of second order with 1e-3 about 1e-5.
    assert np.isclose(gradient, (end(1 + 1e-5) - end(1 - 1e-5)) / 2e-5, rtol=1e-7)
    second = (end(1 + 1e-3) - 2 * end(1.0) + end(1 - 1e-3)) / 1e-6
    assert np.isclose(jax.hessian(end)(1.0), second, rtol=1e-4)


def test_equations_without_their_own_unknown_are_solved_by_structure():
    system, y0, times, _ = Line.example()
    structure = jacobian_structure(system, y0, times[0], None)
    assert structure.described().startswith("equations in the order of their unknowns")

    def slope(t, v):
        current = np.concatenate([[1.0], v - np.append(v[1:], 0.0)])
        return current[:-1] - current[1:]

    exact = solve_ivp(slope, (0, 10), np.zeros(40), rtol=1e-10, atol=1e-12, t_eval=np.asarray(times), method="LSODA")
    found = simkit.simulate(system, y0, times)
    assert np.abs(found.ys["v"] - exact.y.T).max() < 1e-6  # rtol 1e-6, voltages of order 1


def test_float32():
    system, y0, times, inputs = simkit.cast(Circuit.example(), jnp.float32)
    found = simkit.simulate(system, y0, times, inputs=inputs)
    assert found.ys.dtype == jnp.float32
    assert (
        np.abs(np.asarray(found.ys) - circuit(np.asarray(times, float)))[1:].max() < 2e-3
    )  # the default tolerance of float32


def test_a_fit_finds_the_rate():
    system, y0, _, _ = Parabola.example()
    times = np.linspace(0.0, 2.0, 11)
    data = 2 * np.exp(-0.35 * times) + np.random.default_rng(0).normal(0, 0.01, 11)
    problem = simkit.Problem(
        system,
        simkit.Experiment("decay", times, {"z": data}, y0=y0),
        free={"rate": simkit.Free(bounds=(0.1, 5.0))},
        noise={"z": simkit.noise.Normal(0.01)},
    )
    found = simkit.fit(problem, starts=2, key=jax.random.key(0))
    # The standard error is about 0.006; four of them.
    assert abs(float(found.estimate[0]) - 0.7) < 0.025


@pytest.mark.parametrize(("level", "named"), [(3, "`tension`")])
def test_an_index_above_one_is_named(level, named):
    system = eqx.tree_at(lambda s: s.length, Pendulum(level=level), jnp.asarray(1.0))
    with pytest.raises(simkit.SimulationError, match=f"do not determine {named}, so the index is above 1"):
        simkit.simulate(system, _hanging(1.0), [0.0, 1.0])
    marked = simkit.simulate(system, _hanging(1.0), [0.0, 1.0], on_failure="mark")
    assert simkit.Status(int(marked.status)) is simkit.Status.INCONSISTENT


class Parabola(ConstrainedSystem):
    """0 = z^2 - x, which no real z solves where x is negative."""

    rate: Scalar = quantity(1.0, doc="rate")

    def vector_field(self, t, y, inputs):
        return {"x": -self.rate * y["x"], "z": y["z"] ** 2 - y["x"]}

    def mass(self, t):
        return {"x": 1.0, "z": 0.0}

    @classmethod
    def example(cls):
        return Example(cls(), {"x": 4.0, "z": 1.0}, jnp.linspace(0.0, 1.0, 3))


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_a_guess_in_any_unit_leads_to_the_start(unit):
    system, _, times, _ = Parabola.example()
    found = simkit.simulate(system, {"x": 4.0 * unit**2, "z": 40.0 * unit}, times)
    assert np.allclose(found.ys["z"] / unit, 2 * np.exp(-0.5 * times), rtol=1e-5)
    assert np.allclose(float(found.ys["z"][0]) / unit, 2.0, rtol=1e-14)


def test_equations_that_contradict_the_start_are_named():
    system, _, times, _ = Parabola.example()
    with pytest.raises(simkit.SimulationError, match="equation of `z` could not be met"):
        simkit.simulate(system, {"x": -1.0, "z": 0.7}, times)
    status = jax.vmap(lambda x: simkit.simulate(system, {"x": x, "z": 0.7}, times).status)(jnp.asarray([4.0, -1.0]))
    assert status.tolist() == [0, int(simkit.Status.INCONSISTENT)]


def test_wrong_arguments_are_sentences():
    system, y0, times, _ = Parabola.example()
    with pytest.raises(simkit.ArgumentError, match=r"`Tsit5` solves no algebraic equations .* `Rodas5P` fits"):
        simkit.simulate(system, y0, times, solver="tsit5")

    class Short(Parabola):
        def mass(self, t):
            return jnp.ones(3)

    with pytest.raises(simkit.ArgumentError, match=r"`mass` of Short must return a state"):
        simkit.simulate(Short(), y0, times)


def test_what_compares_slopes_knows_the_matrix():
    assert "Parabola passed" in str(simkit.testing.check_system(Parabola))
    system, y0, times, _ = Parabola.example()
    problem = simkit.Problem(
        system,
        simkit.Experiment("decay", times, {"x": np.ones(3), "z": np.ones(3)}, y0=y0),
        free={"rate": simkit.Free(bounds=(0.1, 5.0))},
        noise={"x": simkit.noise.Normal(0.01), "z": simkit.noise.Normal(0.01)},
    )
    with pytest.raises(simkit.ArgumentError, match="has algebraic equations"):
        simkit.gradient_matching(problem)


class Doubled(ConstrainedSystem):
    """0 = y - 2 u x, which a hidden constraint may repeat."""

    repeated: bool = eqx.field(static=True, default=False)

    def vector_field(self, t, y, inputs):
        factor = 2.0 if inputs is None else 2 * inputs["u"]
        return {"x": -0.5 * y["y"], "y": y["y"] - factor * y["x"]}

    def mass(self, t):
        return {"x": 1.0, "y": 0.0}

    def hidden(self, t, y, inputs):
        return {"again": y["y"] - 2 * y["x"]} if self.repeated else {}

    @classmethod
    def example(cls):
        return Example(cls(), {"x": 1.0, "y": 0.0}, jnp.linspace(0.0, 1.0, 3))


def test_a_hidden_constraint_that_repeats_an_equation_moves_nothing():
    _, y0, times, _ = Doubled.example()
    found = simkit.simulate(Doubled(repeated=True), y0, times)
    assert np.allclose(found.ys["x"], np.exp(-np.asarray(times)), rtol=1e-6)


@pytest.mark.parametrize("step", [Adaptive(1e-8), Fixed(60)], ids=["adaptive", "fixed"])
def test_a_state_saved_at_a_jump_is_the_one_before_it(step):
    system, y0, _, _ = Doubled.example()
    inputs = {"u": PiecewiseConstant([-1.0, 1.0], [1.0, 3.0])}
    for times in ([0.0, 1.0], [0.0, 1.0, 2.0]):
        found = simkit.simulate(system, y0, times, inputs=inputs, step=step)
        assert np.isclose(found.ys["y"][1], 2 * np.exp(-1.0), rtol=1e-7)
    assert np.isclose(found.ys["y"][2], 6 * np.exp(-4.0), rtol=1e-6)  # x' = -3 x behind the jump
    # Backwards a run starts on the other side of a jump and saves what it came from.
    back = simkit.simulate(system, {"x": float(found.ys["x"][2]), "y": 0.0}, [2.0, 1.0, 0.0], inputs=inputs, step=step)
    assert np.isclose(back.ys["y"][1], 6 * np.exp(-1.0), rtol=1e-6)
    assert np.isclose(back.ys["x"][2], 1.0, rtol=1e-6)


def test_a_guess_where_the_equations_are_singular_is_no_index():
    system, _, times, _ = Parabola.example()
    with pytest.raises(simkit.SimulationError, match=r"where Newton's method ended, and do so elsewhere"):
        simkit.simulate(system, {"x": 4.0, "z": 0.0}, times)


class Leaking(ConstrainedSystem):
    """A rate and a rule, whose M is not finite where `heaviness` is negative: its diagonal, or a matrix."""

    heaviness: Scalar = quantity(4.0, doc="its root is the entry of M")
    whole: bool = eqx.field(static=True, default=False)

    def vector_field(self, t, y, inputs):
        return {"level": -y["level"], "outflow": y["outflow"] - 2 * y["level"]}

    def mass(self, t):
        entry = jnp.sqrt(self.heaviness)
        diagonal = {"level": entry, "outflow": 0.0}
        return jnp.diag(jnp.stack([entry, jnp.zeros_like(entry)])) if self.whole else diagonal

    @classmethod
    def example(cls):
        return Example(cls(), {"level": 1.0, "outflow": 0.0}, jnp.linspace(0.0, 1.0, 3))


@pytest.mark.parametrize("whole", [False, True])
def test_a_mass_that_is_not_finite_is_named(whole):
    _, y0, times, _ = Leaking.example()
    with pytest.raises(simkit.SimulationError, match=r"numbers of `mass` in the equation of `level` must be finite"):
        simkit.simulate(Leaking(-1.0, whole), y0, times)
    end = simkit.simulate(Leaking(4.0, whole), y0, times).final()
    np.testing.assert_allclose(end["outflow"], 2 * np.exp(-0.5), rtol=1e-5)  # of the default tolerance of 1e-6
