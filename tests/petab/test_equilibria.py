"""Algebraic rules that are not solved by hand, and fast reactions, against exact solutions."""

import re

import jax
import jax.numpy as jnp
import libsbml
import numpy as np
import pytest
from petab_models import sbml, write_problem

import simkit

TIMES = (0.0, 0.5, 1.0, 2.0)
PARAMETER = "parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate\n"
TIGHT = simkit.Adaptive(1e-9, 1e-14)
# Steps of 1e-9 leave errors of 1e-10 to 1e-8 here, and derivatives ten times those.
CLOSE, DERIVED = 1e-7, 1e-6


def fast(text, *names):
    """The model with some of its reactions fast, their products and reactants as they are."""
    document = libsbml.readSBMLFromString(text)
    for name in names:
        document.getModel().getReaction(name).setFast(True)
    return libsbml.writeSBMLToString(document)


def read(folder, model, names, values, times=TIMES, conditions="conditionId\nc0\n", step=TIGHT):
    """A problem that observes `names` at all times, and whose free parameters are `values`."""
    data = [f"o_{name} | c0 | {time} | 1.0" for name in names for time in times]
    path = write_problem(
        folder,
        model,
        PARAMETER + "\n".join(f"{name} | lin | 0.01 | 100 | {value} | 1" for name, value in values.items()),
        "observableId | observableFormula | noiseFormula\n" + "\n".join(f"o_{name} | {name} | 0.1" for name in names),
        "observableId | simulationConditionId | time | measurement\n" + "\n".join(data),
        conditions,
    )
    return simkit.petab.load(path, step=step)


def check(found, exact):
    """Values at all times and their derivatives are those of the exact solution, a function of the parameters."""

    def ours(theta):
        heads, status = found.problem.heads(theta)
        values = jnp.stack([heads[name][0][0] for name in heads])
        return values, (values, status)

    slopes, (values, status) = jax.jit(jax.jacfwd(ours, has_aux=True))(found.nominal)
    assert int(status[0]) == 0
    np.testing.assert_allclose(values, exact(found.nominal), rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(slopes, jax.jacfwd(exact)(found.nominal), rtol=DERIVED, atol=DERIVED)


def test_a_rule_that_is_not_linear(tmp_path):
    """0 = u^2 - A: dA/dt = -k u A = -k A^1.5, so 1 / sqrt(A) grows by k / 2. The start of b needs u."""
    model = sbml(
        {"A": 1.0},
        {"k": 0.5, "u": 3.0, "b": 0.0},
        {"r": ("A", "", "cell * k * u * A")},
        algebraic=["u * u - A"],
        free=["u"],
        rates={"b": "0"},
        initial={"A": "4", "b": "10 * u"},
    )
    found = read(tmp_path, model, ["A", "u", "b"], {"k": 0.7})
    assert isinstance(found.problem.base.system, simkit.ConstrainedSystem)

    def exact(theta):
        u = 1 / (0.5 + theta[0] * jnp.array(TIMES) / 2)
        return jnp.stack([u * u, u, 20.0 + 0 * u])

    check(found, exact)


def test_rules_that_determine_each_other(tmp_path):
    """u v = A and u + v = 5, a rule that an assignment rule stands between: u and v are the roots of x^2 - 5 x + A."""
    model = sbml(
        {"A": 4.0},
        {"k": 0.5, "u": 4.5, "v": 0.5, "w": 0.0},
        {"r": ("A", "", "cell * k * v")},
        algebraic=["u * v - A", "w + u - 5"],
        rules={"w": "v"},
        free=["u", "v"],
    )
    found = read(tmp_path, model, ["A", "u", "v"], {"k": 0.5}, times=(0.0, 1.0))
    heads, _ = found.problem.heads(found.nominal)
    a, u, v = (np.asarray(heads[f"o_{name}"][0])[0] for name in ("A", "u", "v"))
    np.testing.assert_allclose(u, 2.5 + np.sqrt(6.25 - a), rtol=CLOSE)
    np.testing.assert_allclose(v, 5 - u, rtol=CLOSE)
    assert 3.0 < a[1] < 3.7  # v is 1 at the start, and less later


REVERSIBLE = {"swap": ("A", "B", "cell * (on * A - 2 * B)"), "loss": ("B", "", "cell * k * B")}


def leaving(theta, times=jnp.array(TIMES), total=5.0):
    """A and B in equilibrium, on A = 2 B, where B decays by k."""
    on, k = theta
    share = on / (on + 2)
    both = total * jnp.exp(-k * share * times)
    return jnp.stack([both * (1 - share), both * share])


def test_a_fast_reaction(tmp_path):
    """The sum of both species stays through the equilibrium at the start, and both leave through one of them."""
    model = fast(sbml({"A": 3.0, "B": 2.0}, {"on": 1.0, "k": 1.0}, REVERSIBLE, volume=4.0), "swap")
    check(read(tmp_path, model, ["A", "B"], {"on": 3.0, "k": 0.6}), leaving)


def test_amounts_and_concentrations_in_a_fast_reaction(tmp_path):
    """A is a concentration in a volume of 4 and B an amount: 4 A + B is kept, and B = (on / 2) 4 A in equilibrium."""
    reactions = {"swap": ("A", "B", "on * A * cell - 2 * B"), "loss": ("B", "", "k * B")}
    model = fast(sbml({"A": 3.0, "B": 8.0}, {"on": 1.0, "k": 1.0}, reactions, volume=4.0, amounts=["B"]), "swap")

    def exact(theta):
        a, b = leaving(theta, total=20.0)
        return jnp.stack([a / 4, b])

    check(read(tmp_path, model, ["A", "B"], {"on": 3.0, "k": 0.6}), exact)


def test_fast_reactions_that_depend_on_each_other(tmp_path):
    """Forwards and backwards as two reactions, which are in equilibrium together; neither rate is zero."""
    reactions = {
        "there": ("A", "B", "cell * on * A"),
        "back": ("B", "A", "cell * 2 * B"),
        "loss": ("B", "", "cell * k * B"),
    }
    model = fast(sbml({"A": 3.0, "B": 2.0}, {"on": 1.0, "k": 1.0}, reactions), "there", "back")
    check(read(tmp_path, model, ["A", "B"], {"on": 3.0, "k": 0.6}), leaving)


def test_a_fast_reaction_takes_the_way_that_it_goes(tmp_path):
    """A + B -> C has its rate at zero without A and without B, and uses up what is less; B then comes in, and A goes on."""
    reactions = {"bind": ("A B", "C", "cell * k * A * B"), "feed": ("", "B", "cell * flow")}
    model = fast(sbml({"A": 3.0, "B": 2.0, "C": 0.5}, {"k": 1.0, "flow": 1.0}, reactions), "bind")
    found = read(tmp_path, model, ["A", "B", "C"], {"k": 5.0, "flow": 0.25})

    def exact(theta):
        fed = theta[1] * jnp.array(TIMES)
        return jnp.stack([1.0 - fed, 0 * fed, 2.5 + fed])

    check(found, exact)


@pytest.mark.parametrize("trigger", ["time > 1", "B < 1"])
def test_fast_reactions_and_events(tmp_path, trigger):
    """What an event gives is in equilibrium at once, where its time is known before and where it is not."""
    events = {"dose": (trigger, {"A": "A + 5"})}
    model = fast(sbml({"A": 3.0, "B": 2.0}, {"on": 1.0, "k": 1.0}, REVERSIBLE, events=events), "swap")
    known = trigger.startswith("time")
    times = TIMES if known else (0.0, 2.0, 4.0, 5.0)
    found = read(tmp_path, model, ["A", "B"], {"on": 2.0, "k": 0.6}, times=times)

    def exact(theta):
        share, after = theta[0] / (theta[0] + 2), jnp.array(times)
        at = 1.0 if known else jnp.log(5.0 * share) / (theta[1] * share)  # ln(2.5) / 0.3 = 3.05
        return leaving(theta, after) + jnp.where(after >= at, leaving(theta, after - at), 0.0)

    check(found, exact)


def test_an_event_beside_an_algebraic_rule(tmp_path):
    """0 = u^2 - A holds again at the time of an event that sets A."""
    model = sbml(
        {"A": 4.0},
        {"k": 0.5, "u": 1.0},
        {"r": ("A", "", "cell * k * u * A")},
        algebraic=["u * u - A"],
        free=["u"],
        events={"dose": ("time > 1", {"A": "9"})},
    )
    found = read(tmp_path, model, ["A", "u"], {"k": 0.7})

    def exact(theta):
        times = jnp.array(TIMES)
        u = jnp.where(
            times >= 1, 1 / (1 / 3 + theta[0] * (times - 1) / 2), 1 / (0.5 + theta[0] * jnp.minimum(times, 1) / 2)
        )
        return jnp.stack([u * u, u])

    check(found, exact)


def test_conditions_and_fits_of_fast_reactions(tmp_path):
    """Each condition has its own start and equilibrium; a fit finds the parameters that made the data."""
    model = fast(sbml({"A": 3.0, "B": 2.0}, {"on": 1.0, "k": 1.0}, REVERSIBLE), "swap")
    truth = jnp.array([3.0, 0.6])
    rows = [
        f"o | {condition} | {time} | {float(leaving(truth, time, total)[1])}"
        for condition, total in (("low", 5.0), ("high", 9.0))
        for time in TIMES
    ]
    path = write_problem(
        tmp_path,
        model,
        PARAMETER + "on | log10 | 0.1 | 100 | 1 | 1\nk | log10 | 0.1 | 100 | 1 | 1",
        "observableId | observableFormula | noiseFormula\no | B | 0.1",
        "observableId | simulationConditionId | time | measurement\n" + "\n".join(rows),
        "conditionId | A\nlow | 3\nhigh | 7\n",
    )
    found = simkit.fit(simkit.petab.load(path).problem, starts=2, key=jax.random.key(0))
    np.testing.assert_allclose(found.estimate, truth, rtol=1e-3)  # of a solver at 5e-7


def referenced(model):
    """The model, its first reactant's number of the first reaction under the name `count`."""
    document = libsbml.readSBMLFromString(model)
    reference = document.getModel().getReaction("swap").getReactant(0)
    reference.setId("count"), reference.setConstant(False)
    return libsbml.writeSBMLToString(document)


def test_what_is_not_supported_is_named(tmp_path):
    plain = {"on": 1.0, "k": 1.0}
    values = {"on": 3.0, "k": 0.6}
    events = {"more": ("time > 1", {"count": "2"})}
    model = referenced(fast(sbml({"A": 3.0, "B": 2.0}, plain, REVERSIBLE, events=events), "swap"))
    with pytest.raises(simkit.DataError, match=r"fast reaction `swap`.*depend on `count`, which changes"):
        read(tmp_path, model, ["A"], values)

    ruled = {"swap": ("A", "B", "cell * (on * A - u * B)"), "loss": REVERSIBLE["loss"]}
    rule = {"algebraic": ["u * u - A"], "free": ["u"]}
    model = fast(sbml({"A": 3.0, "B": 2.0}, plain | {"u": 1.0}, ruled, **rule), "swap")
    with pytest.raises(simkit.DataError, match=r"fast reaction `swap`.*must not depend on `u`.*`0 = u \* u - A`"):
        read(tmp_path, model, ["A"], values)

    model = fast(sbml({"A": 3.0, "B": 2.0}, plain | {"z": 0.0}, REVERSIBLE, rates={"z": "rateOf(A)"}), "swap")
    with pytest.raises(simkit.DataError, match=r"rate of `A`.*`rateOf`, since the fast reaction `swap` changes it"):
        read(tmp_path, model, ["A"], values)

    model = sbml({"A": 3.0}, {"k": 1.0, "u": 1.0}, {"r": ("A", "", "k * u * A")}, **rule)
    with pytest.raises(simkit.DataError, match=r"`u` is given by a rule of the model"):
        read(tmp_path, model, ["A"], {"k": 1.0}, conditions="conditionId | u\nc0 | 2\n")
    with pytest.raises(
        simkit.DataError, match=r"algebraic rule `0 = u \* u - A`.*data at infinite time: not supported"
    ):
        read(tmp_path, model, ["A"], {"k": 1.0}, times=(1.0, "inf"))
    with pytest.raises(simkit.DataError, match=r"`u` of the model must be finite.*Give it a value"):
        read(tmp_path, re.sub(r'(id="u") value="1"', r"\1", model), ["A"], {"k": 1.0})
    with pytest.raises(simkit.ArgumentError, match=r"printed as Python.*algebraic rule `0 = u \* u - A`"):
        simkit.petab.python_source(read(tmp_path, model, ["A"], {"k": 1.0}))


def test_a_start_without_a_solution_is_a_failure(tmp_path):
    """0 = u^2 + A has no real solution: a status says so, and there are no numbers."""
    model = sbml(
        {"A": 4.0}, {"k": 0.5, "u": 1.0}, {"r": ("A", "", "cell * k * u * A")}, algebraic=["u * u + A"], free=["u"]
    )
    found = read(tmp_path, model, ["A"], {"k": 0.7})
    _, status = found.problem.heads(found.nominal)
    assert simkit.Status(int(status[0])) == simkit.Status.INCONSISTENT


def test_writing_keeps_fast_reactions(tmp_path):
    """A problem with a fast reaction is written as it was read, and read again it is the same."""
    model = fast(sbml({"A": 3.0, "B": 2.0}, {"on": 1.0, "k": 1.0}, REVERSIBLE), "swap")
    found = read(tmp_path, model, ["A", "B"], {"on": 3.0, "k": 0.6})
    again = tmp_path / "again"
    again.mkdir()
    back = simkit.petab.load(simkit.petab.write(found, again), step=TIGHT)
    assert 'fast="true"' in (again / "model.xml").read_text()
    check(back, leaving)
