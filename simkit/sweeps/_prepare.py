"""Preparation of a store: a new one, the one that is there, or that one with more members."""

import dataclasses
import json
from collections.abc import Mapping

import h5py
import numpy as np

from .._errors import ResultFileError, StoreError
from ..io import provenance
from ..stores import Place, describe, differences, fingerprint, hdf5_image, write_text
from ._chunk import find_chunks, is_whole, made_chunk, read_chunk, variables_of
from ._members import Members
from ._store import BY_RULE, FORMAT, MANIFEST, OVER, POINTS, VERSION, Store, open_store


def prepare_store(
    folder: Place,
    definition: Mapping[str, str],
    *,
    chunk: int,
    times: np.ndarray,
    members: Members,
) -> Store:
    """The store of a sweep: the one that is there, if it is of this sweep or of its first members, or a new one.

    **Raises:** a `StoreError` where the folder holds another sweep, or something else.
    """
    _check_empty(folder)
    # Without a finished chunk there is nothing to lose: a call with a slip in it does not keep the folder for itself.
    known = (folder / MANIFEST).exists() and bool(find_chunks(folder))
    store = open_store(folder) if known else None
    larger = None if store is None else _grown(store, definition, members, chunk)
    if larger is not None:
        store = larger
    elif store is not None:
        _check_same(store, definition)
    else:
        made = dataclasses.asdict(provenance())
        store = Store(folder, fingerprint(definition), dict(definition), members.count, chunk, made)
        _check_orphans(store)
        for path in folder.glob("set-aside-*.json"):
            path.unlink()
    if not _has_points(store, times, members):
        write_text(folder / POINTS, _points_file(times, members))
    if not known or larger is not None:
        held = dataclasses.asdict(store)
        del held["folder"]
        write_text(folder / MANIFEST, json.dumps({"format": FORMAT, "format_version": VERSION, **held}, indent=1))
    return store


def _grown(store: Store, definition: Mapping[str, str], members: Members, chunk: int) -> Store | None:
    """The store with all members, where it holds the first of them; None where it is of another sweep.

    Chunk files are keyed with the identity of the whole sweep, so each full one is written again under its new name: the file that
    a sweep of all members from scratch would write. Nothing is removed here: a kill in between leaves the store before, and the
    files before go once the new manifest stands. A last chunk that is not full is computed anew, as the numbers of a member may
    depend in their last bits on its place in the compiled program.
    """
    if members.count <= store.members:
        return None
    first = members.shortened(store.members)
    if first is None:
        return None
    # `chunk` is at most the number of members, so that a store of a single chunk that is not full has a smaller one.
    before = {**definition, **describe({**first, "chunk": min(chunk, store.members)})}
    if fingerprint(before) != store.identity:
        return None
    identity = fingerprint(definition)
    larger = dataclasses.replace(
        store, identity=identity, definition=dict(definition), members=members.count, chunk=chunk
    )
    for index, chunks in find_chunks(store.folder).items():
        known = next((chunk for chunk in chunks if is_whole(chunk, store.identity)), None)
        full = (index + 1) * chunk <= store.members
        if known is None or not full or any(is_whole(chunk, identity) for chunk in chunks):
            continue
        variables = variables_of(known)
        results = read_chunk(known, tuple(variables))
        written, content = made_chunk(store.folder, identity, index, index * chunk, results, variables)
        write_text(written.path, content)
    return larger


def _check_same(store: Store, definition: Mapping[str, str]) -> None:
    if store.identity == fingerprint(definition):
        return
    found = differences(store.definition, definition)
    more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
    raise StoreError(
        f"The store `{store.folder}` belongs to another sweep: {'; '.join(found[:5])}{more}. Choose another store, or remove "
        "this one."
    )


def _check_orphans(store: Store) -> None:
    """Refuse chunk files without a manifest of which none is of this sweep: they would be removed as damaged."""
    chunks = [chunk for chunks in find_chunks(store.folder).values() for chunk in chunks]
    if chunks and not any(is_whole(chunk, store.identity) for chunk in chunks):
        raise StoreError(
            f"The store `{store.folder}` holds chunk files of another sweep and no manifest. Call `sweep` as it was called for "
            "them, choose another store, or remove this one."
        )


def _check_empty(folder: Place) -> None:
    """Refuse a folder without a sweep that holds files that none wrote; chunk files may wait for a manifest that was lost."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"The store `{folder}` must be a folder, but it is a file.")
    # Beside a sweep a command may have put its study, models and report.
    if (folder / MANIFEST).exists():
        return
    ours = (POINTS, "chunk-*.h5", "set-aside-*.json", "lock.json", "view.h5", "view-*.h5", ".*.part")
    beside = ("study.toml", "report.html", "figures")
    known = {path.name for pattern in (*ours, *beside) for path in folder.glob(pattern)}
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in known) if folder.exists() else []
    if foreign:
        raise StoreError(
            f"The store `{folder}` must be a new or an empty folder, or hold a sweep, but it holds other files, such as "
            f"`{foreign[0]}`. Choose another folder."
        )


def _has_points(store: Store, times: np.ndarray, members: Members) -> bool:
    try:
        held = store.points()
    except ResultFileError:
        return False
    there, values = held.values, members.probed if members.rule is None else _first(members)
    same = held.times.dtype == times.dtype and np.array_equal(held.times, times) and list(there) == list(values)
    same = same and held.by_rule == (members.rule is not None)
    return same and all(np.array_equal(there[path], value, equal_nan=True) for path, value in values.items())


def _points_file(times: np.ndarray, members: Members) -> bytes:
    def fill(file: h5py.File) -> None:
        file.attrs.update(format="simkit sweep points")
        file.create_dataset("times", data=times)
        group = file.create_group(OVER if members.rule is None else BY_RULE, track_order=True)
        for place, (path, value) in enumerate((members.values or _first(members)).items()):
            dataset = group.create_dataset(f"{place:04d}", data=value)
            dataset.attrs.update(path=path, units=members.setup.metadata(path).unit)

    return hdf5_image(fill)


def _first(members: Members) -> dict[str, np.ndarray]:
    """The values of the first member, which tell shapes and float types."""
    return {path: value[:1] for path, value in members.probed.items()}
