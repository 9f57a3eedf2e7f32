"""Figures of fits and posteriors for the page of validation."""

import functools

import jax
import numpy as np
from numpyro.diagnostics import effective_sample_size

import simkit
from simkit.viz._style import Drawing, color, new_figure, styled

INK = "#222222"


@styled
def nist() -> tuple[Drawing, dict[str, float]]:
    """Digits of NIST's certified parameters and standard errors that a fit reaches, from both starts."""
    from validation import nist as sets
    from validation.test_nist import digits, regression

    rows = {}
    for name in sets.MODELS:
        given, problem = regression(name)
        result = simkit.fit(problem, starts=given.starts)
        ends = [digits(theta, given.certified).min() for theta in np.asarray(result.thetas)]
        errors = digits(np.asarray(result.rescale_errors().standard_error), given.standard_deviations).min()
        rows[name] = [*ends, errors]
        jax.clear_caches()
    found = np.array(list(rows.values()))
    figure = new_figure(7.0, 3.0)
    axes, places = figure.subplots(), np.arange(len(rows))
    for k, (name, mark) in enumerate([("far start", "o"), ("near start", "x"), ("standard errors", "_")]):
        axes.plot(places, found[:, k], mark, color=(INK, color(0), color(1))[k], label=name, markersize=(5, 4, 9)[k])
    axes.axhline(11, color=INK, linewidth=0.6)
    axes.text(26.4, 11.15, "all that are certified", ha="right", fontsize=7)
    axes.set_xticks(places, list(rows), rotation=60, ha="right", fontsize=7)
    axes.set(ylabel="digits that agree", ylim=(0, 12.4))
    axes.legend(loc="lower left", ncols=3)
    return figure, {"fewest digits": float(found[:, :2].min()), "of standard errors": float(np.sort(found[:, 2])[1])}


@functools.cache
def lynx_hare():
    """The problem of posteriordb and the reference's means and standard deviations."""
    import lynx_hare

    return lynx_hare.build(), list(lynx_hare.REFERENCE), lynx_hare.MEANS, lynx_hare.SDS


@styled
def posterior() -> tuple[Drawing, dict[str, float]]:
    """Hare and lynx: our draws against mean and standard deviation of posteriordb's reference."""
    problem, names, means, deviations = lynx_hare()
    drawn = simkit.sample(problem, start=simkit.fit(problem, key=jax.random.key(0)), key=jax.random.key(1))
    draws = np.asarray(drawn.draws)
    scaled = (draws - means) / deviations
    figure = new_figure(7.0, 3.0)
    axes, places = figure.subplots(), np.arange(len(names))
    parts = axes.violinplot([scaled[..., i].ravel() for i in places], places, showextrema=False, widths=0.85)
    for body in parts["bodies"]:
        body.set(facecolor=color(0), alpha=0.35)
    size = [effective_sample_size(draws[..., i]) for i in places]
    ours, width = scaled.mean((0, 1)), scaled.std((0, 1))
    axes.errorbar(places, ours, 2 / np.sqrt(size), fmt="o", color=color(0), label="our mean, 2 of its standard errors")
    axes.plot(places, ours + width, "_", places, ours - width, "_", color=color(0), markersize=14)
    for level in (-1, 0, 1):
        axes.axhline(level, color=color(1), linewidth=1, linestyle="-" if level == 0 else "--")
    axes.plot([], [], color=color(1), label="posteriordb: mean and standard deviation")
    axes.set_xticks(places, [name.replace("noise.", "").replace(".scale", "\nnoise") for name in names])
    axes.set(ylabel="standard deviations\nof the reference", ylim=(-3.4, 4.6))
    axes.legend(loc="upper left", ncols=2)
    found = {"means": float(np.abs(ours).max()), "standard deviations": float(np.abs(width - 1).max())}
    return figure, found


@styled
def petab() -> tuple[Drawing, dict[str, float]]:
    """Log likelihoods of PEtab's benchmark problems at the nominal parameters, less what is published."""
    from validation.test_petab import PUBLISHED, loaded

    def gap(name, **options):
        read = loaded(name, **options)
        value, _ = jax.jit(lambda theta, problem: problem.log_likelihood(theta))(read.nominal, read.problem.lean())
        jax.clear_caches()
        return float(value) - PUBLISHED[name]

    odd = "Crauste_CellSystems2017"
    gaps = {name: gap(name) for name in PUBLISHED}
    tight = gap(odd, step=simkit.Adaptive(1e-11, 1e-13))
    figure = new_figure(5.6, 2.5)
    axes, places = figure.subplots(), np.arange(len(gaps))
    axes.axvspan(-5e-5, 5e-5, color=color(1), alpha=0.3, linewidth=0, label="half of the last printed digit")
    axes.plot(list(gaps.values()), places, "o", color=INK, label="simkit, default tolerances")
    axes.plot(
        tight, list(gaps).index(odd), "o", color=INK, markerfacecolor="none", label="simkit, relative tolerance 1e-11"
    )
    axes.plot(-190.963978 - PUBLISHED[odd], list(gaps).index(odd), "|", color=color(0), markersize=14)
    axes.plot([], [], "|", color=color(0), markersize=9, label="the published simulation of Crauste's model")
    labels = [f"{name.split('_')[0]}: {value:.4f}" for name, value in PUBLISHED.items()]
    axes.set_yticks(places, labels)
    axes.set(xlabel="our log likelihood less the published one", xlim=(-6e-4, 2e-3))
    axes.legend(loc="upper right", fontsize=7)
    axes.invert_yaxis()
    least = {name: abs(value) for name, value in gaps.items() if name != odd}
    return figure, {"largest but Crauste": max(least.values()), "Crauste, tight": tight}
