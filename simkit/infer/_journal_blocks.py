"""Work that goes in blocks, each from the state in which the one before ended, kept on disk where there is a journal."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from .._budget import has_room
from .._errors import TimeUpError
from ..stores import Followed, Journal, packed, unpacked

Block = TypeVar("Block")


def in_blocks(
    count: int,
    begin: Callable[[], Any],
    step: Callable[[int, Any], tuple[Any, Block]],
    held: Journal | Followed | None,
    label: str,
    kind: Callable[..., Block],
    key: PRNGKeyArray,
    *,
    least: int,
) -> list[Block]:
    """Return the result of `count` blocks, or of those that went within the time of the verb.

    **Arguments:**

    - `begin`: the state before the first block.
    - `step`: number and state of a block -> the state after it, and what it leaves behind.
    - `held`: a journal or None; `label`: how its records are called, in small letters and digits.
    - `kind`: the named tuple that blocks leave behind; `key`: a random key of the kind that states hold.
    - `least`: how many blocks must be there for anything to be told.

    **Raises:** a `TimeUpError` where the time is up before.
    """
    blocks: list[Block] = []
    if held is not None:
        held.plan(label, "blocks of draws", count)
    while held is not None and len(blocks) < count and (kept := held.read(_draws(label, len(blocks)))) is not None:
        blocks.append(kind(**{name: jnp.asarray(values) for name, values in kept.items()}))
    state = None
    if held is not None and len(blocks) < count:
        # Draws are written before the state after them, and the state before them is removed last.
        while blocks and (kept := held.read(_state(label, len(blocks)))) is None:
            blocks.pop()
        state = unpacked(kept, eqx.filter_eval_shape(begin), key) if blocks else None  # pyright: ignore
    for done in range(len(blocks), count):
        if not has_room():
            if done < least:
                raise TimeUpError(up("in the warm-up, before the first draw", held is not None))
            break
        state, block = step(done, begin() if state is None else state)
        blocks.append(block)
        if held is not None:
            held.write(_draws(label, done), packed(block))
            held.write(_state(label, done + 1), packed(state))
            held.drop(_state(label, done))
    return blocks


def up(where: str, kept: bool) -> str:
    """The sentence on a time that was up before the first draw."""
    again = "What is done is kept: the same call goes on from there."
    return (
        f"The time of `within` was up {where}. {again if kept else 'Give a `store`, so that another call can go on.'}"
    )


def _draws(label: str, number: int) -> str:
    return f"{label}-{number:06d}"


def _state(label: str, number: int) -> str:
    return f"{label}-state-{number:06d}"
