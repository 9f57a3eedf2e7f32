"""Journals: what a long computation has finished, in a folder, so that the same call goes on after a crash."""

import contextlib
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import numpy as np

from .._budget import has_room
from .._errors import ResultFileError, StoreError
from .._processes import from_first, several
from ._atomic import write_text
from ._definition import describe, differences, fingerprint
from ._image import hdf5_image
from ._lock import NAME as LOCK
from ._lock import Lock, Unlocked, lock_of
from ._manifest import read_manifest
from ._packed import packed, unpacked
from ._remote import Place, open_hdf5, place
from ._sealed import check_hdf5

if TYPE_CHECKING:
    import h5py

FORMAT, VERSION = "simkit journal", 1
MANIFEST = "manifest.json"
RECORD = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)-([0-9a-f]{16})\.h5")
ROUND = re.compile(r"round[0-9]+")
"""Folders of later rounds of a computation, each a store of its own."""
MOST_TOLD = 5


class Journal(NamedTuple):
    """The records of one computation, each a file that is whole or not there.

    The name of a file holds the hash of its content, keyed with the identity of the computation: so what was cut short, changed or
    belongs elsewhere is not taken for finished.

    - `settings`: how the work was cut into parts when the journal was begun; whoever goes on keeps to it.
    - `lock`: held by who writes; None of a journal that is only read.
    """

    folder: Place
    identity: str
    settings: dict[str, int]
    lock: Lock | Unlocked | None

    def read(self, name: str) -> dict[str, np.ndarray] | None:
        """The arrays of a record; None where there is none, or none that is whole, which who writes removes."""
        for path in self._files(name):
            content = path.read_bytes()
            if _digest(self.identity, content) == path.stem.rpartition("-")[2]:
                with open_hdf5(path, content) as file:
                    check_hdf5(file, path)
                    return {key.replace("%2F", "/").replace("%25", "%"): np.asarray(x) for key, x in file.items()}
            if self.lock is not None:
                path.unlink()
        return None

    def write(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a record, whole or not at all.

        **Raises:** a `StoreError` where it cannot be written, or where another process has taken the store over.
        """
        assert self.lock is not None  # a journal that is only read is not written to
        self.lock.check()

        def fill(file: "h5py.File") -> None:
            for key, values in arrays.items():
                # HDF5 would make a group of what stands before a slash.
                file.create_dataset(key.replace("%", "%25").replace("/", "%2F"), data=values)

        content = hdf5_image(fill)
        with _writing(self.folder):
            write_text(self.folder / f"{name}-{_digest(self.identity, content)}.h5", content)

    def drop(self, name: str) -> None:
        """Remove a record."""
        for path in self._files(name):
            path.unlink(missing_ok=True)

    def plan(self, name: str, noun: str, total: int, each: int = 1) -> None:
        """Note in the manifest what is planned, for `simkit progress`: records named `name`, of `each` pieces of `total`."""
        assert self.lock is not None
        path, entry = self.folder / MANIFEST, {"noun": noun, "total": int(total), "each": int(each)}
        manifest = json.loads(path.read_bytes())
        if manifest.get("plan", {}).get(name) != entry:
            manifest["plan"] = {**manifest.get("plan", {}), name: entry}
            with _writing(self.folder):
                write_text(path, json.dumps(manifest, indent=1))

    def _files(self, name: str) -> list[Any]:
        found = ((path, RECORD.fullmatch(path.name)) for path in sorted(self.folder.glob(f"{name}-*.h5")))
        return [path for path, match in found if match is not None and match[1] == name]


class Unstored:
    """A journal that keeps nothing."""

    def __init__(self, settings: Mapping[str, int]):
        self.settings = settings

    def read(self, name: str) -> None:
        return None

    def write(self, name: str, values: Any) -> None:
        pass

    def plan(self, name: str, noun: str, total: int, each: int = 1) -> None:
        pass


def kept_in(
    store: str | Place | None,
    kind: str,
    definition: Callable[[], Mapping[str, Any]],
    settings: Mapping[str, int] | None = None,
    *,
    together: bool = False,
) -> Any:
    """The journal of a computation, as a context; one that keeps nothing without a store.

    **Arguments:** `definition`, what the computation depends on, which is asked for where there is a store; `together`: True
    of work that several processes share, of which the first then has the journal, and the others are told what it reads; others as
    in `journal`.
    """
    if store is None:
        return contextlib.nullcontext(Unstored(settings or {}))
    return (followed if together and several() else journal)(store, kind, describe(definition()), settings or {})


def kept_part(
    held: Any, name: str, function: Callable[..., Any], *operands: Any, wait: Callable[[Any], Any] = lambda found: found
) -> Any:
    """One part of a computation: from the journal where it has it, else computed and kept; None where the time of the verb is up.

    **Arguments:** `held`: what `kept_in` gives; `function(*operands)`: a pytree of arrays; `wait` returns it once it is
    there.
    """
    kept = held.read(name)
    if kept is not None:
        return unpacked(kept, eqx.filter_eval_shape(function, *operands))
    if not has_room():
        return None
    found = wait(function(*operands))
    held.write(name, packed(found))
    return found


class Followed(NamedTuple):
    """A journal among several processes: the first one has it and tells the others what it reads.

    - `held`: None in all but the first process.
    """

    held: Journal | None
    settings: dict[str, int]

    def read(self, name: str) -> dict[str, np.ndarray] | None:
        return from_first(lambda: self.held and self.held.read(name))

    def write(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        if self.held is not None:
            self.held.write(name, arrays)

    def drop(self, name: str) -> None:
        if self.held is not None:
            self.held.drop(name)

    def plan(self, name: str, noun: str, total: int, each: int = 1) -> None:
        if self.held is not None:
            self.held.plan(name, noun, total, each)


@contextlib.contextmanager
def followed(
    folder: str | Place,
    kind: str,
    definition: Mapping[str, str],
    settings: Mapping[str, int],
    *,
    beside: tuple[str, ...] = (),
) -> Iterator[Followed]:
    """`journal` among several processes that share the work."""
    with contextlib.ExitStack() as stack:
        own = lambda: stack.enter_context(journal(folder, kind, definition, settings, beside=beside))
        opened: list[Journal] = []
        known = from_first(lambda: opened.append(own()) or opened[0].settings)
        yield Followed(opened[0] if opened else None, known)


@contextlib.contextmanager
def journal(
    folder: str | Place,
    kind: str,
    definition: Mapping[str, str],
    settings: Mapping[str, int],
    *,
    beside: tuple[str, ...] = (),
) -> Iterator[Journal]:
    """The journal in a folder, which is held while it is used: the one that is there, if it is of this computation, or a new one.

    **Arguments:**

    - `kind`: what the computation is called, such as "fit".
    - `definition`: what it depends on, by `describe`.
    - `settings`: how the work is cut into parts where the journal is new.
    - `beside`: names of other folders that may be there.

    **Raises:** a `StoreError` that says what differs where the folder belongs to another computation, is in use, or holds
    other files.
    """
    folder = place(folder)
    _check_ours(folder, kind, beside)
    with contextlib.ExitStack() as stack:
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(lock_of(folder).hold())
            for path in folder.glob(".*.part"):
                path.unlink(missing_ok=True)
        held = journal_manifest(folder)
        identity = fingerprint({"verb": kind, **definition})
        begun = any(RECORD.fullmatch(path.name) for path in folder.iterdir())
        if begun and held is None:
            raise StoreError(
                f"The store `{folder}` has lost its file `{MANIFEST}`. Choose another store, or remove this one."
            )
        # Without a finished part there is nothing to lose: a call with a slip in it does not keep the folder for itself.
        if held is not None and begun:
            _check_same(folder, kind, held, identity, definition)
            settings = held["settings"]
        else:
            manifest = {
                "format": FORMAT,
                "format_version": VERSION,
                "kind": kind,
                "made": datetime.now(UTC).isoformat(timespec="seconds"),
                "simkit": importlib.metadata.version("simkit"),
                "identity": identity,
                "settings": dict(settings),
                "definition": dict(definition),
            }
            with _writing(folder):
                write_text(folder / MANIFEST, json.dumps(manifest, indent=1))
        yield Journal(folder, identity, dict(settings), lock)


def open_journal(folder: str | Place, kind: str) -> Journal:
    """The journal in a folder, to be read while another process may go on with it.

    **Raises:** a `ResultFileError` where there is none of this kind.
    """
    folder = place(folder)
    if folder.exists() and not folder.is_dir():
        raise ResultFileError(f"`{folder}` must be the store of a {kind}, which is a folder, but it is a file.")
    held = journal_manifest(folder)
    if held is None or held["kind"] != kind:
        what = "there is none" if held is None else f"it belongs to a {held['kind']}"
        raise ResultFileError(f"`{folder}` must be the store of a {kind}, but {what}.")
    return Journal(folder, held["identity"], dict(held["settings"]), None)


def journal_manifest(folder: Place) -> dict[str, Any] | None:
    path = folder / MANIFEST
    kinds = {"kind": str, "identity": str, "definition": dict, "settings": dict}
    try:
        held = read_manifest(path, FORMAT, VERSION, kinds, "Remove the folder and begin anew.")
    except FileNotFoundError:
        return None
    if held is None:
        raise StoreError(
            f"The store `{folder}` must be one of a fit, a sampling run or a recording, but it is something else."
        )
    if not all(isinstance(value, int) for value in held["settings"].values()):
        raise ResultFileError(
            f"The file `{path}` is damaged (its `settings` are no numbers). Remove the folder and begin anew."
        )
    return held


def _check_same(
    folder: Place, kind: str, held: Mapping[str, Any], identity: str, definition: Mapping[str, str]
) -> None:
    if held["identity"] == identity:
        return
    if held["kind"] != kind:
        raise StoreError(
            f"The store `{folder}` belongs to a {held['kind']}, not to a {kind}. Choose another store, or remove this one."
        )
    found = differences(held["definition"], definition)
    more = f"; and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
    raise StoreError(
        f"The store `{folder}` belongs to another {kind}: {'; '.join(found[:MOST_TOLD])}{more}. Choose another store, or "
        "remove this one."
    )


def _check_ours(folder: Place, kind: str, beside: tuple[str, ...]) -> None:
    """Refuse a folder with files that nothing here wrote."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"The store `{folder}` must be a folder, but it is a file.")
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        known = path.name in (MANIFEST, LOCK, *beside) or RECORD.fullmatch(path.name) or path.suffix == ".part"
        known = known or ROUND.fullmatch(path.name)
        if not known:
            raise StoreError(
                f"The store `{folder}` must be a new or an empty folder, or hold a {kind} of before, but it holds other files, "
                f"such as `{path.name}`. Choose another folder."
            )


@contextlib.contextmanager
def _writing(folder: Place) -> Iterator[None]:
    """Turn what the file system complains about into one sentence."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"The store `{folder}` could not be written: {error.strerror or error}. What is finished is kept: make room or "
            "access, and call again, as before, to go on."
        ) from error


def _digest(identity: str, content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8, key=bytes.fromhex(identity)).hexdigest()
