"""Result files: everything that a study gave, in one HDF5 file."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .._doors import check_kind
from .._errors import ArgumentError, ResultFileError
from ..assimilation import Assimilation
from ..core import Trajectory
from ..fitting import FieldFit, FitResult, Profiles, SparseFit
from ..infer import LearnedLikelihood, LearnedPosterior, Posterior, Prediction
from ..md import Averages
from ..problem import Observed, Problem, observed
from ..stores import Seal, attribute, open_sealed, seal, write_whole
from ._assimilation_group import read_assimilation, write_assimilation
from ._event_group import GROUPS, write_events
from ._field_fit_group import read_field_fit, write_field_fit
from ._given_results import sorted_results
from ._groups import (
    read_averages,
    read_fit,
    read_observed,
    read_posterior,
    read_prediction,
    read_profiles,
    read_trajectory,
    write_averages,
    write_fit,
    write_observed,
    write_posterior,
    write_prediction,
    write_profiles,
    write_trajectory,
)
from ._learned_group import read_learned, write_learned
from ._provenance import Provenance, provenance, read_provenance, write_provenance
from ._sparse_group import FITS, read_sparse_fit, write_sparse_fit

FORMAT = "simkit result"
VERSION, SPARSE, DENSITIES, FIELDS = 7, 6, 5, 4
"""The versions of files with assimilations, sparse fits, learned densities, and fits of fields."""
EVENTFUL, PLAIN = 3, 2
"""The versions of files with and without events; an earlier simkit reads those whose content it knows, and refuses others."""
LEARNED = "learned_posterior", "learned_likelihood"
SEALED = 2
"""The first version whose files end with a checksum of all that stands before it."""


@dataclasses.dataclass(frozen=True)
class Results:
    """Content of a result file; None where it does not hold it."""

    path: Path
    provenance: Provenance
    fit: FitResult | None = None
    posterior: Posterior | None = None
    prediction: Prediction | None = None
    trajectory: Trajectory | None = None
    observed: Observed | None = None
    averages: Averages | None = None
    profiles: Profiles | None = None
    field_fit: FieldFit | None = None
    learned_posterior: LearnedPosterior | None = None
    learned_likelihood: LearnedLikelihood | None = None
    sparse_fit: SparseFit | None = None
    assimilation: Assimilation | None = None

    def __repr__(self) -> str:
        names = (
            "fit",
            "field_fit",
            "sparse_fit",
            "profiles",
            "posterior",
            "prediction",
            "trajectory",
            "averages",
            "assimilation",
            *LEARNED,
        )
        held = [name for name in names if getattr(self, name) is not None]
        return f"Results in {self.path}: {', '.join(held) or 'nothing'}; made {self.provenance.date}"


def save(
    path: str | Path,
    *results: FitResult
    | FieldFit
    | SparseFit
    | Profiles
    | Posterior
    | Prediction
    | Trajectory
    | Averages
    | Assimilation
    | LearnedPosterior
    | LearnedLikelihood,
    fit: FitResult | None = None,
    posterior: Posterior | None = None,
    prediction: Prediction | None = None,
    trajectory: Trajectory | None = None,
    averages: Averages | None = None,
    profiles: Profiles | None = None,
    field_fit: FieldFit | None = None,
    sparse_fit: SparseFit | None = None,
    problem: Problem | None = None,
    made: Provenance | None = None,
    overwrite: bool = False,
) -> Path:
    """Write results to one HDF5 file.

    The groups `fit`, `profiles`, `posterior`, `sample_stats`, `prediction` (the curves), `posterior_predictive` (new data),
    `observed_data`, `trajectory`, `events` (with `events_before` and `events_after`), `averages`, `assimilation`, `field_fit` and
    `sparse_fit` (with `sparse_fit_full` and `sparse_fit_chosen`) follow the netCDF-4 conventions:
    `xarray.open_dataset(path, group="posterior")` gives a data set with the dimensions chain and draw and one variable a parameter,
    under its own name (`y0.hare`), with its unit. `provenance` holds texts. The file is written beside its place and moved there
    whole, so that a crash leaves no half file.

    **Arguments:**

    - `path`: where to write; folders are made.
    - `results`: what to write: a fit, also of fields or sparse, profiles, a posterior, a prediction, a trajectory, averages, an
        assimilation, a learned posterior, the learned likelihood of a problem (`problem.likelihood`); at most one of each kind.
    - `fit`, `profiles`, `posterior`, `prediction`, `trajectory`, `averages`, `field_fit`, `sparse_fit`: the same by name.
    - `problem`: the problem, for the data and the units of the outputs.
    - `made`: where the results come from, by default `provenance()`.
    - `overwrite`: whether an existing file may be replaced.

    **Returns:** the path.

    **Raises:** a `ResultFileError` where the file exists, an `ArgumentError` where there is nothing to write.
    """
    check_kind("path", path, str | Path, "the name of a file", 'Write `simkit.save("fit.h5", fit)`.')
    path = Path(path)
    named = {"fit": fit, "profiles": profiles, "posterior": posterior, "prediction": prediction}
    named |= {"trajectory": trajectory, "averages": averages, "field_fit": field_fit, "sparse_fit": sparse_fit}
    named = sorted_results(results, named)
    if path.exists() and not overwrite:
        raise ResultFileError(f"The file `{path}` exists already. Choose another name, or allow `overwrite`.")
    if all(part is None for part in named.values()):
        raise ArgumentError("There must be at least one result to save, but none is given.")
    seen = None if problem is None else observed(problem)
    made = provenance() if made is None else made

    def write(temporary: Path) -> None:
        with h5py.File(temporary, "w") as file:
            file.attrs.update(format=FORMAT, format_version=_version(named))
            write_provenance(file.create_group("provenance"), made)
            _write_parts(file, named, {} if seen is None else seen.units)
            if seen is not None:
                write_observed(file.create_group("observed_data"), seen)
        seal(temporary)

    write_whole(path, write)
    return path


def _version(named: Mapping[str, Any]) -> int:
    """The earliest version of simkit's files that knows all that is to be written."""
    if named["assimilation"] is not None:
        return VERSION
    if named["sparse_fit"] is not None:
        return SPARSE
    if any(named[name] is not None for name in LEARNED):
        return DENSITIES
    if named["field_fit"] is not None:
        return FIELDS
    return EVENTFUL if named["trajectory"] is not None and named["trajectory"].events is not None else PLAIN


def _write_parts(file: h5py.File, named: Mapping[str, Any], units: Mapping[str, str]) -> None:
    """Write all results that are there, each into its groups."""
    single = {"fit": write_fit, "profiles": write_profiles, "averages": write_averages, "field_fit": write_field_fit}
    single |= dict.fromkeys(LEARNED, write_learned) | {"assimilation": write_assimilation}
    for name, write in single.items():
        if named[name] is not None:
            write(file.create_group(name), named[name])
    if named["sparse_fit"] is not None:
        write_sparse_fit(file, named["sparse_fit"])
    if named["posterior"] is not None:
        write_posterior(file.create_group("posterior"), file.create_group("sample_stats"), named["posterior"])
    if named["prediction"] is not None:
        groups = file.create_group("prediction"), file.create_group("posterior_predictive")
        write_prediction(*groups, named["prediction"], units)
    trajectory = named["trajectory"]
    if trajectory is not None:
        write_trajectory(file.create_group("trajectory"), trajectory)
        if trajectory.events is not None:
            listed, before, after = map(file.create_group, GROUPS)
            write_events(listed, before, after, trajectory.events)


def load(path: str | Path) -> Results:
    """Read a result file.

    Numbers come back bit for bit where JAX has the float type enabled in which they were written. The checksum at the file's end is
    compared first; links to other files are never followed.

    **Raises:** a `ResultFileError` where there is no such file, where it is cut short, damaged or changed, no HDF5, not simkit's,
    of a newer format, or where names, shapes or types are not those of results. A file of format version 1 has no checksum,
    which a warning says.
    """
    check_kind("path", path, str | Path, "the name of a file", 'Write `simkit.load("fit.h5")`.')
    path = Path(path)
    with _open(path) as file:
        return Results(
            path,
            read_provenance(file["provenance"]),  # pyright: ignore
            fit=_read(file, read_fit, "fit"),
            posterior=_read(file, read_posterior, "posterior", "sample_stats"),
            prediction=_read(file, read_prediction, "prediction", "posterior_predictive"),
            trajectory=_read(file, read_trajectory, "trajectory", *(GROUPS if GROUPS[0] in file else ())),
            observed=_read(file, read_observed, "observed_data"),
            averages=_read(file, read_averages, "averages"),
            profiles=_read(file, read_profiles, "profiles"),
            field_fit=_read(file, read_field_fit, "field_fit"),
            learned_posterior=_read(file, read_learned, "learned_posterior"),
            learned_likelihood=_read(file, read_learned, "learned_likelihood"),
            assimilation=_read(file, read_assimilation, "assimilation"),
            sparse_fit=_read(file, read_sparse_fit, "sparse_fit", *(place for place in FITS.values() if place in file)),
        )


def load_provenance(path: str | Path) -> Provenance:
    """Load the provenance of a result file, without its numbers; JAX need not have started.

    **Raises:** as `load`.
    """
    path = Path(path)
    with _open(path) as file:
        return read_provenance(file["provenance"])  # pyright: ignore


@contextmanager
def _open(path: Path) -> Iterator[h5py.File]:
    """A result file, checked; whatever goes wrong while it is read becomes one sentence."""
    with open_sealed(path, "result file") as (file, kind):
        _check_format(path, file, kind)
        yield file


def _read(file: h5py.File, read: Callable[..., Any], *names: str) -> Any:
    return read(*(file[name] for name in names)) if names[0] in file else None


def _check_format(path: Path, file: h5py.File, kind: Seal) -> None:
    if "format" not in file.attrs or attribute(file, "format") != FORMAT:
        raise ResultFileError(f"`{path}` must be a result file of simkit, but it is an HDF5 file of another kind.")
    version = attribute(file, "format_version")
    if not isinstance(version, int | np.integer) or version < 1:
        raise ResultFileError(
            f"`{path}` must have a format version from 1 on, but it has {version!r}. It is damaged, or no file of simkit."
        )
    if version > VERSION:
        raise ResultFileError(
            f"`{path}` has the format version {version}, but this simkit reads versions up to {VERSION}. Install a newer simkit."
        )
    if kind == "none" and version >= SEALED:
        raise ResultFileError(
            f"The file `{path}` has lost the checksum at its end: it was cut short, or changed by another program. Take a copy "
            "that is whole, or make it again: `simkit run` of its study."
        )
    if kind == "none":
        warnings.warn(
            f"The result file `{path}` is of a simkit that wrote no checksums, so damage to its numbers may go unnoticed. Make it "
            "again with `simkit run` of its study.",
            stacklevel=5,
        )
