"""Parameters that differ between occasions of an individual: closed forms, switches within one experiment, and what is refused."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import simkit
from simkit import ArgumentError, DataError, Experiment, Free, Individual, Problem
from simkit.fitting._marginal import marginal
from simkit.noise import Normal
from simkit.odes import from_response
from simkit.problem import Dose, Doses, dose_event

ROOT = pathlib.Path(__file__).parents[2]
LINE = from_response(lambda x, p: p["level"] + p["slope"] * x, {"level": 1.0, "slope": 2.0})
X = np.array([0.0, 1.0, 2.0])
SPREADS = {"level": 0.5, "slope": 0.3, "occasion": 0.7, "noise": 0.4}


def visits(counts, rng):
    """Lines of people with different numbers of occasions; the truth has the spreads of `SPREADS`."""
    found = []
    for who, count in enumerate(counts):
        level, slope = 1.1 + SPREADS["level"] * rng.normal(), 1.8 + SPREADS["slope"] * rng.normal()
        for k in range(count):
            own = level + SPREADS["occasion"] * rng.normal()
            y = own + slope * X + SPREADS["noise"] * rng.normal(size=3)
            found.append(Experiment(f"{who} {k}", X, {"y": y}, individual=f"p{who}", occasions=f"visit {k}"))
    return found


def lines(counts, rng, **more):
    free = {
        "level": Individual(Free(start=1.0), Free(start=0.4), occasion_spread=Free(start=0.4)),
        "slope": Individual(Free(start=2.0), Free(start=0.4), transform="linear"),
    }
    return Problem(LINE, visits(counts, rng), free=free | more, noise={"y": Normal(SPREADS["noise"])})


def closed_form(experiments, theta):
    """The negative log likelihood: data of one person are normal with a known covariance."""
    level, slope, between, slopes, anew, noise = theta
    total = 0.0
    for who in dict.fromkeys(e.individual for e in experiments):
        own = [e for e in experiments if e.individual == who]
        x, occasion = np.tile(X, len(own)), np.repeat(np.arange(len(own)), len(X))
        covariance = between**2 + slopes**2 * np.outer(x, x) + anew**2 * (occasion[:, None] == occasion)
        covariance = covariance + noise**2 * np.eye(x.size)
        left = np.concatenate([e.data["y"] for e in own]) - level - slope * x
        log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
        total += 0.5 * (left @ np.linalg.solve(covariance, left) + log_det)
    return total


def test_the_marginal_likelihood_of_lines_is_the_closed_form():
    """For models that are linear in normal deviations Laplace's approximation is exact."""
    rng = np.random.default_rng(0)
    problem = lines((3, 1, 2), rng, **{"noise.y.scale": Free(start=0.4)})
    assert problem.names[:6] == (
        "level",
        "slope",
        "noise.y.scale",
        "level.spread",
        "slope.spread",
        "level.occasion_spread",
    )
    assert problem.names[12:14] == ("kappa.level.p0.visit 0", "kappa.level.p0.visit 1")
    population, lean = problem.population, problem.lean()
    assert (population.effects, population.total) == (2 + 3, 6 + 6 + 6)
    theta = np.array([1.1, 1.8, 0.45, 0.5, 0.3, 0.7])
    deviations = jnp.asarray(rng.normal(size=12))
    full = jnp.concatenate([jnp.asarray(theta), deviations])
    np.testing.assert_array_equal(population.with_deviations(0 * full, population.deviations(full))[6:], deviations)
    at = jax.jit(lambda z: marginal(lean, z))(problem.coordinates(full))
    experiments = visits((3, 1, 2), np.random.default_rng(0))
    order = lambda v: (v[0], v[1], v[3], v[4], v[5], v[2])
    expected = closed_form(experiments, order(theta))
    # The modes are found to the root of the rounding error, which enters squared.
    np.testing.assert_allclose(at.value - at.penalty, expected, rtol=1e-12)
    for i in range(6):
        ahead, behind = theta.copy(), theta.copy()
        ahead[i], behind[i] = theta[i] + 1e-5, theta[i] - 1e-5
        slope = (closed_form(experiments, order(ahead)) - closed_form(experiments, order(behind))) / 2e-5
        scale = theta[i] if problem.log[i] else 1.0
        # Central differences of a number near 30 are good to 1e-9 / 1e-5; no parameter has a prior.
        np.testing.assert_allclose(at.gradient[i], scale * slope, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_estimates_find_the_spreads_between_people_and_between_occasions():
    problem = lines((3,) * 40, np.random.default_rng(5))
    fit = simkit.fit(problem, starts=1)
    truth = np.array([1.1, 1.8, SPREADS["level"], SPREADS["slope"], SPREADS["occasion"]])
    error = np.asarray(fit.standard_error)[:5]
    # Five estimates of one data set: three standard errors hold all of them with a chance of 0.99.
    assert np.all(np.abs(np.asarray(fit.estimate)[:5] - truth) < 3 * error)
    assert np.all(error[2:] < 0.12)
    experiments = visits((3,) * 40, np.random.default_rng(5))
    best = np.asarray(fit.estimate)[:5]
    np.testing.assert_allclose(fit.log_likelihood, -closed_form(experiments, (*best, SPREADS["noise"])), rtol=1e-9)


@pytest.mark.slow
def test_casks_within_batches_have_the_estimates_of_lme4():
    """Maximum likelihood of `strength ~ 1 + (1 | sample) + (1 | batch)`, Bates (2010), lme4: Mixed-effects modeling with R, 2.2."""
    table = np.genfromtxt(ROOT / "data/pastes/pastes.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    casks = [
        Experiment(f"{rows[0]}", X[:2], {"y": rows["strength"]}, individual=rows["batch"][0], occasions=rows["cask"][0])
        for rows in table.reshape(30, 2)
    ]
    above = Free(bounds=(0.01, 20.0), start=1.0)
    free = {"level": Individual(Free(start=60.0), above, occasion_spread=above), "noise.y.scale": above}
    level = from_response(lambda x, p: p["level"] + 0 * x, {"level": 60.0})
    fit = simkit.fit(Problem(level, casks, free=free, noise={"y": Normal(1.0)}), starts=1)
    assert -2 * float(fit.log_likelihood) == pytest.approx(247.99, abs=0.01)
    found = [float(fit[name]) for name in ("level", "level.spread", "level.occasion_spread", "noise.y.scale")]
    np.testing.assert_allclose(found, [60.0533, 1.0951, 2.9041, 0.8234], atol=6e-5)
    assert fit.standard_error[0] == pytest.approx(0.6421, abs=1e-4)


BODY = simkit.from_function(
    lambda t, y, p: {"gut": -p["ka"] * y["gut"], "blood": p["ka"] * y["gut"] - p["ke"] * y["blood"]},
    {"ka": 1.0, "ke": 0.2, "share": 0.8},
)
TIMES = np.array([1.0, 5.0, 23.9, 24.0, 25.0, 30.0, 47.0])
EMPTY = {"gut": 0.0, "blood": 0.0}
DOSES = Doses([Dose(10.0, 0.0, "gut", every=12.0, additional=3), Dose(3.0, 20.0, "blood", duration=8.0)])


def repeated(name="a", occasions=None, doses=DOSES, **more):
    event = dose_event(doses, EMPTY, bioavailability={"gut": "share"})
    return Experiment(name, TIMES, {"blood": TIMES}, start=0.0, events={"dose": event}, occasions=occasions, **more)


def body(*experiments, system=BODY, **more):
    free = {
        "ke": Individual(Free(start=0.2), occasion_spread=Free(start=0.3), transform="log"),
        "share": Individual(Free(bounds=(0.1, 2.0)), occasion_spread=Free(start=0.3), transform="log"),
    }
    step = simkit.Adaptive(1e-11)
    return Problem(system, experiments, free=free, noise={"blood": Normal(0.1)}, y0=EMPTY, step=step, **more)


def exact(ke, share):
    """The solution by matrix exponentials, for rates and shares as functions of time."""
    y, found, marks = np.zeros(3), {}, sorted({0.0, 12.0, 20.0, 24.0, 28.0, 36.0, *TIMES})
    for i, t in enumerate(marks):
        y[0] += 10.0 * share(t) if t in DOSES.times and t != 20.0 else 0.0
        y[2] += {20.0: 3.0 / 8.0, 28.0: -3.0 / 8.0}.get(t, 0.0)
        found[t] = y[1]
        if i + 1 < len(marks):
            rates = np.array([[-1.0, 0.0, 0.0], [1.0, -ke(t), 1.0], [0.0, 0.0, 0.0]])
            y = scipy.linalg.expm(rates * (marks[i + 1] - t)) @ y
    return np.array([found[t] for t in TIMES])


def test_parameters_switch_while_a_simulation_goes_on():
    """Amounts carry over; doses have the bioavailability of their occasion; an infusion lasts over the switch."""
    problem = body(repeated("a", {"1": 0.0, "2": 24.0}), repeated("b", {"1": 0.0}))
    assert "Switched" not in repr(problem)
    theta = jnp.array([0.2, 0.8, 0.4, 0.2, 0.5, 0.6, 0.3, -0.2, 0.1, 0.4, 0.5, -0.7, 0.2, 0.9, -0.3, 0.1])
    ke, share = (
        0.2 * np.exp(0.4 * np.array([0.3, 0.3, -0.2]) + 0.5 * np.array([0.5, -0.7, 0.2])),
        0.8 * np.exp(0.2 * np.array([0.1, 0.1, 0.4]) + 0.6 * np.array([0.9, -0.3, 0.1])),
    )
    np.testing.assert_allclose(problem.population.occasion_values(theta), [ke, share], rtol=1e-12)
    np.testing.assert_allclose(problem.population.values(theta)[0], 0.2 * np.exp([0.12, -0.08]), rtol=1e-12)
    predict = jax.jit(lambda theta: problem.predict(theta)["blood"])
    found, late = predict(theta), lambda values: lambda t: values[int(t >= 24.0)]
    np.testing.assert_allclose(found[0], exact(late(ke), late(share)), rtol=1e-9)
    np.testing.assert_allclose(found[1], exact(lambda t: ke[2], lambda t: share[2]), rtol=1e-9)
    slopes = jax.jacfwd(predict)(theta)
    for i in (0, 4, 10, 11, 14):
        move = jnp.zeros(16).at[i].set(1e-5)
        # Central differences of numbers near 10, solved to 1e-10.
        np.testing.assert_allclose(
            slopes[..., i], (predict(theta + move) - predict(theta - move)) / 2e-5, rtol=1e-6, atol=1e-5
        )
    assert (problem.unit("ke"), problem.target("ke")) == ("1", "ke")


def test_a_jumping_input_beside_an_event_keeps_the_last_state():
    """The last step ends two numbers before the end, which is no event that ended the run."""
    system = simkit.from_function(lambda t, y, p, u: {"y": -u["rate"] * y["y"]}, {"none": 0.0})
    event = simkit.Event(at=[1.0], change=lambda system, t, y, inputs: {"y": y["y"] + 1.0})
    rate = simkit.PiecewiseConstant(jnp.array([0.0, 2.0]), jnp.array([0.1, 0.3]))
    run = simkit.simulate(
        system,
        {"y": 1.0},
        [0.0, 2.0, 3.0],
        events=event,
        inputs={"rate": rate},
        solver="tsit5",
        step=simkit.Adaptive(1e-10),
    )
    half = np.exp(-0.2) + np.exp(-0.1)
    np.testing.assert_allclose(run.ys["y"], [1.0, half, half * np.exp(-0.3)], rtol=1e-8)


def test_a_column_of_occasions():
    table = """ID,TIME,EVID,AMT,CMT,DV,OCC,WT
1,0,1,100,gut,.,1,70
1,24,0,0,.,0.5,1,70
1,24,1,100,gut,.,2,70
1,25,0,0,.,4.0,2,70
2,0,1,80,gut,.,1,55
2,2,0,0,.,3.1,1,55
"""
    read = lambda text, column="OCC": simkit.io.read_doses(
        "t.csv", text=text, outputs="blood", occasion=column, compartments=("gut",)
    )
    one, two = read(table)
    assert (one.occasions, two.occasions) == ({"1": 0.0, "2": 24.0}, {"1": 0.0})
    assert one.times[0] < 24.0
    assert set(one.covariates) == {"wt"}
    with pytest.raises(DataError, match=r"must name a column of the dosing table `t.csv` without another meaning"):
        read(table, "ocasion")
    with pytest.raises(DataError, match=r"Line 5 .* must not begin occasion 1 at 25"):
        read(table.replace("4.0,2", "4.0,1"))
    with pytest.raises(DataError, match=r"Line 3 .* must have an occasion, OCC, but it is missing"):
        read(table.replace("0.5,1", "0.5,."))


def test_refusals():
    both = {"1": 0.0, "2": 24.0}
    with pytest.raises(ArgumentError, match="each experiment must say its occasions, but `b` does not"):
        body(repeated("a", both), repeated("b"))
    with pytest.raises(ArgumentError, match="needs an individual with more than one occasion"):
        body(repeated("a", "1"), repeated("b", "1"))
    with pytest.raises(DataError, match="occasions of experiment `a` must begin at finite times that increase"):
        repeated("a", {"1": 24.0, "2": 0.0})
    steady = Doses(Dose(10.0, 24.0, "gut", every=12.0, steady=True))
    with pytest.raises(ArgumentError, match="`a` has a steady state of doses at 24, after its first occasion"):
        body(repeated("a", both, steady), repeated("b", both, steady))
    with pytest.raises(ArgumentError, match="do not go with occasions within one experiment"):
        body(repeated("a", both), repeated("b", both), observables={"end": lambda system, run: run.ys["blood"]})
    static = [Experiment(name, X, {"y": X}, occasions=both) for name in "ab"]
    free = {"level": Individual(Free(start=1.0), occasion_spread=Free(start=0.3))}
    with pytest.raises(ArgumentError, match="occasions of a static system cannot begin at times"):
        Problem(LINE, static, free=free, noise={"y": Normal(0.1)})
    start = {"y0.gut": Individual(Free(start=1.0), occasion_spread=Free(start=0.3))}
    with pytest.raises(ArgumentError, match=r"must be a parameter of the system, but it stands for `y0.gut`"):
        Problem(BODY, [repeated("a", both), repeated("b", both)], free=start, noise={"blood": Normal(0.1)}, y0=EMPTY)
