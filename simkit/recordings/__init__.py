"""Recordings: simulations that are written to disk while they run, and that go on after an interrupt."""

from ._record import record as record
from ._recording import Recording as Recording
from ._recording import open as open
