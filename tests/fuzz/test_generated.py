"""Formulas and studies made at random: formulas against NumPy and SciPy, studies read or refused with a sentence."""

import math
import pathlib
import random
import tomllib

import numpy as np
import pytest
import scipy.special
from fuzzing import DOSED_HEAD, Told, judged

from simkit.networks._expression import Formulas, Graph
from simkit.networks._infix import Printer
from simkit.petab._mathml import Reader, parsed
from simkit.study import study_from_text

ROOT = pathlib.Path(__file__).parents[2]
VALUES = {"x": 0.7, "y": 2.5, "n": -3.25, "z": 0.0, "k": 41.0}

# Text in SBML's notation, and the same by NumPy and SciPy; what is in braces are operands.
FUNCTIONS = {
    "({0} + {1})": np.add,
    "({0} - {1})": np.subtract,
    "({0} * {1})": np.multiply,
    "({0} / {1})": np.divide,
    "({0} ^ 2)": np.square,
    "({0} ^ 3)": lambda a: a * a * a,
    "(-({0}))": np.negative,
    "exp({0} / 50)": lambda a: np.exp(a / 50),
    "ln(1 + abs({0}))": lambda a: np.log(1 + np.abs(a)),
    "log10(1 + abs({0}))": lambda a: np.log10(1 + np.abs(a)),
    "log2(1 + abs({0}))": lambda a: np.log2(1 + np.abs(a)),
    "log(1 + abs({0}), 3)": lambda a: np.log(1 + np.abs(a)) / np.log(3),
    "sqrt(abs({0}))": lambda a: np.sqrt(np.abs(a)),
    "root(3, abs({0}))": lambda a: np.abs(a) ** (1 / 3),
    "abs({0})": np.abs,
    "sin({0} / (1 + abs({0}) / 50))": lambda a: np.sin(a / (1 + np.abs(a) / 50)),
    "cos({0} / (1 + abs({0}) / 50))": lambda a: np.cos(a / (1 + np.abs(a) / 50)),
    "tanh({0})": np.tanh,
    "arctan({0})": np.arctan,
    "arcsinh({0})": np.arcsinh,
    "sech({0} / 50)": lambda a: 1 / np.cosh(a / 50),
    "arccot(1 + abs({0}))": lambda a: np.arctan(1 / (1 + np.abs(a))),
    "min({0}, {1})": np.minimum,
    "max({0}, {1})": np.maximum,
    "factorial(min(abs({0}), 6))": lambda a: scipy.special.gamma(min(abs(a), 6.0) + 1),
    "piecewise({0}, {0} < {1}, {1})": lambda a, b: a if a < b else b,
    "piecewise({0}, {0} >= {1} && {1} > 0, 1.5)": lambda a, b: a if a >= b and b > 0 else 1.5,
    "piecewise({0}, !({0} == {1}) || {1} <= 0, 1.5)": lambda a, b: a if a != b or b <= 0 else 1.5,
    "sign({0})": np.sign,
    "heaviside({0})": lambda a: np.heaviside(a, 0.5),
}


def formula(rng, depth):
    """A formula as text and its value; only `floor` and its like are left out, which rounding turns over."""
    if depth == 0 or rng.random() < 0.1:
        if rng.random() < 0.3:
            number = rng.choice([0.0, 1.0, 2.0, 0.5, -1.0, 1e-3, 1e3, round(rng.uniform(-9, 9), 3)])
            return (f"({number!r})" if number < 0 else repr(number)), np.float64(number)
        name = rng.choice(sorted(VALUES))
        return name, np.float64(VALUES[name])
    text = rng.choice(sorted(FUNCTIONS))
    parts = [formula(rng, depth - 1) for _ in range(2 if "{1}" in text else 1)]
    return text.format(*(part for part, _ in parts)), np.float64(FUNCTIONS[text](*(value for _, value in parts)))


def differs(rng):
    """Read a formula, evaluate it, print it and read it again; where the values differ, what was found."""
    text, expected = formula(rng, rng.randrange(1, 6))
    graph = Graph()
    node = Reader(graph, graph.symbol).read(parsed(text, "The formula"), "The formula")
    formulas = Formulas(tuple(graph.nodes))
    again = Graph()
    printed = Printer(formulas, {}, str).text(node)
    other = Reader(again, again.symbol).read(parsed(printed, "The formula"), "The formula")
    found = [
        float(Formulas(tuple(made.nodes)).evaluate([root], lambda name: np.float64(VALUES[name]))[0])
        for made, root in ((graph, node), (again, other))
    ]
    # Sums that cancel amplify rounding: such formulas are compared to the size of their parts, which is below 1e4 times the result.
    close = lambda a: (
        (math.isnan(a) and math.isnan(expected)) or a == expected or abs(a - expected) <= 1e-9 * max(1.0, abs(expected))
    )
    return None if all(map(close, found)) else (text, printed, expected, found)


def compare(count, seed):
    rng = random.Random(seed)
    with np.errstate(all="ignore"):
        found = [differs(rng) for _ in range(count)]
    wrong = [x for x in found if x is not None and np.isfinite(x[2])]
    assert not wrong, wrong[:3]


def test_formulas_against_numpy_and_scipy():
    compare(60, seed=0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5 / 0.0", math.inf),
        ("0.0^(-1.0)", math.inf),
        ("x + 1.0 / (1.0 - 1.0)", math.inf),
        ("1e300^2.0", math.inf),
        ("-1.0 / 0.0", -math.inf),
    ],
)
def test_numbers_alone_follow_the_rules_of_floating_point(text, value):
    graph = Graph()
    node = Reader(graph, graph.symbol).read(parsed(text, "The formula"), "The formula")
    assert float(Formulas(tuple(graph.nodes)).evaluate([node], lambda name: np.float64(2.0))[0]) == value


@pytest.mark.long
def test_many_formulas_against_numpy_and_scipy():
    compare(20_000, seed=1)


WORDS = [
    *"()+-*/^<>=!&|,.;:'\"\\ \n\0",
    "x",
    "y",
    "1e",
    "1e999",
    "piecewise(",
    "log(",
    "delay(",
    "rateOf(",
    "avogadro",
    "ln(",
    "&&",
    "time",
]


def broken(rng):
    text = formula(rng, 3)[0]
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice(WORDS) + text[place + rng.randrange(3) :]
    return text


def read_broken(count, seed):
    rng, told = random.Random(seed), Told()
    with np.errstate(all="ignore"):
        for _ in range(count):
            text, graph = broken(rng), Graph()
            read = lambda text=text, graph=graph: Reader(graph, graph.symbol).read(
                parsed(text, "The formula"), "The formula"
            )
            judged(told, repr(text), read, lambda found: True)
    return told


def test_broken_formulas():
    read_broken(100, seed=0)


@pytest.mark.long
def test_many_broken_formulas():
    print("\nbroken formulas:", read_broken(20_000, seed=1))


STUDIES = [
    "examples/lynx_hare.toml",
    "examples/kolmogorov.toml",
    "examples/lj_fluid.toml",
    "examples/epidemics_sweep.toml",
]
DOSES = """ID,TIME,EVID,AMT,CMT,RATE,DV
anna,0,1,300,central,150,.
anna,1,0,.,.,.,5.0
anna,6,0,.,.,.,4.0
"""
DOSED = (
    DOSED_HEAD
    + """start = 0.0
lag = { central = 0.1 }
bioavailability = { central = 0.5 }
[experiments.carl]
start = 0.0
times = [1.0, 6.0]
data = { concentration = [5.0, 4.0] }
resets = [5.5, 5.75]
[[experiments.carl.doses]]
amount = 300.0
into = "central"
rate = 150.0
[[experiments.carl.doses]]
amount = 20.0
time = 2.0
every = 1.0
additional = 3
[[experiments.carl.doses]]
amount = 20.0
time = 5.875
duration = 0.5
every = 12.0
steady = true
resets = true
"""
)
NUMBERS = [0, 1, -1, 0.0, -0.5, 1e300, 1e-300, float("nan"), float("inf"), 2**62, 7, 3.5]
THINGS = [
    *NUMBERS,
    "",
    "x",
    "growth",
    "../../etc/passwd",
    True,
    [],
    [1.0],
    [[1.0]],
    ["x"],
    [float("nan")],
    {},
    {"x": 1},
    {"model": "normal"},
]
FEW_KEYS = (
    "additional",
    "count",
    "starts",
    "draws",
    "chains",
    "warmup",
    "atoms",
    "repeats",
    "shape",
    "points",
    "screen",
)


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def changed(rng, tables):
    """One table or value of a study removed, renamed or replaced."""
    node = tables
    while True:
        key = rng.choice(sorted(node))
        if isinstance(node[key], list) and node[key] and isinstance(node[key][0], dict) and rng.random() < 0.85:
            node = rng.choice([table for table in node[key] if isinstance(table, dict)])
            if not node:
                return
            key = rng.choice(sorted(node))
        if not isinstance(node[key], dict) or not node[key] or rng.random() < 0.15:
            break
        node = node[key]
    kind = rng.randrange(4)
    if kind == 0:
        del node[key]
    elif kind == 1:
        node[key + "s"] = node.pop(key)
    elif kind == 2 and isinstance(node[key], int | float) and not isinstance(node[key], bool):
        # What asks for memory or time is left small: the limits have tests of their own.
        node[key] = rng.choice(NUMBERS[:5] if key in FEW_KEYS else NUMBERS)
    else:
        things = [x for x in THINGS if x not in (2**62, 1e300)] if key in FEW_KEYS else THINGS
        node[key] = rng.choice(things)


def read_studies(count, seed, studies=STUDIES):
    rng, told = random.Random(seed), Told()
    for i in range(count):
        file = ROOT / studies[i % len(studies)]
        tables = tomllib.loads(DOSED if file.name == "dosed.toml" else file.read_text())
        for _ in range(rng.randrange(1, 4)):
            if tables:
                changed(rng, tables)
        text = "\n".join(f"{quoted(key)} = {toml(value)}" for key, value in tables.items())
        files = {"data/hudson_bay.csv": (ROOT / "examples/data/hudson_bay.csv").read_text(), "doses.csv": DOSES}

        def read(text=text, files=files):
            study = study_from_text(text, read=files)
            return study.problem() if study.experiments else study

        judged(told, f"{file.name}:\n{text}", read, lambda found: True)
    return told


@pytest.mark.filterwarnings("ignore")
def test_generated_studies():
    read_studies(12, seed=0)


@pytest.mark.filterwarnings("ignore")
def test_generated_studies_with_doses():
    read_studies(8, seed=2, studies=["dosed.toml"])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_many_generated_studies_with_doses():
    print("\ngenerated studies with doses:", read_studies(1200, seed=3, studies=["dosed.toml"]))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_many_generated_studies():
    print("\ngenerated studies:", read_studies(1200, seed=1))
