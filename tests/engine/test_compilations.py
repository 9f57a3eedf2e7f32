"""The counter of compilations names the cause of each, and sees nothing where nothing is compiled."""

import functools
import gc
import threading
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import Adaptive, Fixed, count_compilations
from simkit.engine import note_trace
from simkit.engine.task._signature import differences, signature
from simkit.noise import Normal
from simkit.solvers import Dopri8, Tsit5

VERBS = iter(range(1000))


class Law(eqx.Module):
    growth: jax.Array
    rule: object = eqx.field(static=True)


def program(verb=None):
    """A compiled function of its own that notes its traces."""
    verb = f"verb {next(VERBS)}" if verb is None else verb

    @eqx.filter_jit
    def body(arguments):
        note_trace(verb, arguments)
        return jnp.zeros(())

    return verb, body


def base(**changes):
    one = jnp.ones(())
    arguments = {
        "system": Law(one, "square"),
        "y0": {"hare": one, "lynx": one},
        "data": {"hare": jnp.ones((1, 21))},
        "solver": Tsit5(),
        "step": Adaptive(1e-6, 1e-9),
        "observables": (),
        "noise": {"hare": Normal(1.0)},
    }
    return arguments | changes


FIRST, SECOND = (lambda s, t: s, lambda s, t: t)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {"data": {"hare": jnp.ones((1, 40))}}, "`data.hare`: shape (1, 21) -> (1, 40)"),
        (
            {"y0": {"hare": jnp.ones((), "float32")}},
            {"y0": {"hare": jnp.ones((), "float64")}},
            "`y0.hare`: float32 -> float64",
        ),
        ({}, {"system": Law(2 * jnp.ones(()), "square")}, None),
        (
            {},
            {"system": Law(jnp.asarray(1.0), "square")},
            "`growth`: strong -> weak type (a plain number)",
        ),
        ({}, {"system": Law(jnp.ones(()), "cube")}, "static field `rule`: 'square' -> 'cube'"),
        ({}, {"solver": Dopri8()}, "static field `solver`: Tsit5 -> Dopri8"),
        ({}, {"step": Fixed(4)}, "static field `step`: Adaptive -> Fixed"),
        ({"step": Fixed(4)}, {"step": Fixed(5)}, "static field `step.substeps`: 4 -> 5"),
        (
            {"observables": (("peak", lambda s, t: s),)},
            {"observables": (("peak", lambda s, t: s),)},
            "static field `observables.peak`: new function object",
        ),
        (
            {"observables": (("peak", functools.partial(FIRST, 1)),)},
            {"observables": (("peak", functools.partial(FIRST, 1)),)},
            "static field `observables.peak`: new function object",
        ),
        ({"observables": (("peak", FIRST),)}, {"observables": (("peak", FIRST),)}, None),
        ({}, {"y0": {"hare": jnp.ones(())}}, "`y0.lynx`: gone, was float64[]"),
        ({}, {"noise": {"hare": Normal(1.0), "lynx": Normal(1.0)}}, "`noise.lynx`: new, Normal"),
        ({}, {"data": {"hare": None}}, "static field `data.hare`: float64[1, 21] -> None"),
    ],
)
def test_the_cause_is_named(before, after, words):
    verb, run = program()
    before, after = base(**before), base(**after)
    with count_compilations() as counter:
        run(before)
        assert (counter.traces, counter.reasons) == (1, ())
        run(before)
        run(after)
    if words is None:
        assert counter.traces == 1
        assert counter.reasons == ()
    else:
        assert counter.traces == 2
        (reason,) = counter.reasons
        assert reason.startswith(f"{verb}: {words}")
        assert reason.count("`: ") == 1  # nothing else is blamed
    assert {row["verb"]: row["traces"] for row in counter.table()}[verb] == counter.traces
    assert all(reason in repr(counter) for reason in counter.reasons)


def test_the_nearest_earlier_call_is_the_one_to_compare_with():
    verb, run = program()
    run(base())
    run(base(data={"hare": jnp.ones((1, 5))}, solver=Dopri8()))
    with count_compilations() as counter:
        run(base(data={"hare": jnp.ones((1, 5))}, solver=Dopri8(), step=Fixed(2)))
    assert counter.reasons == (f"{verb}: static field `step`: Adaptive -> Fixed",)


def test_settings_of_jax_are_named_and_cleared_caches_guessed():
    verb, run = program()
    run(base())
    with count_compilations() as counter, jax.numpy_dtype_promotion("standard"):
        run(base())
    assert counter.reasons == (f"{verb}: static field `jax.config.jax_numpy_dtype_promotion`: 'strict' -> 'standard'",)
    _, again = program(verb)  # another compiled function: to JAX as if its caches had been cleared
    with count_compilations() as counter:
        again(base())
    (reason,) = counter.reasons
    assert "caches were cleared" in reason


def test_compilations_belong_to_verbs():
    verb, run = program()
    inside, inner = program()

    @eqx.filter_jit
    def outer(arguments):
        note_trace(verb, arguments)
        return inner(arguments)

    with count_compilations() as counter:
        outer(base())
        jnp.sinh(jnp.asarray(np.arange(7.0)))
    rows = {row["verb"]: row for row in counter.table()}
    assert rows[verb]["traces"] == rows[verb]["compilations"] == 1
    assert inside not in rows  # what is traced inside a verb is part of it
    assert rows["other"]["compilations"] >= 1
    assert counter.compilations == sum(row["compilations"] for row in rows.values())
    assert counter.seconds > 0
    seen = counter.compilations
    run(base())
    assert counter.compilations == seen  # after the block nothing is counted
    with count_compilations() as counter:
        outer(base())
    assert counter.traces == counter.compilations == counter.from_disk == 0


def test_counters_nest_and_serve_all_threads():
    _, run = program()
    arguments = base()
    with count_compilations() as all_of_it:
        with count_compilations() as first:
            thread = threading.Thread(target=run, args=(arguments,))
            thread.start()
            thread.join()
        run(base(solver=Dopri8()))
    assert (first.traces, all_of_it.traces) == (1, 2)


def test_nothing_is_kept_alive():
    """Neither a tracer, which JAX would report as a leak, nor a closure and the arrays in it."""
    _, run = program()
    with jax.checking_leaks():
        run(base())

    def made():
        large = Large()
        functions = (lambda s, t: large), functools.partial(lambda x, t: t, large), large.method
        return large, {"observables": tuple(zip("abc", functions, strict=True))}

    large, arguments = made()
    found = signature(arguments)
    alive = weakref.ref(large)
    del large, arguments
    gc.collect()
    assert alive() is None
    assert len(differences(found, signature(made()[1]))) == 3


class Large:
    def method(self, s, t):
        return s


def test_a_long_static_tuple_is_one_entry_that_tells_values_apart():
    """The reactions of a network are a hundred thousand numbers: to look at each took longer than to trace the solve."""

    class Holder(eqx.Module):
        rows: tuple = eqx.field(static=True)

    one, same_values, other = (signature({"system": Holder((*range(300), x))}) for x in (1, 1, 2))
    assert len(one) < 20
    assert not differences(one, same_values)
    assert len(differences(one, other)) == 1
