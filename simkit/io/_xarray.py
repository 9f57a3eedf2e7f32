"""Results as xarray data sets."""

from typing import Any

import numpy as np

from .._errors import missing_package
from ..infer import Posterior


def to_xarray(posterior: Posterior) -> Any:
    """The draws as an `xarray.Dataset` with the dimensions chain and draw, one variable a parameter, its unit in `units`.

    The same as `xarray.open_dataset(path, group="posterior")` of a saved posterior.

    **Raises:** a `MissingPackageError` where xarray is not installed.
    """
    try:
        import xarray
    except ImportError as error:
        raise missing_package("`to_xarray`", "xarray", "xarray") from error
    chains, draws, _ = posterior.draws.shape
    units = zip(posterior.names, posterior.units, strict=True)
    return xarray.Dataset(
        {
            name: (("chain", "draw"), np.asarray(posterior.draws[..., i]), {} if unit == "1" else {"units": unit})
            for i, (name, unit) in enumerate(units)
        },
        coords={"chain": np.arange(chains), "draw": np.arange(draws)},
    )
