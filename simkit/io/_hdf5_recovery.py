"""HDF5 files whose writer was killed: the mark that it left is taken away.

A file in the single-writer mode of HDF5 is consistent after every write, but carries a mark that it is being written. Whoever was
killed leaves the mark behind, and no other program opens the file. The superblock that holds it is described in the HDF5
File Format Specification 3.0, section II.A (version 3).
"""

import os
import struct
from typing import BinaryIO

from .._errors import ResultFileError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_SIZE = 48  # of a superblock of version 3 with addresses of 8 bytes
_MASK = 0xFFFFFFFF


def is_marked(handle: BinaryIO) -> bool:
    """Tell whether an open file is marked as being written, by a process that lives or one that was killed."""
    handle.seek(0)
    block = handle.read(_SIZE)
    return len(block) == _SIZE and block.startswith(SIGNATURE) and block[8] == 3 and block[11] != 0


def take_mark_away(handle: BinaryIO) -> None:
    """Make a file that a killed process left behind an ordinary one; nobody may be writing it.

    It works on an open file, because closing a second handle would let go of the lock on the first.

    **Raises:** a `ResultFileError` where the superblock is damaged.
    """
    handle.seek(0)
    block = handle.read(_SIZE)
    stored = struct.unpack("<I", block[44:])[0]
    if block[9] != 8 or stored != lookup3(block[:44]):
        raise ResultFileError(
            f"The file `{handle.name}` is damaged in its first {_SIZE} bytes. Restore it from a copy."
        )
    # The end of the file that the superblock knows may lag behind: what lies past it must not be given away again.
    end = max(struct.unpack("<Q", block[28:36])[0], os.fstat(handle.fileno()).st_size)
    block = block[:11] + b"\0" + block[12:28] + struct.pack("<Q", end) + block[36:44]
    handle.seek(0)
    handle.write(block + struct.pack("<I", lookup3(block)))
    handle.flush()
    os.fsync(handle.fileno())


def lookup3(data: bytes) -> int:
    """Jenkins' hash of 1996 to 2006, which HDF5 takes for a checksum (https://burtleburtle.net/bob/hash/doobs.html)."""
    a = b = c = (0xDEADBEEF + len(data)) & _MASK
    words = struct.unpack(f"<{-(-len(data) // 4)}I", data + b"\0" * (-len(data) % 4))
    rotate = lambda x, k: ((x << k) | (x >> (32 - k))) & _MASK
    start, last = 0, max(0, (len(words) - 1) // 3 * 3)  # the last three words are mixed otherwise
    while start < last:
        a, b, c = (a + words[start]) & _MASK, (b + words[start + 1]) & _MASK, (c + words[start + 2]) & _MASK
        # Likewise: a, b and c in turn lose the one that changed before, which grows by the third.
        turn, before, other = a, c, b
        for k in (4, 6, 8, 16, 19, 4):
            turn, before, other = other, ((turn - before) & _MASK) ^ rotate(before, k), (before + other) & _MASK
        a, c, b = turn, before, other
        start += 3
    rest = [*words[last:], 0, 0, 0]
    a, b, c = (a + rest[0]) & _MASK, (b + rest[1]) & _MASK, (c + rest[2]) & _MASK
    # c, a and b change in turn, each by the one that changed before it; c is the last.
    turn, before, other = c, b, a
    for k in (14, 11, 25, 16, 4, 14, 24):
        turn, before, other = other, ((turn ^ before) - rotate(before, k)) & _MASK, before
    return before
