"""PEtab problems of version 1 against likelihoods written out by hand, and exact solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from petab_models import GOOD, sbml, write_problem

import simkit
from simkit.petab import _assembly

PARAMETERS = """parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate
k | log10 | 0.01 | 10 | 0.5 | 1
A0 | lin | 0 | 10 | 2.0 | 1
scale_1 | log10 | 0.01 | 100 | 3.0 | 1
sd | log | 0.001 | 10 | 0.2 | 1
fixed | lin | | | 1.5 | 0"""


@pytest.fixture(scope="module")
def decay(tmp_path_factory):
    """A -> nothing, two conditions, two observables, replicates, a missing value, numbers and names in rows."""
    model = sbml(
        {"A": 1.0}, {"k": 9.0, "factor": 1.0}, {"r": ("A", "", "cell * k * factor * A")}, initial={"A": "A0"} | {}
    )
    model = model.replace("<listOfParameters>", '<listOfParameters><parameter id="A0" value="7" constant="true"/>')
    return simkit.petab.load(
        write_problem(
            tmp_path_factory.mktemp("decay"),
            model,
            PARAMETERS,
            """observableId | observableFormula | noiseFormula | observableTransformation | noiseDistribution
            scaled | observableParameter1_scaled * A | noiseParameter1_scaled | lin | normal
            logged | A + 0.1 | 0.1 + noiseParameter1_logged * A | log10 | laplace""",
            """observableId | simulationConditionId | time | measurement | observableParameters | noiseParameters
            scaled | slow | 2 | 2.0 | scale_1 | sd
            scaled | slow | 0 | 6.5 | scale_1 | sd
            scaled | slow | 2 | 2.4 | 4.0 | 0.3
            scaled | slow | 3 | nan | scale_1 | sd
            scaled | fast | 1 | 1.4 | fixed | sd
            logged | fast | 1 | 1.0 |  | 0.2
            logged | fast | 2 | 0.4 |  | sd""",
            "conditionId | factor | A\nslow | 1 |\nfast | fixed | 3.0",
        )
    )


def by_hand(theta):
    """The same likelihood, written out with the exact solution and SciPy's densities."""
    k, a0, scale, sd = (float(x) for x in theta)
    normal = lambda value, at, size: scipy.stats.norm.logpdf(value, at, size)
    slow, fast = (lambda t: a0 * np.exp(-k * t)), (lambda t: 3.0 * np.exp(-1.5 * k * t))
    total = normal(6.5, scale * slow(0), sd) + normal(2.0, scale * slow(2), sd) + normal(2.4, 4 * slow(2), 0.3)
    total += normal(1.4, 1.5 * fast(1), sd)
    for t, value, own in ((1, 1.0, 0.2), (2, 0.4, sd)):
        # log10(value) is Laplace around log10 of the prediction; the density of the value takes 1 / (value ln 10).
        size = 0.1 + own * fast(t)
        total += scipy.stats.laplace.logpdf(np.log10(value), np.log10(fast(t) + 0.1), size) - np.log(value * np.log(10))
    return total


def test_likelihood_equals_the_one_written_out(decay):
    assert decay.problem.names == ("k", "A0", "scale_1", "sd")
    assert decay.problem.log == (True, False, True, True)
    assert decay.problem.data_count == 6
    likelihood = jax.jit(lambda theta, problem: problem.log_likelihood(theta)[0])
    for theta in (decay.nominal, decay.nominal * jnp.array([2.0, 0.7, 1.2, 0.5])):
        # The solution is right to some 1e-6, and residuals are up to ten standard deviations.
        np.testing.assert_allclose(likelihood(theta, decay.problem), by_hand(theta), atol=1e-4)
        np.testing.assert_allclose(likelihood(theta, decay.problem.lean()), by_hand(theta), atol=1e-4)


def test_windows_are_refused(decay):
    with pytest.raises(simkit.ArgumentError, match="cuts single simulations, but the problem has a protocol"):
        simkit.fit(decay.problem, windows=2)


def test_predictions_at_other_times(decay):
    found = decay.problem.predict(decay.nominal, [0.5, 4.0])
    np.testing.assert_allclose(found["scaled"][0], 3.0 * 2.0 * np.exp([-0.25, -2.0]), rtol=1e-5)
    np.testing.assert_allclose(found["logged"][1], 3.0 * np.exp([-0.375, -3.0]) + 0.1, rtol=1e-5)


def test_a_fit_finds_the_parameters_that_made_the_data(tmp_path):
    times = np.array([0.0, 1.0, 2.0, 4.0])
    rows = "\n".join(f"o | c0 | {t} | {2 * np.exp(-0.3 * t)}" for t in times)
    path = write_problem(
        tmp_path,
        sbml({"A": 2.0}, {"k": 9.0}, {"r": ("A", "", "cell * k * A")}),
        "parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate\nk | log10 | 0.01 | 10 | 1 | 1",
        "observableId | observableFormula | noiseFormula\no | A | 0.1",
        f"observableId | simulationConditionId | time | measurement\n{rows}",
    )
    found = simkit.fit(simkit.petab.read(path), starts=2, horizons=(1.0,))
    np.testing.assert_allclose(found.estimate, [0.3], rtol=1e-5)


@pytest.fixture(params=[False, True], ids=["small", "large"])
def form(request, monkeypatch):
    """Rates formula by formula, and in the batches that large models have."""
    if request.param:
        monkeypatch.setattr(_assembly, "VERY_LARGE", 0)


@pytest.mark.usefixtures("form")
def test_doses_with_derivatives_by_their_times(tmp_path):
    rows = "\n".join(f"o | c0 | {t} | 1" for t in (0, 1, 2, 3, 5))
    path = write_problem(
        tmp_path,
        sbml(
            {"A": 1.0},
            {"k": 1.0, "T": 1.0, "D": 1.0},
            {"r": ("A", "", "cell * k * A")},
            events={"dose": ("time >= T", {"A": "A + D"})},
        ),
        """parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate
        k | log10 | 0.01 | 10 | 0.5 | 1
        T | lin | 0 | 10 | 2.0 | 1
        D | lin | 0 | 10 | 3.0 | 1""",
        "observableId | observableFormula | noiseFormula\no | A | 0.1",
        f"observableId | simulationConditionId | time | measurement\n{rows}",
    )
    read = simkit.petab.load(path)
    times = jnp.array([0.0, 1.0, 2.0, 3.0, 5.0])

    def exact(theta):
        k, begin, dose = theta
        return jnp.exp(-k * times) + jnp.where(times >= begin, dose * jnp.exp(-k * (times - begin)), 0)

    @jax.jit
    def ours(theta):
        return read.problem.heads(theta)[0]["o"][0][0]

    # A datum at the very time of the dose is one after it.
    np.testing.assert_allclose(ours(read.nominal), exact(read.nominal), rtol=1e-6)
    np.testing.assert_allclose(jax.jacfwd(ours)(read.nominal), jax.jacfwd(exact)(read.nominal), atol=1e-5)


@pytest.mark.usefixtures("form")
def test_steady_states_before_and_after(tmp_path):
    # A <-> B with A + B conserved, and C made from A: the start is the steady state without drug, the last datum one with it.
    model = sbml(
        {"A": 3.0, "B": 1.0, "C": 0.0},
        {"on": 1.0, "off": 1.0, "drug": 0.0, "make": 1.0},
        {
            "f": ("A", "B", "cell * on * (1 + drug) * A"),
            "b": ("B", "A", "cell * off * B"),
            "m": ("", "C", "cell * make * A"),
            "d": ("C", "", "cell * C"),
        },
    )
    path = write_problem(
        tmp_path,
        model,
        """parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate
        on | log10 | 0.01 | 100 | 0.5 | 1
        off | log10 | 0.01 | 100 | 1.5 | 1
        make | lin | 0.01 | 100 | 2 | 1""",
        "observableId | observableFormula | noiseFormula\nb | B | 0.1\nc | C | 0.1",
        """observableId | preequilibrationConditionId | simulationConditionId | time | measurement
        b | none | drug | 0 | 1
        c | none | drug | 0 | 1
        b | none | drug | inf | 1
        c | none | drug | inf | 1""",
        "conditionId | drug\nnone | 0\ndrug | 4",
    )
    read = simkit.petab.load(path)

    def exact(theta):
        on, off, make = theta
        b = jnp.array([4 * on / (on + off), 4 * 5 * on / (5 * on + off)])
        return jnp.stack([b, make * (4 - b)])

    @jax.jit
    def ours(theta):
        heads, _ = read.problem.heads(theta)
        return jnp.stack([heads[name][0][0][jnp.array([0, -1])] for name in ("b", "c")])

    # Newton's method ends the way, so that neither value nor derivative knows of the solver's tolerance.
    np.testing.assert_allclose(ours(read.nominal), exact(read.nominal), rtol=1e-9)
    np.testing.assert_allclose(jax.jacfwd(ours)(read.nominal), jax.jacfwd(exact)(read.nominal), rtol=1e-7, atol=1e-9)


def test_a_steady_state_far_from_a_start_at_zero():
    # A cascade of three, with rates over six decades and nothing there at the start.
    system = simkit.petab._sbml_system.SBMLSystem
    graph = simkit.networks._expression.Graph()
    a, b, c, one = graph.symbol("a"), graph.symbol("b"), graph.symbol("c"), graph.number(1.0)
    times = lambda x, y: graph.make("multiply", graph.number(x), y)
    rates = (
        ("a", graph.make("subtract", one, times(1e3, a))),
        ("b", graph.make("subtract", graph.make("multiply", a, a), times(1.0, b))),
        ("c", graph.make("subtract", b, times(1e-3, c))),
    )
    formulas = simkit.networks._expression.Formulas(tuple(graph.nodes))
    cascade = system({}, {}, 0.0, None, None, formulas=formulas, rates=rates, named=())
    zero = jnp.zeros(())
    setup = simkit.petab._sbml_protocol.Setup(cascade, {"a": zero, "b": zero, "c": zero}, {})
    found, ok = jax.jit(simkit.petab._steady.steady_state)(setup, zero, jnp.zeros((3, 3)))
    assert ok
    np.testing.assert_allclose([found["a"], found["b"], found["c"]], [1e-3, 1e-6, 1e-3], rtol=1e-9)


def test_a_steady_state_of_nothing(tmp_path):
    """Where all states decay the steady state is zero, with a derivative of zero: the likelihood is that of a late datum."""
    model = sbml({"A": 2.0}, {"k": 1.0, "k2": 1.0}, {"r": ("A", "", "cell * k * k2 * A")})

    def at(time):
        tables = GOOD | {"measurements": GOOD["measurements"].replace("| 1 |", f"| {time} |")}
        return simkit.petab.load(write_problem(tmp_path, model, **tables))

    late, last = at("200"), at("inf")  # exp(-0.5 * 200) = 4e-44
    values = [p.problem.log_likelihood(p.nominal) for p in (late, last)]
    assert [int(status[0]) for _, status in values] == [0, 0]
    np.testing.assert_allclose(values[1][0], values[0][0], rtol=1e-12)  # rounding
    slope = jax.jit(jax.grad(lambda theta: last.problem.log_likelihood(theta)[0]))(last.nominal)
    assert (
        abs(float(slope[0])) < 1e-12
    )  # -200 of a datum of 2 with an error of 0.1, times what is left of A: below 1e-20
