"""Figures of atoms for the page of validation."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import gamma

import simkit
from simkit import md
from simkit.viz._style import Drawing, color, few_ticks, new_figure, styled

INK = "#222222"


@styled
def lammps() -> tuple[Drawing, dict[str, float]]:
    """Differences from LAMMPS of energies, forces and pressures, relative to the largest."""
    from validation import test_md_many_body as many
    from validation import test_md_pairs as pairs

    rows = {}
    space, x = md.Triclinic(pairs.LAMMPS["cell"]), jnp.asarray(pairs.LAMMPS["position"])
    species, charge = jnp.asarray(pairs.LAMMPS["species"], jnp.int32), jnp.asarray(pairs.LAMMPS["charge"])
    for style, expected in pairs.LAMMPS["styles"].items():
        if style == "coul/dsf":  # whose error function is a polynomial there
            continue
        potential = pairs.POTENTIALS[style]
        plan = md.plan_neighbours(potential, space, x)
        found = md.gradients(potential, space, x, plan.build(space, x), plan, species=species, charge=charge)
        rows[style] = _gaps(found, expected["energy"], expected["forces"], 27)
    for case, expected in many.LAMMPS["styles"].items():
        potential, crystal = many.POTENTIALS[case.split(",")[0]](), many.LAMMPS["crystals"][expected["crystal"]]
        space, x = md.Triclinic(crystal["cell"]), jnp.asarray(crystal["position"])
        plan, kind = md.plan_neighbours(potential, space, x), jnp.asarray(crystal["species"], jnp.int32)
        found = jax.jit(
            lambda x, f=potential, s=space, p=plan, k=kind: md.gradients(f, s, x, p.build(s, x), p, species=k)
        )(x)
        rows[case] = _gaps(found, expected["energy"], expected["forces"], 7)
    figure = new_figure(5.6, 0.145 * len(rows) + 0.8)
    axes, places, gaps = figure.subplots(), np.arange(len(rows)), np.array(list(rows.values()))
    axes.semilogx(np.maximum(gaps[:, 0], 1e-17), places, "o", color=color(0), label="energy")
    axes.semilogx(np.maximum(gaps[:, 1], 1e-17), places, "s", color=color(1), label="forces", markersize=3.5)
    axes.axvline(1e-10, color=INK, linestyle="--", linewidth=0.8)
    axes.set_yticks(places, list(rows), fontsize=6.5)
    axes.set(xlabel="relative difference from LAMMPS; tests allow 1e-10", xlim=(5e-18, 1e-9))
    axes.invert_yaxis()
    axes.legend(loc="center right")
    return figure, {"largest of energies": float(gaps[:, 0].max()), "of forces": float(gaps[:, 1].max())}


def _gaps(found, energy, forces, every) -> tuple[float, float]:
    forces = np.asarray(forces)
    away = np.abs(np.asarray(found.forces)[::every] - forces).max() / np.abs(forces).max()
    return float(abs(found.energy / energy - 1)), float(away)


@styled
def radial_distribution() -> tuple[Drawing, dict[str, float]]:
    """The structure of a Lennard-Jones liquid: by simkit and, from the same frames, by MDAnalysis."""
    import warnings

    start = md.crystal("fcc", (4 / 0.8442) ** (1 / 3), 5)
    system = md.Particles(md.LennardJones(cutoff=2.5), start.space, dynamics=md.Langevin(0.722, 1.0))
    y0 = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jnp.ones(500), 1.5))
    run = simkit.simulate(system, y0, np.arange(0.0, 40.0, 0.5), step=0.005, key=jax.random.key(1))
    # MDAnalysis computes in float32; with the same rounding here, no distance changes its bin.
    position = np.asarray(run.ys.position[20:] % start.space.lengths, np.float32)
    ours = md.radial_distribution(start.space, jnp.asarray(position.astype(float)), cutoff=4.0, bins=160)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import MDAnalysis as mda
        from MDAnalysis.analysis.rdf import InterRDF

        universe = mda.Universe.empty(500, trajectory=True)
        box = np.concatenate([np.asarray(start.space.lengths, np.float32), np.full(3, 90, np.float32)])
        universe.load_new(position, dimensions=np.tile(box, (len(position), 1)))
        theirs = InterRDF(universe.atoms, universe.atoms, nbins=160, range=(0.0, 4.0), exclusion_block=(1, 1)).run()
    g = theirs.results.rdf
    figure = new_figure(5.0, 2.8)
    axes = figure.subplots()
    axes.plot(ours.distance, ours.g, color=INK, linewidth=1.2, label="simkit")
    axes.plot(theirs.results.bins[::2], g[::2], "o", color=color(1), markersize=3, label="MDAnalysis")
    axes.set(
        xlabel="distance [sigma]", ylabel="g(r)", xlim=(0, 4), title="liquid of density 0.8442 at temperature 0.722"
    )
    axes.legend()
    return figure, {"largest difference": float(np.abs(np.asarray(ours.g) - g).max())}


@styled
def coexistence() -> tuple[Drawing, dict[str, float]]:
    """Vapour and liquid of NIST's Monte Carlo at temperature 0.85: means that grow together with the length of a run."""
    from validation.test_md_ensembles import mean_and_error, published_fluid

    vapour = published_fluid(0.0096404, (4, 4, 4), md.Langevin(0.85, 0.2), np.arange(0.0, 1500.0, 2.0), 100)
    dynamics = md.StochasticCellRescaling(0.85, 0.0076357, 0.2, 0.5, 0.2)
    liquid = published_fluid(0.77681, (5, 5, 5), dynamics, np.arange(0.0, 250.0, 0.25), 200)
    energy = published_fluid(0.776, (5, 5, 5), md.Langevin(0.85, 1.0), np.arange(0.0, 400.0, 0.25), 200)
    panels = [
        ("pressure of the vapour", vapour["pressure"], 0.0076357, 2.0),
        ("density of the liquid", liquid["density"], 0.77681, 0.25),
        ("energy an atom", energy["potential_energy"] / 500, -5.5121, 0.25),
    ]
    figure, found = new_figure(7.2, 2.5), {}
    for k, (axes, (name, rows, published, apart)) in enumerate(zip(figure.subplots(1, 3), panels, strict=True)):
        rows = np.asarray(rows)
        ends = np.unique(np.linspace(60, len(rows), 40).astype(int))
        mean, error = np.array([mean_and_error(rows[:end]) for end in ends]).T
        axes.fill_between(apart * ends, mean - error, mean + error, color=color(k), alpha=0.3, linewidth=0)
        axes.plot(apart * ends, mean, color=color(k), label="simkit, its error")
        axes.axhline(published, color=INK, linestyle="--", linewidth=1, label="NIST")
        axes.set(xlabel="time averaged over", title=name, xlim=(0, None))
        few_ticks(axes, 4)
        found |= {name: float(mean[-1]), f"{name}, error": float(error[-1])}
        if not k:
            axes.legend()
    return figure, found


@styled
def canonical() -> tuple[Drawing, dict[str, float]]:
    """Kinetic energies under thermostats, and their exact distribution; one that is known to be wrong is."""
    from validation.test_md_ensembles import deviations, kinetic_energies

    cases = {
        "Langevin": (md.Langevin(1.0, 2.0), 324),
        "Andersen": (md.Andersen(1.0, 5.0), 324),
        "Nosé-Hoover": (md.NoseHoover(1.0, 0.5), 321),
        "stochastic rescaling": (md.StochasticRescaling(1.0, 0.2), 321),
        "Berendsen": (md.Berendsen(1.0, 0.2), 321),
    }
    figure, found = new_figure(7.2, 2.2), {}
    for k, (axes, (name, (dynamics, freedom))) in enumerate(zip(figure.subplots(1, 5), cases.items(), strict=True)):
        energies = kinetic_energies(dynamics)
        axes.hist(energies, 24, density=True, color=color(k), alpha=0.5)
        x = np.linspace(115, 210, 200)
        axes.plot(x, gamma(freedom / 2).pdf(x), color=INK, linewidth=1)
        axes.set(title=name, xlim=(115, 210), yticks=[])
        axes.title.set_fontsize(8)
        axes.grid(False)
        found |= {name: float(deviations(energies, freedom)[1])}
    figure.supxlabel("kinetic energy [epsilon]", fontsize=9)
    return figure, found


@styled
def drift() -> tuple[Drawing, dict[str, float]]:
    """The energy of an isolated fluid: how far it swings falls with the square of the step."""
    from md_runs import fluid

    system, y0 = fluid()
    prepared = system.prepared(y0)
    names = "kinetic_energy", "potential_energy"
    measure = jax.jit(jax.vmap(lambda y: sum(prepared.outputs(0.0, y, None)[name] for name in names)))
    figure = new_figure(7.0, 2.6)
    left, right = figure.subplots(1, 2)
    steps, swings = [0.008, 0.004, 0.002, 0.001], []
    for k, step in enumerate(steps):
        run = simkit.simulate(system, y0, np.arange(0.0, 8.0, 0.016), step=step)
        energy = np.asarray(measure(run.ys)) / 108
        swings.append(energy[100:].std())  # what the melting of the start brings is over
        left.plot(run.times, energy - energy[100:].mean(), color=color(k), linewidth=0.8, label=f"step {step:g}")
        jax.clear_caches()
    left.set(xlabel="time", ylabel="energy an atom\nless its mean", xlim=(1.6, 8.0), ylim=(-0.0055, 0.004))
    left.legend(ncols=2, loc="lower center")
    right.loglog(steps, swings, "o", color=INK, label="standard deviation")
    right.loglog(steps, swings[-1] * (np.array(steps) / steps[-1]) ** 2, "--", color=color(1), label="order 2")
    right.set_xticks(steps, [f"{step:g}" for step in steps])
    right.minorticks_off()
    right.set(xlabel="step")
    right.legend()
    return figure, {"order": float(np.log2(swings[0] / swings[2]) / 2)}
