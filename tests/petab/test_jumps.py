"""SBML models as jump processes: laws, amounts, volumes, rules and events."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import DataError

MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML"><apply>{}</apply></math>'


def model(*, species="", rules="", events="", reactions=None):
    made = (
        '<reaction id="make" reversible="false" fast="false"><listOfProducts><speciesReference species="A" stoichiometry="2" '
        'constant="true"/></listOfProducts><kineticLaw>'
        + MATH.format("<times/><ci> k </ci><ci> cell </ci>")
        + "</kineticLaw></reaction>"
        '<reaction id="lose" reversible="false" fast="false"><listOfReactants><speciesReference species="A" stoichiometry="1" '
        'constant="true"/></listOfReactants><kineticLaw>'
        + MATH.format("<times/><ci> d </ci><ci> A </ci><ci> cell </ci>")
        + "</kineticLaw></reaction>"
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">
<listOfCompartments><compartment id="cell" spatialDimensions="3" size="2" constant="true"/></listOfCompartments>
<listOfSpecies><species id="A" compartment="cell" initialConcentration="3" hasOnlySubstanceUnits="false"
boundaryCondition="false" constant="false"/>{species}</listOfSpecies>
<listOfParameters><parameter id="k" value="5" constant="true"/><parameter id="d" value="0.5" constant="true"/>
<parameter id="v" value="0" constant="false"/></listOfParameters>
{rules}<listOfReactions>{made if reactions is None else reactions}</listOfReactions>{events}</model></sbml>"""


def reset(trigger, inside=""):
    return (
        '<listOfEvents><event id="e" useValuesFromTriggerTime="true"><trigger initialValue="false" persistent="true">'
        f'{MATH.format(trigger)}</trigger>{inside}<listOfEventAssignments><eventAssignment variable="A">'
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><cn> 1 </cn></math></eventAssignment></listOfEventAssignments>'
        "</event></listOfEvents>"
    )


RULE = f'<listOfRules><assignmentRule variable="v">{MATH.format("<plus/><ci> A </ci><cn> 1 </cn>")}</assignmentRule></listOfRules>'
TIME = '<csymbol encoding="text" definitionURL="http://www.sbml.org/sbml/symbols/time"> t </csymbol>'


def loaded(folder, **parts):
    path = folder / "model.xml"
    path.write_text(model(**parts))
    return simkit.petab.load_jumps(path)


def test_laws_see_concentrations_and_states_are_amounts(tmp_path):
    system = loaded(tmp_path, rules=RULE)
    start = system.start()
    assert float(start["A"]) == 6.0
    rates = system.propensities(0.0, start, None)
    assert {name: float(x) for name, x in rates.items()} == {"make": 10.0, "lose": 3.0}
    assert system.jumps() == {"make": {"A": 2.0}, "lose": {"A": -1.0}}
    assert float(system.outputs(0.0, start, None)["v"]) == 4.0


def test_events_at_a_time_and_of_a_state(tmp_path):
    times, key = jnp.linspace(0.0, 4.0, 201), jax.random.key(0)
    timed = loaded(tmp_path, events=reset(f"<geq/>{TIME}<cn> 2.5 </cn>"))
    ran = np.asarray(simkit.simulate(timed, timed.start(), times, key=key).ys["A"])
    assert ran[125] == 2.0
    assert ran[124] > 2.0
    assert ran[0] == 6.0
    full = loaded(tmp_path, events=reset("<gt/><ci> A </ci><cn> 10 </cn>"))
    ran = np.asarray(simkit.simulate(full, full.start(), times, key=key).ys["A"])
    assert ran.max() <= 20
    assert (np.diff(ran) < -10).any()


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            {"events": reset("<gt/><ci> A </ci><cn> 10 </cn>", f"<delay>{MATH.format('<plus/><ci> k </ci>')}</delay>")},
            "a delay",
        ),
        ({"rules": RULE.replace("assignmentRule", "rateRule")}, "rate rules"),
        ({"reactions": ""}, "must have a reaction"),
    ],
)
def test_what_no_jump_process_has(tmp_path, parts, words):
    with pytest.raises(DataError, match=words):
        loaded(tmp_path, **parts)
