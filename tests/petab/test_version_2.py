"""PEtab version 2: equal to version 1 where the `petab` package converts, and exact solutions of what is new."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from petab_models import check_complaint, sbml, write_problem, write_version_2

import simkit
from simkit import DataError

HEADER = (
    "preequilibrationConditionId | simulationConditionId | observableId | time | measurement | observableParameters | "
    "noiseParameters"
)
DECAY = {"A": 3.0, "B": 1.0}, {"on": 1.0, "off": 1.0, "drug": 0.0}
REACTIONS = {"f": ("A", "B", "cell * on * (1 + drug) * A"), "b": ("B", "A", "cell * off * B")}


@pytest.mark.slow
def test_a_converted_problem_has_the_same_likelihood(tmp_path):
    v1 = write_problem(
        tmp_path,
        sbml(*DECAY, REACTIONS),
        """parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate
        on | log10 | 0.01 | 100 | 0.5 | 1
        off | log10 | 0.01 | 100 | 1.5 | 1
        scale | log10 | 0.01 | 100 | 1.2 | 1
        sd | log10 | 0.01 | 100 | 0.3 | 1""",
        """observableId | observableFormula | noiseFormula
        o | observableParameter1_o * B | noiseParameter1_o""",
        HEADER
        + """
        none | drug | o | 0 | 1 | scale | sd
        none | drug | o | 1.5 | 2.5 | 1.1 | sd
        none | none | o | 1 | 1.3 | scale | 0.4""",
        "conditionId | drug\nnone | 0\ndrug | 4",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages behind it
        from petab.v2.petab1to2 import petab1to2

        petab1to2(str(v1), str(tmp_path / "v2"))
    one, two = simkit.petab.load(v1), simkit.petab.load(tmp_path / "v2" / "problem.yaml")
    assert one.problem.names == two.problem.names
    assert one.problem.closed == two.problem.closed
    likelihood = jax.jit(lambda theta, p: p.log_likelihood(theta)[0])
    for factor in (1.0, 1.3):
        theta = one.nominal * factor
        np.testing.assert_allclose(likelihood(theta, two.problem), likelihood(theta, one.problem), rtol=1e-12)


PARAMETERS = """parameterId | lowerBound | upperBound | nominalValue | estimate | priorDistribution | priorParameters
k | 0.01 | 10 | 0.5 | true | log-normal | -1; 0.5
fed | -5 | 5 | 2.0 | true | |
sd | 0.01 | 10 | 0.2 | true | |
two | | | 2.0 | false | |"""
OBSERVABLES = """observableId | observableFormula | noiseFormula | noiseDistribution | noisePlaceholders
a | A | s | normal | s
l | A + 1 | s | log-laplace | s"""
CONDITIONS = """conditionId | targetId | targetValue
start | A | 3.0
start | feed | 0
fast | factor | two
feeding | feed | fed"""
EXPERIMENTS = """experimentId | time | conditionId
grown | 1 | start
grown | 1 | fast
grown | 2 | feeding
grown | 4 | start
plain | 0 |"""
MEASUREMENTS = """observableId | experimentId | time | measurement | noiseParameters
a | grown | 1 | 3.1 | sd
a | grown | 1.5 | 2.0 | sd
l | grown | 3 | 3.0 | sd
a | grown | 5 | 1.2 | 0.3
a | plain | 1 | 1.4 | sd
a | | 2 | 0.9 | sd"""


TABLES = {
    "parameters": PARAMETERS,
    "observables": OBSERVABLES,
    "conditions": CONDITIONS,
    "experiments": EXPERIMENTS,
    "measurements": MEASUREMENTS,
}


def small(folder, **changed):
    model = sbml(
        {"A": 2.0},
        {"k": 1.0, "factor": 1.0, "feed": 0.0},
        {"r": ("A", "", "cell * k * factor * A"), "i": ("", "A", "cell * feed")},
    )
    return write_version_2(folder, model, TABLES | changed)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    return simkit.petab.load(small(tmp_path_factory.mktemp("two")))


def test_nominal_value_outside_its_bounds(tmp_path, read):
    # Case 0026 of the public suite has one; without `parameterScale` it cannot be a number on another scale.
    beyond = simkit.petab.load(small(tmp_path, parameters=PARAMETERS.replace("0.01 | 10 | 0.5", "0.6 | 10 | 0.5")))
    assert float(beyond.nominal[0]) == 0.5
    np.testing.assert_allclose(
        beyond.problem.log_likelihood(beyond.nominal)[0], read.problem.log_likelihood(read.nominal)[0], rtol=1e-12
    )


def exact(theta):
    """A at the times of the data, piece by piece."""
    k, fed, _ = theta
    slow = lambda a, t, f: f / (2 * k) + (a - f / (2 * k)) * jnp.exp(-2 * k * t)
    at_two = slow(3.0, 1.0, 0.0)
    grown = jnp.stack([3.0 + 0 * k, slow(3.0, 0.5, 0.0), slow(at_two, 1.0, fed), slow(3.0, 1.0, 0.0)])
    return grown, 2 * jnp.exp(-k), 2 * jnp.exp(-2 * k)


@pytest.fixture(scope="module")
def found(read):
    """Predictions, their derivatives and the log densities, by one program."""

    def ours(theta):
        heads, _ = read.problem.heads(theta)
        grown = heads["a"][0][0]
        values = jnp.stack([grown[0], grown[1], heads["l"][0][0][2] - 1, grown[3]])
        return values, (values, -read.problem.misfit(heads), read.problem.log_prior(theta))

    return jax.jit(jax.jacfwd(ours, has_aux=True))(read.nominal)


@pytest.mark.slow
def test_several_periods(read, found):
    assert read.problem.log == (True, False, True)
    slopes, (values, *_) = found
    # The state is set anew by the condition of the last period.
    np.testing.assert_allclose(values, exact(read.nominal)[0], rtol=1e-6)
    np.testing.assert_allclose(slopes, jax.jacfwd(lambda t: exact(t)[0])(read.nominal), atol=2e-5)


@pytest.mark.slow
def test_the_likelihood_is_the_one_written_out(read, found):
    _, (_, likelihood, log_prior) = found
    grown, plain, alone = exact(read.nominal)
    normal = scipy.stats.norm.logpdf
    total = normal(3.1, grown[0], 0.2) + normal(2.0, grown[1], 0.2) + normal(1.2, grown[3], 0.3)
    total += scipy.stats.laplace.logpdf(np.log(3.0), np.log(grown[2] + 1), 0.2) - np.log(3.0)
    total += normal(1.4, plain, 0.2) + normal(0.9, alone, 0.2)
    np.testing.assert_allclose(likelihood, total, atol=1e-4)
    prior = scipy.stats.lognorm.logpdf(0.5, 0.5, scale=np.exp(-1))
    np.testing.assert_allclose(log_prior, prior, rtol=1e-6)


@pytest.mark.slow
def test_formulas_as_values_of_conditions(tmp_path):
    """Formulas of parameters at the start, of the state later; a volume that doubles leaves concentrations as they are; names of
    the mapping table; and an event of the state that a period makes happen."""
    model = sbml(
        {"A": 2.0, "B": 1.0},
        {"k": 1.0, "seen": 0.0},
        {"r": ("A", "", "k * A")},
        events={"high": ("A > 4", {"seen": "B"})},
        volume=2.0,
    )
    path = write_version_2(
        tmp_path,
        model,
        {
            "parameters": """parameterId | lowerBound | upperBound | nominalValue | estimate
            a | 0.1 | 10 | 1.5 | true
            b | 0.1 | 10 | 0.5 | true""",
            "observables": "observableId | observableFormula | noiseFormula\no | alias + 100 * seen | 1",
            "conditions": """conditionId | targetId | targetValue
            start | alias | a + 2 * b
            start | k | a * b
            later | alias | A + B + 3
            later | B | A
            later | cell | 2 * cell""",
            "experiments": "experimentId | time | conditionId\ne | 0 | start\ne | 2 | later",
            "measurements": "observableId | experimentId | time | measurement\no | e | 1 | 0\no | e | 2 | 0\no | e | 3 | 0",
            "mappings": "petabEntityId | modelEntityId\nalias | A\nstart |",
        },
    )
    read = simkit.petab.load(path)

    def exact(theta):
        a, b = theta
        at = lambda start, t, volume: start * jnp.exp(-a * b * t / volume)
        two = at(a + 2 * b, 2.0, 2.0)
        # `seen` is B after the period, which is A before it.
        return jnp.stack([at(a + 2 * b, 1.0, 2.0), two + 4 + 100 * two, at(two + 4, 1.0, 4.0) + 100 * two])

    ours = jax.jit(lambda theta: read.problem.heads(theta)[0]["o"][0][0])
    np.testing.assert_allclose(ours(read.nominal), exact(read.nominal), rtol=1e-6)
    np.testing.assert_allclose(jax.jacfwd(ours)(read.nominal), jax.jacfwd(exact)(read.nominal), atol=5e-5)


# What is replaced by what in a table, and what the message says.
BAD = {
    "unknown experiment": (
        "measurements",
        "plain | 1",
        "plane | 1",
        r"`measurements.tsv`, line 6, column `experimentId`.*`plane`",
    ),
    "unknown condition": (
        "experiments",
        "1 | fast",
        "1 | fats",
        r"`experiments.tsv`, line 3, column `conditionId`.*`fats`.*fast",
    ),
    "set twice": ("experiments", "1 | fast", "1 | start", r"line 3, column `conditionId`.*sets `A`"),
    "target twice": ("conditions", "start | feed", "start | A", r"line 3, column `targetId`.*sets `A` already"),
    "unknown target": (
        "conditions",
        "fast | factor",
        "fast | fctor",
        r"`conditions.tsv`, line 4.*`fctor` is none.*factor",
    ),
    "formula of what is set": (
        "conditions",
        "start | A | 3.0",
        "start | A | feed + 1",
        r"line 2, column `targetValue`.*must not depend, in the first period.*`feed`",
    ),
    "unknown value": (
        "conditions",
        "factor | two",
        "factor | too",
        r"line 4, column `targetValue`.*`too` is none.*two",
    ),
    "before the start": ("measurements", "grown | 1 |", "grown | 0.5 |", r"line 2, column `time`.*at least 1"),
    "unknown noise": ("observables", "log-laplace", "cauchy", r"line 3, column `noiseDistribution`.*log-normal"),
    "missing placeholder": (
        "measurements",
        "3.1 | sd",
        "3.1 |",
        r"line 2, column `noiseParameters`.*must hold 1 values",
    ),
    "one number too few": ("parameters", "-1; 0.5", "-1", r"line 2, column `priorParameters`.*two numbers"),
    "no truth value": ("parameters", "0.2 | true", "0.2 | maybe", r"line 4, column `estimate`.*true or false"),
}


@pytest.mark.parametrize("case", BAD)
def test_complaints_name_the_place(tmp_path, case):
    check_complaint(lambda tables: small(tmp_path, **tables), TABLES, BAD[case])


def test_extensions_are_refused(tmp_path):
    path = small(tmp_path)
    path.write_text(path.read_text() + "extensions: {sciml: {version: 1}}\n")
    with pytest.raises(DataError, match="extensions"):
        simkit.petab.load(path)
