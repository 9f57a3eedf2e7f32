"""Search for parameters that have best values in closed form."""

from collections.abc import Collection

import numpy as np

from ._closed_form import KINDS, ClosedForm
from ._forward import ForwardModel
from ._unknowns import Unknowns


def closed_forms(unknowns: Unknowns, model: ForwardModel, censored: Collection[str]) -> tuple[ClosedForm, ...]:
    """Find the parts of a problem with closed forms: parameters without priors that enter the measurement of exact data alone."""
    found = () if model.measurement is None else model.measurement.closed_forms
    read = frozenset() if model.derived is None else model.derived.reads
    flat = {block.name for block, prior in unknowns.pairs if prior is None} - read
    named = {block.offset: block.name for block in unknowns.blocks}
    uses: dict[str, set[str]] = {}
    for path, (index, _) in model.table.items():
        for i in np.unique(np.asarray(index)):  # beyond the names are the values of individuals
            uses.setdefault(named.get(int(i), ""), set()).add(path)
    own = [
        ClosedForm((), name, (output,))
        for output, noise in model.base.noise.items()
        for name in [f"noise.{output}.scale"]
        if type(noise) in KINDS and name in flat and uses.get(name) == {name}
    ]
    return tuple(c for c in (*found, *own) if flat.issuperset(c.names) and not set(c.outputs).intersection(censored))
