"""Coordinates of a fit carried from one problem to another with the same unknowns, whose fields may have other grids."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._errors import ArgumentError
from ..problem import AbstractFieldPrior, Problem, Unknowns


def check_carried(source: Unknowns, target: Problem, argument: str) -> None:
    """Refuse unknowns that are not those of a problem, or fields that are none on the same box.

    **Raises:** an `ArgumentError`.
    """
    own = {block.name: (block, prior) for block, prior in source.pairs}
    if own.keys() != {block.name for block in target.unknowns.blocks}:
        raise ArgumentError(
            f"Argument `{argument}` must have the unknowns of the problem, {', '.join(b.name for b in target.unknowns.blocks)}, "
            f"but it has {', '.join(own)}."
        )
    for block, prior in target.unknowns.pairs:
        old, known = own[block.name]
        if isinstance(prior, AbstractFieldPrior) and isinstance(known, AbstractFieldPrior):
            front = len(block.shape) - len(prior.ends)
            same = (
                type(prior) is type(known)
                and len(old.shape) == len(block.shape)
                and prior.ends == known.ends
                and old.shape[:front] == block.shape[:front]
            )
        else:
            same = (
                isinstance(prior, AbstractFieldPrior) == isinstance(known, AbstractFieldPrior)
                and old.shape == block.shape
            )
        if not same or old.log != block.log:
            raise ArgumentError(
                f"Argument `{argument}` must have the unknown `{block.name}` of the same kind and shape, or as a field on another "
                f"grid with the same ends, but its shape is {old.shape} where it should be {block.shape}, or its prior or "
                "transform differs."
            )


def carried(rows: Float[Array, "*batch numbers"], source: Unknowns, target: Problem) -> Float[Array, "*batch others"]:
    """Vectors of the coordinates of `source` in those of `target`: white ones by waves. The transpose is the way back."""
    places, parts = {block.name: block for block in source.blocks}, []
    for block, prior in target.unknowns.pairs:
        old = places[block.name]
        part = rows[..., old.span].reshape(*rows.shape[:-1], *old.shape)
        if isinstance(prior, AbstractFieldPrior):
            part = prior.moved(part, block.shape)
        parts.append(part.reshape(*rows.shape[:-1], block.size))
    return jnp.concatenate(parts, axis=-1).astype(target.times.dtype)
