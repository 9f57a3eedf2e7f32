"""Networks of many reactions, of which after a jump those alone are computed that it changes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from helpers import mean_within

import simkit
from simkit import SimulationError, Status
from simkit.core import flat_propensities, jump_matrix
from simkit.engine.jumps import _plan, _sparse
from simkit.engine.jumps._paths import FEW
from simkit.engine.jumps._sparse import Sparse


def network(folder, species, reactions, functions=(), groups=(), parameters=("slow 0.3", "fast 1.7")):
    """A network of lines of BioNetGen."""
    blocks = {"parameters": parameters, "functions": functions, "species": species, "reactions": reactions}
    text = ""
    for name, lines in (blocks | {"groups": groups}).items():
        numbered = "".join(f"    {i} {line}\n" for i, line in enumerate(lines, start=1))
        text += f"begin {name}\n{numbered}end {name}\n"
    path = folder / "network.net"
    path.write_text(text)
    return simkit.networks.load(path).as_jumps()


def random_network(folder, others):
    """Reactions of no to three reactants, one species in many of them, pairs and triples of one kind, a species that is held."""
    random = np.random.default_rng(0)
    species = [f"S{i}() {n}" for i, n in enumerate(random.integers(0, 40, 60))]
    species[0], species[59] = "S0() 50", "$S59() 3"
    reactions = ["0 1 fast", "2,2 3 0.5*slow", "2,2,2 4 slow", "60,5 6 fast", "60 7,7,7 2*slow"]
    for i in range(8, 60):
        one, two = (int(x) for x in random.integers(8, 60, 2))
        reactions += [f"1,{i} {one} slow", f"{i} 1,{one} fast", f"{i},{two} {one} slow/(1+fast)"]
    functions, groups = [], []
    if others:
        functions, groups = ["held() slow/(1 + Many)"], ["Many 8,9,10"]
        reactions += [f"{i} 2 held" for i in range(10, 16)]
    return network(folder, species, reactions, functions, groups)


def lanes_of(system, lanes):
    """Tables, what lanes hold at the start, and a function from numbers of the state to propensities."""
    y0 = system.start()
    sparse = Sparse(system, y0, jnp.dtype(float), lanes)
    flat = jnp.stack(jax.tree.leaves(y0))
    across = lambda x: jnp.broadcast_to(x[:, None], (len(x), lanes))
    unravel = lambda x: dict(zip(sorted(y0), x, strict=True))
    rates = lambda x: flat_propensities(system, 0.0, unravel(x), None)
    others = lambda y: (
        jax.vmap(lambda x: system.others(0.0, unravel(x), None), 1, 1)(y) if sparse.plan.free[1] else None
    )
    return sparse, sparse.begun(across(flat), across(system.coefficients())), rates, others


@pytest.mark.parametrize(("others", "small"), [(False, False), (True, False), (True, True)])
def test_weights_stay_those_of_the_state(tmp_path, monkeypatch, others, small):
    """After hundreds of jumps the weights are, to the bit, those computed anew, and make the propensities of the laws."""
    if small:  # every species the factor of blocks of its own, and tops in groups
        monkeypatch.setattr(_plan, "SHARED", (1,))
        monkeypatch.setattr(_plan, "WIDTHS", (4,))
        for module in (_plan, _sparse):
            monkeypatch.setattr(module, "MANY", 16)
    system = random_network(tmp_path, others)
    sparse, held, rates, rest = lanes_of(system, 8)
    plan = sparse.plan
    assert plan.free[1] == 6 * others
    assert not small or plan.tops > 40
    matrix = jump_matrix(system, system.start())
    kinds = {tuple(row) for row in matrix}

    def attempt(held, chance):
        before = sparse.numbers(held)
        held, weighed, total = sparse.weighed(held, rest(before))
        after = sparse.moved(held, weighed, chance * total, chance >= 0)
        return after, (held, total, before, sparse.numbers(after))

    chances = jax.random.uniform(jax.random.key(0), (300, 8))
    _, (helds, totals, before, after) = jax.jit(lambda held: jax.lax.scan(attempt, held, chances))(held)
    for i in (0, 1, 100, 299):
        anew = sparse.begun(before[i], held.coefficients[:-1])
        known = np.flatnonzero(plan.coefficient >= 0)
        assert np.array_equal(helds.weights[i][known], anew.weights[known])
        assert np.array_equal(helds.values[i], anew.values)
        exact = np.asarray(jax.vmap(rates, 1, 1)(before[i]))
        tops = np.concatenate([np.asarray(helds.values[i][: plan.tops])])
        slots = np.flatnonzero(plan.reaction >= 0)
        block = slots % plan.all_blocks
        top = np.where(block < plan.small, block, plan.small + (block - plan.small) % max(plan.tops - plan.small, 1))
        found = np.zeros_like(exact)
        found[plan.reaction[slots]] = np.asarray(helds.weights[i][slots]) * tops[top]
        # Products in another order, and sums of 160 of them: some roundings each.
        np.testing.assert_allclose(found, exact, rtol=1e-13)
        np.testing.assert_allclose(totals[i], exact.sum(axis=0), rtol=1e-12)
    steps = np.asarray(after - before).transpose(0, 2, 1).reshape(-1, matrix.shape[1])
    assert {tuple(x) for x in steps} <= kinds


def test_reactions_are_chosen_by_their_propensities(tmp_path):
    lanes = 20_000
    system = random_network(tmp_path, True)
    sparse, held, rates, rest = lanes_of(system, lanes)
    held, weighed, total = sparse.weighed(held, rest(sparse.numbers(held)))
    chance = jax.random.uniform(jax.random.key(1), (lanes,))
    after = sparse.moved(held, weighed, chance * total, jnp.ones(lanes, bool))
    steps = np.asarray(sparse.numbers(after) - sparse.numbers(held)).T
    kinds, matrix = {}, jump_matrix(system, system.start())
    rate = np.asarray(rates(sparse.numbers(held)[:, 0]))
    for row, x in zip(matrix, rate, strict=True):
        kinds[tuple(row)] = kinds.get(tuple(row), 0.0) + float(x)
    seen = dict.fromkeys(kinds, 0)
    for step in steps:
        seen[tuple(step)] += 1
    expected = np.array([kinds[x] for x in kinds]) / rate.sum() * lanes
    found = np.array([seen[x] for x in kinds])
    assert (found[expected == 0] == 0).all()
    kept = expected > 5
    statistic = ((found - expected)[kept] ** 2 / expected[kept]).sum()
    assert kept.sum() > 30
    assert scipy.stats.chi2.sf(statistic, kept.sum() - 1) > 1e-6
    still = sparse.moved(held, weighed, chance * total, jnp.zeros(lanes, bool))
    assert np.array_equal(sparse.numbers(still), sparse.numbers(held))


def test_dimers_beside_each_other(tmp_path):
    """Twenty pots of dimers whose parting is slowed: the chances of 0 to 3 pairs are those of the generator."""
    species, reactions, functions, groups = [], [], [], []
    for i in range(20):
        species += [f"A{i}() 7", f"B{i}() 0"]
        a, b = 2 * i + 1, 2 * i + 2
        reactions += [f"{a},{a} {b} 0.5*bind", f"{b} {a},{a} slowed{i}"]
        functions.append(f"slowed{i}() leave/(1 + Pairs{i})")
        groups.append(f"Pairs{i} {b}")
    system = network(tmp_path, species, reactions, functions, groups, ("bind 0.1", "leave 0.4"))
    assert len(system.reactions.laws) > FEW
    start = system.start()
    found = simkit.ensemble(system, start, [0.0, 0.7, 2.0], over={"bind": jnp.full(200, 0.1)}, key=jax.random.key(0))
    assert not found.failures()
    counts = np.stack([np.asarray(found.ys[f"B{i}()"]) for i in range(20)])
    pairs = np.arange(4)
    up, down = 0.05 * (7 - 2 * pairs) * (6 - 2 * pairs), 0.4 * pairs / (1 + pairs)
    generator = np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    generator -= np.diag(generator.sum(axis=1))
    for row, time in ((1, 0.7), (2, 2.0)):
        chance = scipy.linalg.expm(time * generator)[0]
        for n in range(4):
            assert mean_within(counts[:, :, row] == n, float(chance[n]))
    alone = simkit.simulate(system, start, [0.0, 0.7, 2.0], key=jax.random.split(jax.random.key(0), 200)[7])
    assert all(np.array_equal(alone.ys[name], found.ys[name][7]) for name in start)


def test_members_with_rate_constants_of_their_own_and_single_precision(tmp_path):
    """Forty kinds that die: counts are binomial, by the rate of the member; members outnumber the lanes' turns."""
    system = network(tmp_path, [f"S{i}() 10" for i in range(40)], [f"{i} 0 slow" for i in range(1, 41)])
    system = simkit.cast(system, jnp.float32)
    start = simkit.cast(system.start(), jnp.float32)
    slow = jnp.repeat(jnp.asarray([0.1, 1.0], jnp.float32), 150)
    found = simkit.ensemble(system, start, np.array([0, 1], np.float32), over={"slow": slow}, key=jax.random.key(0))
    assert not found.failures()
    counts = np.stack([np.asarray(found.ys[f"S{i}()"][:, -1]) for i in range(40)])
    assert counts.dtype == np.float32
    assert mean_within(counts[:, :150], 10 * np.exp(-0.1))
    assert mean_within(counts[:, 150:], 10 * np.exp(-1.0))
    assert (np.asarray(found.steps) == (400 - counts.sum(axis=0))).all()


def with_slow(system, value):
    return eqx.tree_at(lambda system: system.parameters["slow"], system, jnp.asarray(value))


def test_failures_are_told(tmp_path):
    system = network(tmp_path, [f"S{i}() 2" for i in range(40)], [f"{i} 0 slow" for i in range(1, 41)])
    run = lambda system, start, **more: simkit.simulate(system, start, [0.0, 1.0], key=jax.random.key(0), **more)
    with pytest.raises(SimulationError, match=r"reaction `reaction 1` is -.* at time 0|reaction\.0` is -"):
        run(with_slow(system, -0.5), system.start())
    nothing = dict.fromkeys(system.start(), 0.0)
    with pytest.raises(SimulationError, match="a rate constant or a number of things is negative"):
        run(with_slow(system, -0.5), nothing)
    with pytest.raises(SimulationError, match=r"reaction\.39` is -|reaction `reaction 40` is -"):
        run(system, nothing | {"S39()": -1.0})
    assert run(system, nothing).steps == 0
    marked = run(with_slow(system, float("nan")), system.start(), on_failure="mark")
    assert marked.status == Status.NEGATIVE_PROPENSITY
