"""Gradients through many steps: reversible steps, and records on disk."""

import errno
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.solvers import RK4, Dopri8, Heun, Reversible, Rodas5P, Tsit5

SYSTEM, Y0, _, _ = simkit.odes.LotkaVolterra.example()
TIMES = np.linspace(0.0, 10.0, 3)


def total(arguments, *, gradient=None, solver=None, step=0.1, times=TIMES, inputs=None):
    system, y0 = arguments
    run = simkit.simulate(
        system, y0, times, solver=solver, step=step, gradient=gradient, inputs=inputs, on_failure="mark"
    )
    return run.ys.hare.sum()


def difference(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(jnp.max(jnp.abs(x - y) / jnp.abs(y))) for x, y in pairs)


@pytest.mark.parametrize("inner", [Heun(), RK4(), Tsit5(), Dopri8()], ids=lambda s: type(s).__name__)
def test_order_of_reversible_steps_is_that_of_the_method(inner):
    substeps = (64, 128, 256) if inner.order == 2 else (16, 32, 64) if inner.order < 8 else (8, 12, 16)
    solver = Reversible(inner, coupling=0.99)
    order = simkit.testing.order_of_convergence(solver, SYSTEM, Y0, [0.0, 5.0], substeps=substeps)
    # At least the order; reversible steps of a method of even order gain part of the next one on such spans.
    assert inner.order - 0.3 < order < inner.order + 1.2


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_reversible_gradient_is_that_of_the_steps_taken(precision):
    arguments = simkit.cast((SYSTEM, Y0), precision)
    solver = Reversible(RK4())
    found = jax.grad(total)(arguments, solver=solver)
    kept = jax.grad(lambda x: total(x, solver=solver, gradient=simkit.Checkpointed("1 GiB")))(arguments)
    # Rounding grows over the 50 steps of a window by 0.999^-50 and the system's own contraction, some 10^2.
    assert difference(found, kept) < 1e4 * float(np.finfo(precision).eps)


def test_reversible_memory_does_not_grow_with_the_number_of_steps():
    def held(step):
        run = lambda x: total(x, solver=Reversible(), step=step, times=np.array([0.0, 10.0]))
        return jax.jit(jax.grad(run)).lower((SYSTEM, Y0)).compile().memory_analysis().temp_size_in_bytes

    assert held(1e-4) == held(1e-2)


def test_reversible_steps_under_transformations():
    of = lambda hare: total((SYSTEM, simkit.odes.LotkaVolterra.State(hare, Y0.lynx)), solver=Reversible(RK4()))
    hares = jnp.array([20.0, 30.0])
    single = [jax.grad(of)(hare) for hare in hares]
    np.testing.assert_allclose(jax.vmap(jax.grad(of))(hares), single, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(jax.jacfwd(of))(hares), single, rtol=1e-9)  # reconstruction's rounding
    second = jax.jacfwd(jax.grad(of))(hares[0])
    step = 1e-4 * hares[0]  # a central difference of gradients, of error step^2
    rough = (jax.grad(of)(hares[0] + step) - jax.grad(of)(hares[0] - step)) / (2 * step)
    np.testing.assert_allclose(second, rough, rtol=1e-6)


def test_what_cannot_be_reconstructed_is_nan():
    decay = simkit.from_equations({"d y": "rate * (1 - y)"}, parameters={"rate": 24.0})
    y0 = {"y": jnp.asarray(2.0)}
    solver = Reversible(Dopri8(), coupling=0.75)  # below e^-0.24: both states stay together
    of = lambda y0, times: simkit.simulate(decay, y0, times, solver=solver, step=0.01).final()["y"]
    assert np.isnan(jax.grad(of)(y0, np.array([0.0, 1.0]))["y"])  # e^24 roundings are more than half the digits
    saved = np.linspace(0.0, 1.0, 21)  # between save times they are e^1.2
    np.testing.assert_allclose(jax.grad(of)(y0, saved)["y"], np.exp(-24.0), rtol=1e-4)


def test_reversible_run_whose_states_come_apart_fails():
    settling = simkit.from_equations({"d y": "a - y", "d z": "-z"}, parameters={"a": 1.0})
    last = lambda **known: simkit.simulate(settling, {"y": 0.0, "z": 1e-6}, [0.0, 40.0], step=0.1, **known).final()["y"]
    with pytest.raises(simkit.SimulationError, match=r"coupling.*exp.*Checkpointed"):
        last(solver=Reversible())
    np.testing.assert_allclose(
        last(solver=Reversible(coupling=0.9)), 1.0, rtol=1e-10
    )  # below e^-0.1 they stay together
    # All of the state decays: it is measured by what is left of it, in any unit.
    decay = simkit.from_equations({"d y": "-y"}, parameters={})
    for size in (1.0, 1e-12):
        run = simkit.simulate(decay, {"y": size}, [0.0, 20.0], solver=Reversible(), step=0.1, on_failure="mark")
        assert int(run.status) == int(simkit.Status.NON_FINITE)


@pytest.mark.parametrize(("precision", "start", "span"), [("float64", 1e-3, 25.0), ("float32", 0.1, 11.0)])
def test_reversible_gradient_that_is_left_of_a_cancellation_is_nan(precision, start, span):
    # The slope by the start, e^-t far from it, is the sum of cotangents of both states that grow as e^t. Windows of one unit are
    # reconstructed well; without the check the slopes were -4e-4 for 1.4e-5, and 8e-3 for 1.7e-3.
    logistic = simkit.cast(simkit.from_equations({"d y": "y * (1 - y)"}, parameters={}), precision)

    times = np.array([*np.arange(5.0), span]) if precision == "float32" else np.arange(span + 1)

    def last(y, span):
        run = simkit.simulate(logistic, {"y": y}, times[times <= span], solver=Reversible(), step=0.05)
        return run.final()["y"]

    assert np.isnan(jax.grad(last)(jnp.asarray(start, precision), span))
    exact = np.exp(4.0) / (1 + start * (np.exp(4.0) - 1)) ** 2
    np.testing.assert_allclose(jax.grad(last)(jnp.asarray(start, precision), 4.0), exact, rtol=1e-4)


def test_reversible_gradient_of_a_field_that_starts_at_rest():
    spring = simkit.from_equations({"d x": "v", "d v": "-x", "d w": "-w"}, parameters={})

    def last(x, v, gradient):
        y0 = {"x": x, "v": v, "w": 0.0 * x}
        run = simkit.simulate(spring, y0, [0.0, 1.0], solver=Reversible(), step=0.02, gradient=gradient)
        return run.final()["x"] ** 2

    for v in (0.0, 1e-12):
        found = [jax.grad(last)(1.0, v, gradient) for gradient in (None, simkit.Checkpointed("1 GiB"))]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_reversible_refuses_what_has_no_inverse():
    with pytest.raises(simkit.ArgumentError, match="explicit Runge-Kutta"):
        Reversible(Rodas5P())
    with pytest.raises(simkit.ArgumentError, match="coupling"):
        Reversible(coupling=0.0)
    with pytest.raises(simkit.ArgumentError, match="no error estimate"):
        simkit.simulate(SYSTEM, Y0, TIMES, solver=Reversible(), step=simkit.Adaptive())
    noisy, start, times, _ = simkit.odes.OrnsteinUhlenbeck.example()
    with pytest.raises(simkit.ArgumentError, match="noise"):
        simkit.simulate(noisy, start, times, solver=Reversible(), step=0.1, key=jax.random.key(0))


def test_record_on_disk_is_the_recursive_gradient_to_the_bit(tmp_path):
    line = simkit.fluids.Grid(32)
    flow, y0 = simkit.fluids.Burgers(line), simkit.fluids.Burgers.State(jnp.sin(jnp.asarray(line.mesh()[0])))
    size = 16 * flow.waves.shape[0]

    def of(y0, flow, gradient):
        run = simkit.simulate(flow, y0, [0.0, 0.5], step=0.01, gradient=gradient, on_failure="mark")
        return jnp.sum(run.final().u ** 3)

    found = []
    # Seven segments of the 50 steps with their stages, or one with all of them; files hold 12 steps of a segment.
    for gradient in (simkit.Checkpointed(2**20), simkit.OnDisk(tmp_path, 40 * size + 12 * 5 * size + 48)):
        found.append(jax.jit(jax.value_and_grad(of), static_argnums=2)(y0, flow, gradient))
    for a, b in zip(*map(jax.tree.leaves, found), strict=True):
        assert np.array_equal(a, b)


def test_records_of_members_and_of_ragged_segments(tmp_path):
    record = simkit.OnDisk(tmp_path, memory="800 B")  # eight steps a segment, 50 in a window
    of = lambda hare, gradient: total((SYSTEM, simkit.odes.LotkaVolterra.State(hare, Y0.lynx)), gradient=gradient)
    hares = jnp.array([20.0, 30.0, 40.0])
    found = jax.vmap(jax.grad(of), (0, None))(hares, record)
    np.testing.assert_allclose(found, jax.vmap(jax.grad(of), (0, None))(hares, None), rtol=1e-12)
    over = lambda hares, gradient: simkit.ensemble(
        SYSTEM, Y0, TIMES, over={"y0.hare": hares}, step=0.1, gradient=gradient
    ).ys.hare.sum()
    np.testing.assert_allclose(jax.grad(over)(hares, record), found, rtol=1e-12)


def of_start(hare, gradient, times=TIMES[:2]):
    return total((SYSTEM, simkit.odes.LotkaVolterra.State(hare, Y0.lynx)), gradient=gradient, times=times)


def test_record_on_disk_read_again(tmp_path):
    for keep in (True, False):
        record = simkit.OnDisk(tmp_path / str(keep), "800 B", keep=keep)
        run = jax.jit(lambda hare, record=record: jax.vjp(lambda hare: of_start(hare, record), hare)[1])
        slope = jax.grad(of_start)(Y0.hare, record)
        pull = run(Y0.hare)
        (own,) = (tmp_path / str(keep)).iterdir()
        once = len(list(own.iterdir())) // 2  # those of the gradient are still there
        assert pull(jnp.ones(()))[0] == pull(jnp.ones(()))[0] == slope
        for _ in range(3):
            other = run(2 * Y0.hare)
            other(jnp.ones(()))
        if keep:
            assert pull(jnp.ones(()))[0] == slope
            assert len(list(own.iterdir())) == 5 * once
            continue
        assert len(list(own.iterdir())) <= 2 * once
        with pytest.raises(Exception, match="keep=True"):
            jax.block_until_ready(pull(jnp.ones(())))


def test_record_on_disk_whose_folder_was_removed_is_missing_and_not_anothers(tmp_path):
    record = simkit.OnDisk(tmp_path / "scratch", "800 B")
    run = jax.jit(lambda hare: jax.vjp(lambda hare: of_start(hare, record), hare)[1])
    pull = run(Y0.hare)
    shutil.rmtree(tmp_path / "scratch")
    jax.block_until_ready(run(3 * Y0.hare))
    with pytest.raises(Exception, match="the folder was removed"):
        jax.block_until_ready(pull(jnp.ones(())))


def test_record_on_disk_in_nestings(tmp_path):
    record = simkit.OnDisk(tmp_path, "800 B")
    slope = jax.grad(of_start)(Y0.hare, None)
    twice = lambda hare: of_start(hare, record) + 2 * of_start(hare, record)  # the compiler makes one run of them
    np.testing.assert_allclose(jax.jit(jax.grad(twice))(Y0.hare), 3 * slope, rtol=1e-12)
    some = jax.grad(lambda hare, on: jax.lax.cond(on, lambda h: of_start(h, record), lambda h: h, hare))
    found = jax.vmap(some)(jnp.stack([Y0.hare, Y0.hare]), jnp.array([True, False]))
    np.testing.assert_allclose(found, jnp.stack([slope, jnp.ones(())]), rtol=1e-12)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("a",))
    spec = jax.sharding.PartitionSpec("a")
    each = jax.vmap(jax.grad(lambda hare: of_start(hare, record)))
    found = jax.jit(jax.shard_map(each, mesh=mesh, in_specs=spec, out_specs=spec))(Y0.hare[None])
    np.testing.assert_allclose(found, slope[None], rtol=1e-12)


def test_a_full_disk_is_named_with_its_folder(tmp_path, monkeypatch):
    def full(*arguments, **given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(Exception, match=f"{tmp_path}.*No space left.*larger `memory`"):
        jax.block_until_ready(jax.grad(of_start)(Y0.hare, simkit.OnDisk(tmp_path, "800 B")))


def test_arguments_of_on_disk():
    assert simkit.OnDisk("~/scratch").folder == str(pathlib.Path.home() / "scratch")
    with pytest.raises(simkit.ArgumentError, match="must not be empty"):
        simkit.OnDisk("")
    with pytest.raises(simkit.ArgumentError, match=r"of `OnDisk` must be positive.*such as `OnDisk\("):
        simkit.OnDisk("scratch", memory=0)


def test_on_disk_refuses(tmp_path):
    record = simkit.OnDisk(tmp_path)
    with pytest.raises(simkit.ArgumentError, match="adaptive"):
        simkit.simulate(SYSTEM, Y0, TIMES, gradient=record)
    event = simkit.Event(at=[1.0], change=lambda system, t, y, inputs: y)
    with pytest.raises(simkit.ArgumentError, match="events"):
        simkit.simulate(SYSTEM, Y0, TIMES, step=0.1, gradient=record, events=event)
    with pytest.raises(simkit.ArgumentError, match="at least 660 B"):
        jax.grad(total)((SYSTEM, Y0), gradient=simkit.OnDisk(tmp_path, memory="600 B"))
    with pytest.raises(simkit.ArgumentError, match="no derivative"):
        jax.hessian(lambda h: total((SYSTEM, simkit.odes.LotkaVolterra.State(h, Y0.lynx)), gradient=record))(Y0.hare)
    (tmp_path / "file").write_text("")
    with pytest.raises(simkit.ArgumentError, match="cannot"):
        jax.grad(total)((SYSTEM, Y0), gradient=simkit.OnDisk(tmp_path / "file"))
