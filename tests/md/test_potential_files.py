"""Potential files: small ones written here, and what is said of files that are cut short or of another style."""

import numpy as np
import pytest

import simkit
from simkit import DataError
from simkit.md import (
    METAL,
    REDUCED,
    read_finnis_sinclair,
    read_funcfl,
    read_setfl,
    read_stillinger_weber,
    read_tersoff,
)

HEAD = "DATE: 2026-01-01 UNITS: metal\nsecond comment\nthird comment\n"
F, G = np.arange(1.0, 5.0), np.arange(11.0, 15.0)


def numbers(values, a_line=3):
    rows = [values[i : i + a_line] for i in range(0, len(values), a_line)]
    return "".join(" ".join(f"{x:.16e}" for x in row) + "\n" for row in rows)


def setfl(densities=1):
    """Two elements, 4 densities, 4 distances; `densities` a table an element."""
    text = HEAD + "2 Al Fe\n4 0.1 4 0.5 1.9\n"
    for i in range(2):
        text += f"{13 * (i + 1)} {27.0 * (i + 1)} 4.05 fcc\n" + numbers(F + 100 * i)
        for j in range(densities):
            text += numbers(G + 100 * i + 10 * j)
    return text + numbers(F) + numbers(2 * F) + numbers(3 * F)


SW = """# DATE: 2026-01-01 UNITS: metal
# element 1, element 2, element 3, epsilon, sigma, a, lambda, gamma, costheta0, A, B, p, q, tol
Si Si Si 2.1683 2.0951 1.80 21.0 1.20 -0.333333333333  # two lines an entry
         7.049556277 0.6022245584 4.0 0.0 0.0
Ge Ge Ge 1.93 2.181 1.80 31.0 1.20 -0.333333333333 7.049556277 0.6022245584 4.0 0.0 0.0
"""
TERSOFF = """# UNITS: metal
C C C 3.0 1.0 0.0 38049 4.3484 -.57058 .72751
      0.00000015724 2.2119 346.7 1.95 0.15 3.4879 1393.6
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="table"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_setfl(write):
    tables = read_setfl(write(setfl()))
    assert tables.elements == ("Al", "Fe")
    assert tables.atomic_numbers == (13, 26)
    assert tables.masses == (27.0, 54.0)
    assert tables.lattices == ("fcc", "fcc")
    assert (tables.density_step, tables.distance_step, tables.cutoff) == (0.1, 0.5, 1.9)
    assert tables.units == METAL
    np.testing.assert_array_equal(tables.embedding, [F, F + 100])
    np.testing.assert_array_equal(tables.density, [[G, G], [G + 100, G + 100]])
    np.testing.assert_array_equal(tables.pair, [[F, 2 * F], [2 * F, 3 * F]])
    assert repr(tables) == "EAMTables of Al, Fe: 4 densities, 4 distances, cutoff 1.9 (metal units)"


def test_finnis_sinclair(write):
    tables = read_finnis_sinclair(write(setfl(densities=2)))
    np.testing.assert_array_equal(tables.density, [[G, G + 10], [G + 100, G + 110]])
    np.testing.assert_array_equal(tables.pair, [[F, 2 * F], [2 * F, 3 * F]])


def test_funcfl(write):
    text = "a comment\n29 63.55 3.615 FCC\n4 0.1 4 0.5 1.9\n" + numbers(F) + numbers(F) + numbers(G)
    tables = read_funcfl(write(text, "Cu_test.eam"))
    assert tables.elements == ("Cu",)
    np.testing.assert_array_equal(tables.embedding, [F])
    np.testing.assert_allclose(tables.pair[0, 0], 14.3888 * F**2, rtol=1e-14)  # 27.2 times 0.529
    np.testing.assert_array_equal(tables.density[0, 0], G)
    assert read_funcfl(write(text.replace("1.0000000000000000e+00", "1.0D0")), "Au").elements == ("Au",)


def test_stillinger_weber(write):
    path = write(SW)
    table = read_stillinger_weber(path, ["Si"])
    assert table["epsilon"].shape == (1, 1, 1)
    assert table["epsilon"].item() == 2.1683
    assert table["lambda"].item() == 21.0
    assert table["tolerance"].item() == 0.0
    assert read_stillinger_weber(path, ["Ge"])["sigma"].item() == 2.181
    with pytest.raises(DataError, match="must have an entry Si Si Ge"):
        read_stillinger_weber(path, ["Si", "Ge"])


def test_three_body_entries_are_by_the_atom_in_the_middle(write):
    names = [(a, b, c) for a in "AB" for b in "AB" for c in "AB"]
    lines = [f"{a} {b} {c} {i} 2 1.8 21 1.2 -0.3 7 0.6 4 0 0" for i, (a, b, c) in enumerate(names)]
    table = read_stillinger_weber(write("\n".join(lines[::-1])), ["B", "A"])
    np.testing.assert_array_equal(table["epsilon"][1, 0, 1], names.index(("A", "B", "A")))
    np.testing.assert_array_equal(table["epsilon"], np.arange(8.0).reshape(2, 2, 2)[::-1, ::-1, ::-1])


def test_tersoff(write):
    table = read_tersoff(write(TERSOFF), "C")
    assert {name: value.item() for name, value in table.values.items()} == {
        "m": 3.0,
        "gamma": 1.0,
        "lambda3": 0.0,
        "c": 38049.0,
        "d": 4.3484,
        "cos_theta0": -0.57058,
        "n": 0.72751,
        "beta": 1.5724e-7,
        "lambda2": 2.2119,
        "B": 346.7,
        "R": 1.95,
        "D": 0.15,
        "lambda1": 3.4879,
        "A": 1393.6,
    }
    with pytest.raises(DataError, match="m as 1 or 3"):
        read_tersoff(write(TERSOFF.replace("3.0 1.0", "2.0 1.0")), "C")


def test_units_of_a_file(write):
    assert read_stillinger_weber(write(SW.replace("UNITS: metal", "UNITS: lj")), ["Si"]).units == REDUCED
    assert read_stillinger_weber(write(SW.partition("\n")[2]), ["Si"]).units == METAL
    with pytest.raises(DataError, match=r"Line 1 .*`table` must name a known unit system, but it is `metall`.*`metal`"):
        read_stillinger_weber(write(SW.replace("UNITS: metal", "UNITS: metall")), ["Si"])


def test_cut_short_anywhere(write):
    """Wherever a line is missing at the end, the message says so and names the last line that is there."""
    for text, read in ((setfl(), read_setfl), (setfl(densities=2), read_finnis_sinclair)):
        lines = text.splitlines()
        for kept in range(1, len(lines)):
            with pytest.raises(DataError, match=f"cut short.* line {kept}, but nothing does"):
                read(write("\n".join(lines[:kept])))
    with pytest.raises(
        DataError, match=r"cut short: the entry that begins on its line 5 must have 14 words, but it has 4"
    ):
        read_stillinger_weber(write(SW[: SW.index("2.181")]), ["Si"])


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_setfl, setfl(densities=2), "Line 11 .*must hold an element .*another style"),
        (read_finnis_sinclair, setfl(), "Line 11 .*the density of Al at Fe as a number.*another style"),
        (read_setfl, SW, "Line 4 .*the number of elements as a whole number .*`7.049556277`"),
        (read_funcfl, setfl(), "Line 2 .*must hold an element"),
        (read_setfl, "x\n29 63.55 3.615 FCC\n4 0.1 4 0.5 1.9\n" + numbers(F) * 3, "Line 4 .*names 2.*`read_funcfl`"),
        (read_setfl, setfl().replace("4 0.1 4 0.5", "4 0.1 4 -0.5"), "Line 5 .*positive steps"),
        (read_setfl, setfl().replace("4 0.1 4 0.5", "4.5 0.1 4 0.5"), "Line 5 .*whole number"),
        (read_setfl, setfl().replace("2 Al Fe", "3 Al Fe"), "Line 4 .*says 3 and names 2"),
        (read_setfl, setfl() + "1.0\n", "Line 22 .*must be empty"),
        (read_setfl, setfl().replace("1.0000000000000000e+00", "nan"), "Line 7 .*finite number.*`nan`"),
        (read_setfl, setfl().replace("4 0.1", "5 0.1"), "Line 9 .*has 2 more"),
    ],
)
def test_another_style(write, read, text, message):
    with pytest.raises(DataError, match=message):
        read(write(text))


def test_bad_entries(write):
    with pytest.raises(DataError, match=r"Line 6 .*Ge Ge Ge for the second time, after line 5"):
        read_stillinger_weber(write(SW + SW.splitlines()[-1]), ["Ge"])
    with pytest.raises(DataError, match=r"Line 5 .*`sigma` of Ge Ge Ge as at least 0, but it is -2.181"):
        read_stillinger_weber(write(SW.replace("2.181", "-2.181")), ["Ge"])
    with pytest.raises(DataError, match=r"Line 3 .*Stillinger-Weber style with three elements.*`4.0`|cut short"):
        read_stillinger_weber(write(TERSOFF), ["C"])
    with pytest.raises(DataError, match=r"no potential file .*Close matches: `table`"):
        read_setfl(write(SW).with_name("tabel"))
    with pytest.raises(simkit.ArgumentError, match="at least one element"):
        read_tersoff(write(TERSOFF), [])
