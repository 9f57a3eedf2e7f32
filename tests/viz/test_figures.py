"""Figures: what they show, with which labels, and that they need neither a screen nor pyplot."""

import importlib.util
import itertools
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import matplotlib.style
import numpy as np
import pytest
import synthetic
from drawn_figures import FIGURES, FLAT, mixture, prey, trajectory
from matplotlib.animation import FFMpegWriter
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import StepPatch
from PIL import Image

import simkit
from simkit import viz
from simkit.fitting._profile import Profiles
from simkit.problem._observed import observed
from simkit.viz._style import DARK, LIGHT


def panels(figure):
    return [axes for axes in figure.axes if axes.get_visible()]


def size(png):
    """Width and height in the header of a PNG file."""
    return int.from_bytes(png[16:20]), int.from_bytes(png[20:24])


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_draws_the_same_twice(name):
    figure = FIGURES[name]()
    svg, png = viz.to_svg(figure), viz.to_png(figure, dpi=60)
    width, height = size(png)
    assert width > 100
    assert height > 100
    assert svg.startswith("<svg")
    assert viz.to_svg(FIGURES[name]()) == svg
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_no_pyplot_and_no_traces_in_the_settings():
    before = dict(matplotlib.rcParams)
    FIGURES["waterfall"]()
    assert dict(matplotlib.rcParams) == before
    program = "import simkit.viz, sys; assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_trajectories_share_panels_by_unit():
    angles, rates = panels(FIGURES["trajectory"]())
    assert angles.get_ylabel() == "[rad]"
    assert rates.get_ylabel() == "[rad/s]"
    assert [text.get_text() for text in rates.get_legend().get_texts()] == ["upper_rate", "lower_rate"]
    assert rates.get_xlabel() == "s"
    (only,) = panels(viz.plot_trajectory(trajectory(), names=["lower_angle"]))
    assert only.get_ylabel() == "lower_angle [rad]"
    with pytest.raises(simkit.UnknownNameError, match="lower_angle"):
        viz.plot_trajectory(trajectory(), names=["lower_angel"])


def test_long_states_are_cut_and_say_so():
    times = jnp.linspace(0.0, 1.0, 5)
    zero = jnp.zeros((), int)
    long = simkit.Trajectory(times, {"x": jnp.zeros((5, 40))}, zero, zero, zero, zero)
    (only,) = panels(viz.plot_trajectory(long))
    assert "7 of 40" in only.get_ylabel()
    assert len(only.lines) == 7
    batch = simkit.Trajectory(jnp.zeros((2, 5)), {"x": jnp.zeros((2, 5))}, zero, zero, zero, zero)
    with pytest.raises(simkit.ArgumentError, match="one member"):
        viz.plot_trajectory(batch)


def test_fit_shows_data_and_bands():
    seen, prediction = synthetic.observed(), synthetic.prediction()
    figure = viz.plot_fit(seen, prediction)
    axes = panels(figure)
    assert [a.get_ylabel() for a in axes] == ["prey [thousand]", "", "lynx", ""]
    assert [a.get_title(loc="left") for a in axes[:2]] == ["year 0", "year 1"]
    points = next(line for line in axes[0].lines if line.get_label() == "data")
    assert len(points.get_xdata()) == 7  # one of eight is missing
    median = next(line for line in axes[1].lines if line.get_label() == "median")
    np.testing.assert_allclose(median.get_ydata(), prediction.band("prey", 0.9, noisy=False)[1][1])
    assert len(axes[0].collections) == 2


def test_waterfall_counts_the_starts_that_agree():
    (axes,) = panels(FIGURES["waterfall"]())
    assert axes.get_title(loc="left") == "3 of 6 starts agree, 1 failed everywhere"


def test_correlations_are_written_out():
    axes = panels(FIGURES["correlation"]())[0]
    found = np.array([float(text.get_text()) for text in axes.texts]).reshape(3, 3)
    np.testing.assert_allclose(found, synthetic.fit_result().correlation, atol=0.005)


def test_corner_picks_parameters_and_labels_the_edge():
    axes = panels(viz.plot_corner(synthetic.posterior(), names=["growth", "noise.hare.scale"]))
    assert len(axes) == 3
    assert [a.get_xlabel() for a in axes[1:]] == ["growth\n[1/year]", "noise.hare.\nscale"]
    with pytest.raises(simkit.UnknownNameError, match="growth"):
        viz.plot_corner(synthetic.posterior(), names=["grwth"])


def test_corner_of_few_draws_falls_back_to_points():
    axes = panels(viz.plot_corner(synthetic.posterior(chains=1, draws=3)))
    assert axes[1].lines


def test_constant_parameters_draw():
    posterior = synthetic.posterior()
    draws = posterior.draws.at[..., 0].set(2.0)
    constant = simkit.Posterior(
        draws,
        *(getattr(posterior, n) for n in ("log_density", "diverging", "steps", "accept", "names", "units", "method")),
    )
    assert viz.to_png(viz.plot_corner(constant), dpi=40)
    assert viz.to_png(viz.plot_trace(constant), dpi=40)


def test_ranks_name_r_hat():
    posterior = synthetic.posterior()
    axes = panels(viz.plot_ranks(posterior))
    assert axes[0].get_title(loc="left") == f"growth, R-hat {posterior.table()[0]['rhat']:.3f}"
    highest = max(
        patch.get_data().values.max() for panel in axes for patch in panel.patches if isinstance(patch, StepPatch)
    )
    assert axes[0].get_ylim()[1] > highest


def test_starts_that_agree_lie_together_where_no_bounds_are_known():
    fit = synthetic.fit_result()
    thetas = fit.thetas * (1 + 1e-9 * jnp.arange(6.0)[:, None])
    (axes,) = panels(viz.plot_parameters(eqx.tree_at(lambda f: f.thetas, fit, thetas)))
    places = np.array([line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 3])
    assert np.ptp(places, axis=0).max() < 1e-6


def test_profiles():
    values = np.linspace(0.5, 1.5, 9)
    profiles = Profiles(
        values=jnp.asarray(np.stack([values, values])),
        differences=jnp.asarray(np.stack([20 * (values - 1) ** 2, 0 * values])),
        intervals=jnp.array([[0.69, 1.31], [0.0, jnp.inf]]),
        is_open=jnp.array([[False, False], [True, True]]),
        level=0.95,
        names=("growth", "death"),
        units=("1/day", "1"),
    )
    first, second = panels(viz.plot_profile(profiles))
    assert first.get_xlabel() == "growth [1/day]"
    assert len(first.lines) == 4  # the limit, the profile and both ends
    assert len(second.lines) == 2


def test_profiles_over_decades_are_logarithmic_and_cut_where_they_are_high():
    wide, far = np.geomspace(1e-3, 1e3, 13), np.append(np.linspace(0.5, 1.5, 12), 400.0)
    profiles = Profiles(
        values=jnp.asarray(np.stack([wide, far])),
        differences=jnp.asarray(np.stack([0.01 * np.log(wide) ** 2, 8 * (far - 1) ** 2])),
        intervals=jnp.array([[0.0, jnp.inf], [0.5, 1.5]]),
        is_open=jnp.array([[True, True], [False, False]]),
        level=0.95,
        names=("wide", "far"),
        units=("1", "1"),
    )
    first, second = panels(viz.plot_profile(profiles))
    assert (first.get_xscale(), second.get_xscale()) == ("log", "linear")
    assert second.get_xlim()[1] < 2
    assert first.get_xlim()[1] > 1e3


def test_fit_draws_the_curve_at_an_estimate():
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    experiments = [
        simkit.Experiment("long", [0.0, 1.0, 4.0], {"hare": [30.0, 40.0, 20.0]}),
        simkit.Experiment("short", [0.0, 2.0], {"hare": [31.0, 50.0]}),
    ]
    free = {"growth": simkit.Free(bounds=(0.1, 2.0))}
    problem = simkit.Problem(system, experiments, free=free, noise={"hare": simkit.noise.Normal(1.0)}, y0=y0, step=0.1)
    long, short = panels(viz.plot_fit(problem, estimate=jnp.array([0.6])))
    curve = next(line for line in short.lines if line.get_label() == "fit")
    assert (curve.get_xdata()[0], curve.get_xdata()[-1]) == (0.0, 2.0)
    expected = problem.predict(jnp.array([0.6]))["hare"][1, 1]
    # Both are made with steps of at most 0.1, an order-5 method's error far below 1e-5, but not with the same steps.
    np.testing.assert_allclose(curve.get_ydata()[-1], expected, rtol=1e-5)
    assert long.get_title(loc="left") == "long"
    with pytest.raises(simkit.ArgumentError, match="must be the problem"):
        viz.plot_fit(observed(problem), estimate=jnp.array([0.6]))


def test_atoms_stand_in_their_cell_nearer_ones_in_front():
    """Two atoms in a line with the eye: the nearer one is larger and drawn last."""
    space = simkit.md.Orthorhombic([4.0, 4.0, 4.0])
    figure = viz.plot_atoms(space, jnp.array([[2.0, 1.0, 2.0], [2.0, 7.0, 2.0]]), angles=(0.0, 0.0))
    (discs,) = figure.axes[0].collections
    widths = discs.get_widths()
    assert widths[0] < 1 < widths[1]  # y = 7 is wrapped to 3, behind the middle; the eye is at small y
    np.testing.assert_allclose(discs.get_offsets(), 0.0, atol=1e-12)
    assert len(figure.axes[0].lines) == 12
    open_space = viz.plot_atoms(simkit.md.OpenSpace(2), jnp.array([[0.0, 0.0], [1.0, 1.0]]))
    assert not open_space.axes[0].lines


def test_an_animation_is_written_frame_by_frame(tmp_path):
    steps = 0.05 * jax.random.normal(jax.random.key(1), (3, 16, 2))
    movie = viz.animate(FLAT.space, FLAT.position[None] + steps, times=[0.0, 0.5, 1.0], time="t")
    movie.save(tmp_path / "run.gif", writer="pillow", dpi=40)
    with Image.open(tmp_path / "run.gif") as picture:
        assert picture.n_frames == 3
    with pytest.raises(simkit.ArgumentError, match="one number for each of the 3 frames"):
        viz.animate(FLAT.space, FLAT.position[None] + steps, times=[0.0])
    with pytest.raises(simkit.ArgumentError, match="must have the shape"):
        viz.animate(FLAT.space, FLAT.position)


def test_atoms_that_do_not_fit_their_space_are_refused():
    with pytest.raises(simkit.ArgumentError, match="must have 2 coordinates an atom"):
        viz.plot_atoms(FLAT.space, mixture().position)
    with pytest.raises(simkit.ArgumentError, match="a positive number for each species"):
        viz.plot_atoms(FLAT.space, FLAT.position, species=jnp.arange(16), diameter=(1.0, 1.0))


def test_a_view_says_what_to_install():
    if importlib.util.find_spec("py3Dmol") is not None:
        pytest.skip("py3Dmol is installed")
    with pytest.raises(simkit.MissingPackageError, match=r"pip install .simkit\[view\]"):
        viz.view_atoms(FLAT.space, FLAT.position)


def test_a_view_holds_atoms_and_cell():
    pytest.importorskip("py3Dmol")
    start = mixture()
    page = viz.view_atoms(start.space, jnp.stack([start.position] * 2), species=start.species).write_html()
    assert page.count("addLine") == 12
    assert "animate" in page
    assert page.count("addModelsAsFrames") == 1
    assert viz.view_atoms(FLAT.space, FLAT.position, symbols=["Ar"] * 16).write_html().count("Ar ") == 16
    with pytest.raises(simkit.ArgumentError, match="must name each of the 16 atoms"):
        viz.view_atoms(FLAT.space, FLAT.position, symbols=["Ar"])


def luminance(shade):
    """The relative luminance of a colour (WCAG 2, W3C)."""
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in to_rgb(shade)]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_dark_where_matplotlib_is(name):
    with matplotlib.style.context("dark_background"):
        dark = FIGURES[name]()
    light = FIGURES[name]()
    for figure, colours in ((dark, DARK), (light, LIGHT)):
        assert to_hex(figure.get_facecolor()) == colours.paper
        for axes in figure.axes:
            assert to_hex(axes.get_facecolor()) == colours.paper
            assert to_hex(axes.xaxis.label.get_color()) == colours.ink
        # What is drawn last, such as ticks, has the colours of the figure, whatever the settings are by then.
        assert colours.edge in viz.to_svg(figure) or not any(axes.axison for axes in figure.axes)


def test_colours_stand_out():
    # The least contrasts of WCAG 2: 7 for text at level AAA, 3 for parts of pictures.
    for colours in (LIGHT, DARK):
        assert contrast(colours.ink, colours.paper) > 7
        assert contrast(colours.edge, colours.paper) > 4.5
    assert min(contrast(shade, DARK.paper) for shade in DARK.colors) > 3


# Machado, Oliveira and Fernandes (2009), doi:10.1109/TVCG.2009.113, severity 1: protanopia, deuteranopia, tritanopia.
BLIND = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(rgb):
    """CIELAB of linear sRGB, white D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = (to_xyz @ np.clip(rgb, 0, 1)) / to_xyz.sum(axis=1)
    f = [c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", BLIND)
def test_series_are_told_apart_with_every_kind_of_colour_blindness(kind):
    for colours in (LIGHT, DARK):
        linear = [
            [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in to_rgb(shade)]
            for shade in colours.colors
        ]
        seen = [lab(np.asarray(BLIND[kind]) @ rgb) for rgb in linear]
        least = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
        assert least > 10  # some four just noticeable differences of 2.3


@pytest.mark.parametrize(("suffix", "form"), [("gif", "GIF"), ("webp", "WEBP")])
def test_animations_are_small_files(tmp_path, suffix, form):
    steps = 0.05 * jax.random.normal(jax.random.key(1), (3, 16, 2))
    movie = viz.animate(FLAT.space, FLAT.position[None] + steps)
    path = viz.save_animation(movie, tmp_path / f"run.{suffix}", dpi=40, rate=10.0)
    with Image.open(path) as picture:
        assert (picture.format, picture.n_frames) == (form, 3)
        picture.seek(1)
        picture.load()  # WebP tells the duration of a picture with its data
        assert picture.info["duration"] == 100
    assert path.stat().st_size < 60_000
    with pytest.raises(simkit.ArgumentError, match=r"must end in .gif, .webp, .mp4"):
        viz.save_animation(movie, tmp_path / "run.avi")
    with pytest.raises(simkit.ArgumentError, match="positive number of frames"):
        viz.save_animation(movie, tmp_path / "run.gif", rate=0.0)


def test_mp4_is_written_or_says_what_to_install(tmp_path):
    movie = viz.animate(FLAT.space, FLAT.position[None] + 0.1 * jnp.arange(3.0)[:, None, None])
    if FFMpegWriter.isAvailable() or importlib.util.find_spec("imageio_ffmpeg") is not None:
        assert viz.save_animation(movie, tmp_path / "run.mp4", dpi=41).read_bytes()[4:8] == b"ftyp"
    else:
        viz.save_animation(movie, tmp_path / "run.gif", dpi=20)  # Matplotlib warns of animations that nobody draws
        with pytest.raises(simkit.MissingPackageError, match=r"pip install .simkit\[mp4\]"):
            viz.save_animation(movie, tmp_path / "run.mp4")


def test_fields_have_their_units():
    system, y0, _, _ = simkit.fluids.ShallowWater.example()
    states = jax.tree.map(lambda x: jnp.stack([x, x]), y0)
    zero = jnp.zeros((), int)
    run = simkit.Trajectory(jnp.array([0.0, 1.0]), states, zero, zero, zero, zero, "none")
    labels = [panel.get_ylabel() for panel in viz.plot_fields(system.grid, run).axes]
    assert labels == ["height [m]", "velocity x [m/s]"]


def test_a_phase_portrait_shows_where_states_rest():
    run = prey()
    system = simkit.odes.LotkaVolterra.example().system
    figure = viz.plot_phase(run, "hare", "lynx", system=system, arrows=9)
    (panel,) = panels(figure)
    assert panel.get_xlabel() == "hare [thousand]"
    # The fixed point of the equations, by two divisions.
    hare, lynx = float(system.death / system.conversion), float(system.growth / system.predation)
    crossings = [path.vertices for collection in panel.collections for path in collection.get_paths()]
    # Each line is drawn within a cell of the mesh, 1/54 of the panel; the other parts of the paths are the axes, if they show.
    for axis, value in ((0, hare), (1, lynx)):
        assert any(
            np.mean(np.isclose(points[:, axis], value, rtol=0.02)) > 0.4 for points in crossings if len(points) > 9
        )
    assert list(figure.to_frame().columns) == ["member", "time", "hare", "lynx"]
    with pytest.raises(simkit.ArgumentError, match="two drawn states alone"):
        viz.plot_phase(trajectory(), "upper_angle", "lower_angle", system=simkit.odes.DoublePendulum.example().system)
    with pytest.raises(simkit.UnknownNameError, match="hare"):
        viz.plot_phase(run, "hares", "lynx")


def test_every_figure_gives_its_lines_as_a_table():
    frame = FIGURES["trajectory"]().to_frame()
    assert list(frame.columns) == ["panel", "series", "x", "y"]
    assert set(frame.series) == {"upper_angle", "lower_angle", "upper_rate", "lower_rate"}
    assert len(frame) == 4 * 21
    np.testing.assert_allclose(frame[frame.series == "upper_angle"].y, trajectory().ys.upper_angle, rtol=1e-6)


def test_many_experiments_are_wrapped_and_axes_may_be_logarithmic():
    system, y0, _, _ = simkit.odes.ExponentialDecay.example()
    times = np.array([1.0, 2.0, 3.0])
    experiments = [simkit.Experiment(f"e{i}", times, {"amount": np.exp(-times)}, start=0.0) for i in range(7)]
    noise, free = {"amount": simkit.noise.Normal(0.1)}, {"rate": simkit.Free(bounds=(0.1, 2.0))}
    seen = observed(simkit.Problem(system, experiments, y0=y0, noise=noise, free=free, step=0.1))
    figure = viz.plot_fit(seen, columns=3, log=True)
    shown = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title(loc="left") for panel in shown] == [f"e{i}" for i in range(7)]
    assert {panel.get_yscale() for panel in shown} == {"log"}
    assert len({panel.get_ylim() for panel in shown}) == 1
    assert [bool(panel.get_xlabel()) for panel in shown] == [False] * 4 + [True] * 3


def test_units_of_states_of_equations_reach_the_axes():
    pond = simkit.from_equations(
        {"d algae": "-k*algae"}, parameters={"k": 1.0}, states={"algae": simkit.quantity(unit="mg/l")}, name="Pond"
    )
    experiment = simkit.Experiment("e", [1.0, 2.0], {"algae": [1.0, 0.5]})
    free = {"y0.algae": simkit.Free(bounds=(0.1, 5.0))}
    noise = {"algae": simkit.noise.Normal(0.1)}
    problem = simkit.Problem(pond, experiment, y0=pond.State(algae=1.0), free=free, noise=noise, step=0.1)
    assert observed(problem).units == {"algae": "mg/l"}


def test_a_map_has_the_fields_of_its_sphere():
    sphere = simkit.fluids.Sphere(5)
    field = np.sin(sphere.mesh()[1])
    figure = viz.plot_map(sphere, {"sine": field, "square": field**2}, units={"sine": "m"})
    upper, lower = figure.axes[:2]
    assert [panel.get_title(loc="left") for panel in (upper, lower)] == ["sine", "square"]
    np.testing.assert_allclose(np.asarray(upper.collections[0].get_array()).reshape(sphere.shape), field)
    assert upper.collections[0].get_clim() == (-field.max(), field.max())  # around zero
    assert (
        lower.collections[0].get_clim() == (field.min() ** 2, field.max() ** 2)
        or lower.collections[0].get_clim()[0] >= 0
    )
    with pytest.raises(simkit.ArgumentError, match=r"`fields\['sine'\]` must have the shape"):
        viz.plot_map(sphere, {"sine": field.T})
