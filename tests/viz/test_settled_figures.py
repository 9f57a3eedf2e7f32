"""Bifurcation diagrams and bars of sensitivity, against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from drawn_figures import settled, shares

import simkit
from simkit import viz


class Logistic(simkit.DiscreteSystem):
    """x <- r x (1 - x)."""

    r: jax.Array
    step: float = eqx.field(static=True, default=1.0)

    class State(eqx.Module):
        x: jax.Array

    def advance(self, t, y, inputs):
        return Logistic.State(self.r * y.x * (1 - y.x))

    @classmethod
    def example(cls):
        return simkit.Example(cls(jnp.asarray(3.2)), cls.State(jnp.asarray(0.3)), jnp.arange(10.0))


def test_the_cycle_of_two_of_the_logistic_map():
    rates = jnp.asarray([2.8, 3.2, 3.4])
    found = jax.vmap(lambda r: simkit.simulate(Logistic(r), Logistic.State(jnp.asarray(0.3)), jnp.arange(301.0)))(rates)
    figure = viz.plot_bifurcation(rates, found, "x", parameter="r", after=290, points="values")
    r, x = figure.table["r"], figure.table["x"]
    np.testing.assert_allclose(x[r == 2.8], 1 - 1 / 2.8, rtol=1e-10)
    for rate in (3.2, 3.4):  # the roots of r^2 x^2 - r (r + 1) x + r + 1
        root = np.sqrt((rate - 3) * (rate + 1))
        np.testing.assert_allclose(
            np.unique(x[np.isclose(r, rate)].round(9)), (rate + 1 + np.array([-root, root])) / (2 * rate), rtol=1e-8
        )


def test_extremes_are_found_between_save_times():
    times = np.linspace(0.0, 40.0, 201)
    zero = jnp.zeros(2, int)
    rows = jnp.asarray([3 + 2 * np.sin(times), np.full(201, 5.0)])
    found = simkit.Trajectory(jnp.asarray(times), {"x": rows}, zero, zero, zero, zero)
    table = viz.plot_bifurcation(np.array([1.0, 2.0]), found, "x").table
    # At s from the middle point, |s| <= h / 2, a parabola errs by a third derivative / 6 times s (h^2 - s^2); near an extreme of
    # a sine that derivative is at most s times the amplitude: h^4 / 32 of it.
    assert np.abs(table["x"][table["kind"] == "maximum"] - 5).max() < 1.1 * 2 * 0.2**4 / 32
    assert np.abs(table["x"][table["kind"] == "minimum"] - 1).max() < 1.1 * 2 * 0.2**4 / 32
    assert (table["kind"] == "maximum").sum() == 4  # between 20 and 40
    assert list(table["x"][table["kind"] == "last"]) == [5.0]


def test_wiggles_of_a_solver_are_rest():
    times = np.linspace(0.0, 40.0, 401)
    zero = jnp.zeros(1, int)
    row = 1 + np.exp(-2 * times) + 1e-8 * np.sin(9 * times)
    found = simkit.Trajectory(jnp.asarray(times), {"x": jnp.asarray(row[None])}, zero, zero, zero, zero)
    assert list(viz.plot_bifurcation(np.array([1.0]), found, "x").table["kind"]) == ["last"]


def test_lost_members_are_ticks_and_bad_arguments_sentences():
    found = settled()
    lost = eqx.tree_at(lambda t: t.ys["x"], found, found.ys["x"].at[1].set(np.nan))
    figure = viz.plot_bifurcation(np.arange(4.0), lost, "x")
    assert "not finite" in figure.axes[0].get_legend_handles_labels()[1]
    assert 1.0 not in figure.table["parameter"]
    with pytest.raises(simkit.ArgumentError, match="one number for each member"):
        viz.plot_bifurcation(np.arange(3.0), found, "x")
    with pytest.raises(simkit.ArgumentError, match="`after`"):
        viz.plot_bifurcation(np.arange(4.0), found, "x", after=20.0)


def test_the_most_important_quantity_comes_first():
    figure = viz.plot_sensitivity(shares())
    assert list(figure.table["quantity"]) == ["k", "x0", "death"]
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["k", "x0", "death"]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([0.6, 0.25, 0.1, 0.65, 0.3, 0.15])
    assert len(viz.plot_sensitivity(shares(), most=2).axes[0].patches) == 4


def test_effects_have_rings_and_arrays_are_refused():
    one = np.array([3.0, 5.0])
    effects = simkit.sweeps.MorrisEffects(("a", "b"), -one, one, one / 10, np.array([0.1, 4.0]), 0.95)
    figure = viz.plot_sensitivity(effects)
    assert list(figure.table["deviation"]) == [4.0, 0.1]
    two = np.ones((2, 7))
    with pytest.raises(simkit.ArgumentError, match="of an array"):
        viz.plot_sensitivity(simkit.sweeps.MorrisEffects(("a", "b"), two, two, two, two, 0.95))
    with pytest.raises(simkit.ArgumentError, match="sobol_indices"):
        viz.plot_sensitivity({"k": 1.0})
