"""SBML models: what their elements mean, and which are refused by name."""

import re

import jax.numpy as jnp
import libsbml
import numpy as np
import pytest
from petab_models import sbml

from simkit import DataError
from simkit.networks._expression import TIME, Formulas
from simkit.petab._sbml import sbml_from_text


def rates(model, **values):
    formulas = Formulas(tuple(model.graph.nodes))
    given = {name: jnp.asarray(x) for name, x in ({TIME: 0.0} | model.constants | values).items()}
    found = formulas.evaluate([model.rates[name] for name in model.states], lambda name: given[name])
    return dict(zip(model.states, map(float, found), strict=True))


def test_concentrations_and_amounts_in_a_volume():
    # A is a concentration and B an amount; the kinetic law is an amount a time. dA/dt = -v / V, dB/dt = v.
    text = sbml({"A": 2.0, "B": 0.0}, {"k": 0.5}, {"r": ("A", "B", "cell * k * A")}, volume=4.0, amounts=["B"])
    model = sbml_from_text(text)
    assert rates(model, A=2.0, B=0.0) == {"A": -1.0, "B": 4.0}


def test_functions_rules_and_piecewise():
    model = sbml_from_text(
        sbml(
            {"A": 1.0},
            {"k": 2.0, "u": 0.0, "z": 1.0},
            {"r": ("", "A", "hill(u, k)")},
            rules={"u": "piecewise(3, time < 1, 5)"},
            rates={"z": "-k * z"},
            functions={"hill": "lambda(a, b, a / (a + b))"},
        )
    )
    assert model.states == ["z", "A"]
    assert rates(model, A=1.0, z=1.5) == {"z": -3.0, "A": 3 / 5}
    model.constants[TIME] = 2.0
    np.testing.assert_allclose(rates(model, A=1.0, z=1.5)["A"], 5 / 7)


def test_stoichiometry_counts_and_a_species_on_both_sides():
    model = sbml_from_text(sbml({"A": 1.0, "B": 0.0}, {"k": 1.0}, {"r": ("A A", "A B", "k * A")}))
    assert rates(model, A=3.0, B=0.0) == {"A": -3.0, "B": 3.0}


def test_algebraic_rules_are_solved():
    """A total of A and B, of which A reacts; a parameter in another rule that depends on B; two rules, one with a choice."""
    model = sbml_from_text(
        sbml(
            {"A": 2.0, "B": 0.0},
            {"total": 5.0, "k": 1.0, "u": 0.0},
            {"r": ("A", "", "cell * u * A")},
            algebraic=["A + 2 * B - total", "3 * (u - k) / 2 + B"],
            free=["u"],
        )
    )
    assert model.states == ["A"]
    # B = (5 - 3) / 2 = 1, u = 1 - 2 B / 3 = 1/3, dA/dt = -u A = -1.
    assert rates(model, A=3.0)["A"] == pytest.approx(-1.0)
    # The first rule could give u, too, but nothing else gives v.
    both = sbml(
        {"A": 1.0}, {"u": 0.0, "v": 0.0}, {"r": ("A", "", "v * A")}, algebraic=["u - A", "u + v - 5"], free="uv"
    )
    assert rates(sbml_from_text(both), A=2.0)["A"] == pytest.approx(-6.0)


@pytest.mark.parametrize(
    ("rule", "free", "message"),
    [
        ("A - 2", [], r"algebraic rule `0 = A - 2`.*must each determine a name"),
        ("k - 2", [], r"algebraic rule `0 = k - 2`.*must each determine a name"),
    ],
)
def test_algebraic_rules_that_are_refused(rule, free, message):
    text = sbml({"A": 1.0}, {"k": 1.0, "u": 1.0}, {"r": ("A", "", "k * u * A")}, algebraic=[rule], free=free)
    with pytest.raises(DataError, match=message):
        sbml_from_text(text)


def changed(text, change):
    document = libsbml.readSBMLFromString(text)
    change(document.getModel())
    return libsbml.writeSBMLToString(document)


def test_conversion_factors():
    text = sbml({"A": 2.0, "B": 0.0}, {"k": 0.5, "all": 10.0, "own": 3.0}, {"r": ("A", "B", "k * A")}, volume=4.0)

    def convert(model):
        model.setConversionFactor("all")
        model.getSpecies("B").setConversionFactor("own")

    # The reaction runs at 1: A loses 10 / 4, B gains 3 / 4.
    assert rates(sbml_from_text(changed(text, convert)), A=2.0, B=0.0) == {"A": -2.5, "B": 0.75}


def test_a_concentration_with_a_rule_in_a_volume_that_grows():
    """d[A]/dt = 1 where the volume grows by 0.5: the amount changes by 1 V + 0.5 [A]; `rateOf` gives the concentration's rate."""
    text = sbml(
        {"A": 2.0}, {"z": 0.0}, {}, rates={"cell": "0.5", "A": "1", "z": "rateOf(A) + rateOf(cell)"}, volume=4.0
    )
    model = sbml_from_text(
        changed(text, lambda m: m.getCompartment("cell").setConstant(False)).replace('version="1"', 'version="2"', 1)
    )
    found = rates(model, A=8.0, cell=4.0, z=0.0)
    assert found == {"cell": 0.5, "z": 1.5, "A": 5.0}


def test_stoichiometries_that_have_names():
    """One with an initial assignment stays what it was then, and one that an event sets is a state."""

    def name(model):
        model.getReaction("r").getReactant(0).setId("used")
        model.getReaction("r").getProduct(0).setId("made")
        model.getReaction("r").getProduct(0).setConstant(False)

    text = sbml(
        {"A": 2.0, "B": 0.0},
        {"k": 1.0},
        {"r": ("A", "B", "cell * k * A")},
        initial={"used": "2 * A"},
        events={"more": ("time > 1", {"made": "7"})},
    )
    model = sbml_from_text(changed(text, name))
    assert model.states == ["A", "B", "made"]
    assert rates(model, A=3.0, B=0.0, used=4.0, made=5.0) == {"A": -12.0, "B": 15.0, "made": 0.0}


def test_elements_without_formulas_say_nothing():
    text = sbml({"A": 1.0}, {"k": 2.0, "u": 3.0}, {"r": ("", "A", "k * u")}, rules={"u": "5"}, initial={"k": "7"})
    bare = re.sub(r"(?s)(<(assignmentRule|initialAssignment) [^>]*>).*?</math>", r"\1", text)
    assert bare.count("<math") == text.count("<math") - 2
    model = sbml_from_text(bare)
    assert rates(model, A=1.0) == {"A": 6.0}
    assert "k" not in model.start


def test_a_model_of_formulas_alone():
    model = sbml_from_text(sbml({}, {"k": 2.0, "u": 0.0}, {}, rules={"u": "k * time"}))
    assert len(model.states) == 1
    assert rates(model, **{model.states[0]: 0.0}) == {model.states[0]: 0.0}


def test_entities_are_refused():
    text = sbml({"A": 1.0}, {"k": 1.0}, {})
    head, body = text.split("\n", 1)
    for trick in ('<!DOCTYPE sbml [<!ENTITY a "b">]>', '<!DOCTYPE x SYSTEM "file:///etc/passwd">'):
        with pytest.raises(DataError, match="must not declare a document type"):
            sbml_from_text(f"{head}\n{trick}\n{body}")


def test_what_is_not_supported_is_named():
    with pytest.raises(DataError, match=r"rule of `a`.*a -> b -> a"):
        sbml_from_text(sbml({"A": 1.0}, {"a": 1.0, "b": 1.0}, {}, rules={"a": "b", "b": "a"}))
    with pytest.raises(DataError, match="must be SBML"):
        sbml_from_text("<html></html>")


def test_an_event_that_sets_a_concentration_and_its_volume():
    """The amount is the new concentration in the old volume (cases 01779 and 01780 of the SBML test suite): 0.2 in 0.5."""
    text = sbml({"A": 2.0}, {}, {}, volume=0.5, events={"both": ("time > 1", {"A": "0.2", "cell": "0.25"})})
    model = sbml_from_text(changed(text, lambda m: m.getCompartment("cell").setConstant(False)))
    (event,) = model.events
    formulas = Formulas(tuple(model.graph.nodes))
    nodes = [event.assignments["A"], event.volumes["A"], event.assignments["cell"]]
    assert [float(x) for x in formulas.evaluate(nodes, lambda name: jnp.asarray(0.5))] == [0.2, 0.5, 0.25]
