"""Names that study files know: the registries of all families, and the functions that build starts."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ... import fluids as fluids  # systems are declared where they are defined, so all their rooms must be loaded
from ... import md
from ... import odes as odes
from ..._registry import Registry
from ...core import SYSTEMS as SYSTEMS
from ...md import DYNAMICS as DYNAMICS
from ...md import POTENTIALS as POTENTIALS
from ...md import SPACES as SPACES
from ...md import TRUNCATIONS as TRUNCATIONS
from ...problem import NOISES as NOISES
from ...solvers import SOLVERS as SOLVERS
from ...stores import READERS as READERS

BUILDERS: Mapping[str, Callable[..., md.Configuration]] = MappingProxyType({"crystal": md.crystal, "liquid": md.liquid})

REGISTRIES: Mapping[str, Registry[Any]] = MappingProxyType(
    {
        "systems": SYSTEMS,
        "solvers": SOLVERS,
        "potentials": POTENTIALS,
        "noises": NOISES,
        "readers": READERS,
        "dynamics": DYNAMICS,
        "truncations": TRUNCATIONS,
        "spaces": SPACES,
    }
)
"""Registries by family, each from the names that study files know to classes; the first five take those of other packages."""
