"""Scalars that a flow in a layer carries, such as temperature and salinity."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx

from ..._doors import shown
from ..._errors import ArgumentError
from ..._types import Scalar
from ...core import POSITIVE, quantity
from ..grids._boundary import Boundary, Dirichlet, Neumann
from ..grids._checks import check_value
from ..grids._values import check_steady

TAKEN = ("velocity", "kinetic_energy", "dissipation", "wall_shear")
"""Names of outputs, which no scalar may have."""


class LayerScalar(eqx.Module):
    r"""A scalar $\theta$ in a layer, which the flow carries and which may lift the fluid:

    $$\theta_t + u \cdot \nabla \theta = \kappa \nabla^2 \theta, \qquad u_t = \dots + B\, \theta\, e_z$$

    - `diffusivity`: $\kappa$.
    - `buoyancy`: B, the upward acceleration for each unit of the scalar: $g \alpha$ of a temperature, $-g \beta$ of a salinity,
        0 (the default) of a scalar that does nothing to the flow.
    - `walls`: the conditions at the lower and at the upper wall, or one for both: `Dirichlet(value)` for a given value,
        `Neumann(gradient)` for a given outward derivative, which is the flux into the layer over $\kappa$.

    **Good values:** in units of the depth L, its diffusion time $L^2/\kappa$ and the difference between the walls: diffusivity 1,
    buoyancy Ra Pr, viscosity Pr.

    **Raises:** an `ArgumentError` for values that are not finite, a diffusivity that is not positive, or other walls.
    """

    walls: tuple[Boundary, Boundary]
    diffusivity: Scalar = quantity(unit="length2/time", support=POSITIVE, doc="diffusivity")
    buoyancy: Scalar = quantity(unit="length/time2", doc="upward acceleration for each unit of the scalar")

    def __init__(self, diffusivity: Any, *, buoyancy: Any = 0.0, walls: Any):
        check_value("diffusivity", diffusivity, positive=True)
        check_value("buoyancy", buoyancy)
        self.diffusivity, self.buoyancy = diffusivity, buoyancy
        self.walls = as_walls(walls, (Dirichlet, Neumann), "`Dirichlet(1.0)` or `Neumann(0.0)`")
        for wall in self.walls:
            check_steady(wall, "of LayerScalar")
            if isinstance(wall, Dirichlet):
                check_value("walls", wall.value)
            elif isinstance(wall, Neumann):
                check_value("walls", wall.gradient)

    @property
    def fixed(self) -> tuple[bool, bool]:
        """Tell of each wall whether it has a given value."""
        return isinstance(self.walls[0], Dirichlet), isinstance(self.walls[1], Dirichlet)


def as_walls(given: Any, kinds: tuple[type[Boundary], ...], words: str) -> tuple[Boundary, Boundary]:
    """The conditions at the lower and at the upper wall, from a pair or from one for both.

    **Raises:** an `ArgumentError` for other conditions.
    """
    pair = (given, given) if isinstance(given, Boundary) else given
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(wall, kinds) for wall in pair):
        raise ArgumentError(
            f"Argument `walls` must be the conditions at the lower and at the upper wall, {words}, but is {shown(given)}. Write "
            "a pair, or one for both."
        )
    return pair[0], pair[1]


def check_scalars(scalars: Any) -> Mapping[str, Any]:
    """Scalars by name.

    **Raises:** an `ArgumentError` for what is no mapping of names to `LayerScalar`, and for names that outputs have.
    """
    if scalars is None:
        return {}
    if not isinstance(scalars, Mapping) or not all(isinstance(x, LayerScalar) for x in scalars.values()):
        raise ArgumentError(
            f"Argument `scalars` must hold a `LayerScalar` for each name, but is {shown(scalars)}. Write "
            '`scalars={"temperature": fluids.LayerScalar(...)}`.'
        )
    for name in scalars:
        if not isinstance(name, str) or not name.isidentifier():
            raise ArgumentError(
                f"The name of a scalar must be a word of letters, digits and underscores, but one is {name!r}."
            )
        clash = name in TAKEN or any(name in (f"flux_{other}", f"nusselt_{other}") for other in scalars)
        if clash:
            raise ArgumentError(f"No scalar may be called {name!r}, since an output has this name. Take another one.")
    return scalars
