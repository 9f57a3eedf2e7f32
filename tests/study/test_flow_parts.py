"""Layers of water, scalars by name with reactions, moved bodies and dynamic closures in study files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import StudyError, UnknownNameError, fluids
from simkit.study import study_from_text

LAYERS = """
[system]
model = "multilayer_shallow_water"
grid = { shape = [16], lengths = [100.0] }
bed = { builder = "gaussian", amplitude = 5.0, width = 10.0 }
boundaries = { model = "free_slip" }
[system.parameters]
density = [1000.0, 1025.0]
gravity = 1.0
[y0]
levels = [{ builder = "constant", value = 50.0 }, { builder = "jump", below = 20.0, above = 3.0 }]
velocity = [{ builder = "uniform", values = [0.5] }, { builder = "rest" }]
"""


def test_layers_by_the_levels_of_their_tops():
    study = study_from_text(LAYERS)
    system = study.system
    assert isinstance(system, fluids.MultilayerShallowWater)
    assert np.asarray(system.density).tolist() == [1000.0, 1025.0]
    upper, lower = np.asarray(study.y0.height)
    interface = np.where(np.arange(16) < 8, 20.0, 3.0)
    np.testing.assert_allclose(lower, np.maximum(interface - system.bed, 0.0))
    assert (lower == 0).any()  # the bed comes through the lower layer
    np.testing.assert_allclose(upper + lower + system.bed, 50.0)
    np.testing.assert_allclose(study.y0.velocity[0], [[0.5] * 16, [0.0] * 16])


def test_layers_by_their_heights():
    heights = '[{ builder = "constant", value = 2.0 }, { builder = "constant", value = 3.0 }]'
    text = LAYERS.replace(LAYERS[LAYERS.index("levels") : LAYERS.index("velocity")], f"heights = {heights}\n")
    study = study_from_text(
        text.replace('[{ builder = "uniform", values = [0.5] }, { builder = "rest" }]', '{ builder = "rest" }')
    )
    assert study
    np.testing.assert_allclose(study.y0.height, [[2.0] * 16, [3.0] * 16])


FLOW = """
[system]
model = "incompressible_flow"
grid = { shape = [16, 12], lengths = [2.0, 1.0] }
flux = "upwind"
smagorinsky = { model = "dynamic", average = ["x"] }
[system.boundaries]
x = { model = "periodic" }
y = { model = "no_slip" }
[system.obstacle]
shape = "box"
lengths = [0.4, 0.3]
[system.obstacle.motion]
centre = ["1.0 + amplitude*sin(6*t)", "0.5"]
angle = "0.2*t"
parameters = { amplitude = 0.1 }
[system.scalars.fuel]
diffusivity = 0.01
boundaries = { x = { model = "periodic" }, y = { model = "neumann" } }
[system.scalars.heat]
diffusivity = 0.02
buoyancy = [0.0, 1.0]
boundaries = { x = { model = "periodic" }, y = { model = "dirichlet", value = 0.5 } }
[system.reaction]
rates = { fuel = "-rate*fuel*heat", heat = "rate*fuel*heat + 0.1*x*cos(t)" }
parameters = { rate = 2.0 }
[system.parameters]
viscosity = 0.02
reaction.parameters.rate = 3.0
[y0]
velocity = { builder = "rest" }
scalars.fuel = { builder = "linear", axis = "y", below = 1.0, above = 0.0 }
"""


def in_code():
    """The system of the study in Python, with functions in the place of formulas."""
    walls = lambda end: [fluids.Periodic(), end]

    def motion(t):
        return jnp.stack([1.0 + 0.1 * jnp.sin(6.0 * t), jnp.full_like(t, 0.5)]), 0.2 * t

    def reaction(t, x, scalars):
        burnt = 3.0 * scalars["fuel"] * scalars["heat"]
        return {"fuel": -burnt, "heat": burnt + 0.1 * x[0] * jnp.cos(t)}

    return fluids.IncompressibleFlow(
        fluids.Grid((16, 12), (2.0, 1.0)),
        viscosity=0.02,
        flux="upwind",
        boundaries=walls(fluids.NoSlip()),
        smagorinsky=fluids.DynamicSmagorinsky((0,)),
        obstacle=fluids.Obstacle(fluids.Box(jnp.zeros(2), jnp.array([0.4, 0.3])), motion=motion),
        scalars={
            "fuel": fluids.FlowScalar(0.01, boundaries=walls(fluids.Neumann())),
            "heat": fluids.FlowScalar(0.02, buoyancy=jnp.array([0.0, 1.0]), boundaries=walls(fluids.Dirichlet(0.5))),
        },
        reaction=reaction,
    )


@pytest.mark.slow
def test_a_moved_body_and_scalars_that_react_are_those_of_code():
    study, system = study_from_text(FLOW), in_code()
    assert isinstance(study.system, fluids.IncompressibleFlow)
    start = system.start(scalars={"fuel": np.broadcast_to(1 - system.grid.centres(1), (16, 12))})
    slope = lambda system, y: jax.jit(lambda y: system.vector_field(jnp.asarray(0.3), y, None))(y)
    found = jax.tree.leaves((study.y0, slope(study.system, study.y0)))
    expected = jax.tree.leaves((start, slope(system, start)))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)  # order of operations in formulas


def test_walls_with_the_law_of_the_wall():
    text = """
[system]
model = "incompressible_flow"
grid = { shape = [4, 4], lengths = [1.0, 1.0] }
[system.boundaries]
x = { model = "periodic" }
y.lower = { model = "wall_model", roughness = 0.01, cell = 2 }
y.upper = { model = "wall_model", velocity = [1.0, 0.0], kappa = 0.384, intercept = 4.27 }
[system.parameters]
viscosity = 0.001
[y0]
velocity = { builder = "uniform", values = [1.0, 0.0] }
"""
    lower, upper = study_from_text(text).system.boundaries[1]
    assert isinstance(lower, fluids.WallModel)
    assert isinstance(upper, fluids.WallModel)
    assert (float(lower.roughness), lower.cell, upper.cell) == (0.01, 2, 1)
    assert upper.roughness is None
    assert np.asarray(upper.velocity).tolist() == [1.0, 0.0]
    assert (float(upper.kappa), float(upper.intercept), float(lower.intercept)) == (0.384, 4.27, 5.2)
    with pytest.raises(UnknownNameError, match="no key `rough`"):
        study_from_text(text.replace("roughness", "rough"))
    with pytest.raises(StudyError, match="`roughness` of WallModel"):
        study_from_text(text.replace("0.01", "0.9")).system  # noqa: B018


DECAY = """
[system]
model = "incompressible_flow"
grid = { shape = [4, 4] }
[system.scalars.left]
diffusivity = 0.01
[system.reaction]
rates = { left = "-rate*left" }
parameters = { rate = 2.0 }
[y0]
velocity = { builder = "rest" }
scalars.left = { builder = "constant", value = 3.0 }
"""


def test_a_reaction_decays_as_it_should_with_a_derivative_by_its_number():
    study = study_from_text(DECAY)
    system, start = study.system, study.y0

    def left(rate):
        rated = simkit.core.Setup(system).put({"reaction.parameters.rate": rate}).system
        run = simkit.simulate(rated, start, [0.0, 0.5], step=simkit.Fixed(40))
        return run.final().scalars["left"][0, 0]

    value, slope = jax.value_and_grad(left)(2.0)
    # SSPRK3 with steps of 0.0125: (k h)^4 / 24 a step, some 1e-6 of the whole.
    np.testing.assert_allclose(value, 3 * np.exp(-1.0), rtol=2e-6)
    np.testing.assert_allclose(slope, -0.5 * 3 * np.exp(-1.0), rtol=1e-5)


def test_a_number_of_a_formula_may_be_free():
    data = """
[experiments.first]
times = [0.0, 0.5]
data = { energy = [0.0, 0.0] }
[noise]
energy = { model = "normal", scale = 0.1 }
[free]
reaction.parameters.rate = { prior = { log_normal = [0.7, 1.0] } }
"""
    problem = study_from_text(DECAY + data).problem()
    assert problem.names == ("reaction.parameters.rate",)


def test_a_disk_moves_in_space():
    text = """
[system]
model = "incompressible_flow"
grid = { shape = [8, 8, 8] }
[system.obstacle]
shape = "disk"
radius = 1.0
motion = { centre = ["3.0", "3.0", "3.0 - fall*t^2/2"], parameters = { fall = 2.0 } }
[y0]
velocity = { builder = "rest" }
"""
    motion = study_from_text(text).system.obstacle.motion
    np.testing.assert_allclose(motion(jnp.asarray(1.5)), [3.0, 3.0, 0.75])


BODIES = """
[system]
model = "incompressible_flow"
grid = { shape = [12, 16], lengths = [3.0, 4.0] }
boundaries = { model = "no_slip" }
contact = { strength = 4.0, reach = 0.3 }
[system.obstacles.ball]
shape = "disk"
radius = 0.5
motion = { model = "free", density = 1.5, gravity = [0.0, -1.0], axes = ["y"], turns = false }
[system.obstacles.sprung]
shape = "box"
lengths = [0.8, 0.6]
motion = { model = "free", stiffness = [2.0, 3.0], damping = 0.1, anchor = [1.5, 0.9] }
[system.obstacles.post]
shape = "disk"
radius = 0.3
centre = [0.5, 3.4]
[system.obstacles.paddle]
shape = "box"
lengths = [0.4, 0.3]
motion = { centre = ["2.4 + size*sin(t)", "3.4"], parameters = { size = 0.1 } }
[system.parameters]
viscosity = 0.02
obstacles.sprung.motion.density = 0.7
contact.strength = 5.0
[y0]
velocity = { builder = "rest" }
bodies.ball = { centre = [1.5, 2.0], velocity = [0.0, -0.2] }
bodies.sprung = { centre = [1.5, 1.0], angle = 0.1, spin = 0.2 }
"""


def test_free_bodies_are_those_of_code():
    study = study_from_text(BODIES)
    disk, box = (lambda r: fluids.Disk(jnp.zeros(2), r)), (lambda *n: fluids.Box(jnp.zeros(2), jnp.array(n)))
    ball = fluids.FreeMotion(1.5, gravity=[0.0, -1.0], axes=(1,), turns=False)
    sprung = fluids.FreeMotion(0.7, stiffness=[2.0, 3.0], damping=0.1, anchor=[1.5, 0.9])
    paddle = lambda t: jnp.stack([2.4 + 0.1 * jnp.sin(t), jnp.full_like(t, 3.4)])
    system = fluids.IncompressibleFlow(
        fluids.Grid((12, 16), (3.0, 4.0)),
        viscosity=0.02,
        boundaries=fluids.NoSlip(),
        contact=fluids.Contact(5.0, 0.3),
        obstacles={
            "ball": fluids.Obstacle(disk(0.5), motion=ball),
            "sprung": fluids.Obstacle(box(0.8, 0.6), motion=sprung),
            "post": fluids.Obstacle(fluids.Disk(jnp.array([0.5, 3.4]), 0.3)),
            "paddle": fluids.Obstacle(box(0.4, 0.3), motion=paddle),
        },
    )
    states = {
        "ball": fluids.BodyState([1.5, 2.0], [0.0, -0.2]),
        "sprung": fluids.BodyState([1.5, 1.0], [0.0, 0.0], 0.1, 0.2),
    }
    start = system.start(bodies=states)
    slope = lambda system, y: jax.jit(lambda y: system.vector_field(jnp.asarray(0.3), y, None))(y)
    found = jax.tree.leaves((study.y0, slope(study.system, study.y0)))
    expected = jax.tree.leaves((start, slope(system, start)))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-7)  # what the pressure is solved to
    alone = BODIES[: BODIES.index("[system.obstacles.sprung]")] + BODIES[BODIES.index("[system.parameters]") :]
    for old, new in (
        ("obstacles.ball]", "obstacle]"),
        ("obstacles.sprung.motion.density = 0.7\n", ""),
        ("bodies.ball", "body"),
        ("bodies.sprung = { centre = [1.5, 1.0], angle = 0.1, spin = 0.2 }\n", ""),
    ):
        alone = alone.replace(old, new)
    assert study_from_text(alone).y0.body.velocity.tolist() == [0.0, -0.2]


@pytest.mark.slow
def test_the_disks_sink_from_the_command_line(tmp_path):
    from pathlib import Path

    from simkit.cli import main

    text = (Path(simkit.__file__).parents[1] / "examples" / "sinking_disks.toml").read_text()
    text = text.replace("[40, 120]", "[16, 48]").replace("to = 13.0, count = 14", "to = 0.5, count = 3")
    (tmp_path / "small.toml").write_text(text)
    assert main(["run", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "figures" / "fields.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("text", "old", "new", "error", "message"),
    [
        (LAYERS, "density = [1000.0, 1025.0]\n", "", StudyError, "must give `density`"),
        (LAYERS, "density = [1000.0, 1025.0]", "density = [1025.0, 1000.0]", StudyError, "density"),
        (LAYERS, "levels = [", "heights = [{}]\nlevels = [", StudyError, "one of them"),
        (LAYERS, ', { builder = "jump", below = 20.0, above = 3.0 }', "", StudyError, "a table for each of 2 layers"),
        (LAYERS, '"free_slip"', '"level"', UnknownNameError, "no boundary condition `level`"),
        (LAYERS, "[y0]", "[y0]\nheight = 1.0", UnknownNameError, "no key `height`"),
        (FLOW, '["x"]', '["z"]', UnknownNameError, "no axis `z`"),
        (FLOW, '"dynamic"', '"dynamical"', UnknownNameError, "no closure `dynamical`"),
        (FLOW, 'amplitude*sin(6*t)", "0.5"]', 'amplitude*sin(6*t)"]', StudyError, "a formula for each of 2 axes"),
        (FLOW, "amplitude*sin", "amplitud*sin", StudyError, "no name `amplitud`. Close matches: `amplitude`"),
        (FLOW, "-rate*fuel*heat", "-rate*fuel*heet", StudyError, "no name `heet`"),
        (FLOW, "rates = { fuel =", "rates = { fule =", UnknownNameError, "no scalar `fule`"),
        (FLOW, "{ rate = 2.0 }", "{ rate = 2.0, heat = 1.0 }", StudyError, "name of something else"),
        (FLOW, "scalars.fuel = {", "scalars.salt = {", UnknownNameError, "no scalar `salt`"),
        (FLOW, "lengths = [0.4, 0.3]", "radius = 0.2", StudyError, "must give `lengths`"),
        (FLOW, "diffusivity = 0.02\n", "", StudyError, "must give `diffusivity`"),
        (FLOW, "amplitude*sin(6*t)", "run(t)", StudyError, "which is unknown"),
        (BODIES, '["y"]', '["u"]', UnknownNameError, "axes.*no axis `u`"),
        (BODIES, '"free", density', '"fre", density', UnknownNameError, "no motion `fre`"),
        (BODIES, "stiffness = [2.0, 3.0]", "stiffness = -2.0", StudyError, "must not be negative"),
        (BODIES, "turns = false", 'turns = "no"', StudyError, "must be true or false"),
        (BODIES, "bodies.ball", "bodies.bell", UnknownNameError, "no body `bell`"),
        (BODIES, "spin = 0.2", "spn = 0.2", UnknownNameError, "no key `spn`"),
        (BODIES, ", reach = 0.3", "", StudyError, "must give `reach`"),
        (BODIES, ", reach = 0.3", ", reech = 0.3", StudyError, "must give `reach`, but it does not. It has `reech`"),
        (BODIES, "centre = [1.5, 2.0]", "centre = [1.5, 1.5]", StudyError, "must not overlap"),
        (DECAY, "[system.scalars.left]\ndiffusivity = 0.01\n", "", UnknownNameError, "no scalar `left`"),
    ],
)
def test_what_does_not_fit_is_named(text, old, new, error, message):
    assert old in text
    with pytest.raises(error, match=message):
        study_from_text(text.replace(old, new))


def test_levels_that_cross_and_a_flow_that_is_none():
    with pytest.raises(StudyError, match="that of layer 2 lies above that of layer 1"):
        study_from_text(LAYERS.replace("below = 20.0", "below = 60.0"))
    with pytest.raises(UnknownNameError, match=r"`builder` in \[y0.velocity\]"):
        study_from_text(LAYERS.replace('{ builder = "rest" }', '{ builder = "resst" }'))


def test_keys_that_a_table_could_have_are_named():
    with pytest.raises(UnknownNameError, match="`bed`"):
        study_from_text(LAYERS.replace("bed = {", "bedd = {"))


def test_pictures_of_layers():
    """Each layer is a panel of its own, whatever their number."""
    study = study_from_text(LAYERS)
    run = simkit.simulate(study.system, study.y0, [0.0, 1.0], step=0.5)
    figure = simkit.viz.plot_fields(study.system.grid, run)
    named = [panel.get_ylabel() for panel in figure.axes] + [panel.get_title() for panel in figure.axes]
    for name in ("height 1", "height 2", "velocity x 1", "velocity x 2"):
        assert any(name in text for text in named), (name, named)
