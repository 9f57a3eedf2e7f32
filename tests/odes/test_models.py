"""Every model passes the conformance suite."""

import pytest

from simkit import odes
from simkit.testing import check_system


@pytest.mark.parametrize("name", list(odes.MODELS))
def test_conformance(name):
    report = check_system(odes.MODELS[name])
    assert report.steps > 0
    assert len(report.names) > 1
    assert name.replace("_", "").lower() == report.system.lower()
