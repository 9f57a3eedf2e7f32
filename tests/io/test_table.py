"""Tables from CSV files: what is read, and what is refused with which words."""

import time

import numpy as np
import pytest

from simkit import DataError
from simkit.io import read_table

COLUMNS = {"time": "year", "hare": "hare"}


def write(folder, text):
    path = folder / "data.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_reads_columns_by_name_in_any_order(tmp_path):
    path = write(tmp_path, "lynx, hare ,year\n# a note\n4,30,1900\n\n6.1,,1901\n9.8,nan,1902\n")
    table = read_table(path, {"time": "year", "prey": "hare", "lynx": "lynx"})
    np.testing.assert_array_equal(table["time"], [1900, 1901, 1902])
    np.testing.assert_array_equal(table["prey"], [30, np.nan, np.nan])
    np.testing.assert_array_equal(table["lynx"], [4, 6.1, 9.8])


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_and_byte_order_mark(tmp_path, separator):
    path = write(tmp_path, b"\xef\xbb\xbf" + f"year{separator}hare\n1900{separator}30.5\n".encode())
    assert read_table(path, ["year", "hare"])["hare"][0] == 30.5


def test_rows_of_groups_are_read_apart(tmp_path):
    path = write(tmp_path, "tank,day,algae\nB,1,3\nA,1,1\nB,2,4\nA,3,2\n")
    tables = read_table(path, {"time": "day", "algae": "algae"}, by="tank")
    assert list(tables) == ["B", "A"]
    np.testing.assert_array_equal(tables["A"]["time"], [1, 3])
    np.testing.assert_array_equal(tables["B"]["algae"], [3, 4])
    with pytest.raises(DataError, match="name it: `by`"):
        read_table(path, {"time": "day", "algae": "algae"})
    with pytest.raises(DataError, match="Close matches: `tank`"):
        read_table(path, {"time": "day"}, by="Tank")


def test_without_a_time_any_order_goes(tmp_path):
    path = write(tmp_path, "x,y\n2,1\n1,1\n")
    np.testing.assert_array_equal(read_table(path, ["x", "y"], time=None)["x"], [2, 1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("year,hares\n1900,30\n", ["no column `hare`", "Close matches: `hares`"]),
        ("year,hare\n1900,30\n1901,many\n", ["Line 3", "column `hare`", "`many`"]),
        ("year,hare\n1900,30\n1901,1_000\n", ["Line 3", "`1_000`"]),
        ("year;hare\n1900;3,5\n", ["Line 2", "decimal point"]),
        ("year,hare\n1900,30\n1901,inf\n", ["Line 3", "finite"]),
        ("year,hare\n1900,30\n1900,31\n", ["1900 is there twice", "lines 2 and 3"]),
        ("year,hare\n1901,30\n1900,31\n", ["1900 follows 1901", "Sort the rows"]),
        ("year,hare\n1900,30\n,31\n", ["Line 3", "`year`", "missing"]),
        ("year,hare\n1900,30\nnan,31\n", ["Line 3", "`year`", "missing"]),
        ("", ["is empty"]),
        ("\n  \n# nothing\n", ["is empty"]),
        ("year,hare\n", ["no rows"]),
        ("year,hare\n1900,30\n1901\n", ["Line 3", "2 cells", "has 1"]),
        ("year,hare,hare\n1900,30,1\n", ["more than one column `hare`"]),
        (b"year,hare\n1900,\xff\n", ["UTF-8", "byte 15"]),
        ('year,hare\n1900,"30\n', ["no CSV table"]),
    ],
)
def test_bad_tables(tmp_path, text, words):
    with pytest.raises(DataError) as caught:
        read_table(write(tmp_path, text), COLUMNS)
    for word in [*words, "data.csv"]:
        assert word in str(caught.value)


def test_missing_file_lists_its_neighbours(tmp_path):
    write(tmp_path, "year\n1\n")
    with pytest.raises(DataError, match=r"There is no data file.*Close matches: `data.csv`"):
        read_table(tmp_path / "date.csv", COLUMNS)


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_table(tmp_path, COLUMNS)


def test_many_columns():
    count = 200_000
    header = ",".join(f"c{i}" for i in range(count))
    text = f"{header}\n{','.join(['1'] * count)}\n{','.join(['2'] * count)}\n"
    began = time.monotonic()
    table = read_table("wide.csv", {"time": "c0", "last": f"c{count - 1}"}, text=text)
    np.testing.assert_array_equal(table["last"], [1.0, 2.0])
    with pytest.raises(DataError, match="has no column `nothing`"):
        read_table("wide.csv", ["nothing"], text=text)
    # 0.6 s; comparing each header with all others took more than 60.
    assert time.monotonic() - began < 20
