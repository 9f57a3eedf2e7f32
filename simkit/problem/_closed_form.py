"""Parameters whose best values follow in closed form once a simulation is known: scales, offsets and sizes of scatter."""

from typing import Literal, NamedTuple

from ._noise import AbstractNoise, Laplace, LogLaplace, LogNormal, Normal

KINDS: dict[type[AbstractNoise], Literal["normal", "laplace"]] = {
    Normal: "normal",
    LogNormal: "normal",
    Laplace: "laplace",
    LogLaplace: "laplace",
}
LOGARITHMIC = (LogNormal, LogLaplace)


class ClosedForm(NamedTuple):
    """Free parameters whose best values depend on each other and on the simulation alone.

    - `linear`: names in which locations are affine (to which they are proportional, where data scatter by their logarithm).
    - `scatter`: the name to which the scale of the noise of all their data is proportional; "" where that is known.
    - `outputs`: the names of the data.
    - `factors`: names to which location and scale of a datum are proportional both, one for each datum; `linear` is empty then.
    """

    linear: tuple[str, ...]
    scatter: str
    outputs: tuple[str, ...]
    factors: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All its parameters."""
        lines = (*self.linear, *self.factors)
        return (*lines, self.scatter) if self.scatter else lines
