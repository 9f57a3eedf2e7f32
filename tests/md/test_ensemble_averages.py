"""Derivatives of averages against exact ones of wells and pairs, fluctuation formulas, and differences of long runs."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_runs import ideal

import simkit
from simkit import md
from simkit.md.averages._front import choose_method

KEY = jax.random.key(1)
T, K = 1.3, 2.0


class Power(eqx.Module):
    """k r^n / n."""

    k: jax.Array
    n: int = eqx.field(static=True)

    def __call__(self, r):
        return self.k[0] * r**self.n / self.n


def well(k, temperature=T, friction=3.0, n=2):
    """Two atoms on a spring: their distance is that of a particle of half the mass in a well."""
    potential = md.PairFunction(Power(jnp.asarray(k, float)[None], n), cutoff=100.0)
    return md.Particles(potential, md.OpenSpace(), dynamics=md.Langevin(temperature, friction))


PAIR = md.Atoms(jnp.array([[0.0, 0.0, 0.0], [1.0, 0.5, 0.2]]), jnp.zeros((2, 3)))
TIMES = np.arange(4001) * 0.5


def square(system, atoms):
    return jnp.sum((atoms.position[1] - atoms.position[0]) ** 2)


def agrees(found, exact, within):
    """Four standard errors, which are themselves small enough to tell something."""
    assert float(found.error) < within * abs(exact)
    assert abs(float(found.value) - exact) < 4 * float(found.error)


@pytest.fixture(scope="module")
def frames():
    return md.sample_ensemble(well(K), PAIR, TIMES, step=0.05, key=KEY, discard=20)


def test_reweighting_in_a_well(frames):
    """<r^2> = 3 T / k, so that d/dk = -3 T / k^2 and d/dT = 3 / k. BAOAB draws positions of a harmonic well without error."""
    agrees(frames.average(square, well(K)), 3 * T / K, 0.05)
    slope = eqx.filter_jit(lambda v: md.sensitivity(lambda q: frames.average(square, well(*q)), jnp.array([K, T]), v))
    for direction, exact in (([1.0, 0.0], -3 * T / K**2), ([0.0, 1.0], 3 / K)):
        agrees(slope(jnp.array(direction)), exact, 0.1)


def test_reweighting_to_another_well(frames):
    other = 1.25 * K
    found = frames.average(square, well(other))
    agrees(found, 3 * T / other, 0.05)
    # Of normal distributions: exp of minus the relative entropy, and their normalisation. Four standard errors of 3981 frames,
    # of which each is worth more than a third of an independent one.
    share, ratio = float(frames.effective_size(well(other))) / 3981, K / other
    assert share == pytest.approx(np.exp(-1.5 * (ratio - 1 - np.log(ratio))), abs=4 * np.sqrt(3 / 3981) * 0.25)
    assert float(frames.free_energy(well(other))) == pytest.approx(
        1.5 * np.log(other / K), abs=4 * np.sqrt(3 / 3981) * 0.25 * np.sqrt(1.5)
    )
    assert bool(found.trusted)
    far = frames.average(square, well(8 * K))
    assert not bool(far.trusted)
    assert "sample anew" in repr(far)


def test_frames_are_sampled_anew_where_they_do_not_count(frames):
    near = well(1.02 * K)
    assert frames.refreshed(near, key=jax.random.key(2)) is frames
    far = well(8 * K)
    fresh = frames.refreshed(far, key=jax.random.key(2))
    agrees(fresh.average(square, far), 3 * T / (8 * K), 0.05)
    assert float(fresh.effective_size(far)) == pytest.approx(3981)
    with pytest.raises(simkit.ArgumentError, match="Refresh outside"):
        jax.jit(lambda k: frames.refreshed(well(k)).reduced)(1.0)


def test_likelihood_ratio_in_a_well():
    """At friction 3 the well forgets in three units of time; six are remembered."""
    method = md.LikelihoodRatio(memory=6.0)
    ready = well(K).prepared(PAIR)

    def average(k):
        system = eqx.tree_at(lambda s: s.potential.function.k, ready, k)
        return md.ensemble_average(system, PAIR, square, TIMES, step=0.05, key=KEY, method=method, discard=20)

    k = jnp.full(1, K)
    value, slope = eqx.filter_jit(lambda k: (average(k), md.sensitivity(average, k, jnp.ones(1))))(k)
    agrees(value, 3 * T / K, 0.05)
    agrees(slope, -3 * T / K**2, 0.1)
    assert bool(slope.trusted)
    np.testing.assert_allclose(slope.series.mean(), slope.value)


@pytest.mark.long
def test_likelihood_ratio_and_trajectory_agree_where_both_can():
    """Relaxation in a quartic well, of momenta too: the difference of the two estimators over the same noise has mean zero."""
    times = np.array([0.0, 0.4, 0.8])
    ready = well(K, n=4).prepared(PAIR)
    measured = lambda system, atoms: {"square": square(system, atoms), "kinetic": jnp.sum(atoms.momentum**2)}

    def slope(method, q, key):
        def value(q):
            system = dataclasses.replace(
                ready,
                potential=eqx.tree_at(lambda p: p.function.k, ready.potential, K + q[:1]),
                dynamics=md.Langevin(T, 3.0 + q[1]),
            )
            return md.ensemble_average(system, PAIR, measured, times, step=0.04, key=key, method=method).value

        return jax.jacfwd(value)(q)

    keys = jax.random.split(KEY, 6000)
    both = [md.TrajectoryGradient(check=False), md.LikelihoodRatio(baseline=False)]
    through, ratio = (jax.jit(jax.vmap(lambda key, m=m: slope(m, jnp.zeros(2), key)))(keys) for m in both)
    for name in ("square", "kinetic"):
        away = np.asarray(ratio[name] - through[name])
        assert (np.abs(away.mean(0)) < 4 * away.std(0) / np.sqrt(len(keys))).all(), name
    error = np.asarray(ratio["square"]).std(0) / np.sqrt(len(keys))
    assert error[0] < 0.2 * abs(np.asarray(through["square"]).mean(0)[0])  # so that the comparison says something


# ---- a fluid ----

START = md.crystal("fcc", 1.8, 2)
FLUID = md.Atoms(START.position, md.maxwell_boltzmann(KEY, jnp.ones(32), 1.5))
END = {"cutoff": 1.7, "truncation": md.ForceShifted()}


def fluid(epsilon=1.0, dynamics=None, sigma=1.0, space=START.space):
    dynamics = md.Langevin(1.5, 2.0) if dynamics is None else dynamics
    return md.Particles(md.LennardJones(sigma, epsilon, **END), space, dynamics=dynamics)


@pytest.fixture(scope="module")
def ensemble():
    return md.sample_ensemble(fluid(), FLUID, np.arange(321) * 0.05, step=0.005, key=KEY, discard=64)


def both(ensemble, epsilon):
    return ensemble.average(lambda system, atoms: system.outputs(0.0, atoms, None), fluid(epsilon))


@pytest.mark.slow
def test_derivatives_are_those_of_the_fluctuation_formula(ensemble):
    """d<O>/d(epsilon) = <dO/d(epsilon)> - (<O U> - <O><U>) / (T epsilon) for a potential that epsilon multiplies; to rounding."""
    values = jax.tree.map(np.asarray, both(ensemble, 1.0).series)
    energies, kinetic = values["potential_energy"], values["kinetic_energy"]
    covariance = lambda o: np.mean(o * energies) - np.mean(o) * np.mean(energies)
    volume = float(START.space.volume())
    own = {"potential_energy": energies, "pressure": values["pressure"] - 2 * kinetic / (3 * volume)}
    forward = jax.jit(jax.jacfwd(lambda e: both(ensemble, e).value))(1.0)
    reverse = jax.jit(jax.jacrev(lambda e: both(ensemble, e).value))(1.0)
    for name, direct in own.items():
        expected = direct.mean() - covariance(values[name]) / 1.5
        np.testing.assert_allclose(forward[name], expected, rtol=1e-9)
        np.testing.assert_allclose(reverse[name], expected, rtol=1e-9)


@pytest.mark.long
def test_derivatives_at_other_parameters_are_those_of_the_weighted_average(ensemble):
    """By all kinds of numbers, away from where the frames come from: against differences."""

    def value(q):
        space = md.Orthorhombic(START.space.lengths * (1 + q[2]))
        system = fluid(1.0 + q[0], md.Langevin(1.5 + q[3], 2.0), 1.0 + q[1], space)
        system = dataclasses.replace(system, mass=1.0 + q[4])
        return ensemble.average("pressure", system).value

    at, h = jnp.array([0.02, 0.001, 0.001, 0.01, 0.01]), 1e-5
    value = jax.jit(value)
    found = jax.jit(jax.grad(value))(at)
    expected = jnp.stack([(value(at + h * v) - value(at - h * v)) / (2 * h) for v in jnp.eye(5)])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)  # of differences: h^2 times third derivatives
    together = jax.jit(jax.vmap(jax.grad(value)))(jnp.stack([jnp.zeros(5), at]))
    np.testing.assert_allclose(together[1], found, rtol=1e-9)


def test_the_free_energy_knows_the_virial(ensemble):
    """d(beta F)/d(ln L) = beta <tr W>: atoms go with the cell."""
    lengths = START.space.lengths
    free = lambda q: ensemble.free_energy(fluid(space=md.Orthorhombic(lengths * jnp.exp(q))))
    found = jax.jit(jax.grad(free))(0.0)
    virial = lambda system, atoms: jnp.trace(system.gradients(atoms).virial)
    expected = ensemble.average(virial, fluid()).value / 1.5
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.long
def test_derivatives_of_long_averages_against_differences_of_long_runs():
    """Of runs at diameters 0.99 and 1.01, independent of each other: within four standard errors. Differences are wrong by less
    than a hundredth, as the pressure goes up by a tenth between them."""
    times = np.arange(3201) * 0.1

    def sampled(sigma, seed):
        key = jax.random.key(seed)
        return md.sample_ensemble(fluid(sigma=sigma), FLUID, times, step=0.01, key=key, discard=100)

    low, middle, high = sampled(0.99, 11), sampled(1.0, 12), sampled(1.01, 13)
    for name in ("pressure", "potential_energy"):
        ends = [e.average(name, fluid(sigma=s)) for e, s in ((low, 0.99), (high, 1.01))]
        difference = float(ends[1].value - ends[0].value) / 0.02
        found = md.sensitivity(lambda s, name=name: middle.average(name, fluid(sigma=s)), 1.0, 1.0)
        error = np.sqrt((float(ends[0].error) ** 2 + float(ends[1].error) ** 2) / 0.02**2 + float(found.error) ** 2)
        assert error < 0.15 * abs(difference)
        assert abs(float(found.value) - difference) < 4 * error


@pytest.mark.long
def test_single_precision():
    small = jax.tree.map(lambda x: x.astype(jnp.float32), FLUID)
    system = simkit.core.cast(fluid(), jnp.float32)
    frames = md.sample_ensemble(system, small, np.arange(33) * 0.05, step=0.005, key=KEY)
    put = lambda e: simkit.core.Setup(system).put({"potential.epsilon": e}).system
    measured = lambda e: frames.average("pressure", put(e)).value
    value, slope = jax.jit(jax.value_and_grad(measured))(jnp.float32(1.0))
    assert value.dtype == jnp.float32
    assert np.isfinite([value, slope]).all()


@pytest.mark.long
def test_frames_that_need_more_room_get_it():
    """Of lists that begin with room for too few; where there is none, an energy is NaN and no wrong number."""
    start = md.crystal("fcc", 1.8, 4)
    system = md.Particles(md.LennardJones(1.0, 1.0, **END), start.space, dynamics=md.Langevin(1.5, 2.0))
    plan = md.plan_neighbours(system.potential, system.space, start.position, method="clusters")
    pairs = dataclasses.replace(plan.pairs, capacity=plan.pairs.capacity._replace(pairs=512))
    sparse = dataclasses.replace(system, plan=dataclasses.replace(plan, pairs=pairs, spare=None))
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(KEY, jnp.ones(256), 1.5))
    enough = md.sample_ensemble(sparse, atoms, np.arange(4) * 0.02, step=0.01, key=KEY)
    assert jnp.isfinite(enough.reduced).all()
    assert float(enough.effective_size(sparse)) == pytest.approx(3)
    assert jnp.isnan(dataclasses.replace(enough, system=sparse).effective_size(sparse))


# ---- through the trajectory, and which ----


@pytest.mark.slow
def test_through_the_trajectory():
    """The derivative of this very run; trusted within the horizon and not beyond."""
    system = fluid(dynamics=md.NVE()).prepared(FLUID)
    put = lambda e: simkit.core.Setup(system).put({"potential.epsilon": e}).system
    measured = lambda system, atoms: jnp.sum(atoms.momentum**2)
    times = np.arange(9) * 0.05

    @jax.jit
    def average(e, times):
        return md.ensemble_average(put(e), FLUID, measured, times, step=simkit.Fixed(10), discard=0)

    plain = lambda e: jnp.mean(jnp.sum(simkit.simulate(put(e), FLUID, times, step=0.005).ys.momentum ** 2, (1, 2)))
    value, slope = jax.jit(jax.value_and_grad(plain))(1.0)
    found = average(1.0, times)
    np.testing.assert_allclose(found.value, value, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda e: average(e, times).value))(1.0), slope, rtol=1e-9)
    assert bool(found.trusted)
    assert "no longer than its horizon" in repr(found)
    longer = average(1.0, np.arange(81) * 0.05)
    assert not bool(longer.trusted)
    assert "mostly noise" in repr(longer)


@pytest.mark.long
def test_what_is_chosen():
    choose = lambda system, end: choose_method(system, FLUID, np.linspace(0.0, end, 5), step=0.005, key=KEY)
    assert isinstance(choose(fluid(), 0.2), md.TrajectoryGradient)
    assert isinstance(choose(fluid(), 40.0), md.Reweighting)
    assert isinstance(choose(fluid(dynamics=md.NVE()), 40.0), md.TrajectoryGradient)
    with pytest.raises(simkit.ArgumentError, match="Choose outside"):
        jax.jit(lambda e: choose(fluid(e), 0.2))(1.0)


def test_what_is_refused(ensemble):
    ask = lambda system, method, **more: md.ensemble_average(
        system, FLUID, "pressure", [0.0, 0.1], step=0.005, method=method, **more
    )
    with pytest.raises(simkit.ArgumentError, match="canonical ensemble"):
        ask(fluid(dynamics=md.NVE()), md.Reweighting())
    with pytest.raises(simkit.ArgumentError, match="must move by `Langevin`"):
        ask(fluid(dynamics=md.NoseHoover(1.5, 0.5)), md.LikelihoodRatio())
    with pytest.raises(simkit.ArgumentError, match="`discard` must leave"):
        ask(fluid(), md.Reweighting(), discard=2, key=KEY)
    with pytest.raises(simkit.ArgumentError, match="`memory` must be positive"):
        md.LikelihoodRatio(memory=0.0)
    with pytest.raises(simkit.ArgumentError, match="one of"):
        ensemble.average("viscosity", fluid())
    with pytest.raises(simkit.ArgumentError, match="`observable` must be a function"):
        ensemble.average(3, fluid())


# ---- the horizon ----


def test_the_exponent_of_a_saddle():
    """Two atoms that repel each other by -k r^2 / 2 part as exp(t sqrt(2 k / m)), up to h^2 of the step."""
    start = md.Atoms(jnp.array([[0.0, 0.0], [1e-3, 0.0]]), jnp.zeros((2, 2)))
    potential = md.PairFunction(Power(-jnp.ones(1), 2), cutoff=1e6)
    system = md.Particles(potential, md.OpenSpace(2))
    found = md.lyapunov_exponent(system, start, np.arange(11) * 1.0, step=0.01, discard=0.5)
    assert float(found.exponent) == pytest.approx(np.sqrt(2.0), rel=1e-4)
    assert float(found.horizon(np.e)) == pytest.approx(1 / np.sqrt(2.0), rel=1e-4)
    still = dataclasses.replace(system, potential=md.PairFunction(Power(jnp.ones(1), 2), cutoff=1e6))
    # Neighbours of a spring part as t, by the motion of the whole: ln(t) / t.
    assert abs(md.lyapunov_exponent(still, start, np.arange(11) * 10.0, step=0.05, discard=0.5).exponent) < 0.05


@pytest.mark.slow
def test_the_exponent_is_that_of_two_runs_side_by_side():
    """A displacement of 1e-7 stays small for two units of time, and rounding stays small against it."""
    system = fluid(dynamics=md.NVE()).prepared(FLUID)
    melted = simkit.simulate(system, FLUID, [0.0, 3.0], step=0.005).final()
    times = np.linspace(0.0, 2.0, 9)
    found = md.lyapunov_exponent(system, melted, times, step=0.005)
    keys = jax.random.split(jax.random.key(0), 2)
    away = [jax.random.normal(k, (32, 3)) for k in keys]
    moved = md.Atoms(melted.position + 1e-7 * away[0], melted.momentum + 1e-7 * away[1])
    one, other = (simkit.simulate(system, y, times, step=0.005).ys for y in (melted, moved))
    apart = np.sqrt(sum(np.sum((a - b) ** 2, (1, 2)) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other))))
    np.testing.assert_allclose(found.growth, np.log(apart / apart[0]), atol=1e-2)
    assert float(found.exponent) > 0


@pytest.mark.slow
def test_reweighting_at_constant_pressure():
    """An ideal gas: the mean volume is N T / P, and derivatives are those of the fluctuation formulas."""
    temperature, count = 1.5, 8
    pressure = count * temperature / 1000.0**3
    dynamics = md.StochasticCellRescaling(temperature, pressure, 0.05, 0.05, 1 / pressure)
    system, y0, _ = ideal(dynamics, count=count)
    times = np.arange(0.0, 500.0, 0.5)  # ten relaxations apart
    frames = md.sample_ensemble(system, y0, times, step=0.005, key=jax.random.key(3), discard=20)

    def volume(p, t):
        put = simkit.core.Setup(frames.system).put(
            {"dynamics.pressure": p * pressure, "dynamics.temperature": t * temperature}
        )
        return frames.average(lambda system, atoms: jnp.linalg.det(atoms.cell) * pressure / temperature, put.system)

    own = np.linalg.det(np.asarray(frames.frames.cell)) * pressure / temperature
    found = eqx.filter_jit(lambda p, t: volume(p, t).value)
    assert found(1.0, 1.0) == pytest.approx(own.mean(), rel=1e-12)
    error = 4 * np.sqrt(count / own.size)
    assert float(found(1.1, 1.0)) == pytest.approx(count / 1.1, abs=2 * error)  # fewer frames count
    by_pressure = jax.grad(lambda p: volume(p, 1.0).value)(1.0)
    np.testing.assert_allclose(by_pressure, -own.var(), rtol=1e-10)  # -P dV/dP = P^2 var(V) / k_B T
    # By temperature: energy and volume times the pressure fluctuate, dV/dT = cov(V, K + P V) / k_B T^2.
    kinetic = (
        0.5
        * np.sum(np.asarray(frames.frames.momentum) ** 2 / np.asarray(system.masses(y0.position)), axis=(1, 2))
        / temperature
    )
    expected = np.mean((own - own.mean()) * (own + kinetic))
    np.testing.assert_allclose(jax.grad(lambda t: volume(1.0, t).value)(1.0), expected, rtol=1e-9)
