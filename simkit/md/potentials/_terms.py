"""Terms of a potential by the way in which they are summed."""

from typing import NamedTuple

from ..._errors import ArgumentError
from ._many_body import AtomicPotential, ManyBodyPotential
from ._pair_terms import pair_species_count
from ._potential import PairPotential, Potential, parts


class Terms(NamedTuple):
    """Terms of a potential, classified.

    - `pairs`: sums over pairs.
    - `many`: all others, in their order; of these `atomic` are sums over atoms, `listed` read a list of neighbours in another
        way, and `whole` need no list.
    """

    pairs: tuple[PairPotential, ...]
    many: tuple[ManyBodyPotential, ...]
    atomic: tuple[ManyBodyPotential, ...]
    listed: tuple[ManyBodyPotential, ...]
    whole: tuple[ManyBodyPotential, ...]

    @property
    def charged(self) -> bool:
        """Tell whether atoms must have charges."""
        return any(term.charged for term in (*self.pairs, *self.many))

    @property
    def cutoffs(self) -> tuple[float, ...]:
        """All cutoffs, those of pairs first."""
        return tuple(term.cutoff for term in (*self.pairs, *self.many) if term.cutoff is not None)

    def species_counts(self) -> set[int]:
        """Return the numbers of species with parameters; empty where species do not matter."""
        counts = {pair_species_count(self.pairs), *(term.species_count for term in self.many)}
        return {count for count in counts if count is not None}


def terms_of(potential: Potential) -> Terms:
    """The terms of a potential, classified.

    **Raises:** an `ArgumentError` where a term is neither a sum over pairs nor a many-body potential.
    """
    pairs: list[PairPotential] = []
    many: list[ManyBodyPotential] = []
    for term in parts(potential):
        if isinstance(term, PairPotential):
            pairs.append(term)
        elif isinstance(term, ManyBodyPotential):
            many.append(term)
        else:
            raise ArgumentError(
                f"Argument `potential` must consist of pair potentials and many-body potentials, but `{type(term).__name__}` is "
                "neither. Write it as a `PairFunction`, or as a subclass of `PairPotential` or `ManyBodyPotential`."
            )
    atomic = tuple(term for term in many if isinstance(term, AtomicPotential))
    listed = tuple(term for term in many if term.cutoff is not None and not isinstance(term, AtomicPotential))
    return Terms(tuple(pairs), tuple(many), atomic, listed, tuple(term for term in many if term.cutoff is None))
