"""Patterns of Jacobians that a user states: their forms, their check, and solutions by them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.flatten_util import ravel_pytree

import simkit
from simkit import Adaptive, ArgumentError, ConstrainedSystem, Example, from_function
from simkit.solvers import BDF, JacobianPattern, Krylov, Rodas5P, Strang, Tsit5, check_pattern

SIZE = 20
TIMES = (0.0, 0.2)


def smoothed(t, y, p):
    """Diffusion on a ring by a convolution, whose pattern is not found, and a sink."""
    spread = jnp.convolve(jnp.concatenate([y[-1:], y, y[:1]]), jnp.asarray([1.0, -2.0, 1.0], y.dtype), "valid")
    return p["rate"] * spread - y**3


RING = from_function(smoothed, {"rate": 1e3})
START = jnp.asarray(np.sin(0.3 * np.arange(SIZE)))
NEIGHBOURS = sp.csr_array(np.eye(SIZE) + np.roll(np.eye(SIZE), 1, axis=0) + np.roll(np.eye(SIZE), -1, axis=0))


def test_forms():
    """Sparse and full matrices, bands and blocks are one pattern where their places are the same."""
    band = JacobianPattern.banded(4, 1, 0)
    expected = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], bool)
    assert (band.matrix() == expected).all()
    for same in (expected, expected.astype(float) * -3, sp.csc_matrix(expected), sp.coo_array(expected)):
        assert JacobianPattern(same) == band
        assert hash(JacobianPattern(same)) == hash(band)
    assert JacobianPattern.banded(3, 5) == JacobianPattern(np.ones((3, 3)))
    blocks = np.zeros((3, 3))
    blocks[0, 0] = blocks[1:, 1:] = 1
    assert JacobianPattern.blocks([1, 2]) == JacobianPattern(blocks)
    assert JacobianPattern(blocks) != band
    assert repr(band).startswith("JacobianPattern(4 x 4, 7 places, 44 %")
    # A place that is stored counts, whatever number stands there.
    stored = sp.coo_array((np.array([0.0, 1.0]), (np.array([0, 1]), np.array([1, 0]))), shape=(2, 2))
    assert (JacobianPattern(stored).matrix() == [[False, True], [True, False]]).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.ones((2, 3)), "its shape is"),
        (np.ones(4), "its shape is"),
        (np.ones((0, 0)), "its shape is"),
        ("full", "it holds"),
        ([[1, 2], [3]], "square matrix"),
    ],
)
def test_what_is_no_pattern(given, said):
    with pytest.raises(ArgumentError, match=said):
        Rodas5P(pattern=given)


@pytest.mark.parametrize(
    "make",
    [
        lambda: JacobianPattern.banded(0, 1),
        lambda: JacobianPattern.banded(3, -1),
        lambda: JacobianPattern.blocks([]),
        lambda: JacobianPattern.blocks([2, 0]),
    ],
)
def test_sizes_that_are_none(make):
    with pytest.raises(ArgumentError, match="must be a"):
        make()


@pytest.mark.parametrize("kind", [Rodas5P, BDF])
def test_a_pattern_that_cannot_be_found(kind):
    """The transform has a full pattern; with that of the ring the solution is the same, and its Jacobian is not full."""
    solver = kind(pattern=NEIGHBOURS)
    full = simkit.simulate(RING, START, TIMES, solver=kind())
    given = simkit.simulate(RING, START, TIMES, solver=solver)
    # The same steps with the same matrix, but for rounding: 1e3 units of it. BDF stops its iterations a little elsewhere.
    assert given.steps == full.steps
    assert jnp.allclose(given.final(), full.final(), rtol=0, atol=1e-12 if kind is Rodas5P else 1e-8)
    told = [
        simkit.explain(RING, START, TIMES, solver=s, gradient=False).to_json().rpartition('"jacobian": ')[2]
        for s in (kind(), solver)
    ]
    assert "a full matrix" in told[0]
    assert "60 places" in told[1]


def test_derivatives():
    """Those of a solve with a pattern are those of one without it."""

    def total(rate, solver):
        system = from_function(smoothed, {"rate": rate})
        return jnp.sum(simkit.simulate(system, START, TIMES, solver=solver).final() ** 2)

    # In reverse with the pattern, forwards without it: the same discrete solution.
    backwards = jax.grad(total)(1e3, Rodas5P(pattern=NEIGHBOURS))
    forwards = jax.jvp(lambda rate: total(rate, Rodas5P()), (1e3,), (1.0,))[1]
    assert jnp.allclose(backwards, forwards, rtol=1e-9, atol=0)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_rounding_of_a_transform_is_no_place(dtype):
    """Its rounding errors lie at every place of the matrix and are not taken for numbers."""
    ring = from_function(smoothed, {"rate": jnp.asarray(1e3, dtype)})
    check_pattern(JacobianPattern(NEIGHBOURS), ring, START.astype(dtype), np.asarray(TIMES))


def test_every_lacking_place_is_found():
    """Twelve places of POLLU, whose states and rates lie twelve decades apart, each left out once: row and column are named."""
    system, y0, times, _ = simkit.odes.POLLU.example()
    flat, unravel = ravel_pytree(y0)
    field = lambda y: ravel_pytree(system.vector_field(jnp.zeros(()), unravel(y), None))[0]
    near = flat + 1e-3 * jnp.cos(jnp.arange(flat.size)) ** 2
    whole = np.asarray(jax.jacfwd(field)(near)) != 0
    check_pattern(JacobianPattern(whole), system, y0, times)
    rows, columns = np.nonzero(whole & ~np.eye(len(whole), dtype=bool))
    for k in range(0, len(rows), len(rows) // 12 + 1):
        lacking = whole.copy()
        lacking[rows[k], columns[k]] = False
        with pytest.raises(ArgumentError, match=rf"row {rows[k]} lacks column {columns[k]}\."):
            check_pattern(JacobianPattern(lacking), system, y0, times)


def test_places_that_are_zero_at_the_start_or_come_later():
    """A product of two states that start at 0 has no derivative there; a coupling may begin with the time."""

    def product(t, y, p):
        return jnp.stack([p["k"] - y[0], y[0] * y[1] - y[1], -y[2]])

    def later(t, y, p):
        return jnp.stack([-p["k"] * y[0], -y[1], jnp.where(t > 0.1, y[0], 0.0) - y[2]])

    for field, row, column in ((product, 1, 0), (later, 2, 0)):
        system = from_function(field, {"k": 1.0})
        with pytest.raises(ArgumentError, match=f"row {row} lacks column {column}"):
            simkit.simulate(system, jnp.zeros(3), TIMES, solver=Rodas5P(pattern=np.eye(3)))


def test_the_sentence_names_three_rows():
    with pytest.raises(ArgumentError) as found:
        simkit.simulate(RING, START, TIMES, solver=BDF(pattern=np.eye(SIZE)))
    said = str(found.value)
    assert "row 0 lacks column 1, column 19; row 1 lacks column 0, column 2; row 2 lacks" in said
    assert f"and {SIZE - 3} more rows" in said
    assert "leave `pattern` out" in said


def test_sizes_are_compared_inside_jit():
    solver = Rodas5P(pattern=JacobianPattern.banded(SIZE - 1, 1))
    run = lambda y: simkit.simulate(RING, y, TIMES, solver=solver).final()
    for attempt in (run, jax.jit(run)):
        with pytest.raises(ArgumentError, match=f"{SIZE} rows and columns.*it has {SIZE - 1}"):
            attempt(START)


def test_ensembles():
    """Members are solved by the pattern; the values that they have in common are looked at."""
    members = {"rate": jnp.asarray([1e2, 1e3])}
    given = simkit.ensemble(RING, START, TIMES, over=members, solver=Rodas5P(pattern=NEIGHBOURS))
    found = simkit.ensemble(RING, START, TIMES, over=members, solver=Rodas5P())
    assert jnp.allclose(given.ys, found.ys, rtol=0, atol=1e-11)
    with pytest.raises(ArgumentError, match="lacks column"):
        simkit.ensemble(RING, START, TIMES, over=members, solver=Rodas5P(pattern=np.eye(SIZE)))


class Held(ConstrainedSystem):
    """A chain of storages, each filled through a valve whose flow follows from an algebraic equation of a convolution."""

    rate: simkit.Scalar = simkit.quantity(50.0, doc="of the valves")

    def vector_field(self, t, y, inputs):
        level, flow = y["level"], y["flow"]
        pulled = jnp.convolve(level, jnp.asarray([1.0, -2.0, 1.0]), mode="same")
        # The algebraic equations come in another order than the flows that they determine.
        return {"level": flow, "flow": jnp.roll(self.rate * pulled - flow - flow**3, 1)}

    def mass(self, t):
        return {"level": 1.0, "flow": 0.0}

    @classmethod
    def example(cls):
        level = jnp.asarray(np.sin(0.4 * np.arange(12)))
        return Example(cls(), {"level": level, "flow": jnp.zeros(12)}, jnp.asarray(TIMES))


@pytest.mark.parametrize("kind", [Rodas5P, BDF])
def test_algebraic_equations(kind):
    """The pattern is that of f; places of M are added, and equations put in the order of their unknowns."""
    system, y0, times, _ = Held.example()
    shifted = np.roll(np.eye(12), 1, axis=0)
    band = JacobianPattern.banded(12, 1).matrix()
    flows = np.block([[shifted, np.roll(band, 1, axis=0)], [np.eye(12), np.zeros((12, 12))]])
    assert list(y0) == ["level", "flow"]  # flat states are in the order of sorted names: flow, level
    found = simkit.simulate(system, y0, times, solver=kind(), step=Adaptive(1e-8))
    given = simkit.simulate(system, y0, times, solver=kind(pattern=flows), step=Adaptive(1e-8))
    # Rounding of one matrix in two orders; Newton's iterations end within 0.03 of the tolerance.
    atol = 1e-11 if kind is Rodas5P else 1e-8
    for name in y0:
        assert jnp.allclose(found.final()[name], given.final()[name], rtol=0, atol=atol), name
    with pytest.raises(ArgumentError, match="row 0 lacks column 11"):
        simkit.simulate(system, y0, times, solver=kind(pattern=flows - np.block([[shifted, 0 * band], [0 * band] * 2])))


def test_the_blocks_of_gmres():
    """Block Jacobi takes its blocks from the pattern, where none can be found: fewer products than without a preconditioner."""

    def field(t, y, p):
        spread = lambda u: smoothed(t, u, {"rate": 10.0}) + u**3
        u, v = y["u"], y["v"]
        return {"u": spread(u) - p["fast"] * (u - v), "v": spread(v) + p["fast"] * (u - v)}

    system, y0 = from_function(field, {"fast": 1e4}), {"u": START, "v": 0.5 * START}
    places = np.kron(np.eye(2), NEIGHBOURS.toarray()) + np.kron(np.ones((2, 2)), np.eye(SIZE))
    plain = simkit.simulate(system, y0, TIMES, solver=BDF())
    given = simkit.simulate(system, y0, TIMES, solver=BDF(krylov=Krylov(), pattern=places))
    # Both are within the tolerance of 1e-6 a step of the solution.
    assert jnp.allclose(plain.final()["u"], given.final()["u"], rtol=0, atol=1e-5)
    told = simkit.explain(system, y0, TIMES, solver=BDF(krylov=Krylov(), pattern=places), gradient=False)
    assert "20 blocks of 2" in told.to_json()


def test_where_it_is_not_served():
    delayed, y0, times, _ = simkit.odes.MackeyGlass.example()
    with pytest.raises(ArgumentError, match="no systems with delays"):
        simkit.simulate(delayed, y0, times, solver=Rodas5P(pattern=np.eye(1)), step=Adaptive())
    decay = simkit.odes.ExponentialDecay()
    pair = simkit.Coupled({"a": decay, "b": decay})
    solver = Strang({"a": Rodas5P(pattern=np.eye(1)), "b": Tsit5()})
    start = {"a": simkit.odes.ExponentialDecay.example().y0, "b": simkit.odes.ExponentialDecay.example().y0}
    with pytest.raises(ArgumentError, match="takes no solver with a `pattern`"):
        simkit.simulate(pair, start, TIMES, solver=solver, step=0.1)
