"""Models and problems that were made to exhaust the reader: each is read or refused in a second or two."""

import itertools

import pytest
from petab_models import GOOD, sbml, write_problem

import simkit
from simkit import DataError
from simkit.networks._expression import Formulas
from simkit.petab import _mathml
from simkit.petab._sbml import sbml_from_text

MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML">{}</math>'
MODEL = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">{functions}
<listOfParameters><parameter id="A" value="2" constant="false"/>{parameters}</listOfParameters>
<listOfRules><rateRule variable="A">{rate}</rateRule>{rules}</listOfRules></model></sbml>"""


def model(rate, rules=(), functions=()):
    made = (
        f'<functionDefinition id="f{i}">{MATH.format(text)}</functionDefinition>' for i, text in enumerate(functions)
    )
    return MODEL.format(
        rate=MATH.format(rate),
        rules="".join(
            f'<assignmentRule variable="p{i}">{MATH.format(text)}</assignmentRule>' for i, text in enumerate(rules)
        ),
        parameters="".join(f'<parameter id="p{i}" value="1" constant="false"/>' for i in range(len(rules))),
        functions=f"<listOfFunctionDefinitions>{''.join(made)}</listOfFunctionDefinitions>" if functions else "",
    )


def rate_at(text):
    """The rate of A where A is 2."""
    read = sbml_from_text(text)
    formulas = Formulas(tuple(read.graph.nodes))
    return float(formulas.evaluate([read.rates["A"]], lambda name: 2.0)[0])


def nested(depth):
    return "<apply><minus/>" * depth + "<ci>A</ci>" + "</apply>" * depth


def test_mathml_is_nested_up_to_the_limit():
    assert rate_at(model(nested(900))) == 2.0
    for depth in (2_000, 20_000, 200_000):
        with pytest.raises(DataError, match=r"`model.xml`, line 4, must be nested at most 1,000 deep"):
            sbml_from_text(model(nested(depth)))
    assert rate_at(model("<apply><plus/>" + "<ci>A</ci>" * 5000 + "</apply>")) == 10_000.0


@pytest.mark.parametrize("order", [1, -1])
def test_rules_that_name_each_other_many_deep(order):
    count = 1500
    places = range(count)[::order]
    rules = [""] * count
    for i, j in itertools.pairwise(places):
        rules[i] = f"<apply><plus/><ci>p{j}</ci><cn>1</cn></apply>"
    rules[places[-1]] = "<ci>A</ci>"
    assert rate_at(model(f"<ci>p{places[0]}</ci>", rules)) == 2.0 + count - 1
    rules[places[-1]] = f"<ci>p{places[0]}</ci>"
    with pytest.raises(DataError, match=r"must not depend on itself|deep"):
        rate_at(model(f"<ci>p{places[0]}</ci>", rules))


def functions(count, argument):
    """Each function calls the one before twice."""
    body = lambda i: (
        f"<apply><plus/><apply><ci>f{i - 1}</ci><ci>x</ci></apply><apply><ci>f{i - 1}</ci>{argument(i)}</apply></apply>"
    )
    wrap = lambda text: f"<lambda><bvar><ci>x</ci></bvar>{text}</lambda>"
    return [wrap("<ci>x</ci>" if i == 0 else body(i)) for i in range(count)]


def test_functions_that_call_each_other_twice(monkeypatch):
    call = "<apply><ci>f39</ci><ci>A</ci></apply>"
    assert rate_at(model(call, functions=functions(40, lambda i: "<ci>x</ci>"))) == 2.0**40
    other = lambda i: f"<apply><cos/><apply><times/><cn>{i}</cn><ci>x</ci></apply></apply>"
    monkeypatch.setattr(_mathml, "MOST_CALLS", 2_000)
    with pytest.raises(DataError, match=r"must call functions at most 2,000 times in all"):
        sbml_from_text(model(call, functions=functions(40, other)))


YAML = {
    "a list of files by aliases": ("[measurements.tsv]", "[&a x, *a, *a]", r"must do without aliases, but names `\*a`"),
    "deep": ("[measurements.tsv]", "[" * 5000 + "]" * 5000, "must be nested at most 20 deep"),
    "many": ("[measurements.tsv]", f"[{','.join(['x'] * 60_000)}]", "must hold at most 50,000 items"),
    "a list in a list": ("[measurements.tsv]", "[[x, x]]", "in a list of them stands a list"),
    "a long number": ("format_version: 1", f"format_version: {'1' * 5000}", "must be YAML, but"),
    "no date": ("format_version: 1", "format_version: 2026-99-99", "must be YAML, but"),
    "a number for a file": ("[measurements.tsv]", "[7]", "stands a int"),
    "outside": ("[measurements.tsv]", "[../measurements.tsv]", "must lie below the folder of the study"),
}


@pytest.mark.parametrize("case", YAML)
def test_headers(tmp_path, case):
    old, new, message = YAML[case]
    path = problem(tmp_path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    (tmp_path.parent / "measurements.tsv").write_text("x")
    with pytest.raises(DataError, match=message):
        simkit.petab.load(path)


def problem(folder, **changed):
    text = sbml({"A": 1.0}, {"k": 0.5, "k2": 1.0}, {"decay": ("A", "", "k * k2 * A")})
    return write_problem(folder, text, **{**GOOD, **changed})


@pytest.mark.parametrize(
    ("table", "old", "new", "message"),
    [
        (
            "observables",
            "| 0.1",
            "| 0",
            r"`observables.tsv`, line 2, column `noiseFormula`,.*positive number.*but it is 0\.",
        ),
        ("observables", "| 0.1", "| -1", r"column `noiseFormula`.*but it is -1"),
        ("parameters", "0.5 | 1", "20 | 1", r"column `nominalValue`,.*within the bounds 0.01 and 10, but it is 20"),
    ],
)
def test_noise_and_nominal_values_that_cannot_be(tmp_path, table, old, new, message):
    assert old in GOOD[table]
    with pytest.raises(DataError, match=message):
        simkit.petab.load(problem(tmp_path, **{table: GOOD[table].replace(old, new)}))


@pytest.mark.parametrize("given", ["0", "-1", "sigma"])
def test_noise_that_rows_give(tmp_path, given):
    changed = {
        "observables": GOOD["observables"].replace("| 0.1", "| noiseParameter1_o"),
        "measurements": "observableId | simulationConditionId | time | measurement | observableParameters | noiseParameters\n"
        f"o | c0 | 1 | 2.0 | 1.0 | {given}",
        "parameters": GOOD["parameters"] + "\nsigma | lin | 0 | 1 | 0 | 0",
    }
    with pytest.raises(
        DataError, match=r"`measurements.tsv`, line 2, column `noiseParameters`.*must be a positive number"
    ):
        simkit.petab.load(problem(tmp_path, **changed))


COMPOSED = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" xmlns:comp="http://www.sbml.org/sbml/level3/version1/comp/version1"
 level="3" version="1" comp:required="true">{main}<comp:listOfModelDefinitions>{others}</comp:listOfModelDefinitions></sbml>"""


def composed(models):
    """A document whose first model is its main one; each is a name, its parameters and the names of the models in it."""

    def text(tag, name, values, inner):
        quantities = "".join(
            f'<parameter id="{key}" value="{value}" constant="true"/>' for key, value in values.items()
        )
        held = "".join(f'<comp:submodel comp:id="s{i}" comp:modelRef="{other}"/>' for i, other in enumerate(inner))
        parameters = f"<listOfParameters>{quantities}</listOfParameters>" if values else ""
        submodels = f"<comp:listOfSubmodels>{held}</comp:listOfSubmodels>" if inner else ""
        return f'<{tag} id="{name}">{parameters}{submodels}</{tag}>'

    first, *others = models
    return COMPOSED.format(
        main=text("model", *first), others="".join(text("comp:modelDefinition", *other) for other in others)
    )


def test_submodels_are_written_out():
    read = sbml_from_text(composed([("m", {"k": 1}, ["part", "part"]), ("part", {"k": 2}, [])]))
    assert read.constants == {"k": 1.0, "s0__k": 2.0, "s1__k": 2.0}


def test_submodels_that_stand_for_more_than_any_memory():
    doubling = [(f"m{i}", {"k": 1}, [f"m{i + 1}"] * 2) for i in range(40)] + [("m40", {"k": 1}, [])]
    circle = [("m", {"k": 1}, ["a"]), ("a", {"k": 1}, ["a"])]
    chain = [(f"m{i}", {"k": 1}, [f"m{i + 1}"]) for i in range(3000)] + [("m3000", {"k": 1}, [])]
    for models in (doubling, circle, chain):
        with pytest.raises(DataError, match=r"at most 10000 when written out|must be SBML"):
            sbml_from_text(composed(models))
