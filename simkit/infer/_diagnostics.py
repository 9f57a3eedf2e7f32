"""Diagnostics of chains: whether they agree, and which one does not."""

import warnings

import numpy as np
from jax.typing import ArrayLike
from numpyro.diagnostics import effective_sample_size as _ess
from numpyro.diagnostics import split_gelman_rubin

COMPARABLE = 1e4
"""A chain with at least this part of the largest mass is at a mode that counts: a tenth of what fits count, as masses are rough."""

# A chain that never moves makes the estimators divide zero by zero; the answer, NaN, is turned into the worst value.


def effective_sample_size(values: ArrayLike) -> float:
    """The number of independent draws worth as much as these, shape `(chain, draw)`; 0 where nothing moves.

    One draw of each chain tells nothing of how they depend on each other: it is taken for independent.
    """
    if np.shape(values)[-1] < 2:
        return float(np.size(values))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = float(_ess(np.asarray(values, float)))
    return found if np.isfinite(found) else 0.0


def split_r_hat(values: ArrayLike) -> float:
    """Gelman and Rubin's split R-hat, shape `(chain, draw)`; infinite where nothing moves, and of fewer than four draws.

    Gelman et al. (2013), Bayesian Data Analysis, section 11.4. Below 1.01 the chains agree.
    """
    if np.shape(values)[-1] < 4:
        return float("inf")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = float(split_gelman_rubin(np.asarray(values, float)))
    return found if np.isfinite(found) else float("inf")


TELLING = 4
"""Number of draws of a chain below which its halves have no variance to compare."""

TUNED, UNTUNED = 0.75, 0.5
"""Parts of the acceptance asked for, above which steps are right, and below which they are not."""


def stuck_chains(draws: ArrayLike, log_density: ArrayLike) -> dict[int, str]:
    """The chains that must not be averaged with the others, each with the reason.

    A chain is stuck when it hardly moves, when all its densities lie far below those of the best chain, or when the others
    agree without it (R-hat below 1.1) and disagree with it (above 1.2). A chain whose mass, as a normal distribution, is
    comparable with the largest is not stuck but at another mode, whatever its densities.
    """
    draws, log_density = np.asarray(draws, float), np.asarray(log_density, float)
    chains, count, size = draws.shape
    found: dict[int, str] = {}
    # Log densities of a posterior spread over about sqrt(size / 2); this far below the median of the best chain lies
    # less than one draw in 1e9 of a chain that explores the same mode.
    gap = 10.0 + 6.0 * np.sqrt(max(size, 1) / 2)
    best = np.nanmax(np.median(log_density, axis=1))
    mass = [_log_mass(draws[chain], log_density[chain]) for chain in range(chains)]
    counts = np.array(mass) > np.max(mass) - np.log(COMPARABLE)
    for chain in range(chains):
        moves = np.any(np.diff(draws[chain], axis=0) != 0, axis=1).mean() if count > 1 else 1.0
        if not np.isfinite(draws[chain]).all() or not np.isfinite(log_density[chain]).all():
            found[chain] = "its draws are not finite"
        elif moves < 0.02:
            found[chain] = f"it moved in only {100 * moves:.1f} % of its draws"
        elif np.median(log_density[chain]) < best - gap and not counts[chain]:
            low = best - np.median(log_density[chain])
            found[chain] = f"its typical log density lies {low:.1f} below that of the best chain"
    good = [chain for chain in range(chains) if chain not in found]
    if len(good) >= 3 and (outlier := _outlier(draws[good])) is not None and not counts[good[outlier]]:
        found[good[outlier]] = "the other chains agree without it and disagree with it"
    return found


def untuned_chains(accept: ArrayLike, target: float) -> dict[int, str]:
    """The chains whose steps are far too long for where they are, beside others whose steps are right, each with the reason.

    A chain that passes to a narrower mode after its warm-up keeps the steps of the one that it left.
    """
    mean = np.mean(np.asarray(accept, float), axis=1)
    if not (mean > TUNED * target).any():
        return {}
    return {
        chain: f"it accepts {100 * value:.0f} % of its steps where {100 * target:.0f} % were asked for"
        for chain, value in enumerate(mean.tolist())
        if value < UNTUNED * target
    }


def _log_mass(draws: np.ndarray, log_density: np.ndarray) -> float:
    """The logarithm of the integral of a density, up to a constant, if the draws, of shape `(draw, parameter)`, are normal."""
    if not np.isfinite(draws).all() or not np.isfinite(log_density).all():
        return -np.inf
    spread = draws.std(axis=0)
    if not (spread > 0).all():
        return -np.inf
    correlation = (white := (draws - draws.mean(axis=0)) / spread).T @ white / len(draws)
    return float(log_density.mean() + np.log(spread).sum() + 0.5 * np.linalg.slogdet(correlation)[1])


def _outlier(draws: np.ndarray) -> int | None:
    """The one chain whose removal brings every R-hat from above 1.2 to below 1.1."""
    worst = lambda chosen: max(split_r_hat(chosen[..., i]) for i in range(draws.shape[-1]))
    if worst(draws) <= 1.2:
        return None
    without = [worst(np.delete(draws, chain, axis=0)) for chain in range(draws.shape[0])]
    chain = int(np.argmin(without))
    return chain if without[chain] < 1.1 else None


def describe_quality(draws: ArrayLike, diverging: ArrayLike, explained: bool = False) -> list[str]:
    """Sentences about chains that disagree, few effective draws and divergences; empty when all is well.

    **Arguments:** `explained`: whether another sentence says why chains disagree.
    """
    draws = np.asarray(draws, float)
    if draws.shape[1] < TELLING:
        return [f"Fewer than {TELLING} draws a chain: nothing tells whether they are right. Draw more."]
    found = []
    r_hats = [split_r_hat(draws[..., i]) for i in range(draws.shape[-1])]
    sizes = [effective_sample_size(draws[..., i]) for i in range(draws.shape[-1])]
    if r_hats and max(r_hats) > 1.05:
        remedy = (
            "They are in different modes."
            if explained
            else (
                "Draw more, or look for several modes: with more starts in `fit`, or by `TemperedSMC()`, which weighs them."
            )
        )
        found.append(
            f"The chains disagree (R-hat {max(r_hats):.2f}, should be below 1.01): do not average them. {remedy}"
        )
    elif r_hats and max(r_hats) > 1.01:
        found.append(f"R-hat reaches {max(r_hats):.3f} (should be below 1.01): draw longer chains.")
    if sizes and min(sizes) < 100 * draws.shape[0] and min(sizes) < 400:
        found.append(
            f"The smallest effective sample size is {min(sizes):.0f}: quantiles are rough below 400. Draw more."
        )
    if count := int(np.sum(np.asarray(diverging))):
        found.append(
            f"{count} of {np.size(diverging)} trajectories diverged (failed simulations inside a trajectory count here too): "
            "the sampler may miss narrow regions. Raise `target_accept`, or check which parameters the solver cannot take."
        )
    return found
