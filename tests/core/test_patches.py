"""One model in many patches: matrix exponentials, what is conserved, own values, noise, derivatives, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

import simkit
from simkit.core import Setup, as_state
from simkit.odes import SIR, OrnsteinUhlenbeck, StochasticLotkaVolterra
from simkit.solvers import RK4, Rodas5P, jacobian_structure
from simkit.testing import check_gradients

simkit.enable_x64()

DECAY = simkit.from_function(
    lambda t, y, p, u: {"x": u["push"] - p["rate"] * y["x"], "still": 0.0 * y["still"]},
    {"rate": 0.3},
    inputs={"push": simkit.Input("1/s", 0.0)},
)
MOVES = np.array([[0.0, 0.5, 0.0], [0.2, 0.0, 0.4], [0.0, 0.1, 0.0]])
RATES = np.array([0.3, 0.1, 0.7])
START = {"x": [1.0, 2.0, 0.5], "still": [1.0, 1.0, 1.0]}


def _exact(t, moves=MOVES, rates=RATES):
    return scipy.linalg.expm(t * (moves - np.diag(moves.sum(axis=0)) - np.diag(rates)))


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.coo_array])
def test_linear_decay_with_exchange_of_one_state_is_a_matrix_exponential(form):
    patches = simkit.Patches(DECAY, {"x": form(MOVES)}, each={"rate": RATES})
    y0 = as_state(patches, START)
    slope = jax.jacfwd(lambda x: patches.vector_field(jnp.zeros(()), {**y0, "x": x}, {"push": 0.0})["x"])(y0["x"])
    np.testing.assert_allclose(slope, MOVES - np.diag(MOVES.sum(axis=0)) - np.diag(RATES), atol=1e-15)
    assert not patches.moved(y0)["still"].any()
    np.testing.assert_allclose(patches.moved(y0)["x"].sum(), 0.0, atol=1e-15)


def test_a_run_its_inputs_and_a_wire_to_one_patch():
    """A constant push to the second patch alone, from a part beside the patches: x' = A x + push."""
    patches = simkit.Patches(DECAY, {"x": MOVES}, each={"rate": RATES}, inputs=["push"])
    source = simkit.from_function(lambda t, y, p: {"level": 0.0 * y["level"]}, {})
    whole = simkit.Coupled(
        {"towns": patches, "source": source},
        {"towns.push": lambda system, t, y, outputs: y["source"]["level"] * jnp.asarray([0.0, 1.0, 0.0])},
    )
    assert Setup(whole).names() == (
        "towns.patch.rate",
        "towns.exchange.x.rate",
        "towns.exchange.x.strength",
    )
    run = simkit.simulate(whole, {"towns": START, "source": {"level": 0.4}}, [0.0, 2.0], step=simkit.Adaptive(1e-10))
    slope = np.zeros((4, 4))
    slope[:3, :3] = MOVES - np.diag(MOVES.sum(axis=0)) - np.diag(RATES)
    slope[1, 3] = 0.4
    expected = (scipy.linalg.expm(2.0 * slope) @ [*START["x"], 1.0])[:3]
    np.testing.assert_allclose(run.final()["towns"]["x"], expected, rtol=1e-8)


def test_derivatives_by_own_values_rates_and_starts_of_patches_are_those_of_differences():
    towns = simkit.Patches(SIR(), 0.1 * (1 - np.eye(2)), each={"transmission": [1.7, 1.2]})
    y0 = as_state(towns, {"susceptible": [999.0, 500.0], "infected": [1.0, 0.0], "recovered": [0.0, 0.0]})
    setup = Setup(towns, y0)
    assert setup.metadata("patch.transmission.1").unit == "1/day"

    def last(own, moving, start):
        new = setup.put({"patch.transmission.1": own, "exchange.rate.0.1": moving, "y0.infected.0": start})
        run = simkit.simulate(new.system, new.y0, [0.0, 4.0], step=0.5, solver=RK4())
        return jnp.sum(run.final().infected ** 2) / 1e3

    check_gradients(last, (1.2, 0.1, 1.0))


def test_a_ring_of_many_patches_keeps_its_sparse_jacobian():
    count, there = 64, (np.arange(64) + 1) % 64
    ring = scipy.sparse.coo_array((np.full(count, 50.0), (there, np.arange(count))), shape=(count, count))
    patches = simkit.Patches(DECAY, ring + ring.T)
    y0 = as_state(patches, {"x": np.eye(count)[0], "still": np.ones(count)})

    def structure(rate):
        system = Setup(patches).put({"exchange.rate": rate}).system
        assert jacobian_structure(system, y0, jnp.zeros(()), {"push": 0.0}).name != "dense"
        return rate

    jax.eval_shape(structure, patches.exchange.rate)  # whatever the rates are
    run = simkit.simulate(patches, y0, [0.0, 2.0], solver=Rodas5P(), step=simkit.Adaptive(1e-6))
    moves = (ring + ring.T).toarray()
    np.testing.assert_allclose(run.final()["x"], _exact(2.0, moves, np.full(count, 0.3))[:, 0], rtol=1e-4)
    np.testing.assert_allclose(run.final()["still"].sum(), 64.0, rtol=1e-12)  # it moves, and none of it is lost


def test_each_patch_has_noise_of_its_own():
    y0 = {"x": np.array([1.0, 2.0])}
    pair = simkit.Patches(OrnsteinUhlenbeck(), 1 - np.eye(2), each={"volatility": [0.5, 0.1]})
    assert isinstance(pair, simkit.StochasticSystem)
    run = simkit.simulate(pair, y0, [0.0, 0.5], step=0.1, key=jax.random.key(0))
    assert run.solver.startswith("SRA1")
    np.testing.assert_array_equal(pair.diffusion(jnp.zeros(()), as_state(pair, y0), None).x, [0.5, 0.1])
    lakes = simkit.Patches(StochasticLotkaVolterra(), 1 - np.eye(2))
    many = as_state(lakes, {"hare": [50.0, 20.0], "lynx": [100.0, 30.0]})
    found = lakes.diffusion(jnp.zeros(()), many, None)
    for i in range(2):
        own = lakes.patch.diffusion(jnp.zeros(()), jax.tree.map(lambda x, i=i: x[i], many), None)
        np.testing.assert_array_equal(found.lynx[i, 3 * i : 3 * i + 3], own.lynx)
        assert not found.lynx[i, 3 * (1 - i) : 3 * (1 - i) + 3].any()


SQUARE = 1 - np.eye(3)
WRONG = {
    "a matrix that is not square": (lambda: simkit.Patches(SIR(), np.ones((2, 3))), r"square matrix.*\(2, 3\)"),
    "a diagonal": (lambda: simkit.Patches(SIR(), np.eye(2)), "zeros on its diagonal"),
    "a sparse diagonal": (lambda: simkit.Patches(SIR(), scipy.sparse.eye_array(2)), "zeros on its diagonal"),
    "a negative rate": (lambda: simkit.Patches(SIR(), -SQUARE), "not negative"),
    "sizes that differ": (
        lambda: simkit.Patches(SIR(), {"infected": SQUARE, "recovered": 1 - np.eye(2)}),
        "one size.*'infected': 3, 'recovered': 2",
    ),
    "no matrix at all": (lambda: simkit.Patches(SIR(), {}), "at least one"),
    "a parameter of no name": (lambda: simkit.Patches(SIR(), SQUARE, each={"spread": [1, 2, 3]}), "`spread`"),
    "too few values": (lambda: simkit.Patches(SIR(), SQUARE, each={"recovery": [1, 2]}), r"\(3,\).*\(2,\)"),
    "an input of no name": (lambda: simkit.Patches(DECAY, SQUARE, inputs=["pull"]), "`pull`.*`push`"),
    "a family that is not served": (lambda: simkit.Patches(simkit.odes.MackeyGlass(), SQUARE), "MackeyGlass"),
    "a state of one patch": (
        lambda: as_state(simkit.Patches(DECAY, SQUARE), {"x": 1.0, "still": 1.0}),
        r"all 3 patches .* `still` its shape is \(\)",
    ),
    "a state of no name": (
        lambda: as_state(simkit.Patches(SIR(), SQUARE), {"infectd": [1.0, 2.0, 3.0]}),
        "`infectd`.*`infected`",
    ),
    "one number for inputs of patches": (
        lambda: simkit.Patches(DECAY, SQUARE, inputs=["push"]).vector_field(
            0.0, {"x": jnp.ones(3), "still": jnp.ones(3)}, {"push": jnp.ones(())}
        ),
        r"a value for each of the 3 patches.*shape \(\)",
    ),
    "a rate that is no number": (lambda: simkit.Patches(SIR(), np.nan * SQUARE), "finite"),
    "exchange of no state": (
        lambda: as_state(simkit.Patches(DECAY, {"y": SQUARE}), {"x": jnp.ones(3), "still": jnp.ones(3)}),
        "no state .*`y`.*`x`",
    ),
    "exchange of no state that the model declares": (
        lambda: simkit.Patches(SIR(), {"infectd": SQUARE}),
        "no state .*`infectd`.*`infected`",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name):
    call, text = WRONG[name]
    with pytest.raises(simkit.SimkitError, match=text):
        call()
