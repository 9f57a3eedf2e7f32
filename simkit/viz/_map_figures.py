"""Fields on a sphere as maps of longitude and latitude."""

from collections.abc import Mapping

import numpy as np
from jax.typing import ArrayLike
from matplotlib.figure import Figure

from .._doors import check_kind, check_mapping, shown
from .._errors import ArgumentError
from ..fluids import Sphere
from ._field_figures import MAPS
from ._style import new_figure, styled

SIGNED = 0.2
"""Fields whose least value is below minus this part of the greatest size lie around zero."""


@styled
def plot_map(sphere: Sphere, fields: Mapping[str, ArrayLike], *, units: Mapping[str, str] | None = None) -> Figure:
    """Fields on a sphere, one panel each: longitude and latitude in degrees.

    **Arguments:** `sphere`; `fields` by title, each of the shape of the sphere's grid; `units` by title. Fields around zero are
    shown from blue to red with white in the middle.

    **Raises:** an `ArgumentError` for a field of another shape.

    ```python
    from simkit import fluids, viz

    sphere = fluids.Sphere(10)
    viz.plot_map(sphere, {"vorticity": fluids.rossby_haurwitz(sphere)[0]}, units={"vorticity": "1/s"})
    ```
    """
    check_kind("sphere", sphere, Sphere, "a sphere", "Write `fluids.Sphere(31)`.")
    check_mapping("fields", fields, "fields by title", '`{"temperature": run.final().temperature[-1]}`')
    if not fields:
        raise ArgumentError("Argument `fields` must have at least one field, but is empty. Give a field by its title.")
    for name, field in fields.items():
        sphere.check_field(field, f"fields[{name!r}]")
        if np.asarray(field).dtype.kind not in "biuf" or not np.isfinite(np.asarray(field)).any():
            raise ArgumentError(f"Argument `fields` must hold real numbers, but `{name}` holds {shown(field)}.")
    check_mapping("units", units or {}, "units by title", '`{"vorticity": "1/s"}`')
    figure = new_figure(6.4, 0.4 + 2.8 * len(fields))
    panels = figure.subplots(len(fields), 1, squeeze=False, sharex=True)[:, 0]
    longitude, latitude = (np.degrees(x) for x in sphere.mesh())
    for panel, (name, field) in zip(panels, fields.items(), strict=True):
        values = np.asarray(field, float)
        known = values[np.isfinite(values)]
        size = float(np.max(np.abs(known), initial=0.0))
        low, high = float(np.min(known, initial=np.inf)), float(np.max(known, initial=-np.inf))
        signed = low < -SIGNED * size
        limits = (-size, size) if signed else (low, high)
        drawn = panel.pcolormesh(
            longitude, latitude, values, shading="nearest", cmap=MAPS[signed], vmin=limits[0], vmax=limits[1]
        )
        panel.grid(False)
        panel.set_title(name, fontsize="small")
        panel.set(ylabel="latitude in degrees", yticks=[-90, -45, 0, 45, 90], xticks=[0, 90, 180, 270])
        figure.colorbar(drawn, ax=panel, pad=0.02, label=(units or {}).get(name, ""))
    panels[-1].set_xlabel("longitude in degrees")
    return figure
