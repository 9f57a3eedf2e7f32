"""Several optima, in rows and in sentences."""

from typing import Any

import numpy as np

from ._fitted import AbstractFit
from ._optima import comparable, shares
from ._symmetry import Image, images

SHOWN = 8
"""Most optima that are printed."""

PARAMETERS = 4
"""Most parameters of an optimum that are printed: those that differ most from the best, in standard errors."""

REMEDY = {
    "sign": "a bound keeps one of them, such as `bounds=(0, ...)`",
    "labels": "an ordering keeps one of them: make each of the parameters that are exchanged the one before plus a positive "
    "difference, or give them priors that differ",
    "turn": "bounds of one turn keep one of them",
    "mirror": "a bound in the middle keeps one of them",
}


def optima_rows(result: AbstractFit) -> list[dict[str, Any]]:
    """The rows of `FitResult.optima`."""
    objective, first = np.asarray(result.objective, float), first_starts(result)
    thetas, mass = np.asarray(result.thetas, float)[first], masses(result)
    label = [] if result.optimum is None else np.asarray(result.optimum).tolist()
    rows = []
    for k, (start, share, image) in enumerate(zip(first, shares(mass), images_of(result), strict=True)):
        rows.append(
            {
                "objective": float(objective[start]),
                "above_best": float(objective[start] - objective[0]),
                "log_mass": float(mass[k]),
                "share": float(share),
                "starts": label.count(k) if label else result.agreeing(),
                "image": "" if image is None else f"optimum {image.of + 1} with {image.words}",
                "estimate": dict(zip(result.names, thetas[k].tolist(), strict=True)),
            }
        )
    return rows


def first_starts(result: AbstractFit) -> np.ndarray:
    """The best start of each optimum."""
    if result.optimum is None or result.log_mass is None:
        return np.array([0])
    label = np.asarray(result.optimum).tolist()
    return np.array([label.index(k) for k in range(len(result.log_mass))])


def masses(result: AbstractFit) -> np.ndarray:
    """The logarithms of the masses of the optima; 0 where they are not known."""
    return np.zeros(1) if result.log_mass is None else np.asarray(result.log_mass, float)


def optima_texts(result: AbstractFit) -> list[tuple[str, ...]]:
    """Cells of a table of optima: number, objective, share of the mass, starts, and the parameters that differ most."""
    rows, apart = optima_rows(result), _apart(result)
    lines = []
    for k, row in enumerate(rows[:SHOWN]):
        values = list(row["estimate"].items())[: result.free_count]
        order = np.argsort(-apart.max(axis=0) if k == 0 else -apart[k], kind="stable")[:PARAMETERS]
        about = ", ".join(f"{values[i][0]} = {values[i][1]:.4g}" for i in sorted(order.tolist()))
        about += ", ..." if len(values) > PARAMETERS else ""
        about += f" ({row['image']})" if row["image"] else ""
        lines.append((str(k + 1), f"{row['objective']:.6g}", f"{row['share']:.2g}", str(row["starts"]), about))
    if len(rows) > SHOWN:
        left = rows[SHOWN:]
        share, starts = sum(row["share"] for row in left), sum(row["starts"] for row in left)
        lines.append(
            ("more", f"{left[0]['objective']:.6g}", f"{share:.2g}", str(starts), f"{len(left)} others: `optima()`")
        )
    return lines


def ambiguities(result: AbstractFit) -> list[str]:
    """Sentences where several optima hold comparable mass, and where so few starts found the best that others may be missing."""
    mass = masses(result)
    chosen = comparable(mass)
    if len(chosen) < 2:
        return _seldom_found(result)
    parts = ", ".join(f"{share:.2g}" for share in shares(mass[chosen])[:SHOWN])
    more = ", ..." if len(chosen) > SHOWN else ""
    text = (
        f"{len(chosen)} distinct optima hold comparable parts of the posterior ({parts}{more}, by Laplace's approximation): "
        "estimates, standard errors and intervals are of the best one alone. "
    )
    found = images_of(result)
    copies = [(k, image) for k in chosen.tolist() if (image := found[k]) is not None and image.of in chosen]
    if not copies:
        return [text + "`sample` begins chains in all of them, and `TemperedSMC` weighs them; more data may decide."]
    said = "; ".join(f"optimum {k + 1} is optimum {image.of + 1} with {image.words}" for k, image in copies[:2])
    rest = " The others are different solutions." if len(copies) < len(chosen) - 1 else ""
    return [text + f"Some are one solution written in several ways ({said}): {REMEDY[copies[0][1].kind]}.{rest}"]


def _seldom_found(result: AbstractFit) -> list[str]:
    """A sentence where fewer than three of at least four starts ended at the best optimum."""
    starts, found = np.asarray(result.objective).size, result.agreeing()
    if starts < 4 or found >= 3:
        return []
    return [
        f"{found} of {starts} starts ended at the best optimum, so there may be others, better or as good, that none found. Take "
        f"`starts={4 * starts}`, and for oscillations `screen`; see `docs/fitting.md`."
    ]


def images_of(result: AbstractFit) -> list[Image | None]:
    """Return the optima that are images of others."""
    first = first_starts(result)
    if len(first) < 2 or result.covariances is None:
        return [None] * len(first)
    count = result.free_count
    thetas = np.asarray(result.thetas, float)[first, :count]
    size = np.where(np.array(result.log[:count], bool), thetas, 1)
    errors = np.abs(size) * np.sqrt(np.diagonal(np.asarray(result.covariances, float), axis1=1, axis2=2))[:, :count]
    objective, bounds = np.asarray(result.objective, float)[first], np.asarray(result.bounds, float)[:count]
    return images(result.names[:count], result.units[:count], thetas, objective, errors, bounds)


def _apart(result: AbstractFit) -> np.ndarray:
    """Return the distance of each optimum from the best by parameter, in standard errors of the best."""
    count = result.free_count
    thetas = np.asarray(result.thetas, float)[first_starts(result), :count]
    error = np.asarray(result.standard_error, float)[:count]
    known = np.isfinite(error) & (error > 0)
    return np.abs(thetas - thetas[0]) / np.where(known, error, np.inf)
