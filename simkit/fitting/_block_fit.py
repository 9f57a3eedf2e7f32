"""Part that results share whose unknowns are arrays: estimates by the names of their blocks."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from .._errors import check_known
from ..problem import Block, Unknowns


class AbstractBlockFit(eqx.Module):
    """An estimate of many unknowns, each an array in one block of the parameters."""

    unknowns: Unknowns
    units: tuple[str, ...] = eqx.field(static=True)
    data_count: int = eqx.field(static=True)
    estimate: Float[Array, " parameters"]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all free numbers."""
        return self.unknowns.names

    def __getitem__(self, name: str) -> Float[Array, "..."]:
        """The estimate of an unknown, in its shape and natural units."""
        return self._part(self.estimate, name)

    def _block(self, name: str) -> Block:
        blocks = {block.name: block for block in self.unknowns.blocks}
        check_known(name, blocks, "unknown")
        return blocks[name]

    def _part(self, values: Array, name: str) -> Array:
        block = self._block(name)
        return values[block.span].reshape(block.shape)

    def _line(self, place: int, errors: np.ndarray | None) -> str:
        """The line of one block: its shape, its value or from where to where they lie, and the mean of its errors."""
        block, unit = self.unknowns.blocks[place], self.units[place]
        values = np.asarray(self.estimate)[block.span]
        size = f"{' x '.join(map(str, block.shape))}, " if block.shape else ""
        text = f"{values.min():.4g} to {values.max():.4g}" if block.shape else f"{values[0]:.6g}"
        told = "" if errors is None else f", std. error {errors.mean():.3g}" + " on average" * bool(block.shape)
        return f"  {block.name:<20} {size}{text}{'' if unit == '1' else f' {unit}'}{told}"
