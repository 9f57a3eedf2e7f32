"""Stores in object storage: the part of `pathlib.Path` that stores use, by fsspec."""

import contextlib
import fnmatch
import functools
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .._errors import ArgumentError, MissingPackageError

if TYPE_CHECKING:
    import h5py


class RemotePath:
    """A folder or an object of an object store, named by a URL such as `s3://bucket/sweep`.

    An object appears whole or not at all, as object stores promise. There are no exclusive locks.

    **Arguments:** `url`: the URL without a slash at its end.
    """

    def __init__(self, url: str):
        self.url = url.rstrip("/")
        self.system, self.path = _opened(self.url)

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0] or self.name

    @property
    def suffix(self) -> str:
        return "." + self.name.rpartition(".")[2] if "." in self.name else ""

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(f"{self.url}/{name}")

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"RemotePath({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and other.url == self.url

    def __lt__(self, other: "RemotePath") -> bool:
        return self.url < other.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __reduce__(self) -> Any:
        return RemotePath, (self.url,)

    def exists(self) -> bool:
        with _told(self.url):
            self.system.invalidate_cache()
            return bool(self.system.exists(self.path))

    def is_dir(self) -> bool:
        with _told(self.url):
            return bool(self.system.isdir(self.path))

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        with _told(self.url):
            self.system.makedirs(self.path, exist_ok=exist_ok)

    def iterdir(self) -> Iterator["RemotePath"]:
        with _told(self.url):
            self.system.invalidate_cache()  # listings are remembered, and others write here, too
            try:
                found = self.system.ls(self.path, detail=False)
            except FileNotFoundError:  # a folder without objects
                found = []
        inside = {str(one).rstrip("/") for one in found} - {self.path.rstrip("/")}  # some list the folder itself
        return iter([self / path.rpartition("/")[2] for path in sorted(inside)])

    def glob(self, pattern: str) -> list["RemotePath"]:
        return [path for path in self.iterdir() if fnmatch.fnmatchcase(path.name, pattern)]

    def read_bytes(self) -> bytes:
        with _told(self.url):
            return bytes(self.system.cat_file(self.path))

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes) -> None:
        with _told(self.url):
            self.system.pipe_file(self.path, content)

    def unlink(self, missing_ok: bool = False) -> None:
        with _told(self.url):
            try:
                self.system.rm_file(self.path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def stat(self) -> "Size":
        with _told(self.url):
            return Size(int(self.system.size(self.path)))

    def absolute(self) -> "RemotePath":
        return self


class Size(NamedTuple):
    """Bytes of an object, under the name that `os.stat_result` has for it."""

    st_size: int


Place = Path | RemotePath
"""A folder of this machine, or one of an object store."""


def place(store: "str | Place") -> Place:
    """The place that the argument `store` of a verb names: a folder, or by a URL one of an object store.

    **Raises:** a `MissingPackageError` where fsspec, or what it needs for this kind of URL, is not installed; an `ArgumentError`
    for a kind that it does not know.
    """
    if isinstance(store, RemotePath):
        return store
    if isinstance(store, str) and "://" in store:
        protocol, _, rest = store.partition("://")
        if not rest.strip("/"):
            raise ArgumentError(
                f"Argument `store` must name a folder of `{protocol}`, such as `{protocol}://bucket/sweep`."
            )
        return RemotePath(store)
    if isinstance(store, str) and re.match(r"[A-Za-z][A-Za-z0-9+]+:", store) and not Path(store).exists():
        protocol, _, rest = store.partition(":")
        raise ArgumentError(
            f"Argument `store` must be a folder or the URL of an object store, but it is `{store}`. Write "
            f"`{protocol}://{rest.lstrip('/')}` for the store, or `./{store}` for a folder of this name."
        )
    return Path(store).absolute()


def open_hdf5(path: Place, content: bytes | None = None) -> "h5py.File":
    """An HDF5 file, to be read: without a lock of the file system, which some do not have, and from memory where it is remote.

    **Arguments:** `content`: its bytes, where they are known.
    """
    import h5py

    if isinstance(path, RemotePath):
        return h5py.File(io.BytesIO(path.read_bytes() if content is None else content), "r")
    return h5py.File(path, "r", locking=False)


@functools.lru_cache(maxsize=256)
def _system(protocol: str) -> Any:
    """The client of a kind of URL, by fsspec."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingPackageError(
            f'Argument `store` names an object store, `{protocol}://`, which needs fsspec: `pip install "simkit[cloud]"`.'
        ) from error
    try:
        return fsspec.filesystem(protocol)
    except (TypeError, OSError) as error:
        raise ArgumentError(
            f"Argument `store` must be the URL of an object store, but `{protocol}://` takes more than a URL says: {error}."
        ) from error
    except ImportError as error:
        raise MissingPackageError(f"Argument `store` names an object store, `{protocol}://`: {error}.") from error
    except ValueError as error:
        raise ArgumentError(
            f"Argument `store` must be a folder or the URL of an object store, but fsspec knows no `{protocol}://`."
        ) from error


def _opened(url: str) -> tuple[Any, str]:
    protocol = url.partition("://")[0]
    system = _system(protocol)
    return system, str(system._strip_protocol(url))


@contextlib.contextmanager
def _told(url: str) -> Iterator[None]:
    """Turn what a client of an object store raises into an `OSError`, as files do."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"`{url}`: {type(error).__name__}: {error}") from error
