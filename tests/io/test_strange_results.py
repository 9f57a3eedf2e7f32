"""Result files that were made to deceive: nothing is read of other files, of what was never written, or of another shape."""

import h5py
import numpy as np
import pytest
import synthetic
from helpers import resealed, tree_bitwise_equal

from simkit import ResultFileError
from simkit.io import load, load_provenance, save


@pytest.fixture
def file(tmp_path):
    return save(tmp_path / "result.h5", fit=synthetic.fit_result(), posterior=synthetic.posterior(draws=8))


def external_link(held, other):
    del held["fit/estimate"]
    held["fit/estimate"] = h5py.ExternalLink(str(other), "x")


def soft_link(held, other):
    held["fit/more"] = h5py.SoftLink("/posterior/growth")


def external_storage(held, other):
    shape, kind = held["fit/estimate"].shape, held["fit/estimate"].dtype
    del held["fit/estimate"]
    held["fit"].create_dataset("estimate", shape, kind, external=[(str(other), 0, h5py.h5f.UNLIMITED)])


def virtual(held, other):
    shape = held["fit/estimate"].shape
    layout = h5py.VirtualLayout(shape, "f8")
    layout[:] = h5py.VirtualSource(str(other), "x", shape=(100,))[: shape[0]]
    del held["fit/estimate"]
    held["fit"].create_virtual_dataset("estimate", layout)


def chunks_unwritten(held, other):
    shape = held["fit/estimate"].shape
    del held["fit/estimate"]
    held["fit"].create_dataset("estimate", shape, "f8", chunks=(1,))[0] = 1.0


def never_written(held, other):
    shape = held["fit/estimate"].shape
    del held["fit/estimate"]
    held["fit"].create_dataset("estimate", shape, "f8")


def enormous(held, other):
    del held["fit/estimate"]
    held["fit"].create_dataset("estimate", (2**29,), "f8")


def compressed(held, other):
    del held["fit/estimate"]
    held["fit"].create_dataset("estimate", data=np.zeros(2**16), compression="gzip")


def complex_numbers(held, other):
    values = held["fit/estimate"][()]
    del held["fit/estimate"]
    held["fit/estimate"] = values + 0j


def another_length(held, other):
    values = held["fit/estimate"][()]
    del held["fit/estimate"]
    held["fit/estimate"] = np.append(values, 1.0)


def another_dimension(held, other):
    values = held["fit/covariance"][()]
    del held["fit/covariance"]
    held["fit/covariance"] = values[0]


def whole_estimates(held, other):
    shape = held["fit/estimate"].shape
    del held["fit/estimate"]
    held["fit/estimate"] = np.ones(shape, int)


def fewer_draws(held, other):
    values = held["posterior/growth"][()]
    del held["sample_stats/lp"]
    held["sample_stats/lp"] = values[:, :3]


def names_of_numbers(held, other):
    held["fit"].attrs["names"] = "[1, 2]"


def deep_json(held, other):
    held["fit"].attrs["names"] = "[" * 10_000


def many_names(held, other):
    held["fit"].attrs["names"] = np.zeros(5000)


def group_in_group(held, other):
    held.create_group("fit/inner")


def a_type(held, other):
    held["fit/kind"] = np.dtype("f8")


def two_commands(held, other):
    del held["provenance/command"]
    held["provenance"].create_dataset("command", data=["x", "y"], dtype=h5py.string_dtype())


def version_minus_one(held, other):
    held.attrs["format_version"] = -1


def version_of_text(held, other):
    held.attrs["format_version"] = "two"


TRICKS = {
    external_link: r"`/fit/estimate` is a link to somewhere else",
    soft_link: r"`/fit/more` is a link to somewhere else",
    external_storage: r"`/fit/estimate` takes its numbers from other files",
    virtual: r"`/fit/estimate` is put together from other files",
    chunks_unwritten: r"`/fit/estimate` has \d+ chunks, of which 1 were written",
    never_written: r"`/fit/estimate` has the shape .* but 0 of its \d+ bytes were written",
    enormous: r"`/fit/estimate` has the shape \(536870912,\), which takes 4294967296 bytes of a file that has \d+",
    compressed: r"`/fit/estimate` is compressed",
    complex_numbers: r"`estimate` must hold real numbers, but it is of type complex128",
    another_length: r"`estimate` must have the shape \(\d+\), but it has",
    another_dimension: r"`covariance` must have the dimensions parameter, other_parameter",
    whole_estimates: r"`estimate` must hold real numbers",
    fewer_draws: r"`log_density` must have the shape|Type-check error",  # the tests' own check of types comes first
    names_of_numbers: r"`names` must be a list of texts",
    deep_json: r"damaged",
    many_names: r"`names` of `/fit` must be one value",
    group_in_group: r"`/fit/inner` is a group inside a group",
    a_type: r"`/fit/kind` is neither a group nor an array",
    two_commands: r"damaged",
    version_minus_one: r"format version from 1 on, but it has.*-1",
    version_of_text: r"format version from 1 on, but it has 'two'",
}


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__)
def test_tricks_are_refused(tmp_path, file, trick):
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as secret:
        secret["x"] = np.arange(100.0)
    with resealed(file) as held:
        trick(held, other)
    with pytest.raises(ResultFileError, match=TRICKS[trick]):
        load(file)


def test_chunks_that_were_never_written_hold_no_numbers(file):
    with h5py.File(file, "r") as held:
        assert np.isnan(held["fit/estimate"].fillvalue)
        assert np.isnan(held["posterior/growth"].fillvalue)
        assert held["posterior/chain"].fillvalue == 0


def test_files_of_before_checksums_load_with_a_warning(file):
    with resealed(file, sealed=False) as held:
        held.attrs["format_version"] = 1
    with pytest.warns(UserWarning, match="wrote no checksums"):
        results = load(file)
    assert tree_bitwise_equal(results.fit, synthetic.fit_result())
    with pytest.warns(UserWarning, match="wrote no checksums"):
        load_provenance(file)


def test_a_checksum_that_is_missing_is_missed(file):
    with resealed(file, sealed=False) as held:
        assert held.attrs["format_version"] == 2
    with pytest.raises(ResultFileError, match="has lost the checksum at its end"):
        load(file)


def test_every_flipped_bit_is_noticed(file):
    content, rng = file.read_bytes(), np.random.default_rng(0)
    for place in [*rng.integers(0, len(content), 60), *range(len(content) - 80, len(content))]:
        changed = bytearray(content)
        changed[place] ^= 1 << rng.integers(8)
        file.write_bytes(changed)
        with pytest.raises(ResultFileError):
            load(file)
