"""Numbers of chains and draws that `sample` is asked for."""

from typing import NamedTuple


class Counts(NamedTuple):
    """Independent chains, draws kept from each, and draws before these that tune the sampler."""

    chains: int
    draws: int
    warmup: int
