"""Members that let their worker die, found by halving."""

import itertools

import numpy as np
import pytest

from simkit.sweeps._guilty import MOST, guilty_members


def search(size, guilty):
    asked = []

    def dies(members):
        asked.append(members.copy())
        return bool(members[list(guilty)].any())

    found = guilty_members(size, dies)
    return None if found is None else tuple(np.flatnonzero(found)), asked


@pytest.mark.parametrize("size", [2, 3, 7, 8])
def test_all_sets_of_guilty_members_are_found(size):
    for count in range(1, min(MOST, size - 1) + 1):
        for guilty in itertools.combinations(range(size), count):
            assert search(size, guilty)[0] == guilty


def test_one_among_many_takes_two_calls_a_halving():
    for member in (0, 511, 1023):
        found, asked = search(1024, [member])
        assert found == (member,)
        assert len(asked) <= 20


def test_what_is_no_members_fault_is_given_up():
    assert search(1024, range(1024))[0] is None
    assert len(search(1024, range(1024))[1]) <= 30
    assert search(1, [0])[0] is None
    assert guilty_members(8, lambda members: False) is None  # it died of something else
    assert guilty_members(8, lambda members: None) is None
