"""Calls with arguments of the wrong kind, as a newcomer makes them, and what each must be told; run by test_doors.py in a process
without the checks of types that all other tests run under."""

import json
import sys

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import fluids, md
from simkit.odes import LotkaVolterra

simkit.enable_x64()
S, Y0, T, _ = LotkaVolterra.example()
T = np.linspace(0.0, 2.0, 5)
DATA = {"hare": [30.0, 31.0, 32.0, 33.0, 34.0]}
E = simkit.Experiment("e", T, DATA, y0=Y0)
FREE = {"growth": simkit.Free(bounds=(0.1, 2.0))}
NOISE = {"hare": simkit.noise.Normal(1.0)}
LINE = simkit.odes.from_response(lambda x, p: p["a"] * x, {"a": 2.0})
P = simkit.Problem(
    LINE,
    simkit.Experiment("l", [1.0, 2.0, 3.0], {"y": [2.0, 4.1, 5.9]}),
    free={"a": simkit.Free(bounds=(0.0, 9.0))},
    noise={"y": simkit.noise.Normal(0.1)},
)
KEY = jax.random.key(0)
CART = simkit.odes.CartPole()
TANK = fluids.LatticeBoltzmann(fluids.Grid((16, 16), (16.0, 16.0)), step=1.0, viscosity=0.1)
UP, PUSH = CART.State(0.0, 0.0, 0.0, 0.0), {"force": (-1.0, 1.0)}
FRAME = md.Frame(md.OpenSpace(), np.zeros((2, 3)), units=md.REDUCED)
FILTERED = simkit.Problem(
    simkit.odes.OrnsteinUhlenbeck(1.0, 0.0, 1.0),
    simkit.Experiment("f", [1.0, 2.0], {"x": [0.1, 0.2]}, start=0.0, y0={"x": 0.0}),
    free={"reversion": simkit.Free(bounds=(0.1, 9.0))},
    noise={"x": simkit.noise.Normal(0.1)},
    likelihood=simkit.filters.KalmanFilter(),
)
FIT = simkit.fit(P, starts=1, key=KEY)
ZEROS = jnp.zeros(2, int)
RUNS = simkit.Trajectory(jnp.arange(3.0), {"y": jnp.zeros((2, 3))}, ZEROS, ZEROS, ZEROS, ZEROS)
DRAWS = simkit.Posterior(
    draws=jnp.ones((2, 4, 1)),
    log_density=jnp.zeros((2, 4)),
    diverging=jnp.zeros((2, 4), bool),
    steps=jnp.ones((2, 4), int),
    accept=jnp.ones((2, 4)),
    names=("a",),
    units=("1",),
    method="made by hand",
)
OWN = simkit.from_function(lambda t, y, p, u: {"x": u["heat"] - y["x"]}, {"k": 1.0})
PLAIN = simkit.from_function(lambda t, y, p: {"x": -p["k"] * y["x"]}, {"k": 1.0})
EQUATIONS = simkit.from_equations({"d x": "-k*x"}, parameters={"k": 1.0})
BROKEN = simkit.from_function(lambda t, y, p: 1 / 0, {"k": 1.0})
PAIR = md.Atoms(jnp.array([[0.0, 0, 0], [1.1, 0, 0]]), jnp.zeros((2, 3)))
COLD = md.Particles(md.LennardJones(), md.OpenSpace(), dynamics=md.Langevin(1.0, 1.0))


class Spring(simkit.PlainSystem):
    """A system of a user, whose state is not annotated."""

    k: simkit.Scalar = simkit.quantity(1.0)

    def vector_field(self, t, y, inputs):
        return {"x": y["v"], "v": inputs["push"] - self.k * y["x"]}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"x": 1.0, "v": 0.0}, np.linspace(0.0, 1.0, 3), {"push": 0.0})


def problem(system=S, experiments=E, free=FREE, noise=NOISE, **more):
    return simkit.Problem(system, experiments, free=free, noise=noise, **more)


def simulate(*arguments, **named):
    return simkit.simulate(*arguments, **named)


ROWS = {
    # simulate
    "solver, a class": (
        lambda: simulate(S, Y0, T, solver=simkit.solvers.Tsit5),
        "`solver` must be a solver, but it is the class `Tsit5`. Make one",
    ),
    "solver, of Diffrax, implicit": (
        lambda: simulate(S, Y0, T, solver=diffrax.Kvaerno5()),
        "must be explicit, but `Kvaerno5` is implicit. Take `simkit.solvers.Rodas5P()`",
    ),
    "solver, of Diffrax, for noise": (
        lambda: simulate(S, Y0, T, solver=diffrax.EulerHeun()),
        "must step one term, but `EulerHeun` of Diffrax needs several",
    ),
    "solver, a wrong name": (lambda: simulate(S, Y0, T, solver="tsit6"), "no solver `tsit6`. Close matches: `tsit5`"),
    "solver, a number": (lambda: simulate(S, Y0, T, solver=5), "`solver` must be a solver, but it is 5"),
    "system, a class": (lambda: simulate(LotkaVolterra, Y0, T), "but it is the class `LotkaVolterra`. Make one"),
    "system and state swapped": (lambda: simulate(Y0, S, T), "The order is system, state, times"),
    "system, a function": (lambda: simulate(lambda t, y, p: -y, 1.0, T), "`simkit.from_function"),
    "system, None": (lambda: simulate(None, Y0, T), "`system` must be a system, but it is None"),
    "state, a dictionary with a wrong key": (
        lambda: simulate(S, {"hare": 30.0, "links": 4.0}, T),
        "component of `LotkaVolterra.State`.* `links`. There are: `hare`, `lynx`",
    ),
    "state, a dictionary that lacks one": (lambda: simulate(S, {"hare": 30.0}, T), "`lynx` is missing"),
    "state, a list": (
        lambda: simulate(S, [30.0, 4.0], T),
        "but it is the list [30.0, 4.0]. Write `LotkaVolterra.State(hare=..., lynx=...)`",
    ),
    "state, None": (
        lambda: simulate(S, None, T),
        "the state of LotkaVolterra, a `LotkaVolterra.State`, but it is None",
    ),
    "state, a number": (lambda: simulate(S, 30.0, T), "but it is 30.0. Write `LotkaVolterra.State"),
    "state, an array": (lambda: simulate(S, jnp.ones(2), T), "Write `LotkaVolterra.State"),
    "state, a class": (lambda: simulate(S, type(Y0), T), "it is the class `LotkaVolterra.State`. Make one"),
    "state, a text": (lambda: simulate(PLAIN, {"x": "one"}, T), "must hold numbers, but at `['x']` it is 'one'"),
    "state, None in a dictionary": (lambda: simulate(PLAIN, {"x": None}, T), "`y0`"),
    "state, a trajectory": (lambda: simulate(S, simulate(S, Y0, T), T), "`trajectory.final()`"),
    "state of an own function, wrong key": (
        lambda: simulate(PLAIN, {"z": 1.0}, T),
        "asks for `x`, which nothing that it is given has. The state is dict with `z`",
    ),
    "state of an own function, None": (
        lambda: simulate(PLAIN, None, T),
        "must be the state at the first time, but it is None",
    ),
    "state of an own function, a list": (lambda: simulate(PLAIN, [1.0], T), "cannot work with the form of its state"),
    "state of an own system, wrong key": (
        lambda: simulate(Spring(), {"x": 1.0, "w": 0.0}, T, inputs={"push": 0.0}),
        "asks for `v`",
    ),
    "state of an own system, empty": (lambda: simulate(PLAIN, {}, T), "`y0`"),
    "inputs missing": (lambda: simulate(OWN, {"x": 1.0}, T), "argument `inputs` must give them, but it is None"),
    "inputs, wrong name": (lambda: simulate(OWN, {"x": 1.0}, T, inputs={"heta": 1.0}), "asks for `heat`"),
    "inputs of an own system missing": (lambda: simulate(Spring(), {"x": 1.0, "v": 0.0}, T), "`inputs` must give them"),
    "path of a PEtab problem, None": (
        lambda: simkit.petab.load(None),
        "`path` must be the path of a YAML file, but it is None",
    ),
    "model selection, no path": (
        lambda: simkit.petab.select(3, lambda problem: problem),
        "`path` must be the path of a YAML file, but it is 3",
    ),
    "model selection, a fit in place of a function": (
        lambda: simkit.petab.select("problem.yaml", 3),
        "`fit` must be a function of (problem)",
    ),
    "groups in place of a mapping": (
        lambda: simkit.Experiment("e", T, DATA, groups="north"),
        "`groups` must",
    ),
    "method of points": (
        lambda: simkit.sweeps.points({"a": (0.0, 1.0)}, 4, key=jax.random.key(0), method="halton"),
        "There is no `method` of points `halton`",
    ),
    "points by rule, a number for a path": (
        lambda: simkit.sweeps.PointsRule({3: (0.0, 1.0)}, 4, key=jax.random.key(0)),
        "The paths in `ranges` must be texts",
    ),
    "a design by rule, longer than its sequence": (
        lambda: simkit.sweeps.SobolDesignRule({"a": (0.0, 1.0)}, 2**40, key=jax.random.key(0)),
        "Argument `points` must be at most 2",
    ),
    "method of a rule": (
        lambda: simkit.sweeps.PointsRule({"a": (0.0, 1.0)}, 4, key=jax.random.key(0), method="random"),
        "There is no `method` of PointsRule `random`",
    ),
    "axes of a rule, numbers": (
        lambda: simkit.sweeps.GridRule({"a": 1.0}),
        "The values of `a` must be a list of numbers",
    ),
    "function of a rule, an array": (
        lambda: simkit.sweeps.FunctionRule(np.zeros(3), 3),
        "`function` must be a function of numbers of members",
    ),
    "inputs, a text": (
        lambda: simulate(OWN, {"x": 1.0}, T, inputs={"heat": "on"}),
        "`inputs` must hold signals or numbers",
    ),
    "inputs of a model, wrong name": (
        lambda: simulate(simkit.odes.OneCompartment(), {"depot": 1.0, "central": 0.0}, T, inputs={"dosis": 1.0}),
        "input of this system `dosis`",
    ),
    "times twice the same": (
        lambda: simulate(S, Y0, [0.0, 1.0, 1.0]),
        "`times` must increase, or all decrease, but entry 1 is 1 and entry 2 is 1",
    ),
    "times, a number": (lambda: simulate(S, Y0, 3.0), "`times` must hold at least two times"),
    "times, None": (lambda: simulate(S, Y0, None), "`times`"),
    "times, texts": (lambda: simulate(S, Y0, ["a", "b"]), "`times` must be numbers"),
    "step, a name": (lambda: simulate(S, Y0, T, step="adaptive"), "`step` must be a number"),
    "step, a class": (lambda: simulate(S, Y0, T, step=simkit.Adaptive), "`step`"),
    "key, a number": (lambda: simulate(S, Y0, T, key=3), "Write `jax.random.key(3)`"),
    "events, a function": (lambda: simulate(S, Y0, T, events=lambda t, y: y), "`events` must be an event"),
    "reduce, a list": (lambda: simulate(S, Y0, T, reduce=[simkit.reducers.Mean()]), "`reduce` must name reducers"),
    "gradient, a name": (lambda: simulate(S, Y0, T, gradient="adjoint"), "`gradient` must be a memory bound"),
    "a record's folder, a number": (lambda: simkit.OnDisk(3), "`folder` must be a path"),
    "a record that is kept, a text": (lambda: simkit.OnDisk("scratch", keep="yes"), "`keep` must be True or False"),
    "reversible, a name": (lambda: simkit.solvers.Reversible("tsit5"), "`inner` must be an explicit"),
    "reversible, a coupling as text": (
        lambda: simkit.solvers.Reversible(coupling="0.9"),
        "`coupling` must be a number",
    ),
    "shadow, one path": (lambda: simkit.shadow(S, Y0, T, lambda s, y: y.hare, by="growth"), "`by` must list paths"),
    "shadow, a number for a system": (lambda: simkit.shadow(3.0, Y0, T, lambda s, y: 0.0, by=["a"]), "`system`"),
    "shadow, a number for a quantity": (lambda: simkit.shadow(S, Y0, T, 3.0, by=["growth"]), "`quantity` must be"),
    "shadow, a float for modes": (
        lambda: simkit.shadow(S, Y0, T, lambda s, y: y.hare, by=["growth"], modes=2.0, segments=1, step=0.1),
        "`modes` must be a whole number",
    ),
    "shadow, a text for settle": (
        lambda: simkit.shadow(S, Y0, T, lambda s, y: y.hare, by=["growth"], settle="a", segments=1, step=0.1),
        "`settle` must be a positive time",
    ),
    "trust_line, a float for directions": (
        lambda: simkit.testing.trust_line(lambda y: y.hare, Y0, directions=1.5),
        "`directions` must be a whole number",
    ),
    "trust_line, a number": (lambda: simkit.testing.trust_line(3.0, Y0), "`loss` must be a function"),
    "obstacle, its motion a place": (
        lambda: fluids.IncompressibleFlow(
            fluids.Grid((8, 8)), obstacle=fluids.Obstacle(fluids.Disk(np.zeros(2), 1.0), motion=[1.0, 1.0])
        ),
        "`motion` of an Obstacle must be a function of time",
    ),
    "wall model, a float for its cell": (lambda: fluids.WallModel(cell=1.5), "`cell` must be a whole number"),
    "wall model, a text for its roughness": (
        lambda: fluids.WallModel(roughness="rough"),
        "must be a real number or an array of real numbers, but one is given 'rough'",
    ),
    "free body, a text for its density": (lambda: fluids.FreeMotion("heavy"), "`density` must be a number"),
    "free body, a number for its axes": (lambda: fluids.FreeMotion(axes=1), "`axes` of FreeMotion must hold axes"),
    "free body, a text for turns": (
        lambda: fluids.FreeMotion(turns="yes"),
        "`turns` of FreeMotion must be True or False",
    ),
    "free body, a text for its axes": (lambda: fluids.FreeMotion(axes="x"), "`axes` of FreeMotion must hold axes"),
    "contact, a text for its strength": (lambda: fluids.Contact("hard", 0.1), "`strength` must be a number"),
    "bodies of a flow, a list": (
        lambda: fluids.IncompressibleFlow(fluids.Grid((8, 8)), obstacles=[fluids.Obstacle(lambda x: x[0])]),
        "`obstacles` must be a dictionary of bodies",
    ),
    "bodies of a flow, a shape": (
        lambda: fluids.IncompressibleFlow(fluids.Grid((8, 8)), obstacles={"a": fluids.Disk(np.zeros(2), 1.0)}),
        "Entry `a` of argument `obstacles` must be an Obstacle",
    ),
    "contact of a flow, a number": (
        lambda: fluids.IncompressibleFlow(fluids.Grid((8, 8)), contact=1.0),
        "`contact` must be a Contact",
    ),
    "wall model, a text for kappa": (
        lambda: fluids.WallModel(kappa="k"),
        "must be a real number or an array of real numbers, but one is given 'k'",
    ),
    "state of a body, a text": (lambda: fluids.BodyState("here", [0.0, 0.0]), "must be a real number or an array"),
    "closure, an axis that is none": (lambda: fluids.DynamicSmagorinsky(average=(7,)), "`average` must hold axes"),
    "scalars of a flow, a list": (
        lambda: fluids.IncompressibleFlow(fluids.Grid((8, 8)), scalars=[fluids.FlowScalar(0.1)]),
        "must hold a `FlowScalar` for each name",
    ),
    "scalar of a flow, a text": (lambda: fluids.FlowScalar("thin"), "`diffusivity` must be a number"),
    "layers of water, one density": (
        lambda: fluids.MultilayerShallowWater(fluids.Grid(8), 1.0),
        "a density for each layer from the surface down",
    ),
    "layers of water, upside down": (
        lambda: fluids.MultilayerShallowWater(fluids.Grid(8), [2.0, 1.0]),
        "grow from each layer to the one below it",
    ),
    "layers of water, a text": (lambda: fluids.MultilayerShallowWater(fluids.Grid(8), "heavy"), "`density`"),
    "moving body, no fluid": (lambda: fluids.MovingBody(3.0, radius=1.0), "`fluid` must be a `LatticeBoltzmann`"),
    "moving body, its radius a text": (lambda: fluids.MovingBody(TANK, radius="a"), "`radius` must be a number"),
    "moving body, no radius": (lambda: fluids.MovingBody(TANK, radius=None), "`radius` must be a number"),
    "moving body, two radii": (lambda: fluids.MovingBody(TANK, radius=[3.0, 3.0]), "`radius` must be a number"),
    "moving body, no density": (
        lambda: fluids.MovingBody(TANK, radius=3.0, density=None),
        "`density` must be a number",
    ),
    "moving body, gravity of texts": (
        lambda: fluids.MovingBody(TANK, radius=3.0, gravity=["a", "b"]),
        "`gravity` must hold numbers",
    ),
    "moving body, a flow that is none": (
        lambda: fluids.MovingBody(TANK, radius=3.0).start([8.0, 8.0], flow=3),
        "`flow` must be a state of the fluid",
    ),
    "moving body, a place of texts": (
        lambda: fluids.MovingBody(TANK, radius=3.0).start(["a", "b"]),
        "`centre` must hold numbers",
    ),
    "on_failure, a truth value": (lambda: simulate(S, Y0, T, on_failure=True), "`on_failure`"),
    "parameter outside its support": (
        lambda: simulate(simkit.odes.OneCompartment(clearance=-1.0), {"depot": 1.0, "central": 0.0}, T),
        "`clearance` of OneCompartment must not be negative, but it is -1",
    ),
    "pulses of a negative duration": (
        lambda: simkit.Pulses([0.0], [1.0], -1.0),
        "`duration` of `Pulses` must be positive",
    ),
    "interpolation of an unknown kind": (
        lambda: simkit.Interpolated([0.0, 1.0], [0.0, 1.0], kind="quadratic"),
        "`kind`",
    ),
    # ensemble, sweep
    "over, a list": (
        lambda: simkit.ensemble(S, Y0, T, over=[1, 2]),
        "`over` must be a dictionary of values by path, but it is the list [1, 2]",
    ),
    "over, a number for a path": (lambda: simkit.ensemble(S, Y0, T, over={"growth": 0.4}), "`over` must give `growth`"),
    "over, a wrong path": (lambda: simkit.ensemble(S, Y0, T, over={"grwth": [0.4]}), "Close matches: `growth`"),
    "ensemble of a class": (
        lambda: simkit.ensemble(LotkaVolterra, Y0, T, over={"growth": [0.4]}),
        "the class `LotkaVolterra`",
    ),
    "lanes, a text": (
        lambda: simkit.ensemble(S, Y0, T, over={"growth": [0.4]}, lanes="many"),
        "`lanes` must be an integer",
    ),
    "devices, a name": (
        lambda: simkit.ensemble(S, Y0, T, over={"growth": [0.4]}, devices="cpu"),
        "`devices` must be a list",
    ),
    "sweep over a list": (lambda: simkit.sweep(S, Y0, T, over=[1], store="nowhere"), "`over` must be a dictionary"),
    "sweep of a class": (
        lambda: simkit.sweep(LotkaVolterra, Y0, T, over={"growth": [0.4]}, store="nowhere"),
        "the class `LotkaVolterra`",
    ),
    "sweep into nothing": (lambda: simkit.sweep(S, Y0, T, over={"growth": [0.4]}, store=None), "`store`"),
    "an environment without bounds": (
        lambda: simkit.control.Environment(CART, {"force": 3.0}, start=UP, reward=lambda y, a, z: 0.0, interval=0.1),
        "a pair of bounds",
    ),
    "an environment by another input": (
        lambda: simkit.control.Environment(CART, {"push": (-1.0, 1.0)}, start=UP, reward=max, interval=0.1),
        "push",
    ),
    "an environment in no time": (
        lambda: simkit.control.Environment(CART, PUSH, start=UP, reward=lambda y, a, z: 0.0, interval=0),
        "`interval` must be positive",
    ),
    "an environment with a reward of one": (
        lambda: simkit.control.Environment(CART, PUSH, start=UP, reward=lambda y: 0.0, interval=0.1),
        "a function of (state, action, after)",
    ),
    "a plan by a stiff solver": (
        lambda: simkit.control.ILQR(CART, PUSH, lambda y, u: u, interval=0.1, horizon=3, solver="rodas5p"),
        "an explicit method of one step",
    ),
    "a plan without an end": (
        lambda: simkit.control.ILQR(CART, PUSH, lambda y, u: u, interval=0.1, horizon=2.5),
        "`horizon` must be a whole number",
    ),
    "a plan of a dictionary": (
        lambda: simkit.control.ILQR({}, PUSH, lambda y, u: u, interval=0.1, horizon=3),
        "`system` must be a system",
    ),
    "a regulator of a row": (
        lambda: simkit.control.lqr(jnp.eye(2), jnp.ones(2), jnp.eye(2), jnp.eye(1)),
        "matrix of shape",
    ),
    "a line through a class": (
        lambda: simkit.control.linearise(type(CART), UP, {"force": 0.0}),
        "the class `CartPole`",
    ),
    "gymnasium of a system": (lambda: simkit.control.to_gymnasium(CART), "`environment` must be an environment"),
    "train a problem": (lambda: simkit.train(P, lambda m: 0.0), "A Problem is fitted"),
    "train without a loss": (lambda: simkit.train({"a": jnp.ones(2)}, 3), "`loss` must be a function"),
    "train by a name": (lambda: simkit.train({"a": jnp.ones(2)}, lambda m: m["a"][0], optimiser="adam"), "optax.adam"),
    "train half a step": (lambda: simkit.train({"a": jnp.ones(2)}, lambda m: m["a"][0], steps=0.5), "whole number"),
    "record with a number to call": (
        lambda: simkit.record(S, Y0, T, store="nowhere", callback=3),
        "`callback` must be a function",
    ),
    "train with a number for progress": (
        lambda: simkit.train({"a": jnp.ones(2)}, lambda m: m["a"][0], progress=3),
        "`progress` must be True",
    ),
    "train parts that are not there": (
        lambda: simkit.train(S, lambda m: m.growth, parts=lambda s: s.zz),
        "raises AttributeError. The model has `growth`",
    ),
    "fit with a number for progress": (lambda: simkit.fit(P, progress=3), "`progress` must be True"),
    "sample with a number for progress": (lambda: simkit.sample(P, key=KEY, progress=3), "`progress` must be True"),
    "predict with a number for progress": (
        lambda: simkit.predict(P, np.ones((1, 1)), progress=3),
        "`progress` must be True",
    ),
    "profile with a number for progress": (
        lambda: simkit.profile(P, simkit.fit(P, starts=1), progress=3),
        "`progress` must be True",
    ),
    "calibrate with a number for progress": (
        lambda: simkit.calibrate(P, key=KEY, progress=3),
        "`progress` must be True",
    ),
    "ensemble with a number for progress": (
        lambda: simkit.ensemble(S, Y0, T, over={"growth": np.ones(2)}, progress=3),
        "`progress` must be True",
    ),
    "sweep with a number for progress": (
        lambda: simkit.sweep(S, Y0, T, over={"growth": np.ones(2)}, store="nowhere", progress=3),
        "`progress` must be True",
    ),
    "record with a word for progress": (
        lambda: simkit.record(S, Y0, T, store="nowhere", progress="x"),
        "`progress` must be True",
    ),
    "record into nothing": (lambda: simkit.record(S, Y0, T, store=None), "`store`"),
    "record probes, a number": (lambda: simkit.record(S, Y0, T, store="nowhere", probes=3), "must be names of outputs"),
    "record frames, a half": (lambda: simkit.record(S, Y0, T, store="nowhere", frames=1.5), "must be a whole number"),
    "record a class": (lambda: simkit.record(LotkaVolterra, Y0, T, store="nowhere"), "the class `LotkaVolterra`"),
    # Experiment, Problem
    "noise, a number": (
        lambda: problem(noise={"hare": 0.1}),
        "Entry `hare` of argument `noise` must be a noise model, but it is 0.1.*`simkit.noise.Normal(0.1)`",
    ),
    "noise, a class": (lambda: problem(noise={"hare": simkit.noise.Normal}), "the class `Normal`. Make one"),
    "noise, one model": (
        lambda: problem(noise=simkit.noise.Normal(0.1)),
        "`noise` must be a dictionary of noise models",
    ),
    "noise, of NumPyro": (
        lambda: problem(noise={"hare": __import__("numpyro").distributions.Normal(0.0, 1.0)}),
        "of `numpyro`",
    ),
    "free, a list of names": (lambda: problem(free=["growth"]), "`free` must be a dictionary of unknowns"),
    "free, a tuple": (lambda: problem(free={"growth": (0.1, 2.0)}), "`growth`"),
    "experiments, a table": (lambda: problem(experiments={"times": T}), "must be an experiment or a list of them"),
    "experiments, a list of tables": (lambda: problem(experiments=[DATA]), "`experiments[0]` must be an experiment"),
    "problem of a class": (lambda: problem(system=LotkaVolterra), "the class `LotkaVolterra`"),
    "problem, swapped": (lambda: problem(system=E, experiments=S), "changed places|must be a system"),
    "problem, state a list": (
        lambda: problem(experiments=simkit.Experiment("e", T, DATA), y0=[1.0, 2.0]),
        "Write `LotkaVolterra.State",
    ),
    "problem, solver a class": (lambda: problem(solver=simkit.solvers.Tsit5), "the class `Tsit5`"),
    "problem, likelihood a class": (
        lambda: problem(likelihood=simkit.problem.AbstractLikelihood),
        "the class `AbstractLikelihood`",
    ),
    "observables, of one argument": (
        lambda: problem(observables={"x": lambda s: 1.0}),
        "`observables['x']` must be a function of (system, trajectory), but it takes (s)",
    ),
    "event, of two arguments": (
        lambda: simkit.Event(lambda t, y: y.hare - 1.0),
        "`condition` must be a function of (system, t, y, inputs), but it takes (t, y)",
    ),
    "event, no function": (lambda: simkit.Event(1.0), "`condition` must be a function of (system, t, y, inputs)"),
    "tolerance, a text": (lambda: simkit.Adaptive("a"), "tolerance of `Adaptive` must be a positive number"),
    "observables, a list": (lambda: problem(observables=["hare"]), "`observables` must be a dictionary"),
    "set, a list": (lambda: problem(set=["growth"]), "`set` must be a dictionary"),
    "experiment, data a list": (
        lambda: simkit.Experiment("e", T, [1.0, 2.0]),
        "`data` must be a dictionary of values by output",
    ),
    "experiment without a name": (lambda: simkit.Experiment(T, DATA, None), "`name` must be a text"),
    "experiment, start a text": (lambda: simkit.Experiment("e", T, DATA, start="now"), "`start` must be a time"),
    "thermostat in a problem": (
        lambda: simkit.Problem(
            md.Particles(md.LennardJones(), md.OpenSpace(), dynamics=md.Langevin(1.0, 1.0)),
            simkit.Experiment("e", [0.0, 1.0], {"temperature": [1.0, 1.0]}, y0=PAIR),
            free={},
            noise={"temperature": simkit.noise.Normal(1.0)},
            step=0.01,
        ),
        "a Problem takes no key.*`md.NVE()`",
    ),
    "free, a wrong name": (lambda: problem(free={"grwth": simkit.Free(bounds=(0.1, 1.0))}), "`grwth`"),
    "bounds, one number": (
        lambda: problem(free={"growth": simkit.Free(bounds=3.0)}),
        "bounds of `growth` must be a pair of numbers",
    ),
    "bounds the wrong way round": (lambda: problem(free={"growth": simkit.Free(bounds=(2.0, 0.1))}), "growth"),
    "prior, a text": (lambda: problem(free={"growth": simkit.Free(prior="normal")}), "`prior`|prior of"),
    # fit, sample, predict, profile, calibrate, compare, plan, save, load
    "fit of a system": (lambda: simkit.fit(S), "`problem` must be a problem, but it is a `LotkaVolterra`"),
    "fit of a class": (lambda: simkit.fit(simkit.Problem), "the class `Problem`"),
    "fit, starts a text": (lambda: simkit.fit(P, starts="many"), "`starts`"),
    "fit, method a text": (
        lambda: simkit.fit(P, method="lbfgs"),
        r"`method` must be a method of fits, but it is 'lbfgs'. Methods are objects: write `method=LBFGS",
    ),
    "fit, method a class": (lambda: simkit.fit(P, method=simkit.LBFGS), "the class `LBFGS`"),
    "fit, key a number": (lambda: simkit.fit(P, key=0), "Write `jax.random.key(0)`"),
    "sample of a system": (lambda: simkit.sample(S, key=KEY), "`problem` must be a problem"),
    "sample, key a number": (lambda: simkit.sample(P, key=1), "Write `jax.random.key(1)`"),
    "sample, method a text": (
        lambda: simkit.sample(P, key=KEY, method="nuts"),
        r"`method` must be a method of sampling, but it is 'nuts'. Methods are objects: write `method=NUTS",
    ),
    "neural posterior, a summary that is a number": (
        lambda: simkit.NeuralPosterior(summary=3.0),
        "`summary` must be a function",
    ),
    "neural posterior, a network that is a text": (lambda: simkit.NeuralPosterior(network="big"), "must be a flow"),
    "neural likelihood, a sampler that is a text": (
        lambda: simkit.NeuralLikelihood(sampler="nuts"),
        "must be a sampler",
    ),
    "flow, layers a text": (lambda: simkit.SplineFlow(layers="5"), "`layers`"),
    "learn a posterior of a system": (lambda: simkit.learn_posterior(S, key=KEY), "`problem` must be a problem"),
    "learn a posterior, key a number": (lambda: simkit.learn_posterior(P, key=0), "Write `jax.random.key(0)`"),
    "learn a likelihood by another method": (
        lambda: simkit.learn_likelihood(P, method=simkit.NeuralPosterior(), key=KEY),
        "`method` must be a method",
    ),
    "simulator, a number": (
        lambda: simkit.from_simulator(3.0, {"a": 1.0}, 1.0, free={}),
        "`simulate` must be a function",
    ),
    "simulator, parameters a list": (
        lambda: simkit.from_simulator(lambda p, key: 1.0, [1.0], 1.0, free={}),
        "`parameters` must be",
    ),
    "ABC, more particles than simulations": (
        lambda: simkit.ABCSMC(particles=200_000),
        "`particles` must be at most `simulations`",
    ),
    "ABC, particles a text": (lambda: simkit.ABCSMC(particles="many"), "`particles`"),
    "sample, start an array": (lambda: simkit.sample(P, key=KEY, start=[1.0]), "`start` must be the result of a fit"),
    "sample, draws a text": (lambda: simkit.sample(P, key=KEY, draws="100"), "`draws`"),
    "predict, draws None": (lambda: simkit.predict(P, None), "`draws`"),
    "predict of a system": (lambda: simkit.predict(S, np.ones((3, 1))), "`problem` must be a problem"),
    "predict, swapped": (lambda: simkit.predict(np.ones((3, 1)), P), "`problem` must be a problem"),
    "predict, draws a list of texts": (lambda: simkit.predict(P, ["a"]), "`draws`"),
    "profile without a fit": (lambda: simkit.profile(P, [2.0]), "`fit` must be the result of a fit"),
    "profile of a system": (lambda: simkit.profile(S, None), "`problem` must be a problem"),
    "calibrate, key a number": (lambda: simkit.calibrate(P, key=4), "Write `jax.random.key(4)`"),
    "calibrate, simulations a text": (
        lambda: simkit.calibrate(P, key=KEY, simulations="100"),
        "`simulations` must be a whole number",
    ),
    "check of a system": (lambda: simkit.check(S, P), "`problem` must be a problem"),
    "marginal without steps": (lambda: simkit.Marginal(max_steps=0), "`max_steps` must be at least 1"),
    "marginal without tolerance": (
        lambda: simkit.Marginal(tolerance=float("nan")),
        "`tolerance` must be a positive number",
    ),
    "marginal, warm as a text": (lambda: simkit.Marginal(warm="yes"), "`warm` must be True or False"),
    "texts over a sweep": (
        lambda: simkit.viz.plot_sweep(["a"], {"peak": [1.0]}),
        "`values` must be an array of real numbers",
    ),
    "predictive check corrected yes": (
        lambda: simkit.visual_predictive_check(P, FIT, corrected="yes"),
        "`corrected` must be True or False",
    ),
    "predictive check by a number": (lambda: simkit.visual_predictive_check(P, FIT, by=3), "must name a covariate"),
    "predictive check of a system": (lambda: simkit.visual_predictive_check(S, P), "`problem` must be a problem"),
    "predictive check of no fit": (
        lambda: simkit.visual_predictive_check(P, P),
        "`result` must be the result of a fit or a posterior",
    ),
    "trajectory of one frame": (
        lambda: simkit.io.write_trajectory("a.dcd", FRAME),
        "Write `[frame]` for one frame",
    ),
    "trajectory of numbers": (lambda: simkit.io.write_trajectory("a.dcd", [1]), "must be a sequence of frames"),
    "trajectory nowhere": (lambda: simkit.io.write_trajectory(None, [FRAME]), "`path` must be a path"),
    "trajectory in a name of units": (
        lambda: simkit.io.read_trajectory("a.dcd", "metal"),
        "`units` must be a unit system",
    ),
    "trajectory's third frame": (
        lambda: simkit.io.read_trajectory("a.dcd", md.METAL, frames=3),
        "`frames` must be a slice",
    ),
    "predictive check of a number": (
        lambda: simkit.visual_predictive_check(P, FIT, output=3),
        "`output` must be the name of an output",
    ),
    "interactive fit": (lambda: simkit.viz.interactive(FIT), "`figure` must be a figure of Matplotlib"),
    "field fit of numbers": (lambda: simkit.viz.plot_field_fit(FIT), "`fit` must be a fit of fields"),
    "figure of a sweep without results": (lambda: simkit.viz.plot_sweep([1.0], {}), "it is empty"),
    "figure of no predictive check": (
        lambda: simkit.viz.plot_predictive_check(FIT),
        "`check` must be a predictive check",
    ),
    "live figure every text": (lambda: simkit.viz.LiveFigure(every="1 s"), "`every` must be a number of seconds"),
    "live figure in a number": (lambda: simkit.viz.LiveFigure(3), "`file` must be the name of a file"),
    "progress by a class": (
        lambda: simkit.fit(P, starts=1, key=KEY, progress=simkit.viz.LiveFigure),
        "it is the class `LiveFigure`. Make one: `LiveFigure",
    ),
    "bifurcation after a text": (
        lambda: simkit.viz.plot_bifurcation(np.arange(2.0), RUNS, "y", after="x"),
        "`after` must be a real number",
    ),
    "bifurcation of y over y": (
        lambda: simkit.viz.plot_bifurcation(np.arange(2.0), RUNS, "y", parameter="y"),
        "another word than the state",
    ),
    "map with one unit": (
        lambda: simkit.viz.plot_map(fluids.Sphere(5), {"v": np.ones(fluids.Sphere(5).shape)}, units="K"),
        "`units`",
    ),
    "map without numbers": (
        lambda: simkit.viz.plot_map(fluids.Sphere(5), {"v": np.full(fluids.Sphere(5).shape, np.nan)}),
        "must hold real numbers",
    ),
    "a bed of NaN": (
        lambda: fluids.PrimitiveEquationsSphere(fluids.Sphere(5), levels=3, bed=np.nan),
        "`bed` must be",
    ),
    "heating of other levels": (
        lambda: simkit.simulate(
            fluids.PrimitiveEquationsSphere(
                fluids.Sphere(5), levels=[0.0, 0.2, 0.5, 1.0], source=fluids.HeldSuarez(fluids.Sphere(5), 3)
            ),
            fluids.resting_atmosphere(fluids.Sphere(5), 3),
            [0.0, 7200.0],
            step=3600.0,
        ),
        "`levels` of `HeldSuarez` must be that of the atmosphere",
    ),
    "air of NaN": (
        lambda: simkit.simulate(
            fluids.PrimitiveEquationsSphere(fluids.Sphere(5), levels=np.int64(3)),
            jax.tree.map(lambda x: x + np.nan, fluids.resting_atmosphere(fluids.Sphere(5), 3)),
            [0.0, 7200.0],
            step=3600.0,
        ),
        "must be finite",
    ),
    "bifurcation of the maxima": (
        lambda: simkit.viz.plot_bifurcation(np.arange(2.0), RUNS, "y", points="maxima"),
        "choice of `points`",
    ),
    "bifurcation of a fit": (lambda: simkit.viz.plot_bifurcation([1.0], FIT, "x"), "`trajectory` must be a trajectory"),
    "sensitivity of a table": (
        lambda: simkit.viz.plot_sensitivity({"k": 1.0}),
        "must be what `simkit.sweeps.sobol_indices`",
    ),
    "figure of no prediction errors": (lambda: simkit.viz.plot_npde(FIT), "`errors` must be prediction errors"),
    "npde of a system": (lambda: simkit.npde(S, P), "`problem` must be a problem"),
    "npde of no fit": (lambda: simkit.npde(P, 3), "`result` must be the result of a fit or a posterior"),
    "check, swapped": (lambda: simkit.check(P, P), "`result` must be the result of a fit or a posterior"),
    "compare a list": (lambda: simkit.compare([P]), "`models` must be a dictionary"),
    "compare texts": (lambda: simkit.compare({"a": "b"}), "must be a problem, a fit or a posterior"),
    "plan without a fit": (lambda: simkit.plan(P, None, [1.0]), "`fit` must be the result of a fit"),
    "a design of nothing": (lambda: simkit.design(P, {}), "must name something"),
    "a design of a text": (lambda: simkit.design(P, "x"), "`over` must be a dictionary"),
    "design, bounds turned": (lambda: simkit.design(P, {"times": (1.0, 0.0)}), "two finite numbers"),
    "information of a fit": (lambda: simkit.expected_information(FIT), "`problem` must be a problem"),
    "sparse in a number": (lambda: simkit.Sparse(3), "`names` must be names"),
    "sparse in another name": (lambda: simkit.fit(P, method=simkit.Sparse(["b"])), "`b`"),
    "sparse in letters": (
        lambda: simkit.fit(P, method=simkit.Sparse("abc")),
        r"one unknown, `abc`, .* Several names are a list",
    ),
    "sparse search by a number": (lambda: simkit.Sparse(["a"], search=3), r'`search` must be "path" or "all"'),
    "sparse search in capitals": (lambda: simkit.Sparse(["a"], search="ALL"), r'`search` must be "path" or "all"'),
    "sparse search of all by folds": (
        lambda: simkit.Sparse(["a"], search="all", by=5),
        r'`by` must be "bic", "aic" or "aicc" with `search="all"`, but it is 5: folds choose a strength',
    ),
    "sparse search of all by a list": (
        lambda: simkit.Sparse(["a"], search="all", by=["bic"]),
        r'`by` must be "bic", "aic", "aicc", but it is',
    ),
    "sparse search of all along a path": (
        lambda: simkit.Sparse(["a"], search="all", strengths=[1.0]),
        "`strengths` is of the penalty",
    ),
    "save nothing": (lambda: simkit.save("x.h5"), "at least one result"),
    "save, swapped": (lambda: simkit.save(P, "x.h5"), "`path` must be the name of a file"),
    "save a problem": (lambda: simkit.save("x.h5", P), "The results to save must be of"),
    "save, fit a text": (lambda: simkit.save("x.h5", fit="fit"), "`fit` must be a `FitResult`"),
    "load a number": (lambda: simkit.load(3), "`path`"),
    # fields and atoms
    "NoSlip of a function": (
        lambda: fluids.NoSlip(lambda t: 1.0),
        "Argument `value` must be a function of (t, x), but it takes (t).",
    ),
    "boundaries, a class": (
        lambda: fluids.IncompressibleFlow(fluids.Grid((4, 4), 1.0), boundaries=[fluids.Periodic, fluids.NoSlip()]),
        "Make one: `Periodic()`",
    ),
    "grid, a float": (lambda: fluids.Grid((64.0, 32)), "`shape`.*whole numbers"),
    "grid, floats": (lambda: fluids.Grid(np.array([64.0, 32.0])), "`shape`.*whole numbers"),
    "grid, names of devices": (lambda: fluids.Grid((64, 32), devices=["cpu"]), "`devices`.*jax.devices"),
    "grid, a number of devices": (lambda: fluids.Grid((64, 32), devices=2), "`devices`.*jax.devices"),
    "grid, one device": (lambda: fluids.Grid((64, 32), devices=jax.devices()[0]), "`devices`.*jax.devices"),
    "grid, a text": (lambda: fluids.Grid("64", 1.0), "`shape`|`cells`"),
    "lattice, a sphere": (
        lambda: fluids.LatticeBoltzmann(fluids.Sphere(10), step=0.1, viscosity=0.1),
        "`grid` must be a grid",
    ),
    "lattice, a viscosity as text": (
        lambda: fluids.LatticeBoltzmann(fluids.Grid((8, 8), 1.0), step=0.1, viscosity="thick"),
        "`viscosity` must be a positive number",
    ),
    "lattice, no viscosity": (
        lambda: fluids.LatticeBoltzmann(fluids.Grid((8, 8), 1.0), step=0.1, viscosity=None),
        "`viscosity` must be a positive number",
    ),
    "lattice, a step as text": (
        lambda: fluids.LatticeBoltzmann(fluids.Grid((8, 8), 1.0), step="0.1", viscosity=0.1),
        "`step` must be a positive number",
    ),
    "lattice, a function as pressure": (
        lambda: fluids.FixedPressure(lambda t: 1.0),
        "must be a function of (t, x)",
    ),
    "an end: a pressure as text": (
        lambda: fluids.FixedPressure("high"),
        "must be a real number or an array of real numbers",
    ),
    "an end: a signal": (
        lambda: fluids.FixedPressure(simkit.Interpolated([0.0, 1.0], [0.0, 1.0])),
        "is a signal, Interpolated",
    ),
    "an end: an input by a number": (lambda: fluids.InputValue(3), "`name` must be the name of an input"),
    "pieces: places as text": (
        lambda: fluids.CompressibleFlow(
            fluids.Grid((8, 8)), boundaries=fluids.Piecewise("left", fluids.Open(), fluids.FreeSlip())
        ),
        "`where` of Piecewise",
    ),
    "pieces: a number as a condition": (
        lambda: fluids.CompressibleFlow(
            fluids.Grid(8), boundaries=fluids.Piecewise(np.array(True), fluids.Open(), 1.0)
        ),
        "`second` of Piecewise",
    ),
    "layer: a grid": (
        lambda: fluids.PlaneLayerFlow(fluids.Grid((16, 16)), viscosity=1.0),
        "`layer` must be a layer",
    ),
    "layer: points as text": (lambda: fluids.PlaneLayer("32x17"), "`shape`"),
    "layer: viscosity as text": (
        lambda: fluids.PlaneLayerFlow(fluids.PlaneLayer((8, 9)), viscosity="water"),
        "`viscosity` must be a number",
    ),
    "layer: walls as text": (
        lambda: fluids.PlaneLayerFlow(fluids.PlaneLayer((8, 9)), viscosity=1.0, walls="rigid"),
        "`walls` must be the conditions",
    ),
    "layer: scalars without names": (
        lambda: fluids.PlaneLayerFlow(fluids.PlaneLayer((8, 9)), viscosity=1.0, scalars=[1.0]),
        "`scalars` must hold a `LayerScalar`",
    ),
    "layer: source a number": (
        lambda: fluids.PlaneLayerFlow(fluids.PlaneLayer((8, 9)), viscosity=1.0, source=3.0),
        "`source` must be a function",
    ),
    "layer: force as text": (
        lambda: fluids.PlaneLayerFlow(fluids.PlaneLayer((8, 9)), viscosity=1.0, force="x"),
        "A quantity must be a real number",
    ),
    "layer: a scalar's walls": (lambda: fluids.LayerScalar(1.0, walls=1.0), "`walls` must be the conditions"),
    "layer: diffusivity as text": (
        lambda: fluids.LayerScalar("slow", walls=fluids.Dirichlet()),
        "`diffusivity` must be a number",
    ),
    "layer: noise as text": (
        lambda: fluids.PlaneLayerFlow(fluids.PlaneLayer((8, 9)), viscosity=1.0).start(noise="much"),
        "`noise` must be a number",
    ),
    "layer: a state of another system": (
        lambda: simkit.simulate(
            fluids.PlaneLayerFlow(fluids.PlaneLayer((8, 9)), viscosity=1.0),
            fluids.BarotropicSphere.State(jnp.zeros((8, 9))),
            [0.0, 1.0],
            step=1.0,
        ),
        "`y0` of PlaneLayerFlow must be a `LayerState`",
    ),
    "a surface of a lattice": (
        lambda: fluids.LatticeBoltzmann(fluids.Grid((8, 8), 1.0), step=0.01, viscosity=0.1, surface="smooth"),
        '`surface` must be "cells" or "cut"',
    ),
    "a surface of triangles without places": (
        lambda: fluids.TriangleSurface(np.zeros((4, 3)), [[0, 1, 4]]),
        "`triangles` must hold whole numbers from 0 to 3",
    ),
    "a surface of triangles in a plane": (
        lambda: fluids.TriangleSurface(np.zeros((4, 2)), [[0, 1, 2]]),
        "`corners` of TriangleSurface must have the shape",
    ),
    "an STL file, a number": (lambda: fluids.read_stl(3), "`path` must be a path"),
    "a scale, a word": (lambda: fluids.read_stl("body.stl", scale="mm"), "`scale` must be a number"),
    "a beta plane, a word": (
        lambda: fluids.SpectralFlow2D(fluids.Grid((8, 8)), beta="steep"),
        "must be a real number",
    ),
    "a lattice whose body is a function of two": (
        lambda: fluids.LatticeBoltzmann(fluids.Grid((8, 8), 1.0), step=0.01, viscosity=0.1, obstacle=lambda x, y: x),
        "`obstacle` must be a function of (x), but it takes (x, y)",
    ),
    "a lattice whose body is cut, a class": (
        lambda: fluids.LatticeBoltzmann(
            fluids.Grid((8, 8), 1.0), step=0.01, viscosity=0.1, obstacle=fluids.Disk, surface="cut"
        ),
        "`obstacle` must be a function of (x)",
    ),
    "a shape as a number": (
        lambda: fluids.MovingBody(
            fluids.LatticeBoltzmann(fluids.Grid((12, 12), 1.0), step=0.01, viscosity=0.1),
            radius=0.3,
            motion=lambda t: jnp.full(2, 0.5),
            shape=0.3,
        ),
        "`shape` must be a signed distance",
    ),
    "stations in degrees": (lambda: fluids.Stations(fluids.Sphere(5), [8.5], [47.4]), "np.deg2rad"),
    "stations as text": (
        lambda: fluids.Stations(fluids.Sphere(5), "Zurich", [0.4]),
        "`longitude` must hold known angles",
    ),
    "stations without a sphere": (lambda: fluids.Stations("T5", [0.1], [0.4]), "`sphere` must be a sphere"),
    "a covariance by degree of text": (
        lambda: fluids.IsotropicCovariance(fluids.Sphere(5), "flat"),
        "`variances` must hold numbers",
    ),
    "a covariance of a length of text": (
        lambda: fluids.IsotropicCovariance.of_length(fluids.Sphere(5), deviation=1.0, length="long"),
        "`length` must be a number",
    ),
    "sphere, a text": (lambda: fluids.Sphere("T31"), "`truncation` must be a whole number"),
    "sphere, a radius as text": (lambda: fluids.Sphere(10, radius="earth"), "`radius`"),
    "sphere: half a wave": (
        lambda: fluids.rossby_haurwitz(fluids.Sphere(5), wave=1.5),
        "`wave` must be a whole number",
    ),
    "sphere: wave as text": (
        lambda: fluids.rossby_haurwitz(fluids.Sphere(5), wave="4"),
        "`wave` must be a whole number",
    ),
    "sphere: amplitude as text": (
        lambda: fluids.rossby_haurwitz(fluids.Sphere(5), amplitude="4"),
        "`amplitude` must be a number",
    ),
    "sphere: no sphere": (lambda: fluids.zonal_flow(3), "`sphere` must be a sphere"),
    "sphere: speed as text": (lambda: fluids.zonal_flow(fluids.Sphere(5), speed="20"), "`speed` must be a number"),
    "sphere: no angle": (lambda: fluids.zonal_flow(fluids.Sphere(5), angle=None), "`angle` must be a number"),
    "sphere: depth as text": (
        lambda: fluids.ShallowWaterSphere(fluids.Sphere(5), depth="deep"),
        "`depth` must be a number",
    ),
    "sphere: tilt as text": (
        lambda: fluids.ShallowWaterSphere(fluids.Sphere(5), depth=1.0, tilt="a"),
        "`tilt` must be a number",
    ),
    "sphere: order as text": (
        lambda: fluids.ShallowWaterSphere(fluids.Sphere(5), depth=1.0, damping_order="4"),
        "`damping_order` must be a whole number",
    ),
    "sphere: order None": (
        lambda: fluids.BarotropicSphere(fluids.Sphere(5), damping_order=None),
        "`damping_order` must be a whole number",
    ),
    "sphere: a state of water": (
        lambda: simkit.simulate(
            fluids.BarotropicSphere(fluids.Sphere(5)), fluids.rossby_haurwitz(fluids.Sphere(5))[1], [0.0, 1.0], step=1.0
        ),
        "`y0` of BarotropicSphere must be a `Flow2D`",
    ),
    "water on a grid for a sphere": (
        lambda: fluids.ShallowWaterSphere(fluids.Grid((16, 16)), depth=1.0),
        "`sphere` must be a sphere",
    ),
    "vorticity on a grid for a sphere": (
        lambda: fluids.BarotropicSphere(fluids.Grid((16, 16))),
        "`sphere` must be a sphere",
    ),
    "atmosphere on a grid": (
        lambda: fluids.PrimitiveEquationsSphere(fluids.Grid((16, 16))),
        "`sphere` must be a sphere",
    ),
    "atmosphere: levels as text": (
        lambda: fluids.PrimitiveEquationsSphere(fluids.Sphere(5), levels="20"),
        "`layers` must be a number of layers",
    ),
    "atmosphere: a reference as text": (
        lambda: fluids.PrimitiveEquationsSphere(fluids.Sphere(5), reference_temperature="300 K"),
        "`reference_temperature` must be a number",
    ),
    "atmosphere: a state of water": (
        lambda: simkit.simulate(
            fluids.PrimitiveEquationsSphere(fluids.Sphere(5), levels=2),
            fluids.rossby_haurwitz(fluids.Sphere(5))[1],
            [0.0, 1.0],
            step=1.0,
        ),
        "`y0` of PrimitiveEquationsSphere must be a `Atmosphere`",
    ),
    "wind as text": (
        lambda: fluids.AdvectionSphere(fluids.Sphere(5), velocity="west"),
        "`velocity` must have the shape",
    ),
    "wind on a grid": (
        lambda: fluids.AdvectionSphere(fluids.Grid((16, 16)), velocity=np.ones((2, 16, 16))),
        "`sphere` must be a sphere",
    ),
    "levels as text": (lambda: fluids.SigmaLevels("20"), "`layers` must be a number of layers"),
    "jets: no sphere": (lambda: fluids.jablonowski_williamson(3), "`sphere` must be a sphere"),
    "jets: perturbation as text": (
        lambda: fluids.jablonowski_williamson(fluids.Sphere(5), perturbation="1"),
        "`perturbation` must be a number",
    ),
    "air at rest: no sphere": (lambda: fluids.resting_atmosphere("T5"), "`sphere` must be a sphere"),
    "climate: no sphere": (lambda: fluids.HeldSuarez(3), "`sphere` must be a sphere"),
    "climate: friction as text": (
        lambda: fluids.HeldSuarez(fluids.Sphere(5), friction="1/d"),
        "`friction` must be a number",
    ),
    "map, no sphere": (lambda: simkit.viz.plot_map(3, {}), "`sphere` must be a sphere"),
    "map, a field alone": (lambda: simkit.viz.plot_map(fluids.Sphere(5), np.ones((8, 16))), "`fields`"),
    "state of a flow, an array": (
        lambda: simulate(fluids.SpectralFlow2D(fluids.Grid((16, 16), 1.0)), np.ones((16, 16)), T),
        "Write `SpectralFlow2D.State",
    ),
    "potential, a text": (lambda: md.Particles("lj", md.OpenSpace()), "`potential` must be a potential"),
    "potential, a class": (lambda: md.Particles(md.LennardJones, md.OpenSpace()), "the class `LennardJones`"),
    "space, lengths": (lambda: md.Particles(md.LennardJones(), [5.0, 5.0, 5.0]), "`space` must be a space"),
    "dynamics, a class": (lambda: md.Particles(md.LennardJones(), md.OpenSpace(), dynamics=md.NVE), "the class `NVE`"),
    "positions alone": (
        lambda: simulate(md.Particles(md.LennardJones(), md.OpenSpace()), PAIR.position, T, step=0.01),
        "`y0`.*Atoms",
    ),
    "mixing by an unknown rule": (
        lambda: md.LennardJones([1.0, 1.2], [1.0, 1.0], mixing="lorentz"),
        "no mixing rule `lorentz`. Close matches",
    ),
    "sites without charges": (lambda: md.ChargesOnSites(md.LennardJones(), [[0, 1, 2]]), "pair potential of charges"),
    "waves with a tolerance of 1": (
        lambda: md.dispersion_sum(md.Orthorhombic([5.0, 5.0, 5.0]), 2.0, tolerance=1.0),
        "`tolerance` must lie between 0 and 0.1",
    ),
    "a molecule of a number": (lambda: md.read(3), "`path` must be the name of a file"),
    "no system of OpenMM": (lambda: md.from_openmm(None, np.zeros((2, 3))), "`system` must be an `openmm.System`"),
    "a data file of LAMMPS that is not there": (lambda: md.read_lammps("nowhere.data"), "nowhere.data"),
    "averages of no particles": (
        lambda: md.EquilibriumAverages(S, PAIR, {"p": "pressure"}, times=T, step=0.1),
        "`particles` must be particles",
    ),
    "observables, a text": (
        lambda: md.EquilibriumAverages(COLD, PAIR, "pressure", times=T, step=0.1),
        "`observables` must be a mapping",
    ),
    "moves, a text": (
        lambda: md.EquilibriumAverages(COLD, PAIR, {"e": "potential_energy"}, times=T, step=0.1, moves=["swap"]),
        "`moves` must be Monte Carlo moves",
    ),
    "a move without a key": (lambda: md.SwapMoves()(COLD, PAIR, None), "`key` must be a random key"),
    "a move of positions": (lambda: md.SwapMoves()(COLD, PAIR.position, KEY), "`atoms` must be the state of atoms"),
    "swaps of half attempts": (lambda: md.SwapMoves(0, 1, attempts=0.5), "`attempts` must be a whole number"),
    "a size of volumes, a text": (lambda: md.VolumeMoves("small"), "A quantity must be a real number"),
    "energies of no frames": (
        lambda: md.EnergiesAndForces(COLD, PAIR.position),
        "`frames` must be the states of atoms",
    ),
    "relative entropy to no frames": (
        lambda: md.RelativeEntropy(COLD, PAIR.position, times=T, step=0.1),
        "`frames` must be the states of atoms",
    ),
    "relative entropy of no particles": (
        lambda: md.RelativeEntropy(S, PAIR, times=T, step=0.1),
        "`particles` must be particles",
    ),
    "a potential of n2p2 that is not there": (lambda: md.read_n2p2("nowhere", ["H"]), "input.nn"),
    "a potential of n2p2 from a number": (lambda: md.read_n2p2(3, ["H"]), "`folder` must be the name of a folder"),
    "a potential of n2p2 for an element as text": (lambda: md.read_n2p2("nowhere", "H"), "`elements` must be"),
    "a network from no table": (lambda: md.BehlerParrinello.from_table(None), "`NetworkTable` of `read_n2p2`"),
    "a spectral potential that is not there": (lambda: md.read_snap("nowhere", "nowhere", ["Ta"]), "nowhere"),
    "a spectral potential for an element as text": (lambda: md.read_snap("a", "b", "Ta"), "`elements` must be"),
    "a spectral potential for an element twice": (lambda: md.read_snap("a", "b", ["Ta", "Ta"]), "more than once"),
    "a model of mliap that is not there": (lambda: md.read_mliap("nowhere", "nowhere", ["Ta"]), "nowhere"),
    "a spectral potential from no table": (lambda: md.SNAP.from_table(None), "`SnapTable` of `read_snap`"),
    "pairs from tables of one number": (lambda: md.TabulatedPairs(1.0, 1.0, 0.5, 2.0), "shape (tables, knots)"),
    "bonds from tables without ends": (
        lambda: md.TabulatedTerms([[0, 1]], np.ones((1, 3)), np.ones((1, 3))),
        "`starts` and `ends`",
    ),
    "a pair potential on some species": (lambda: md.OnSpecies(md.LennardJones(), (0,)), "`AtomicPotential`"),
    "draws of a plain problem": (lambda: simkit.refresh(P, [1.0]), "must have a system that draws"),
    "draws of no problem": (lambda: simkit.refresh(S, [1.0]), "`problem` must be a problem"),
    "reduced energies, a text": (lambda: md.mbar("u", [1]), "`reduced_energies` must be numbers"),
    "counts, a text": (lambda: md.mbar(np.zeros((2, 4)), "44"), "`counts` must be one whole number"),
    "values of an average, a text": (lambda: md.mbar(np.zeros((1, 8)), [8]).average("x"), "`values` must be numbers"),
    "profile, of weights": (
        lambda: md.free_energy_profile(np.ones(4), np.ones(4), [0.0, 1.0]),
        "`free_energies` must be what `mbar` returns",
    ),
    "collective variable, a number": (
        lambda: md.umbrella_sampling(COLD, PAIR, T, cv=1.0, centres=[0.0], stiffness=1.0, step=0.1, key=KEY),
        "`cv` must be a function of .atoms.",
    ),
    "centres, a text": (
        lambda: md.umbrella_sampling(COLD, PAIR, T, cv=len, centres="a", stiffness=1.0, step=0.1, key=KEY),
        "`centres` must be numbers",
    ),
    "windows of positions": (
        lambda: md.umbrella_sampling(COLD, PAIR.position, T, cv=len, centres=[0.0], stiffness=1.0, step=0.1, key=KEY),
        "`y0` must be a state of atoms",
    ),
    "family, particles": (
        lambda: md.sample_states(COLD, np.ones(2), PAIR, T, step=0.1, key=KEY),
        "`family` must be a function of .parameter.",
    ),
    "family of potentials": (
        lambda: md.sample_states(lambda c: md.LennardJones(c), np.ones(2), PAIR, T, step=0.1, key=KEY),
        "`family` must return particles",
    ),
    "slopes, one row": (lambda: md.thermodynamic_integration([0.0, 1.0], np.ones(9)), "at least two states"),
    "exchange, one state": (
        lambda: md.replica_exchange(lambda t: COLD, np.ones(1), PAIR, rounds=2, duration=0.1, step=0.1, key=KEY),
        "two at least",
    ),
    "rounds, a float": (
        lambda: md.replica_exchange(lambda t: COLD, np.ones(2), PAIR, rounds=2.0, duration=0.1, step=0.1, key=KEY),
        "`rounds` must be a whole number",
    ),
    "bias factor below 1": (
        lambda: md.metadynamics(
            COLD,
            PAIR,
            cv=lambda atoms: atoms.position[0, 0],
            lower=0.0,
            upper=1.0,
            points=11,
            width=0.1,
            height=0.1,
            bias_factor=1.0,
            deposits=2,
            duration=0.1,
            step=0.1,
            key=KEY,
        ),
        "`bias_factor` must be larger than 1",
    ),
    "frozen, a float": (
        lambda: md.metadynamics(
            COLD,
            PAIR,
            cv=lambda atoms: atoms.position[0, 0],
            lower=0.0,
            upper=1.0,
            points=11,
            width=0.1,
            height=0.1,
            bias_factor=2.0,
            deposits=2,
            duration=0.1,
            step=0.1,
            key=KEY,
            frozen=2.0,
        ),
        "`frozen` must be a whole number",
    ),
    "triples without a cutoff": (lambda: md.AxilrodTeller(1.0, cutoff=0.0), "positive lengths"),
    "switches from one start": (
        lambda: md.switch(lambda t: COLD, np.ones(2), PAIR, duration=0.1, step=0.1, key=KEY),
        "leading axis of switches",
    ),
    "work, a text": (lambda: md.jarzynski("w"), "`work` must be numbers"),
    "works of one switch": (lambda: md.bar([1.0], [1.0, 2.0]), "`forward` must be the works of at least 2"),
    "parameter, complex": (lambda: LotkaVolterra(growth=1j), "must be a real number .* is given 1j"),
    "state, complex scalar": (lambda: LotkaVolterra.State(hare=np.complex64(1j), lynx=1.0), "of complex numbers"),
    "noise, correlations of a number": (
        lambda: simkit.noise.Correlated(simkit.noise.Normal(1.0), 0.5),
        "`correlations` must be a mapping from names of other outputs",
    ),
    "noise, correlation above one": (
        lambda: simkit.noise.Correlated(simkit.noise.Normal(1.0), {"hare": 2}),
        "must be between -1 and 1, but it is 2",
    ),
    "noise, marginal of counts": (
        lambda: simkit.noise.Correlated(simkit.noise.Poisson(), {"hare": 0.5}),
        "must be `Normal`, `Combined` or `LogNormal`",
    ),
    "hybrid, no filter": (
        lambda: simkit.assimilation.Hybrid(simkit.assimilation.FourDVar(jnp.eye(2)), "letkf"),
        "a filter of ensembles",
    ),
    "noise, complex": (lambda: simkit.noise.Normal(jnp.array(1j)), "of complex numbers"),
    "gaps of grades, a number": (lambda: simkit.noise.Ordered(0.0, 1.0), "`gaps` must be an array of positive numbers"),
    "intercepts of categories, a number": (
        lambda: simkit.noise.Categorical(1.0, [1.0]),
        "`intercepts` must be an array of numbers",
    ),
    "cutpoints, a text": (lambda: simkit.noise.Ordered.at("low"), "`cutpoints` must be numbers"),
    "tolerance, complex": (lambda: simkit.Adaptive(1j), "must be a positive number, but it is 1j"),
    "start of an unknown, a text": (
        lambda: problem(free={"growth": simkit.Free(bounds=(0.1, 2.0), start="x")}),
        "The start of `growth` must be a number.* but it is 'x'",
    ),
    "plan at infinity": (lambda: simkit.plan(P, FIT, [np.inf]), "`times` must be finite"),
    "plan at no time": (lambda: simkit.plan(P, FIT, []), "`times` must hold at least one time"),
    "profile of a prediction, NaN": (
        lambda: simkit.profile_prediction(P, FIT, "y", [np.nan]),
        "`times` must be finite",
    ),
    "prediction at no time": (lambda: simkit.profile_prediction(P, FIT, "y", []), "must hold at least one time"),
    "prediction at NaN": (lambda: P.predict(jnp.array([2.0]), [1.0, np.nan]), "`times` must be finite"),
    "times, complex": (lambda: simulate(S, Y0, np.array([0.0, 1j])), "`times` must be real numbers"),
    "times, of truth values": (lambda: simulate(S, Y0, np.array([False, True])), "`times` must be real numbers"),
    "state, complex": (lambda: simulate(S, {"hare": 1j, "lynx": 1.0}, T), "at `['hare']` it is 1j"),
    "field, a text": (
        lambda: simulate(simkit.from_function(lambda t, y, p: {"x": "one"}, {"k": 1.0}), {"x": 1.0}, T),
        "must return numbers with the structure of the state",
    ),
    "function, a number": (lambda: simkit.from_function(3, {"k": 1.0}), "`f` must be a function"),
    "parameters, a list": (lambda: simkit.from_function(lambda t, y, p: y, ["k"]), "`params` must be a dictionary"),
    "experiment without times": (lambda: simkit.Experiment("e", None, DATA), "at least one time"),
    "assimilation, numbers for observations": (
        lambda: simkit.assimilate(S, Y0, DATA, method=simkit.assimilation.ETKF()),
        "`observations` must be observations",
    ),
    "randomised draws, no fit": (
        lambda: simkit.randomised_draws(P, "fit", 3, key=KEY),
        "`fit` must be a fit of fields",
    ),
    "assimilation, a time for the lag": (
        lambda: simkit.assimilate(
            S,
            Y0,
            simkit.assimilation.Observations(T, DATA, errors=1.0),
            method=simkit.assimilation.ETKF(),
            lag=0.5,
        ),
        "`lag` must be",
    ),
    "assimilation, the class of a filter": (
        lambda: simkit.assimilate(
            S, Y0, simkit.assimilation.Observations(T, DATA, errors=1.0), method=simkit.assimilation.ETKF
        ),
        "Make one: `ETKF(...)`",
    ),
    "filter, start a number": (lambda: simkit.filters.KalmanFilter(0.5), "`start` must be a dictionary of"),
    "filter, threshold a text": (
        lambda: simkit.filters.ParticleFilter(100, key=KEY, threshold="a"),
        "`threshold` must lie between",
    ),
    "hidden states, backward a number": (
        lambda: simkit.filters.states(FILTERED, [1.0], backward=1),
        "`backward` must be True or False",
    ),
    "filter, proposal a number": (
        lambda: simkit.filters.ParticleFilter(100, key=KEY, proposal=3),
        "`proposal` must be one of",
    ),
    "iterated filtering, iterations a text": (
        lambda: simkit.IteratedFiltering("a"),
        "`iterations` must be a whole number",
    ),
    "iterated filtering, cooling a list": (
        lambda: simkit.IteratedFiltering(cooling=[0.5]),
        "`cooling` must lie above 0",
    ),
    "particle Gibbs, moves a float": (lambda: simkit.ParticleGibbs(moves=2.5), "`moves` must be a whole number"),
    "inversion, members None": (lambda: simkit.EnsembleKalmanInversion(None), "`members` must be a whole number"),
    "SBML as a jump process, path None": (
        lambda: simkit.petab.load_jumps(None),
        "`path` must be the path of an SBML file, but it is None",
    ),
    "epsilon of leaps a text": (
        lambda: simkit.solvers.TauLeaping("small"),
        "`epsilon` must be a number between 0 and 1",
    ),
    "bound of jumps a text": (lambda: simkit.solvers.DirectMethod(max_jumps="many"), "`max_jumps` must be an integer"),
    "patches, a class for the model": (
        lambda: simkit.Patches(LotkaVolterra, [[0.0, 0.1], [0.1, 0.0]]),
        "but it is the class `LotkaVolterra`. Make one",
    ),
    "patches, a text for the exchange": (
        lambda: simkit.Patches(S, "ring"),
        "must be a matrix of rates, but it is 'ring'",
    ),
    "patches, a number for the exchange": (lambda: simkit.Patches(S, 0.1), "square matrix"),
    "patches, a list for own values": (
        lambda: simkit.Patches(S, [[0.0, 0.1], [0.1, 0.0]], each=["growth"]),
        "`each` must be a dictionary of values in the patches",
    ),
    "patches, a text for own inputs": (
        lambda: simkit.Patches(OWN, [[0.0, 0.1], [0.1, 0.0]], inputs="heat"),
        "`inputs` must be a list of names, but it is 'heat'",
    ),
    "fit of fields, a number for an earlier fit": (
        lambda: simkit.GaussNewtonCG(known=0.5),
        "`known` must be the result of a fit of fields, but it is 0.5",
    ),
    "fit of fields, a system for the coarser problem": (
        lambda: simkit.GaussNewtonCG(coarse=S),
        "`coarse` must be a problem",
    ),
    "fit of fields, a negative tolerance": (
        lambda: simkit.FieldLBFGS(tolerance=-1.0),
        "`tolerance` must be a number of at least 0",
    ),
    "fit of fields, a system among coarser problems": (
        lambda: simkit.FieldLBFGS(coarse=(S,)),
        "`coarse` must be a problem or several",
    ),
    "equations, one text": (
        lambda: simkit.from_equations("d x = -x", parameters={}),
        "`equations` must be a dictionary of",
    ),
    "equations, a list for a formula": (
        lambda: simkit.from_equations({"d x": [2.0]}, parameters={}),
        "must be a formula as text, but it is `[2.0]`",
    ),
    "equations, parameters a list": (
        lambda: simkit.from_equations({"d x": "-k*x"}, parameters=["k"]),
        "`parameters` must be a dictionary of numbers",
    ),
    "equations, a text for a parameter": (
        lambda: simkit.from_equations({"d x": "-k*x"}, parameters={"k": "fast"}),
        "parameter `k` must be a number or a quantity",
    ),
    "equations, a unit for a state": (
        lambda: simkit.from_equations({"d x": "-k*x"}, parameters={"k": 1.0}, states={"x": "g"}),
        "`states` must hold quantities",
    ),
    "equations, a number for an input": (
        lambda: simkit.from_equations({"d x": "u - x"}, parameters={}, inputs={"u": 1.0}),
        "Entry `u` of argument `inputs` must be an `Input`, but it is 1.0",
    ),
    "equations, a list for outputs": (
        lambda: simkit.from_equations({"d x": "-x"}, parameters={}, outputs=["x"]),
        "`outputs` must be a dictionary of formulas",
    ),
    "equations, a number for the name": (
        lambda: simkit.from_equations({"d x": "-x"}, parameters={}, name=3),
        "`name` must be a name of Python, such as `Pond`, but it is 3",
    ),
    "source of equations, another system": (
        lambda: simkit.networks.equations_source(S),
        "must be made by `from_equations`, but it is of the class `LotkaVolterra`",
    ),
    "unit of equations, another system": (
        lambda: simkit.networks.write_fmu(S, Y0, "a.fmu"),
        "`system` must be a system of equations as text",
    ),
    "unit of equations, another ending": (
        lambda: simkit.networks.write_fmu(EQUATIONS, {"x": 1.0}, "a.zip"),
        "`path` must end with",
    ),
    "a unit that is read, no path": (
        lambda: simkit.networks.read_fmu(3.0),
        "`path` must be the path of a unit",
    ),
    "a unit that is read, values without names": (
        lambda: simkit.networks.read_fmu("a.fmu", values=[1.0]),
        "`values` must be a dictionary of start values",
    ),
    "a time of a sweep that is none": (
        lambda: simkit.sweep(S, Y0, T, over={"growth": [0.4]}, store="nowhere", within="long"),
        "`within` must be a positive time, but it is 'long'",
    ),
    "source of equations, start a text": (
        lambda: simkit.networks.equations_source(EQUATIONS, "one"),
        "`y0` must be a state of the equations, but it is 'one'",
    ),
    "source of equations, a state left out": (
        lambda: simkit.networks.equations_source(EQUATIONS, {"y": 1.0}),
        "`y0` must give the state `x`",
    ),
    "source of equations, times a text": (
        lambda: simkit.networks.equations_source(EQUATIONS, times="long"),
        "`times` must be numbers",
    ),
    "SBML of equations, another system": (
        lambda: simkit.petab.equations_sbml(S, Y0),
        "must be made by `from_equations`, but it is of the class `LotkaVolterra`",
    ),
    "SBML of equations, start a text": (
        lambda: simkit.petab.equations_sbml(EQUATIONS, "one"),
        "`y0` must be a state of the equations, but it is 'one'",
    ),
    "component, no system": (lambda: simkit.tesseract.from_system("lynx", Y0, T), "`system` must be a system"),
    "component, a wrong name": (
        lambda: simkit.tesseract.from_system(S, Y0, T, names=["grwth"]),
        "Close matches: `growth`",
    ),
    "component, no problem": (lambda: simkit.tesseract.from_problem(S), "`problem` must be a problem"),
    "component, the path of a study": (
        lambda: simkit.tesseract.from_study("study.toml"),
        "`study` must be a study, but it is 'study.toml'. Read one",
    ),
    "files of a component, the path of a study": (
        lambda: simkit.tesseract.study_files("study.toml"),
        "`study` must be a study",
    ),
    "endpoints, no function": (
        lambda: simkit.tesseract.endpoints(3),
        "`function` must be a function of (inputs), but it is 3",
    ),
    "own models, a number": (
        lambda: simkit.study.load_models(3),
        "`paths` must be the paths of Python files, such as ",
    ),
    "a processor of no devices": (
        lambda: simkit.enable_processor(devices=0),
        "`devices` must be a whole number of at least 1",
    ),
    "a processor of devices in words": (
        lambda: simkit.enable_processor(devices="all"),
        "`devices` must be a whole number",
    ),
    "own models, a class": (lambda: simkit.study.load_models(Spring), "but one is the class `Spring`"),
    "own models, a missing file": (lambda: simkit.study.load_models("none.py"), "`none.py`"),
    "an estimate by number": (lambda: FIT[0], "`name` must be the name of a parameter, but it is 0"),
    "an estimate by None": (lambda: FIT[None], "`name` must be the name of a parameter, but it is None"),
    "estimates by a list": (lambda: FIT[["a"]], "`name` must be the name of a parameter, but it is the list"),
    "draws by number": (lambda: DRAWS[0], "`name` must be the name of a parameter, but it is 0"),
    "model of a fit, a text": (lambda: FIT.system("p"), "`problem` must be a problem"),
    "model of a fit, an unknown experiment": (lambda: FIT.system(P, "m"), "no experiment `m`"),
    "simulation of a fit, times of a text": (lambda: FIT.trajectory(P, "late"), "`times` must be numbers"),
    "plan, times of a text": (lambda: simkit.plan(P, FIT, "soon"), "`times` must be numbers, but it is 'soon'"),
    "pathfinder, paths of a text": (lambda: simkit.Pathfinder("many"), "`paths` must be an integer of at least 1"),
    "truncated, a limit of a text": (
        lambda: simkit.noise.Truncated(simkit.noise.Normal(0.1), "low"),
        "`lower` of `Truncated` must be a number, but it is 'low'",
    ),
    "truncated, no noise model": (
        lambda: simkit.noise.Truncated(0.1, 0.0),
        "`marginal` of `Truncated` must be a noise model",
    ),
    "autocorrelated, a time of zero": (
        lambda: problem(noise={"hare": simkit.noise.Autocorrelated(0.2, 0.0)}),
        "correlation time of `hare` must be positive, but it is 0",
    ),
    "a covariate of a text": (
        lambda: simkit.Experiment("e", T, DATA, covariates={"weight": "heavy"}),
        "`weight` of experiment `e` must be a number",
    ),
    "a second kind that is a number": (
        lambda: simkit.Problem(
            LINE,
            [simkit.Experiment(name, [1.0, 2.0], {"y": [2.0, 4.1]}) for name in "ab"],
            free={"a": simkit.Individual(simkit.Free(start=1.0), subpopulation=0.3)},
            noise={"y": simkit.noise.Normal(0.1)},
        ),
        "`subpopulation` of `a` must be a `Subpopulation(share, shift)`, but it is 0.3",
    ),
    "individuals by an unknown transform": (
        lambda: simkit.Problem(
            LINE,
            [simkit.Experiment(name, [1.0, 2.0], {"y": [2.0, 4.1]}) for name in "ab"],
            free={"a": simkit.Individual(simkit.Free(start=1.0), transform="sqrt")},
            noise={"y": simkit.noise.Normal(0.1)},
        ),
        "transform of the individuals. `a` must be one of",
    ),
}
"""Name -> a call and what its message holds, a regular expression in which parentheses and brackets stand for themselves."""

OWN_ERRORS = {"a function of the user's that fails": (lambda: simulate(BROKEN, {"x": 1.0}, T), "ZeroDivisionError")}
"""Calls that fail in a function of the user's, whose exception comes out as it is."""


def main() -> None:
    found = {}
    for name, (call, _) in {**ROWS, **OWN_ERRORS}.items():
        try:
            found[name] = "nothing", repr(call())[:200], False
        except Exception as error:
            found[name] = type(error).__name__, str(error), isinstance(error, simkit.SimkitError)
    print(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
