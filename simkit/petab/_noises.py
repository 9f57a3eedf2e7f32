"""Noise models of PEtab, by the names of both versions."""

from collections.abc import Mapping

from ..problem import NOISES, AbstractNoise

_NAMES = ("normal", "laplace", "log_normal", "log_laplace")

BY_NAME: Mapping[str, type[AbstractNoise]] = {name.replace("_", "-"): NOISES[name] for name in _NAMES}
"""Noise models by the name of version 2, such as "log-normal"."""

BY_SCALE: Mapping[tuple[str, bool], type[AbstractNoise]] = {
    (name.removeprefix("log_"), name.startswith("log_")): NOISES[name] for name in _NAMES
}
"""Noise models by the distribution of version 1, and by whether it is one of the logarithm."""

WRITTEN: Mapping[type[AbstractNoise], tuple[str, str]] = {
    kind: (name, "log" if of_logarithm else "lin") for (name, of_logarithm), kind in BY_SCALE.items()
}
"""The distribution and the transformation of version 1 by the noise model."""
