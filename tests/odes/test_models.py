"""Every model passes the conformance suite."""

import pytest

from simkit.study import REGISTRIES
from simkit.testing import check_system

MODELS = REGISTRIES["systems"].of("simkit.odes")

QUICK = {
    "hodgkin_huxley",
    "lorenz63",
    "lotka_volterra",
    "n_body",
    "one_compartment",
    "ornstein_uhlenbeck",
    "repressilator",
    "robertson",
    "sir",
}
"""One of each kind; compiling the others takes minutes."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in MODELS]
)
def test_conformance(name):
    report = check_system(MODELS[name])
    assert report.steps > 0
    assert len(report.names) > 1
    assert name.replace("_", "").lower() == report.system.lower()
