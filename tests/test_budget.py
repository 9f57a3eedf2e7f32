"""The time that verbs may take: `within`. A clock that goes on by a second at each look makes the ends of work certain."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import _budget
from simkit._budget import Budget, budgeted, has_room, seconds_of
from simkit.cli import main

TIMES = jnp.linspace(0.0, 3.0, 7)


class Decay(simkit.PlainSystem):
    rate: simkit.Scalar = simkit.quantity(0.5, support=simkit.POSITIVE)

    def vector_field(self, t, y, inputs):
        return -self.rate * y

    @classmethod
    def example(cls):
        return simkit.Example(cls(), jnp.asarray(1.0), TIMES)


@pytest.fixture
def seconds(monkeypatch):
    """A clock that goes on by a second at each look."""
    count = itertools.count()
    monkeypatch.setattr(_budget, "clock", lambda: float(next(count)))


@pytest.fixture(scope="module")
def problem():
    data = np.exp(-0.7 * np.asarray(TIMES)) + 0.02 * np.random.default_rng(0).standard_normal(7)
    return simkit.Problem(
        Decay(),
        simkit.Experiment("cup", TIMES, {"y": data}, y0=jnp.asarray(1.0)),
        free={"rate": simkit.Free(bounds=(0.1, 3.0))},
        noise={"y": simkit.noise.Normal(0.02)},
    )


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        ("2 h", 7200.0),
        ("30 min", 1800.0),
        ("1h30min", 5400.0),
        ("1.5 d", 129600.0),
        ("1e-3 s", 1e-3),
        ("1.5E+2 min", 9000.0),
        (90, 90.0),
        (0.5, 0.5),
        (None, None),
    ],
)
def test_times(within, expected):
    assert seconds_of(within) == expected


@pytest.mark.parametrize(
    "within",
    ["", "2", "1e s", "1e-400 s", "2 hours", "h", "2 h 3", "-1 s", 0, -1.0, float("nan"), float("inf"), True, [1]],
)
def test_what_is_no_time_is_refused(within):
    with pytest.raises(
        simkit.ArgumentError, match=r"Argument `within` must be a positive time, but it is .*\"30 min\""
    ):
        seconds_of(within)


def test_verbs_refuse_what_is_no_time(problem):
    for verb in (simkit.fit, lambda problem, within: simkit.sample(problem, within=within, key=jax.random.key(0))):
        with pytest.raises(simkit.ArgumentError, match="but it is '2 hours'"):
            verb(problem, within="2 hours")


@pytest.mark.usefixtures("seconds")
def test_a_budget_lets_the_first_block_begin_and_ends_before_one_that_would_be_late():
    budget = Budget(3.5)
    assert [budget.has_room() for _ in range(3)] == [True, True, False]
    assert budget.cut
    with budgeted(0.1) as short:
        assert has_room()
        with budgeted():  # of a verb that is called inside
            assert all(has_room() for _ in range(9))
        assert not has_room()
        assert short.cut
    assert has_room()


@pytest.mark.usefixtures("seconds")
def test_a_sweep_ends_and_goes_on_to_the_same_bits(tmp_path):
    over = {"rate": np.linspace(0.1, 2.0, 12)}
    asked = {"over": over, "chunk": 3, "solver": "tsit5"}
    cut = simkit.sweep(Decay(), jnp.asarray(1.0), TIMES, store=tmp_path / "cut", within=3.5, **asked)
    assert (cut.finished, cut.cut) == (6, True)
    assert "6 of 12" in repr(cut)
    assert "the time of `within` was up" in repr(cut)
    rest = simkit.sweep(Decay(), jnp.asarray(1.0), TIMES, store=tmp_path / "cut", within="2 h", **asked)
    whole = simkit.sweep(Decay(), jnp.asarray(1.0), TIMES, store=tmp_path / "whole", **asked)
    assert (rest.finished, rest.cut) == (12, False)
    np.testing.assert_array_equal(rest["y"][:], whole["y"][:])


@pytest.mark.usefixtures("seconds")
def test_a_fit_ends_and_goes_on_to_the_same_bits(tmp_path, problem):
    cut = simkit.fit(problem, starts=12, store=tmp_path / "cut", within=3.5)
    assert cut.cut
    assert len(cut.objective) == 8
    assert "the time of `within` was up" in repr(cut)
    rest, whole = (simkit.fit(problem, starts=12, store=tmp_path / name) for name in ("cut", "whole"))
    assert not rest.cut
    for one, other in zip(jax.tree.leaves(rest), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(one, other)
    # Without a store the first starts are the same ones.
    alone = simkit.fit(problem, starts=12, within=3.5)
    np.testing.assert_array_equal(alone.thetas, cut.thetas)


@pytest.mark.usefixtures("seconds")
def test_draws_end_and_go_on_to_the_same_draws(tmp_path, problem):
    asked = {"chains": 2, "draws": 40, "warmup": 20, "every": 10, "key": jax.random.key(0)}
    start = simkit.fit(problem, starts=2)
    with pytest.raises(simkit.TimeUpError, match=r"in the warm-up, before the first draw\. What is done is kept"):
        simkit.sample(problem, start=start, store=tmp_path / "cut", within=1.5, **asked)
    # A second before each block, and a warm-up of four blocks, of which the first call kept some.
    cut = simkit.sample(problem, start=start, store=tmp_path / "cut", within=6.5, **asked)
    assert cut.draws.shape[1] == 20
    assert cut.warnings[0] == "The time of `within` was up: 20 of 40 draws a chain are there. The same call goes on."
    simkit.save(tmp_path / "cut.h5", posterior=cut)
    assert cut.cut
    assert simkit.load(tmp_path / "cut.h5").posterior.cut
    rest, whole = (simkit.sample(problem, start=start, store=tmp_path / name, **asked) for name in ("cut", "whole"))
    np.testing.assert_array_equal(rest.draws, whole.draws)
    np.testing.assert_array_equal(cut.draws, whole.draws[:, :20])


@pytest.mark.usefixtures("seconds")
def test_profiles_end_and_go_on_to_the_same_bits(tmp_path, problem):
    fit = simkit.fit(problem, starts=2)
    cut = simkit.profile(problem, fit, store=tmp_path / "cut", within=3.5)
    assert cut.cut
    assert "time of `within` was up" in repr(cut)
    assert np.isfinite(cut.values).sum() == 5  # the estimate and two batches of two values
    simkit.save(tmp_path / "cut.h5", profiles=cut)
    assert simkit.load(tmp_path / "cut.h5").profiles.cut
    rest, whole = (simkit.profile(problem, fit, store=tmp_path / name) for name in ("cut", "whole"))
    alone = simkit.profile(problem, fit)
    assert not rest.cut
    for one, other, third in zip(*map(jax.tree.leaves, (rest, whole, alone)), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)
    other = simkit.fit(problem, starts=4, key=jax.random.key(5))
    with pytest.raises(simkit.StoreError, match="fit"):
        simkit.profile(problem, other, store=tmp_path / "whole")


@pytest.mark.usefixtures("seconds")
def test_calibrations_end_and_go_on_to_the_same_ranks(tmp_path, problem):
    prior = {"rate": simkit.Free(dist.LogNormal(-0.7, 0.3))}
    given = simkit.Problem(
        Decay(),
        simkit.Experiment("cup", TIMES, {"y": problem.data["y"][0]}, y0=jnp.asarray(1.0)),
        free=prior,
        noise={"y": simkit.noise.Normal(0.02)},
    )
    asked = {"simulations": 24, "draws": 9, "thin": 1, "method": simkit.LaplaceApproximation(), "starts": 1}
    asked |= {"key": jax.random.key(1), "store": tmp_path / "kept"}
    with pytest.raises(simkit.SamplingError, match=r"Only 2 of 24 simulations ended in the time of `within`.*`store`"):
        simkit.calibrate(given, within=4.5, **asked)
    cut = simkit.calibrate(given, within=62.5, **asked)  # its fits and samplers look at the clock, too
    count = int(cut.used.sum())
    assert 20 <= count < 24
    assert list(np.asarray(cut.outcome)) == [0] * count + [4] * (24 - count)
    assert f"{24 - count} simulations are left out that did not begin in the time" in repr(cut)
    rest = simkit.calibrate(given, **asked)
    whole = simkit.calibrate(given, **(asked | {"store": None}))
    assert (np.asarray(rest.outcome) == 0).all()
    np.testing.assert_array_equal(rest.ranks, whole.ranks)
    np.testing.assert_array_equal(cut.ranks[:count], whole.ranks[:count])


def test_methods_of_one_piece_are_refused(problem):
    with pytest.raises(
        simkit.ArgumentError, match="`within` does not go with `LaplaceApproximation`, whose work is one"
    ):
        simkit.sample(problem, method=simkit.infer.LaplaceApproximation(), within="1 h", key=jax.random.key(0))


STUDY = """
[study]
within = {within}

[system]
equations = {{ "d y" = "-rate*y" }}
parameters = {{ rate = 0.5 }}

[y0]
y = 1.0

[experiments.cup]
times = [1.0, 2.0, 3.0]
data.y = [0.61, 0.37, 0.22]

[noise.y]
model = "normal"
scale = 0.02

[free.rate]
bounds = [0.1, 3.0]

[fit]
starts = 8

[sample]
chains = 2
draws = 20
warmup = 20

[sweep]
method = "grid"
chunk = 2

[sweep.over]
rate = {{ from = 0.1, to = 1.0, count = 6 }}
"""


def test_a_study_and_the_command_line(tmp_path, capsys, monkeypatch):
    study = tmp_path / "cup.toml"
    study.write_text(STUDY.format(within='"two hours"'))
    assert main(["fit", str(study), "--out", str(tmp_path / "fit")]) == 2
    assert "`within` in [study] of" in capsys.readouterr().err
    study.write_text(STUDY.format(within='"2 h"'))
    with pytest.raises(SystemExit):
        main(["sweep", str(study), "--within", "0"])
    assert "must be a positive time" in capsys.readouterr().err
    count = itertools.count()
    monkeypatch.setattr(_budget, "clock", lambda: float(next(count)))
    sweep = ["sweep", str(study), "--out", str(tmp_path / "sweep")]
    assert main([*sweep, "--within", "3.5"]) == 124
    assert "The same command goes on" in capsys.readouterr().err
    assert main(sweep) == 0
    fit = ["fit", str(study), "--out", str(tmp_path / "fit"), "--no-cache"]
    assert main([*fit, "--within", "2.5 s"]) == 124
    assert "The time of `within` was up" in capsys.readouterr().err
    assert main(fit) == 0
    assert simkit.load(tmp_path / "fit" / "result.h5").fit.cut is False


@pytest.mark.usefixtures("seconds")
def test_training_ends_and_goes_on_to_the_same_bits(tmp_path):
    rows = jnp.linspace(-1.0, 1.0, 20)
    loss = lambda model, rows: jnp.mean((model["slope"] * rows - 2.0 * rows) ** 2)
    model = {"slope": jnp.asarray(0.0)}
    train = lambda store=None, **more: simkit.train(
        model, loss, rows, steps=50, every=10, held_out=0.2, batch=4, key=jax.random.key(0), store=store, **more
    )
    cut = train(tmp_path / "cut", within=3.5)
    assert cut.cut
    assert len(cut.losses) == 20
    assert "the time of `within` was up; the same call goes on" in repr(cut)
    assert train(within=3.5).stopped == "the time of `within` was up"
    # What is kept takes none of it: each call adds two blocks.
    assert len(train(tmp_path / "cut", within=3.5).losses) == 40
    rest, whole = train(tmp_path / "cut", within="2 h"), train()
    assert not rest.cut
    for name in ("losses", "held_out"):
        np.testing.assert_array_equal(getattr(rest, name), getattr(whole, name))
    np.testing.assert_array_equal(rest.model["slope"], whole.model["slope"])
    with pytest.raises(simkit.ArgumentError, match="must be a positive time"):
        train(within="2 hours")


@pytest.mark.usefixtures("seconds")
def test_a_recording_ends_and_goes_on_to_the_same_bits(tmp_path):
    record = lambda name, **more: simkit.record(
        Decay(), jnp.asarray(1.0), np.linspace(0.0, 3.0, 13), store=tmp_path / name, every=3, **more
    )
    cut = record("cut", within=3.5)
    assert (cut.parts, cut.cut, cut.end) == (2, True, 1.5)
    assert "the time of `within` was up; the same call goes on" in repr(cut)
    rest, whole = record("cut", within="2 h"), record("whole")
    assert (rest.parts, rest.cut) == (4, False)
    np.testing.assert_array_equal(rest.trajectory().ys, whole.trajectory().ys)
    with pytest.raises(simkit.ArgumentError, match="must be a positive time"):
        record("never", within="2 hours")
    assert not (tmp_path / "never").exists()
