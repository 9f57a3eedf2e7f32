import numpy as np
import pytest

from simkit.infer import effective_sample_size, split_r_hat
from simkit.infer._diagnostics import describe_quality, stuck_chains, untuned_chains

RANDOM = np.random.default_rng(0)
GOOD = RANDOM.normal(size=(4, 400, 3))
DENSITY = -0.5 * (GOOD**2).sum(-1)


def test_independent_draws_are_worth_themselves():
    # the estimator's own spread over seeds is some five per cent at 1600 draws
    assert effective_sample_size(GOOD[..., 0]) == pytest.approx(1600, rel=0.2)
    assert split_r_hat(GOOD[..., 0]) == pytest.approx(1.0, abs=0.01)


def test_a_constant_is_worth_nothing():
    assert split_r_hat(GOOD[:, :3, 0]) == float("inf")  # which halves of chains cannot tell
    assert effective_sample_size(np.ones((4, 100))) == 0.0
    assert split_r_hat(np.ones((4, 100))) == float("inf")


def test_good_chains_are_not_accused():
    assert stuck_chains(GOOD, DENSITY) == {}
    assert describe_quality(GOOD, np.zeros((4, 400), bool)) == []


def test_a_frozen_chain_is_named():
    draws = GOOD.copy()
    draws[2] = draws[2, :1]
    assert "moved in only" in stuck_chains(draws, DENSITY)[2]


def test_a_chain_in_a_poor_mode_is_named():
    density = DENSITY.copy()
    density[1] -= 40.0
    assert stuck_chains(GOOD, density) == {1: pytest.approx(stuck_chains(GOOD, density)[1])}
    assert "below that of the best chain" in stuck_chains(GOOD, density)[1]


def test_a_chain_elsewhere_is_named_only_when_the_others_agree():
    draws, density = GOOD.copy(), DENSITY.copy()
    draws[3] += 5.0
    assert (
        stuck_chains(draws, density) == {}
    )  # as dense and as wide: another mode, which holds as much as each of the others
    density[3] -= 11.0  # exp(-11) of their mass, but not beyond the densities of a chain that explores
    assert list(stuck_chains(draws, density)) == [3]
    draws[2] += 5.0  # two against two: nobody can say which
    assert stuck_chains(draws, DENSITY) == {}
    assert "disagree" in describe_quality(draws, np.zeros((4, 400), bool))[0]


def test_draws_that_are_not_finite_are_named():
    draws = GOOD.copy()
    draws[0, 5, 1] = np.nan
    assert "not finite" in stuck_chains(draws, DENSITY)[0]


def test_divergences_and_few_draws_are_said():
    diverging = np.zeros((4, 400), bool)
    diverging[0, :3] = True
    assert "3 of 1600" in describe_quality(GOOD, diverging)[0]
    walk = np.cumsum(GOOD, axis=1)
    assert any("disagree" in text for text in describe_quality(walk, diverging * False))


def test_a_chain_whose_steps_are_those_of_another_place():
    right, wrong = np.full(100, 0.85), np.full(100, 0.2)
    assert untuned_chains(np.stack([right, wrong, right, right]), 0.8) == {
        1: "it accepts 20 % of its steps where 80 % were asked for"
    }
    assert (
        untuned_chains(np.stack([wrong, wrong]), 0.8) == {}
    )  # where all are, the model is hard, and restarts do not help
