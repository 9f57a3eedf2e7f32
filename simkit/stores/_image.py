"""HDF5 files made in memory, so that a disk sees one plain write of a whole file."""

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h5py


def hdf5_image(fill: "Callable[[h5py.File], None]") -> bytes:
    """The bytes of an HDF5 file that `fill` has filled; the same content gives the same bytes."""
    import h5py  # a fit without a store must not wait for it

    # HDF5 tells open files apart by their names, those in memory as well.
    with h5py.File(f"{secrets.token_hex(16)}.h5", "w", driver="core", backing_store=False) as file:
        fill(file)
        file.flush()
        return file.id.get_file_image()
