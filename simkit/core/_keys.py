"""Random keys, and the generators of NumPy that follow from them."""

from typing import Any

import jax
import numpy as np

from .._doors import check_key


def whole_number(key: Any) -> int:
    """The whole number that a random key stands for: of `jax.random.key(n)` it is n.

    **Raises:** an `ArgumentError` for what is no key.
    """
    check_key(key, needed=True)
    words = np.asarray(jax.random.key_data(key)).ravel()
    return int.from_bytes(words.astype(">u4").tobytes(), "big")


def generator(key: Any) -> np.random.Generator:
    """The generator of NumPy that follows from a random key."""
    return np.random.default_rng(whole_number(key))
