"""Figures that redraw themselves while a fit or a training runs."""

import sys

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simkit
from simkit import viz

LINE = simkit.from_response(lambda x, p: {"y": p["slope"] * x + p["height"]}, {"slope": 1.0, "height": 0.0})
DATA = [simkit.Experiment(f"run_{i}", [1.0, 2.0, 3.0, 4.0], {"y": [2.1, 3.9, 6.2, 7.8]}) for i in range(2)]
FREE = {"slope": simkit.Free(bounds=(0.0, 10.0)), "height": simkit.Free(bounds=(-5.0, 5.0))}
PROBLEM = simkit.Problem(LINE, DATA, free=FREE, noise={"y": simkit.noise.Normal(0.1)})


class Notebook:
    """Stands for IPython: what is displayed, and what is put in its place later."""

    def __init__(self):
        self.shown, self.updated = [], []

    def display(self, figure, *, display_id):
        assert display_id
        self.shown.append(figure)
        return self

    def update(self, figure):
        self.updated.append(figure)


def test_a_fit_draws_its_best_curve_and_its_starts(tmp_path, monkeypatch):
    notebook = Notebook()
    monkeypatch.setattr(viz._live, "notebook", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    live = viz.LiveFigure(tmp_path / "out" / "live.png", every=0.0)
    fit = simkit.fit(PROBLEM, starts=10, progress=live)
    assert len(notebook.shown) == 1
    assert len(notebook.updated) == 2  # blocks of 4, 4 and 2 starts
    assert (tmp_path / "out" / "live.png").read_bytes().startswith(b"\x89PNG")
    first, second, starts = live.figure.axes
    assert [first.get_title(loc="left"), second.get_title(loc="left")] == ["run 0", "run 1"]
    assert "10 of 10 starts agree" in starts.get_title(loc="left")
    assert "10 of 10 starts" in live.figure._suptitle.get_text()
    curve = next(line for line in first.lines if line.get_label() == "best so far")
    slope, height = np.asarray(fit.estimate)
    np.testing.assert_allclose(curve.get_ydata(), slope * curve.get_xdata() + height, rtol=1e-5)
    np.testing.assert_allclose(fit.estimate, simkit.fit(PROBLEM, starts=10).estimate, rtol=1e-6)


def test_a_training_draws_its_losses():
    live = viz.LiveFigure(every=0.0)
    begin = {"slope": jnp.asarray(0.1)}
    rows = {"x": jnp.arange(8.0), "y": 2 * jnp.arange(8.0)}
    loss = lambda model, rows: jnp.mean((model["slope"] * rows["x"] - rows["y"]) ** 2)
    found = simkit.train(begin, loss, rows, optimiser=optax.sgd(0.01), steps=20, every=10, held_out=rows, progress=live)
    drawn, held = live.figure.axes[0].lines
    np.testing.assert_array_equal(drawn.get_ydata(), found.losses)
    np.testing.assert_array_equal(held.get_xdata(), found.looked)


def test_a_picture_that_cannot_be_written_ends_no_fit(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="No picture is written any more"):
        fit = simkit.fit(PROBLEM, starts=4, progress=viz.LiveFigure(tmp_path / "file" / "x.png", every=0.0))
    assert np.isfinite(fit.log_likelihood)


def test_other_verbs_write_lines_and_bad_intervals_are_refused(capsys):
    live = viz.LiveFigure()
    live("sample: warm-up")
    assert "warm-up" in capsys.readouterr().err
    with pytest.raises(simkit.ArgumentError, match="number of seconds"):
        viz.LiveFigure(every=-1.0)
