"""Coupled systems as one system: exact solutions, names, inputs, wires, gradients, data, and what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import simkit
from simkit.core import Setup, as_state
from simkit.testing import check_gradients

simkit.enable_x64()

MATRIX = np.array([[-1.0, 0.4], [0.7, -0.3]])
TIMES = np.linspace(0.0, 3.0, 7)
Y0 = {"a": {"x": 1.0}, "b": {"x": 2.0}}
EXACT = np.array([scipy.linalg.expm(MATRIX * t) @ [1.0, 2.0] for t in TIMES])


def _decay(rate, **more):
    field = lambda t, y, p, u: {"x": u["push"] - p["rate"] * y["x"]}
    return simkit.from_function(field, {"rate": rate}, inputs={"push": simkit.Input("1/s", 0.0)}, **more)


class Feed(eqx.Module):
    """A wire with a number of its own."""

    strength: simkit.Scalar = simkit.quantity(unit="1/s", support=simkit.POSITIVE, doc="how much of `b` feeds `a`")

    def __call__(self, system, t, y, outputs):
        return self.strength * y["b"]["x"]


def _pair(wire=None):
    wires = {"a.push": wire or Feed(0.4), "b.push": lambda system, t, y, outputs: 0.7 * y["a"]["x"]}
    return simkit.Coupled({"a": _decay(1.0), "b": _decay(0.3)}, wires)


def _rows(trajectory):
    return np.stack([trajectory.ys["a"]["x"], trajectory.ys["b"]["x"]], axis=1)


@pytest.mark.parametrize("solver", [simkit.solvers.Tsit5(), simkit.solvers.Rodas5P()])
def test_two_linear_systems_are_a_matrix_exponential(solver):
    run = simkit.simulate(_pair(), Y0, TIMES, solver=solver, step=simkit.Adaptive(1e-9))
    np.testing.assert_allclose(_rows(run), EXACT, rtol=1e-7)


def test_float32_stays_float32():
    pair = simkit.cast(_pair(), jnp.float32)
    run = simkit.simulate(pair, simkit.cast(as_state(pair, Y0), jnp.float32), TIMES)
    assert run.ys["a"]["x"].dtype == jnp.float32
    np.testing.assert_allclose(_rows(run), EXACT, rtol=2e-3)


def test_names_units_and_supports():
    setup = Setup(_pair(), as_state(_pair(), Y0))
    assert setup.names() == ("a.rate", "b.rate", "wires.a.push.strength", "y0.a.x", "y0.b.x")
    assert setup.put({"b.rate": 5.0}).system["b"].parameters["rate"] == 5.0
    assert setup.metadata("wires.a.push.strength").unit == "1/s"
    prey = simkit.Coupled({"prey": simkit.odes.LotkaVolterra()})
    assert Setup(prey).metadata("prey.growth") == Setup(simkit.odes.LotkaVolterra()).metadata("growth")
    nested = Setup(simkit.Coupled({"inner": _pair()}))
    assert nested.names() == ("inner.a.rate", "inner.b.rate", "inner.wires.a.push.strength")


def test_a_coupled_part_of_a_coupled_system():
    inner = simkit.Coupled({"b": _decay(0.3)})
    outer = simkit.Coupled(
        {"a": _decay(1.0), "inner": inner},
        {
            "a.push": lambda system, t, y, outputs: 0.4 * y["inner"]["b"]["x"],
            "inner.b.push": lambda system, t, y, outputs: 0.7 * y["a"]["x"],
        },
    )
    y0 = {"a": {"x": 1.0}, "inner": {"b": {"x": 2.0}}}
    run = simkit.simulate(outer, y0, TIMES, step=simkit.Adaptive(1e-9))
    np.testing.assert_allclose(run.ys["inner"]["b"]["x"], EXACT[:, 1], rtol=1e-7)


def test_inputs_that_no_wire_feeds_are_given_by_name():
    chain = simkit.Coupled(
        {"a": _decay(0.5), "b": _decay(0.5)}, {"b.push": lambda system, t, y, outputs: 0.5 * y["a"]["x"]}
    )
    y0, push = {"a": {"x": 0.0}, "b": {"x": 0.0}}, 2.0
    a = push / 0.5 * (1 - np.exp(-0.5 * TIMES))
    b = push / 0.5 * (1 - (1 + 0.5 * TIMES) * np.exp(-0.5 * TIMES))
    for inputs in ({"a": {"push": push}}, {"a.push": push}):
        run = simkit.simulate(chain, y0, TIMES, step=simkit.Adaptive(1e-10), inputs=inputs)
        np.testing.assert_allclose(_rows(run), np.stack([a, b], axis=1), rtol=1e-7, atol=1e-9)
    free = simkit.simulate(chain, y0, TIMES)  # the default of `push` is 0
    assert not np.any(_rows(free))


def test_a_controller_holds_a_plant_as_its_closed_loop_does():
    """Integral control of a first-order plant: x' = -k x + u, u = gain e, e' = r - x, a damped oscillator."""
    k, gain, goal = 0.6, 2.0, 1.5
    plant = _decay(k)
    control = simkit.from_function(
        lambda t, y, p, u: {"sum": p["goal"] - u["seen"]},
        {"goal": goal},
        outputs=lambda t, y, p: {"action": gain * y["sum"]},
        inputs={"seen": simkit.Input()},
    )
    loop = simkit.Coupled(
        {"plant": plant, "control": control}, {"plant.push": "control.action", "control.seen": "plant.x"}
    )
    run = simkit.simulate(loop, {"plant": {"x": 0.0}, "control": {"sum": 0.0}}, TIMES, step=simkit.Adaptive(1e-10))
    w = np.sqrt(gain - k**2 / 4)
    expected = goal - goal * np.exp(-k / 2 * TIMES) * (np.cos(w * TIMES) + k / (2 * w) * np.sin(w * TIMES))
    np.testing.assert_allclose(run.ys["plant"]["x"], expected, rtol=1e-7, atol=1e-8)
    assert loop.outputs(0.0, run.final(), None)["control"]["action"] == gain * run.final()["control"]["sum"]


def test_exchanged_mass_is_conserved():
    flux = lambda system, y: 0.8 * (y["a"]["x"] - y["b"]["x"])
    box = lambda: simkit.from_function(lambda t, y, p, u: {"x": u["gain"]}, {})
    boxes = simkit.Coupled(
        {"a": box(), "b": box()},
        {"a.gain": lambda system, t, y, o: -flux(system, y), "b.gain": lambda system, t, y, o: flux(system, y)},
        invariants=lambda system, t, y: {"mass": y["a"]["x"] + y["b"]["x"]},
    )
    run = simkit.simulate(boxes, Y0, TIMES, step=simkit.Adaptive(1e-9))
    total = [float(boxes.invariants(t, jax.tree.map(lambda x, i=i: x[i], run.ys))["mass"]) for i, t in enumerate(TIMES)]
    np.testing.assert_allclose(total, 3.0, rtol=1e-14)
    np.testing.assert_allclose(run.ys["b"]["x"] - run.ys["a"]["x"], np.exp(-1.6 * TIMES), rtol=1e-5)


def test_gradients_of_both_modes_are_those_of_differences():
    def last(rate, strength, start):
        values = {"a.rate": rate, "wires.a.push.strength": strength, "y0.b.x": start}
        setup = Setup(_pair(), as_state(_pair(), Y0)).put(values)
        run = simkit.simulate(setup.system, setup.y0, TIMES, step=0.05, solver=simkit.solvers.RK4())
        return run.final()["a"]["x"] * run.final()["b"]["x"]

    check_gradients(last, (0.7, 0.4, 2.0))


def test_an_ensemble_over_numbers_of_parts_and_wires():
    rates = np.array([0.5, 1.0, 2.0])
    members = simkit.ensemble(_pair(), Y0, TIMES, over={"a.rate": rates, "wires.a.push.strength": [0.1, 0.4, 0.2]})
    np.testing.assert_allclose(members.ys["a"]["x"][1], EXACT[:, 0], rtol=1e-4)
    for rate, strength, last in zip(rates, [0.1, 0.4, 0.2], members.ys["b"]["x"][:, -1], strict=True):
        exact = scipy.linalg.expm(3.0 * np.array([[-rate, strength], [0.7, -0.3]])) @ [1.0, 2.0]
        np.testing.assert_allclose(last, exact[1], rtol=1e-4)


def test_an_event_of_one_part_changes_another():
    jump = simkit.Event(
        lambda system, t, y, inputs: y["a"]["x"] - 0.9,
        change=lambda system, t, y, inputs: {**y, "b": {"x": y["b"]["x"] * 0 + 5.0}},
        direction="down",
    )
    run = simkit.simulate(_pair(Feed(1e-3)), Y0, TIMES, events=jump)
    assert run.events.happened.sum() >= 1
    np.testing.assert_allclose(run.events.after["b"]["x"][0], 5.0)


def test_a_problem_fits_a_part_and_a_wire(tmp_path):
    data = {"a.x": EXACT[1:, 0], "b.x": EXACT[1:, 1]}
    experiment = simkit.Experiment("pair", TIMES[1:], data, y0=Y0, start=0.0)
    free = {
        "a.rate": simkit.Free(bounds=(0.1, 5.0)),
        "wires.a.push.strength": simkit.Free(bounds=(0.05, 5.0)),
    }
    noise = {"a.x": simkit.noise.Normal(0.01), "b.x": simkit.noise.Normal(0.01)}
    problem = simkit.Problem(_pair(), experiment, free=free, noise=noise)
    fit = simkit.fit(problem, starts=4, key=jax.random.key(0))
    np.testing.assert_allclose(fit.estimate, [1.0, 0.4], rtol=1e-3)
    simkit.save(tmp_path / "fit.h5", problem=problem, fit=fit, trajectory=simkit.simulate(_pair(), Y0, TIMES))
    found = simkit.load(tmp_path / "fit.h5")
    assert tuple(found.fit.names) == problem.names
    np.testing.assert_allclose(found.trajectory.ys["b.x"], EXACT[:, 1], rtol=1e-4)


def test_a_stiff_pair_takes_a_stiff_solver():
    fast = simkit.Coupled(
        {"a": _decay(1e5), "b": _decay(0.3)},
        {
            "a.push": lambda system, t, y, outputs: 1e5 * y["b"]["x"],
            "b.push": lambda system, t, y, outputs: 0.1 * y["a"]["x"],
        },
    )
    run = simkit.simulate(fast, {"a": {"x": 0.0}, "b": {"x": 2.0}}, TIMES)
    assert run.solver.startswith("Rodas5P")
    exact = scipy.linalg.expm(3.0 * np.array([[-1e5, 1e5], [0.1, -0.3]])) @ [0.0, 2.0]
    np.testing.assert_allclose(_rows(run)[-1], exact, rtol=1e-4)


def test_a_part_with_algebraic_equations():
    """A node whose potential is fixed at once by what the capacitor beside it holds."""

    class Node(simkit.ConstrainedSystem):
        """0 = source - v - load: a resistance of one between a source and a load."""

        source: simkit.Scalar = simkit.quantity(3.0)

        def mass(self, t):
            return {"v": 0.0}

        def vector_field(self, t, y, inputs):
            return {"v": self.source - y["v"] - inputs["load"]}

        example = classmethod(lambda cls: None)

    circuit = simkit.Coupled(
        {"node": Node(), "cap": _decay(0.0)},
        {"node.load": lambda s, t, y, o: y["cap"]["x"], "cap.push": lambda s, t, y, o: y["node"]["v"]},
    )
    assert isinstance(circuit, simkit.ConstrainedSystem)
    run = simkit.simulate(circuit, {"node": {"v": 0.0}, "cap": {"x": 0.0}}, TIMES, step=simkit.Adaptive(1e-8))
    np.testing.assert_allclose(run.ys["cap"]["x"], 3.0 * (1 - np.exp(-TIMES)), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(run.ys["node"]["v"], 3.0 * np.exp(-TIMES), rtol=1e-6)


def test_an_algebraic_loop_is_named():
    through = simkit.from_function(lambda t, y, p, u: {"x": u["in"]}, {}, inputs={"in": simkit.Input()})

    class Direct(simkit.PlainSystem):
        """An output that is its input."""

        def reads(self):
            return {"in": simkit.Input()}

        def vector_field(self, t, y, inputs):
            return {"x": -y["x"] + inputs["in"]}

        def outputs(self, t, y, inputs):
            return {"sum": y["x"] + inputs["in"]}

        example = classmethod(lambda cls: None)

    y0 = {"a": {"x": 1.0}, "b": {"x": 1.0}}
    loop = simkit.Coupled({"a": Direct(), "b": Direct()}, {"a.in": "b.sum", "b.in": "a.sum"})
    with pytest.raises(simkit.ArgumentError, match=r"algebraic loop: `a.in`.*`b.in`.*`a.in`"):
        simkit.simulate(loop, y0, TIMES)
    ring = simkit.Coupled({"a": Direct(), "b": through}, {"a.in": "b.x", "b.in": "a.sum"})
    assert simkit.simulate(ring, y0, [0.0, 0.1]).status == 0  # the output of `b` is its state: no loop


class Odd(simkit.System):
    """A system of a family of its own."""

    def vector_field(self, t, y, inputs):
        return y

    example = classmethod(lambda cls: None)


WRONG = {
    "no part of that name": (lambda: simkit.Coupled({"a": _decay(1.0)}, {"c.push": "a.x"}), "no part `c`"),
    "no input of that name": (lambda: simkit.Coupled({"a": _decay(1.0)}, {"a.psh": "a.x"}), "`a`.*`psh`.*`push`"),
    "no inputs at all": (
        lambda: simkit.Coupled({"a": simkit.from_function(lambda t, y, p: y, {})}, {"a.push": "a.x"}),
        "There are none",
    ),
    "no input behind the part": (lambda: simkit.Coupled({"a": _decay(1.0)}, {"a": "a.x"}), "input of a part"),
    "a number for a wire": (lambda: simkit.Coupled({"a": _decay(1.0)}, {"a.push": 3.0}), "given by `inputs=`"),
    "a wire of three arguments": (
        lambda: simkit.Coupled({"a": _decay(1.0)}, {"a.push": lambda t, y, o: 1.0}),
        "outputs",
    ),
    "a name that paths need": (lambda: simkit.Coupled({"y0": _decay(1.0)}), "other than y0"),
    "delays": (lambda: simkit.Coupled({"a": simkit.odes.MackeyGlass()}), "`a`.*`MackeyGlass` sees its past"),
    "a family that nobody knows": (lambda: simkit.Coupled({"a": Odd()}), "`Odd` is of none of the families"),
    "a part without a state": (lambda: simkit.simulate(_pair(), {"a": {"x": 1.0}}, TIMES), "`b` is missing"),
    "a state that is no dictionary": (lambda: simkit.simulate(_pair(), 1.0, TIMES), "states of the parts"),
    "a wired input that is given": (
        lambda: simkit.simulate(_pair(), Y0, TIMES, inputs={"a": {"push": 1.0}}),
        "fed by a wire",
    ),
    "an input of no part": (lambda: simkit.simulate(_pair(), Y0, TIMES, inputs={"c": {"push": 1.0}}), "no part .* `c`"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name):
    call, text = WRONG[name]
    with pytest.raises(simkit.SimkitError, match=text):
        call()


def test_a_wire_that_nothing_reads_is_refused():
    open_ended = simkit.from_function(lambda t, y, p, u: {"x": u["push"] + u.get("more", 0.0) - y["x"]}, {})
    other = simkit.from_function(lambda t, y, p: {"x": -y["x"]}, {})
    wires = {"a.push": "b.x", "a.mroe": "b.x"}
    with pytest.raises(simkit.ArgumentError, match=r"feeds `a.mroe`.*no slope"):
        simkit.simulate(simkit.Coupled({"a": open_ended, "b": other}, wires), Y0, TIMES)


@pytest.mark.parametrize("path", ["b.w", "b.x.q"])
def test_a_wire_to_an_output_that_does_not_exist_is_named(path):
    pair = _pair(path)
    with pytest.raises(simkit.ArgumentError, match=rf"wire to `a.push` names the output `{path}`.*`b.x`"):
        simkit.simulate(pair, Y0, TIMES)


def test_declared_inputs_of_a_model_are_checked_at_the_door():
    system, y0, times, _ = simkit.odes.OneCompartment.example()
    with pytest.raises(simkit.UnknownNameError, match=r"`dosis`.*`dose`"):
        simkit.simulate(system, y0, times, inputs={"dosis": 1.0})
    needed = simkit.from_function(lambda t, y, p, u: {"x": u["in"]}, {}, inputs={"in": simkit.Input("mg")})
    with pytest.raises(simkit.ArgumentError, match=r"`in` \(mg\), which .* no default"):
        simkit.simulate(needed, {"x": 1.0}, times)
