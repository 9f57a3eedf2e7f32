"""Bad network files: every complaint names file and line, and formulas mean what BioNetGen means."""

import math

import numpy as np
import pytest

import simkit

GOOD = """# a comment
version("2.9.3");
begin parameters
  1 k 0.5
  2 twice 2*k
end parameters
begin functions
  1 f() k*Total
end functions
begin species
  1 A() 10
  2 B() 0
end species
begin reactions
  1 1 2 k
  2 2 1 f
end reactions
begin groups
  1 Total 1,2
end groups
"""

# What is replaced by what, and what the message says.
BAD = {
    "no end": ("end groups\n", "", r"line 18, begins the block `groups`, which has no end. Was the file cut short"),
    "cut in a reaction": ("  2 2 1 f", "  2 2", r"line 16, must hold an index, reactants, products and a rate"),
    "cut in a species": ("  2 B() 0", "  2 B()", r"line 12, must hold a species and its amount"),
    "cut in a parameter": ("2 twice 2*k", "2 twice", r"line 5, must give the parameter `twice` a value"),
    "an index alone": ("2 twice 2*k", "2", r"line 5, must hold more than an index"),
    "cut in a continued line": (
        "  1 Total 1,2\nend groups\n",
        "  1 Total 1,2\\",
        r"continued by a backslash, but nothing",
    ),
    "unknown block": ("begin groups", "begin grups", r"line 18, must begin a block.*`groups`"),
    "block twice": (
        "begin groups",
        "begin species\nend species\nbegin groups",
        r"line 18, begins the block `species` once more",
    ),
    "block within block": ("end species", "begin groups", r"line 13, begins a block within the block `species`"),
    "wrong end": ("end species", "end groups", r"line 13, must end what was begun, but that is the block `species`"),
    "no reactions": ("reactions", "groups", r"once more|must have a block `reactions`"),
    "action": ('version("2.9.3");', "simulate({t_end=>5});", r"line 2, stands outside of all blocks.*runs no actions"),
    "unknown rate": (
        "  1 1 2 k\n",
        "  1 1 2 kk\n",
        r"line 15, the rate must name what the network has.*parameter `kk`.*`k`",
    ),
    "unknown parameter": (
        "2*k",
        "2*q",
        r"line 5, parameter `twice`, must name what the network has. There is no parameter `q`",
    ),
    "unknown in a function": ("k*Total", "k*Totl", r"line 8, function `f`,.*`Totl`.*`Total`"),
    "unknown function": (
        "k*Total",
        "sine(k)",
        r"line 8, function `f`,.*`sine` is called, which is unknown. Close matches: ",
    ),
    "unsupported function": ("k*Total", "mratio(k,k,k)", r"the function `mratio` is called, which is unknown"),
    "unknown species": ("  1 1 2 k\n", "  1 1 3 k\n", r"line 15, must name species by their indices.*no species `3`"),
    "unknown species in a group": ("Total 1,2", "Total 1,9", r"line 19, must name species.*no species `9`"),
    "no index in a group": ("Total 1,2", "Total A,2", r"line 19, must list species by their indices.*`A` is no index"),
    "unknown law": (
        "  1 1 2 k\n",
        "  1 1 2 Arr k k\n",
        r"line 15, must have a rate law.*\(Ele, Sat, Hill, MM\), but it is `Arr`",
    ),
    "too few constants": (
        "  1 1 2 k\n",
        "  1 1 2 MM k\n",
        r"line 15, must give the law `MM` 2 constants here, but gives 1",
    ),
    "too few reactants": ("  1 1 2 k\n", "  1 1 2 MM k k\n", r"line 15, must give the law `MM` at least 2 reactants"),
    "ring of parameters": (
        "k 0.5",
        "k twice",
        r"`k` in `bad.net` must not depend on itself, but does: k -> twice -> k",
    ),
    "ring of functions": ("k*Total", "k*f()", r"`f` in `bad.net` must not depend on itself, but does: f -> f"),
    "parenthesis": ("k*Total", "(k*Total", r"line 8, function `f`, must hold a formula.*a parenthesis is not closed"),
    "two operators": ("k*Total", "k*/Total", r"line 8,.*`/` stands where an operand belongs"),
    "missing operand": ("k*Total", "k*", r"line 8,.*an operand is missing at the end"),
    "strange sign": ("k*Total", "k$Total", r"line 8,.*`\$Total` cannot be read"),
    "too many words": ("k*Total", "k Total", r"line 8,.*`Total` stands where the formula could end"),
    "too many arguments": ("k*Total", "exp(k,k)", r"line 8,.*`exp` must have 1 argument, but has 2"),
    "deep": ("k*Total", "(" * 5000 + "k" + ")" * 5000, r"line 8,.*nested more than 100 deep"),
    "same parameter": ("2 twice 2*k", "2 k 2", r"line 5, must name each parameter once, but line 4 has `k`"),
    "same species": ("2 B() 0", "2 A() 0", r"line 12, must name a species that is not there yet"),
    "same index": ("2 B() 0", "1 B() 0", r"line 12, must name a species that is not there yet"),
    "function's name": ("1 k 0.5", "1 exp 0.5", r"line 4, must not name a parameter `exp`"),
    "no species": ("  1 A() 10\n  2 B() 0\n", "", r"must have at least one species"),
    "too large a number": ("k 0.5", "k 1e999", r"line 4, parameter `k`, must be finite"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_its_line(name, tmp_path):
    old, new, message = BAD[name]
    assert old in GOOD
    path = tmp_path / "bad.net"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(simkit.DataError, match=message) as complaint:
        simkit.networks.load(path)
    assert len(str(complaint.value)) < 500


def test_every_cut_is_refused_or_whole(tmp_path):
    path = tmp_path / "bad.net"
    for end in range(0, GOOD.index("end groups"), 7):
        path.write_text(GOOD[:end])
        with pytest.raises(simkit.DataError):
            simkit.networks.load(path)


def test_what_is_no_file(tmp_path):
    with pytest.raises(simkit.DataError, match="There is no network file"):
        simkit.networks.load(tmp_path / "none.net")
    with pytest.raises(simkit.DataError, match="cannot be read"):
        simkit.networks.load(tmp_path)
    (tmp_path / "bytes.net").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(simkit.DataError, match="must be text in UTF-8"):
        simkit.networks.load(tmp_path / "bytes.net")


# Formulas, and the same in Python; a = 3, b = 0.25.
FORMULAS = {
    "a+b*2-1/a": 3 + 0.25 * 2 - 1 / 3,
    "-a^2": -9.0,
    "2^-1": 0.5,
    "2^a^2": 2.0**9,
    "a**2": 9.0,
    "2*-a": -6.0,
    "8/2/2": 2.0,
    "8-2-2": 4.0,
    "if(a>b, 1, 2)": 1.0,
    "if((a>=3)&&(b<0.25), 1, 2)": 2.0,
    "if(a==3 || b!=0.25, 5, 6)": 5.0,
    "if(!(a<b), 5, 6)": 5.0,
    "(a>b)+(a<=3)": 2.0,
    "exp(b)+ln(a)+log10(a)+log2(a)": math.exp(0.25) + math.log(3) + math.log10(3) + math.log2(3),
    "sqrt(a)*abs(-b)": math.sqrt(3) * 0.25,
    "sin(a)+cos(a)+tan(b)": math.sin(3) + math.cos(3) + math.tan(0.25),
    "asin(b)+acos(b)+atan(a)": math.asin(0.25) + math.acos(0.25) + math.atan(3),
    "sinh(b)+cosh(b)+tanh(a)": math.sinh(0.25) + math.cosh(0.25) + math.tanh(3),
    "asinh(a)+acosh(a)+atanh(b)": math.asinh(3) + math.acosh(3) + math.atanh(0.25),
    "min(a,b,2)+max(a,b)+sum(a,b,1)+avg(a,b)": 0.25 + 3 + 4.25 + 1.625,
    "rint(a/2)+rint(b)": 2.0,
    "_pi+_e": math.pi + math.e,
    "1.5e-3*a+.5": 0.5045,
    "g(a, 2)+g(b, a)": 3 + 4 + 0.25 + 9,
    "time()*a": 6.0,
}


def test_formulas(tmp_path):
    path = tmp_path / "formulas.net"
    lines = "\n".join(f"{i} f{i}() {text}" for i, text in enumerate(FORMULAS, start=1))
    path.write_text(
        f"begin parameters\n1 a 3\n2 b 0.25\nend parameters\nbegin functions\n{lines}\n99 g(x, y) x+y*y\nend functions\n"
        "begin species\n1 A 1\nend species\nbegin reactions\n1 1 0 a\nend reactions\n"
    )
    system = simkit.networks.load(path)
    found = system.outputs(2.0, system.start(), None)
    for i, (text, value) in enumerate(FORMULAS.items(), start=1):
        assert float(found[f"f{i}"]) == pytest.approx(value, rel=1e-14), text


# Law, and the rate of amounts 3, 5 and 2 with k = 0.5, K = 4, h = 2.
LAWS = {
    "Ele k": 0.5 * 30,
    "2*k": 30.0,
    "Sat k": 0.5,
    "Sat k K": 0.5 * 3 / 7 * 10,
    "Sat k K K": 0.5 * 3 / 7 * 5 / 9 * 2,
    "3*Sat k K": 1.5 * 3 / 7 * 10,
    "Hill k K h": 0.5 * 9 / 25 * 10,
    # enzymes 5 + 2, S = (b + sqrt(b^2 + 4 * 3 * 4)) / 2 with b = 3 - 4 - 7
    "MM k K": 0.5 * 7 * (s := (-8 + math.sqrt(64 + 48)) / 2) / (4 + s),
    "f": 1.5 * 30,
    "0.5*f": 0.75 * 30,
}


@pytest.mark.parametrize("law", LAWS)
def test_laws(law, tmp_path):
    path = tmp_path / "laws.net"
    path.write_text(
        "begin parameters\n1 k 0.5\n2 K 4\n3 h 2\nend parameters\nbegin functions\n1 f() k*X\nend functions\n"
        "begin species\n1 A 3\n2 B 5\n3 C 2\n4 P 0\nend species\nbegin reactions\n"
        f"1 1,2,3 2,3,4 {law}\nend reactions\nbegin groups\n1 X 1\nend groups\n"
    )
    system = simkit.networks.load(path)
    slope = system.decode(system.vector_field(0.0, system.encode(system.start()), None))
    assert float(slope["P"]) == pytest.approx(LAWS[law], rel=1e-14)
    assert float(slope["A"]) == pytest.approx(-LAWS[law], rel=1e-14)
    assert float(slope["B"]) == 0.0


def test_michaelis_menten_keeps_its_digits(tmp_path):
    path = tmp_path / "mm.net"
    path.write_text(
        "begin parameters\n1 k 1\n2 K 1\nend parameters\nbegin species\n1 S 1e-3\n2 E 1e8\n3 P 0\nend species\n"
        "begin reactions\n1 1,2 3,2 MM k K\nend reactions\n"
    )
    system = simkit.networks.load(path)
    slope = system.decode(system.vector_field(0.0, system.encode(system.start()), None))
    # Nearly all substrate is held: the rate is k S0 E / (K + E) up to S0 / E = 1e-11; the plain root is wrong by 1e-5.
    np.testing.assert_allclose(float(slope["P"]), 1e-3 * 1e8 / (1 + 1e8), rtol=1e-10)
