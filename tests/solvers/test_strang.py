"""Strang splitting of coupled systems: order 2 against exact solutions, parts with their own steps, derivatives, refusals."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import simkit
from simkit.core import Setup, as_state
from simkit.solvers import BDF, ETDRK4, RK4, SSPRK3, WRK3, Euler, Heun, Rodas5P, Strang, Tsit5, VelocityVerlet
from simkit.testing import check_gradients

simkit.enable_x64()

TIMES = [0.0, 0.5, 2.0]
Y0 = {"a": {"x": 1.0}, "b": {"x": 2.0}, "c": {"x": -1.0}}
MATRIX = np.array([[-1.0, 0.4, 0.2], [0.7, -0.3, 0.1], [-0.5, 0.3, -0.4]])


def _linear(name):
    """Part `name` of x' = A x, whose diagonal it knows itself."""
    i = "abc".index(name)
    field = lambda t, y, p, u: {"x": p["rate"] * y["x"] + u["push"]}
    return simkit.from_function(field, {"rate": MATRIX[i, i]}, inputs={"push": simkit.Input()})


def _wire(name):
    i = "abc".index(name)
    others = [(other, float(MATRIX[i, j])) for j, other in enumerate("abc") if j != i]
    return lambda system, t, y, outputs: sum(weight * y[other]["x"] for other, weight in others)


THREE = simkit.Coupled({name: _linear(name) for name in "abc"}, {f"{name}.push": _wire(name) for name in "abc"})


def _last(run):
    return np.array([run.final()[name]["x"] for name in "abc"])


@pytest.mark.parametrize(
    ("steppers", "substeps"),
    [
        ({"a": RK4(), "b": RK4(), "c": RK4()}, {}),
        ({"c": Heun(), "a": Rodas5P(), "b": Tsit5()}, {"a": 3, "b": 2}),
        (None, {"a": 2}),
    ],
)
def test_the_order_is_two(steppers, substeps):
    exact = scipy.linalg.expm(2.0 * MATRIX) @ [1.0, 2.0, -1.0]
    solver = Strang(steppers, substeps=substeps)
    errors = [
        np.abs(_last(simkit.simulate(THREE, Y0, TIMES, solver=solver, step=h)) - exact).max()
        for h in (0.1, 0.05, 0.025)
    ]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(orders, 2.0, atol=0.05)  # the next term of the error is of order 4
    assert errors[-1] < 1e-3


def test_the_order_is_two_where_time_and_own_states_enter_the_wires():
    """x' = -x + cos(t) y, y' = -x y + sin t: nothing is linear, and SciPy solves it."""
    import scipy.integrate

    part = lambda: simkit.from_function(lambda t, y, p, u: {"x": u["slope"]}, {}, inputs={"slope": simkit.Input()})
    pair = simkit.Coupled(
        {"a": part(), "b": part()},
        {
            "a.slope": lambda s, t, y, o: -y["a"]["x"] + jnp.cos(t) * y["b"]["x"],
            "b.slope": lambda s, t, y, o: -y["a"]["x"] * y["b"]["x"] + jnp.sin(t),
        },
    )
    field = lambda t, y: [-y[0] + np.cos(t) * y[1], -y[0] * y[1] + np.sin(t)]
    exact = scipy.integrate.solve_ivp(field, (0.0, 2.0), [1.0, 2.0], rtol=1e-12, atol=1e-13).y[:, -1]
    y0, solver = {"a": {"x": 1.0}, "b": {"x": 2.0}}, Strang({"a": RK4(), "b": RK4()})
    errors = []
    for h in (0.1, 0.05, 0.025):
        last = simkit.simulate(pair, y0, [0.0, 2.0], solver=solver, step=h).final()
        errors.append(np.hypot(last["a"]["x"] - exact[0], last["b"]["x"] - exact[1]))
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, atol=0.1)


class Modes(simkit.SplitSystem):
    """Three amplitudes that decay at rates of their own, and are pushed alike."""

    rates: simkit.Vector = simkit.quantity(support=simkit.POSITIVE)

    def reads(self):
        return {"push": simkit.Input("1/s", 0.0)}

    def linear(self) -> Any:
        return {"s": -self.rates}

    def nonlinear(self, t, state, inputs):
        return {"s": inputs["push"] * jnp.ones_like(state["s"])}

    def encode(self, y):
        return {"s": 2.0 * y["s"]}

    def decode(self, state):
        return {"s": 0.5 * state["s"]}

    example = classmethod(lambda cls: None)


RATES = [0.5, 2.0, 1e4]


def _with_modes(rates=RATES):
    """s_i' = -r_i s_i + x / 2 in the decoded state, x' = -x + s_1."""
    slow = simkit.from_function(lambda t, y, p, u: {"x": u["push"] - y["x"]}, {}, inputs={"push": simkit.Input()})
    wires = {"modes.push": "slow.x", "slow.push": lambda s, t, y, o: y["modes"]["s"][0]}
    return simkit.Coupled({"modes": Modes(rates), "slow": slow}, wires)


def test_a_stiff_split_part_keeps_its_exponential_integrator():
    """Steps of 0.05 where its fastest rate is 1e4: each part is as stable as by itself."""
    matrix = np.zeros((4, 4))
    matrix[:3, :3], matrix[:3, 3], matrix[3, 3], matrix[3, 0] = -np.diag(RATES), 0.5, -1.0, 1.0
    exact = scipy.linalg.expm(2.0 * matrix) @ [1.0, 1.0, 0.0, 0.5]
    y0, errors = {"modes": {"s": [1.0, 1.0, 0.0]}, "slow": {"x": 0.5}}, []
    y0["modes"]["s"] = jnp.asarray(y0["modes"]["s"])
    for h in (0.1, 0.05):
        run = simkit.simulate(_with_modes(), y0, [0.0, 2.0], step=h)
        assert run.solver.startswith("Strang (chosen: coupled, and the parts modes")
        found = np.append(run.final()["modes"]["s"], run.final()["slow"]["x"])
        errors.append(np.abs(found - exact)[[0, 1, 3]].max())
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 2.0, atol=0.1)
    assert errors[1] < 3e-4


class Pipe(simkit.TransportSystem):
    """A substance that is carried along a pipe of unit cells, upwind; what leaves it is an output."""

    speed: simkit.Scalar = simkit.quantity(1.0, support=simkit.POSITIVE)

    def reads(self):
        return {"inflow": simkit.Input("1/s", 0.0)}

    def longest_step(self, t, state, inputs):
        return 1.0 / self.speed

    def vector_field(self, t, y, inputs):
        flux = jnp.concatenate([inputs["inflow"][None], self.speed * y])
        return flux[:-1] - flux[1:]

    def outputs(self, t, y, inputs):
        return {"outflow": self.speed * y[-1]}

    example = classmethod(lambda cls: None)


def test_a_reservoir_and_a_pipe_conserve_what_flows():
    """The reservoir empties into the pipe, whose end flows back; monolithic steps conserve the sum to rounding."""
    tank = simkit.from_function(
        lambda t, y, p, u: {"level": u["inflow"] - p["out"] * y["level"]},
        {"out": 0.5},
        outputs=lambda t, y, p: {"outflow": p["out"] * y["level"]},
        inputs={"inflow": simkit.Input("1/s")},
    )
    both = simkit.Coupled(
        {"pipe": Pipe(), "tank": tank}, {"pipe.inflow": "tank.outflow", "tank.inflow": "pipe.outflow"}
    )
    y0 = {"pipe": jnp.zeros(8), "tank": {"level": 1.0}}
    total = lambda y: float(y["pipe"].sum() + y["tank"]["level"])
    whole = simkit.simulate(both, y0, [0.0, 20.0], solver=Tsit5(), step=simkit.Adaptive(1e-9))
    assert abs(total(whole.final()) - 1) < 1e-13
    split = [simkit.simulate(both, y0, [0.0, 20.0], step=h) for h in (0.2, 0.1)]
    assert split[0].solver.startswith("Strang")
    errors = [abs(float(run.final()["tank"]["level"] - whole.final()["tank"]["level"])) for run in split]
    assert errors[1] < 1e-3
    # What one part gives is integrated with another's state than what the other takes: conserved to the order of the step.
    lost = [abs(total(run.final()) - 1) for run in split]
    assert lost[1] < 0.35 * lost[0]


def test_gradients_of_both_modes_are_those_of_differences():
    def last(rate, start):
        setup = Setup(_with_modes(), as_state(_with_modes(), {"modes": {"s": jnp.ones(3)}, "slow": {"x": 0.5}}))
        setup = setup.put({"modes.rates.0": rate, "y0.slow.x": start})
        solver = Strang({"slow": RK4(), "modes": ETDRK4()}, substeps={"slow": 2, "modes": 3})
        run = simkit.simulate(setup.system, setup.y0, [0.0, 0.4, 1.0], solver=solver, step=0.1)
        return run.ys["modes"]["s"][:, 0], run.ys["slow"]["x"]

    check_gradients(last, (0.5, 0.5))


def test_an_ensemble_over_a_part_is_its_members():
    solver = Strang({name: RK4() for name in "abc"})
    over = {"a.rate": [-1.0, -0.5]}
    members = simkit.ensemble(THREE, Y0, TIMES, over=over, solver=solver, step=0.1)
    for i, rate in enumerate(over["a.rate"]):
        system = Setup(THREE).put({"a.rate": rate}).system
        alone = simkit.simulate(system, Y0, TIMES, solver=solver, step=0.1)
        np.testing.assert_allclose(members.ys["c"]["x"][i], alone.ys["c"]["x"], rtol=1e-13)


def test_an_event_ends_a_run_and_float32_stays():
    solver = Strang({name: RK4() for name in "abc"})
    ends = simkit.Event(lambda system, t, y, inputs: y["b"]["x"] - 1.9, ends=True)
    run = simkit.simulate(THREE, Y0, np.linspace(0.0, 2.0, 21), solver=solver, step=0.01, events=ends)
    time = float(run.events.times[0])
    exact = (scipy.linalg.expm(time * MATRIX) @ [1.0, 2.0, -1.0])[1]
    np.testing.assert_allclose(exact, 1.9, atol=1e-4)
    system, y0 = simkit.cast((THREE, as_state(THREE, Y0)), jnp.float32)
    single = simkit.simulate(system, y0, TIMES, solver=solver, step=0.1)
    assert single.ys["a"]["x"].dtype == jnp.float32


def test_what_strang_cannot_do_is_said():
    three = {name: RK4() for name in "abc"}
    modes = {"modes": {"s": jnp.ones(3)}, "slow": {"x": 0.5}}
    pipe = simkit.Coupled({"pipe": Pipe()})
    rows = {
        "a stepper for each part, but `c`": lambda: Strang({"a": RK4(), "b": RK4()}).check_parts(THREE),
        "no part `d`": lambda: Strang({**three, "d": RK4()}).check_parts(THREE),
        "no part with a stepper `d`": lambda: Strang(three, substeps={"d": 2}),
        "whole number of at least 1": lambda: Strang(three, substeps={"a": 0}),
        "single steps of order 2": lambda: Strang({"a": BDF()}),
        "`Euler` does not": lambda: Strang({"a": Euler()}),
        "`VelocityVerlet` does not serve the part `a`.*PlainSystem.*`RK4` fits": lambda: Strang(
            {**three, "a": VelocityVerlet()}
        ).check_parts(THREE),
        "`WRK3` does not serve the part `pipe`.*TransportSystem.*`SSPRK3`": lambda: Strang(
            {"pipe": WRK3()}
        ).check_parts(pipe),
        "forwards only": lambda: simkit.simulate(THREE, Y0, [2.0, 0.0], solver=Strang(three), step=0.1),
        "at most 1, the time in which something crosses a cell": lambda: simkit.simulate(
            pipe, {"pipe": jnp.zeros(8)}, [0.0, 4.0], step=2.0
        ),
        "no error estimate": lambda: simkit.simulate(_with_modes(), modes, TIMES),
        "needs a PlainCoupled": lambda: simkit.simulate(
            *simkit.odes.LotkaVolterra.example()[:3], solver=Strang(three), step=0.1
        ),
    }
    for text, call in rows.items():
        with pytest.raises(simkit.SimkitError, match=text):
            call()
    Strang({"pipe": SSPRK3()}).check_parts(pipe)
