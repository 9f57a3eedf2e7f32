"""Several bodies in one incompressible flow: added mass between them, symmetry, contact, mixtures, transformations, bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import check_units_and_precision

import simkit
from simkit.fluids import (
    BodyState,
    Box,
    Contact,
    Disk,
    FlowScalar,
    FreeMotion,
    FreeSlip,
    Grid,
    IncompressibleFlow,
    Neumann,
    NoSlip,
    Obstacle,
    Periodic,
    TriangleSurface,
)
from simkit.fluids.staggered._bodies import bodies_of, motions_of
from simkit.fluids.staggered._contact import contact_forces, gaps
from simkit.fluids.staggered._moving import kinematics
from simkit.testing import check_gradients

ROUND = Disk(jnp.zeros(2), jnp.asarray(0.5))
BALL = Disk(jnp.zeros(3), jnp.asarray(0.5))


def free(density=1.5, shape=ROUND, **options):
    return Obstacle(shape, motion=FreeMotion(density, **options))


def flow(bodies, cells=8, size=(4.0, 4.0), **options):
    grid = Grid(tuple(int(cells * length) for length in size), size)
    options = {"viscosity": 0.1, "boundaries": NoSlip(), "tolerance": 1e-9} | options
    return IncompressibleFlow(grid, obstacles=bodies, **options)


def slope(system, start):
    return eqx.filter_jit(lambda s, y: s.vector_field(0.0, y, None))(system, start)


def potential(apart, radius=0.5, terms=60, points=400):
    """The added masses of two equal cylinders that move along the line of their centres, over that of one alone: of each on
    itself, and on the other. Multipoles in both centres, fitted to the stream function of the motion on both surfaces."""
    angle = 2 * np.pi * (np.arange(points) + 0.5) / points
    around = radius * np.exp(1j * angle)
    places = np.concatenate([around, apart + around])
    columns = np.array([(radius / (places - z)) ** k for z in (0.0, apart) for k in range(1, terms + 1)]).T
    stream = np.where(np.arange(2 * points) < points, places.imag, 0)
    found = np.linalg.lstsq(columns.imag, stream, rcond=None)[0]
    np.testing.assert_allclose(columns.imag @ found, stream, atol=1e-7)
    push = (columns.real @ found).reshape(2, points) * np.cos(angle)
    return -push.sum(axis=1) * 2 / (points * radius)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [1.25, 1.5])
def test_added_mass_between_two_cylinders(apart):
    """From rest, pushed at one of them: masses over that of one alone are those of potential flow.

    Measured with 12 cells across: 1.070 and 0.335 at a gap of a quarter of the diameter (1.077, 0.339), 1.035 and 0.227 at a half
    (1.032, 0.227). That of one alone is 1.16 in place of 1, with 20 cells 1.10: faces beside the surface go with it.
    """
    cells = 12

    def faces(fine, far):
        found = list(np.arange(0, fine + 1e-9, 1 / cells))
        while found[-1] < far:
            found.append(found[-1] + 1.12 * (found[-1] - found[-2]))
        return np.concatenate([-np.array(found[:0:-1]), found])

    x, y = faces(1.8, 10.0), faces(0.9, 10.0)
    grid = Grid((len(x) - 1, len(y) - 1), (x[-1] - x[0], y[-1] - y[0]), origin=(x[0], y[0]), faces=(x, y))

    def pushed(**gravity):
        bodies = {name: free(2.0, gravity=g, axes=(0,), turns=False) for name, g in gravity.items()}
        system = IncompressibleFlow(grid, viscosity=1e-6, boundaries=FreeSlip(), obstacles=bodies, tolerance=1e-9)
        places = {name: [-0.5 * apart if name == "left" else 0.5 * apart, 0.0] for name in bodies}
        found = slope(system, system.start(bodies=places)).bodies
        return [float(found[name].velocity[0]) for name in bodies]

    alone = 1 / pushed(left=[1.0, 0.0])[0] - 2
    own, other = pushed(left=[1.0, 0.0], right=None)
    masses = np.linalg.inv([[own, other], [other, own]])[0] - [2.0, 0.0]
    exact = potential(apart)
    assert 1.1 < alone < 1.2
    np.testing.assert_allclose(masses[0] / alone, exact[0], rtol=0.015)
    np.testing.assert_allclose(masses[1] / alone, exact[1], rtol=0.025)


@pytest.mark.slow
def test_bodies_side_by_side_mirror_each_other():
    """They sink and touch, each the mirror's image of the other, up to what the pressure is solved to."""
    bodies = {name: free(gravity=[g, -1.0]) for name, g in (("left", 2.0), ("right", -2.0))}
    system = flow(bodies, contact=Contact(5.0, 0.3))
    start = system.start(bodies={"left": [1.25, 2.5], "right": [2.75, 2.5]})
    run = simkit.simulate(system, start, [0.0, 0.7, 1.4], step=simkit.Courant(0.5))
    left, right = run.ys.bodies["left"], run.ys.bodies["right"]
    np.testing.assert_allclose(left.centre[:, 0], 4 - right.centre[:, 0], atol=1e-6)
    np.testing.assert_allclose(left.centre[:, 1], right.centre[:, 1], atol=1e-6)
    np.testing.assert_allclose(left.angle, -right.angle, atol=1e-6)
    assert 1.0 < float(right.centre[-1, 0] - left.centre[-1, 0]) < 1.28  # in reach of each other
    out = eqx.filter_jit(system.outputs)(1.4, run.final(), None)
    np.testing.assert_allclose(out["left"]["contact"], -out["right"]["contact"], atol=1e-6)
    assert float(out["left"]["contact"][0]) < -1e-2
    np.testing.assert_allclose(out["left"]["torque"], -out["right"]["torque"], atol=1e-4)
    assert abs(float(left.angle[-1])) > 1e-3


@pytest.mark.slow
def test_one_body_by_name_is_that_alone():
    """Slopes and outputs of `obstacles={"one": body}` are those of `obstacle=body`."""
    place = BodyState(jnp.array([1.4, 1.6]), jnp.array([0.3, -0.2]), jnp.asarray(0.1), jnp.asarray(0.4))
    body = free(gravity=[0.0, -1.0])
    named = flow({"one": body}, size=(3.0, 3.0))
    alone = IncompressibleFlow(named.grid, viscosity=0.1, boundaries=NoSlip(), obstacle=body, tolerance=1e-9)
    a, b = named.start(bodies={"one": place}), alone.start(body=place)
    first, second = slope(named, a), slope(alone, b)
    for x, y in zip(jax.tree.leaves(first), jax.tree.leaves((second.velocity, second.body)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    mine, own = (eqx.filter_jit(s.outputs)(0.0, y, None) for s, y in ((named, a), (alone, b)))
    for name in ("drag", "lift", "torque", "centre", "angle", "spin"):
        np.testing.assert_allclose(mine["one"][name], own[name], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mine["one"]["velocity"], own["velocity_of_body"])


def forces(system, state):
    """The forces of contact on all free bodies, and the sizes of all gaps."""
    bodies = bodies_of(system)
    places = {name: kinematics(body, system.at, 0.0, float, state.get(name)) for name, body in bodies.items()}
    given = (system.at, system.boundaries, bodies, places, motions_of(bodies))
    return contact_forces(system.contact, *given), gaps(*given)


def at(*place, angle=0.0):
    turn = jnp.asarray(angle) if len(place) == 2 else None
    return BodyState(jnp.array(place), jnp.zeros(len(place)), turn, turn)


def test_forces_of_contact():
    """The law of Glowinski et al. for disks and a wall, in two and three dimensions; opposite forces; the torque of a box."""
    law = lambda gap: 5.0 * (1 - gap / 0.4) ** 2
    system = flow(
        {"a": free(), "b": free(), "c": Obstacle(Disk(jnp.array([3.2, 3.2]), 0.5))}, contact=Contact(5.0, 0.4)
    )
    found, sizes = forces(system, {"a": at(0.6, 2.0), "b": at(1.2, 2.0 + 0.9)})
    apart = np.hypot(0.6, 0.9)
    push = law(apart - 1.0) * np.array([0.6, 0.9]) / apart
    np.testing.assert_allclose(found["b"][:2], push, rtol=1e-12)
    np.testing.assert_allclose(found["a"][:2], -push + [law(0.1), 0], rtol=1e-12)
    np.testing.assert_allclose([found["a"][2], found["b"][2]], 0, atol=1e-12)
    assert len(sizes) == 3 + 8  # three pairs, and four walls of each free body
    across = flow(
        {"a": free(), "b": free()}, boundaries=[Periodic(), NoSlip()], contact=Contact(5.0, 0.4)
    )  # through a periodic end
    found, _ = forces(across, {"a": at(0.2, 2.0), "b": at(3.0, 2.0)})
    np.testing.assert_allclose([found["a"][0], found["b"][0]], [law(0.2), -law(0.2)], rtol=1e-12)

    balls = flow({"a": free(shape=BALL), "b": free(shape=BALL)}, 2, (4.0, 4.0, 4.0), contact=Contact(5.0, 0.4))
    found, _ = forces(balls, {"a": at(2.0, 2.0, 0.7), "b": at(2.0, 2.9, 1.4)})
    apart = np.hypot(0.9, 0.7)
    push = law(apart - 1.0) * np.array([0.0, 0.9, 0.7]) / apart
    np.testing.assert_allclose(found["b"], push, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["a"], -push + [0, 0, law(0.2)], rtol=1e-12, atol=1e-12)

    box = Box(jnp.zeros(2), jnp.array([1.0, 0.6]))
    mixed = flow({"box": free(shape=box), "disk": free()}, contact=Contact(5.0, 0.4))
    state = {"box": at(2.0, 0.35, angle=0.05), "disk": at(2.4, 1.3)}
    found, _ = forces(mixed, state)
    shallow = 0.35 + np.array([-1, 1]) * 0.5 * np.sin(0.05) - 0.3 * np.cos(0.05)  # of both corners above the floor
    tilt = np.array([np.sin(-0.05), np.cos(0.05)])
    above = (np.array([0.4, 0.95]) @ tilt) - 0.3 - 0.5
    np.testing.assert_allclose(found["disk"][:2], law(above) * tilt, rtol=1e-10)
    np.testing.assert_allclose(found["box"][:2], [0, law(shallow).sum()] - law(above) * tilt, rtol=1e-10)
    arms = np.array([-1, 1]) * 0.5 * np.cos(0.05) + 0.3 * np.sin(0.05)
    along = np.array([0.4, 0.95]) @ [np.cos(0.05), np.sin(0.05)]
    np.testing.assert_allclose(found["box"][2], law(shallow) @ arms - along * law(above), rtol=1e-10)
    np.testing.assert_allclose(found["disk"][2], 0, atol=1e-12)


@pytest.mark.slow
def test_a_disk_rests_on_the_floor():
    """Where the force of contact is its weight: the gap is 1 - sqrt(weight / strength) of the reach."""
    weight = 0.5 * np.pi / 4
    system = flow({"one": free(gravity=[0.0, -1.0])}, size=(2.0, 2.0), contact=Contact(20 * weight, 0.2))
    rest = 0.5 + 0.2 * (1 - 20**-0.5)
    push = lambda y: slope(system, system.start(bodies={"one": [1.0, y]})).bodies["one"].velocity
    np.testing.assert_allclose(push(rest), 0, atol=1e-12)
    assert float(push(rest - 0.01)[1]) > 0.02
    assert float(push(rest + 0.01)[1]) < -0.02
    out = eqx.filter_jit(system.outputs)(0.0, system.start(bodies={"one": [1.0, rest]}), None)
    np.testing.assert_allclose(out["one"]["contact"], [0, weight], rtol=1e-12)


@pytest.mark.slow
def test_disks_that_sink_in_line():
    """Drafting and kissing (Fortes, Joseph and Lundgren 1987, J. Fluid Mech. 177:467): the disk behind falls faster in the wake of
    the other and reaches it; their line then turns away from the vertical, with which tumbling begins."""
    bodies = {name: free(gravity=[0.0, -1.0]) for name in ("first", "second")}
    system = flow(bodies, 10, (4.0, 12.0), viscosity=0.01, contact=Contact(5.0, 0.2), tolerance=1e-6)
    start = system.start(bodies={"first": [2.0, 9.0], "second": [2.15, 10.4]})
    run = simkit.simulate(system, start, np.linspace(0.0, 13.0, 27), step=simkit.Courant(0.5))
    first, second = (np.asarray(run.ys.bodies[name].centre) for name in ("first", "second"))
    apart = second - first
    gap = np.hypot(*apart.T) - 1
    closing = -np.diff(apart[:, 1])
    touch = int(np.argmax(gap < 0.2))
    assert 12 < touch < 16
    assert (closing[8 : touch - 1] > 0).all()
    assert closing[touch - 2] > 0.03
    assert 0.05 < gap[touch:].min() < 0.15  # the contact holds them off each other
    assert np.abs(apart[0, 0] / apart[0, 1]) < 0.15
    assert np.abs(apart[-1, 0] / apart[-1, 1]) > 0.4


@pytest.mark.slow
def test_standing_moved_and_free_bodies_in_space():
    """A free ball between two standing ones stays there; a moved one pushes a free one before it; loads by name."""
    small = Disk(jnp.zeros(3), jnp.asarray(0.4))
    drawn = Obstacle(small, motion=lambda t: jnp.stack([0.8 + 0.5 * t, 1.5 + 0 * t, 1.5 + 0 * t]))
    bodies = {
        "moved": drawn,
        "free": free(1.0, small),
        "up": Obstacle(Disk(jnp.array([2.0, 2.6, 1.5]), 0.3)),
        "down": Obstacle(Disk(jnp.array([2.0, 0.4, 1.5]), 0.3)),
    }
    system = flow(bodies, 4, (3.0, 3.0, 3.0), contact=Contact(1.0, 0.2), tolerance=1e-8)
    run = simkit.simulate(system, system.start(bodies={"free": [2.0, 1.5, 1.5]}), [0.0, 0.4], step=simkit.Fixed(10))
    moved = run.final().bodies["free"]
    assert float(moved.velocity[0]) > 0.02
    np.testing.assert_allclose(moved.centre[1:], 1.5, atol=1e-6)
    out = eqx.filter_jit(system.outputs)(0.4, run.final(), None)
    assert float(out["moved"]["drag"][0]) < 0  # its drive
    np.testing.assert_allclose(out["up"]["drag"][0], out["down"]["drag"][0], rtol=1e-4)
    np.testing.assert_allclose(out["up"]["drag"][1], -out["down"]["drag"][1], rtol=1e-4)
    total = sum(out[name]["drag"] for name in bodies)
    np.testing.assert_allclose(eqx.filter_jit(system.drag)(0.4, run.final()), total, rtol=1e-6, atol=1e-9)
    assert "contact" not in out["moved"]
    assert out["free"]["contact"].shape == (3,)


def acceleration(numbers):
    """Of two free bodies in contact beside a standing one, in a flow of noise."""
    density, radius, strength, reach = numbers
    shape = Disk(jnp.zeros(2), radius)
    bodies = {
        "a": free(density, shape, gravity=[0.2, -1.0]),
        "b": free(0.5, Box(jnp.zeros(2), jnp.array([0.8, 0.7]))),
        "c": Obstacle(Disk(jnp.array([2.3, 2.3]), 0.45)),
    }
    system = flow(bodies, 5, (3.0, 3.0), contact=Contact(strength, reach), tolerance=1e-13)
    random = np.random.default_rng(0)
    noise = tuple(jnp.asarray(random.normal(size=system.at.shape(i))) for i in range(2))
    states = {"a": at(0.7, 0.75, angle=0.0), "b": at(0.8, 1.7, angle=0.3)}
    found = system.vector_field(0.0, system.State(noise, bodies=states), None)
    parts = [jnp.sum(s.velocity) + s.spin for s in found.bodies.values()]
    return parts[0] + 2 * parts[1] + jnp.sum(found.velocity[0] ** 2)


NUMBERS = jnp.array([1.7, 0.52, 3.0, 0.45])


@pytest.mark.slow
def test_gradients():
    """By the density and the size of a body, and by the numbers of the contact, which is felt."""
    check_gradients(jax.jit(acceleration), (NUMBERS,), tolerance=1e-5, directions=2)
    assert np.all(np.abs(jax.jit(jax.grad(acceleration))(NUMBERS)) > 1e-3)


@pytest.mark.slow
def test_members_side_by_side():
    """`vmap` over systems and a run of `ensemble` are those one by one."""
    many = NUMBERS[None] * (1 + jnp.array([0.0, 0.1, -0.05]))[:, None]
    np.testing.assert_allclose(
        jax.jit(jax.vmap(acceleration))(many), [jax.jit(acceleration)(one) for one in many], rtol=1e-8
    )
    system = flow({"a": free(gravity=[0.0, -1.0]), "b": free()}, 5, (3.0, 3.0), contact=Contact(2.0, 0.3))
    y0 = system.start(bodies={"a": [1.5, 2.2], "b": [1.5, 0.9]})
    over = {"obstacles.a.motion.density": jnp.array([1.5, 3.0]), "contact.strength": jnp.array([2.0, 4.0])}
    found = simkit.ensemble(system, y0, [0.0, 0.2], over=over, step=simkit.Fixed(8)).ys.bodies["a"].centre[:, -1]
    for i in range(2):
        one = simkit.core.Setup(system).put({name: values[i] for name, values in over.items()}).system
        end = simkit.simulate(one, y0, [0.0, 0.2], step=simkit.Fixed(8)).final()
        np.testing.assert_allclose(found[i], end.bodies["a"].centre, rtol=1e-9)


@pytest.mark.slow
def test_gradient_of_a_run_through_contact():
    """Where a disk ends that bounces from the floor, by the strength of the contact and its own density."""
    system = flow({"one": free(gravity=[0.0, -8.0])}, 5, (2.0, 2.0), contact=Contact(8.0, 0.4), tolerance=1e-12)
    start = system.start(bodies={"one": BodyState([1.0, 0.85], [0.0, -0.8])})

    def end(numbers):
        names = ("contact.strength", "obstacles.one.motion.density")
        changed = simkit.core.Setup(system).put(dict(zip(names, numbers, strict=True))).system
        return simkit.simulate(changed, start, [0.0, 0.2], step=simkit.Fixed(8)).final().bodies["one"].centre[1]

    numbers, value = jnp.array([8.0, 1.6]), jax.jit(end)
    found = jax.jit(jax.grad(end))(numbers)
    steps = 1e-4 * jnp.diag(numbers)
    expected = [(value(numbers + h) - value(numbers - h)) / (2 * h.sum()) for h in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert np.all(np.abs(found) > 1e-4)


def test_other_units_and_float32():
    def push(length=1.0, time=1.0, dtype=np.float64):
        number = lambda x: jnp.asarray(x, dtype)
        shape = Disk(jnp.zeros(2, dtype), number(0.5) * length)
        gravity = number([0.0, -1.0]) * (length / time**2)
        bodies = {name: Obstacle(shape, motion=FreeMotion(number(2.0), gravity=gravity)) for name in "ab"}
        system = IncompressibleFlow(
            Grid((12, 12), 3.0 * length),
            viscosity=number(0.1) * (length**2 / time),
            boundaries=NoSlip(),
            obstacles=bodies,
            contact=Contact(number(3.0) * (length**3 / time**2), number(0.4) * length),
            tolerance=1e-6,
        )
        state = system.start(bodies={"a": number([0.8, 1.0]) * length, "b": number([1.9, 1.2]) * length})
        assert float(jax.jit(lambda s, y: s.longest_step(0.0, y, None))(system, state)) < 0.3 * time
        return np.asarray(slope(system, state).bodies["b"].velocity) * (time**2 / length)

    check_units_and_precision(push)


def test_bad_input():
    grid, error = Grid((16, 16), 4.0), simkit.ArgumentError
    made = lambda **more: IncompressibleFlow(grid, boundaries=NoSlip(), viscosity=0.1, **more)
    two = {"a": free(), "b": free()}
    with pytest.raises(error, match="`obstacles` must hold all bodies, but `obstacle`"):
        made(obstacle=free(), obstacles=two)
    with pytest.raises(error, match=r"name of a body must be a word .* one is 'velocity'"):
        made(obstacles={"velocity": free()})
    with pytest.raises(error, match="one is 'salt'"):
        made(obstacles={"salt": free()}, scalars={"salt": FlowScalar(0.1, boundaries=Neumann())})
    system = made(obstacles=two)
    with pytest.raises(error, match="`bodies` must hold the places of the free bodies, a, b, but holds a"):
        system.start(bodies={"a": [1.0, 1.0]})
    with pytest.raises(error, match=r"`body` needs an obstacle with a `FreeMotion`. Write `bodies` with a, b"):
        system.start(body=[1.0, 1.0])
    with pytest.raises(error, match="`bodies` needs `obstacles`"):
        made(obstacle=free()).start(bodies={"a": [1.0, 1.0]})
    with pytest.raises(error, match=r"'a' must not overlap the body 'b' at the start, but does by 0.2"):
        system.start(bodies={"a": [1.0, 1.0], "b": [1.8, 1.0]})
    with pytest.raises(error, match=r"'b' must not overlap the lower wall of axis 1 .* by 0.1"):
        system.start(bodies={"a": [1.0, 1.0], "b": [3.0, 0.4]})
    with pytest.raises(error, match="'b' must start inside the box, from 0 to 4 along axis 0, but its centre is at 5"):
        system.start(bodies={"a": [1.0, 1.0], "b": [5.0, 1.0]})
    with pytest.raises(error, match="The free body must start inside the box"):
        made(obstacle=free()).start(body=[2.0, -1.0])
    boxes = made(
        obstacles={
            name: free(shape=Box(jnp.zeros(2), jnp.array(n))) for name, n in (("a", [2.0, 0.4]), ("b", [0.4, 2.0]))
        }
    )
    with pytest.raises(error, match="'a' and 'b' must not overlap"):
        boxes.start(bodies={"a": [2.0, 2.0], "b": [2.0, 2.0]})  # crosswise
    good = system.start(bodies={"a": [1.0, 1.0], "b": [3.0, 1.0]})
    with pytest.raises(error, match="must not overlap"):
        simkit.simulate(system, eqx.tree_at(lambda y: y.bodies["b"].centre, good, jnp.array([1.5, 1.0])), [0.0, 1.0])
    with pytest.raises(error, match="holds the free bodies a, b, but the system has none"):
        simkit.simulate(made(), good, [0.0, 1.0])
    with pytest.raises(error, match=r"`y0\.bodies\['a'\]` must hold"):
        simkit.simulate(system, system.State(good.velocity), [0.0, 1.0])


def test_bad_contact():
    grid, error = Grid((16, 16), 4.0), simkit.ArgumentError
    made = lambda bodies, **more: IncompressibleFlow(grid, obstacles=bodies, contact=Contact(1.0, 0.1), **more)
    for name in ("strength", "reach"):
        with pytest.raises(error, match=f"`{name}` must be positive"):
            Contact(**{"strength": 1.0, "reach": 1.0, name: 0.0})
    with pytest.raises(error, match="`contact` needs a body with a `FreeMotion`"):
        made({"a": Obstacle(ROUND)})
    hill = free(shape=lambda x: x[0] ** 2 + 2 * x[1] ** 2 - 0.1)
    with pytest.raises(error, match="does not know the gap between the body 'a' and a wall"):
        made({"a": hill}, boundaries=NoSlip())
    with pytest.raises(error, match="does not know the gap between 'a' and 'b'"):
        made({"a": hill, "b": hill}, boundaries=Periodic())
    made({"a": hill, "b": free()}, boundaries=Periodic())  # a disk has a place to look at
    corners = jnp.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]) - 0.25
    solid = TriangleSurface(corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    IncompressibleFlow(
        Grid((8, 8, 8), 4.0), obstacles={"a": free(shape=solid)}, contact=Contact(1.0, 0.1), boundaries=NoSlip()
    )
    for name in ("stiffness", "damping"):
        with pytest.raises(error, match=f"`{name}` of FreeMotion must not be negative"):
            FreeMotion(1.0, **{name: -1.0}, anchor=[0.0, 0.0])
    with pytest.raises(error, match="`gravity` must be finite"):
        FreeMotion(1.0, gravity=[0.0, float("nan")])


def test_a_surface_that_lies_on_faces():
    """A box at rest whose edge is that of cells up to rounding, beside a moved disk: the flow of a box a millionth higher."""

    def speeds(height):
        moving = Obstacle(
            Disk(jnp.zeros(2), 0.2), motion=lambda t: jnp.stack([0.5 + 0.05 * jnp.sin(6 * t), 0.5 + 0 * t])
        )
        box = Obstacle(Box(jnp.array([1.5, height]), jnp.array([0.4, 0.3])))
        bodies = {"post": box, "mover": moving}
        flow = IncompressibleFlow(Grid((24, 24), (2.0, 2.0)), viscosity=0.02, boundaries=NoSlip(), obstacles=bodies)
        return simkit.simulate(flow, flow.start(), [0.0, 0.2], step=simkit.Fixed(10)).final().velocity

    on, above = speeds(0.4), speeds(0.400001)
    assert float(jnp.max(jnp.abs(on[0]))) > 0.1
    for a, b in zip(on, above, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("state", "match"),
    [
        (BodyState([1.0, 1.0], [0.0, np.nan]), "`velocity` in argument .* must be finite"),
        (BodyState([1.0, 1.0], [0.0, 0.0, 0.0]), r"of the shapes \(2,\) and \(3,\)"),
        (BodyState([1.0, 1.0], [0.0, 0.0], np.zeros(2), 0.0), "`angle` in argument .* must be one number"),
    ],
)
def test_states_of_a_body_that_are_none(state, match):
    free = Obstacle(Disk(jnp.zeros(2), 0.4), motion=FreeMotion(2.0))
    flow = IncompressibleFlow(Grid((12, 12), (2.0, 2.0)), viscosity=0.02, boundaries=NoSlip(), obstacle=free)
    with pytest.raises(simkit.ArgumentError, match=match):
        flow.start(body=state)
