"""Folders that hold the finished parts of long computations: written whole, told apart, and gone on with."""

from ._atomic import write_text as write_text
from ._atomic import write_whole as write_whole
from ._definition import describe as describe
from ._definition import differences as differences
from ._definition import fingerprint as fingerprint
from ._image import hdf5_image as hdf5_image
from ._journal import Journal as Journal
from ._journal import journal as journal
from ._lock import Lock as Lock
from ._packed import packed as packed
from ._packed import unpacked as unpacked
