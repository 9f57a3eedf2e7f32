"""The groups of the events of a stored trajectory: times and names, and the states on both sides."""

import json

import h5py
import jax.numpy as jnp
import numpy as np

from ..core import Events, named_leaves, unit_of
from ._netcdf import read_json, read_variables, write_dimension, write_inner, write_variable

GROUPS = "events", "events_before", "events_after"
"""Names of the groups: a result file has no groups in groups."""


def write_events(group: h5py.Group, before: h5py.Group, after: h5py.Group, events: Events) -> None:
    """Write events over their place in the list; of an ensemble over member and place. States are by dotted name."""
    members = np.shape(events.count)
    lead = (*(("member",) if members else ()), "event")
    for place in (group, before, after):
        if members:
            write_dimension(place, "member", np.arange(members[0]))
        write_dimension(place, "event", np.arange(events.room))
    group.attrs["names"] = json.dumps(list(events.names))
    write_variable(group, "count", events.count, lead[:-1])
    for name in ("times", "which"):
        write_variable(group, name, getattr(events, name), lead)
    for place, states in ((before, events.before), (after, events.after)):
        leaves = {name or "y": (unit_of(states, name), values) for name, values in named_leaves(states).items()}
        place.attrs["names"] = json.dumps(list(leaves))
        for name, (unit, values) in leaves.items():
            inner = write_inner(place, name, values.shape[len(lead) :])
            write_variable(place, name, values, (*lead, *inner), unit)


def read_events(group: h5py.Group, before: h5py.Group, after: h5py.Group) -> Events:
    """Read events; their states come back as dictionaries by dotted name."""
    values = read_variables(group)
    numbers = (jnp.asarray(values[name]) for name in ("count", "times", "which"))
    stored = ((place, read_variables(place)) for place in (before, after))
    sides = ({name: jnp.asarray(found[name]) for name in read_json(place, "names")} for place, found in stored)
    return Events(tuple(read_json(group, "names")), *numbers, *sides)
