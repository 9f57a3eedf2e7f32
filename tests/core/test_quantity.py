import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.core import Setup, Support, as_float_array, field_metadata


class Drag(eqx.Module):
    coefficient: simkit.Scalar = simkit.quantity(0.1, unit="kg/s", support=simkit.POSITIVE, doc="linear drag")


class Point(eqx.Module):
    x: simkit.Scalar = simkit.quantity(unit="m")
    v: simkit.Vector = simkit.quantity(unit="m/s")


class Faller(simkit.PlainSystem):
    gravity: simkit.Scalar = simkit.quantity(9.81, unit="m/s^2")
    drag: Drag = eqx.field(default_factory=Drag)

    def vector_field(self, t, y, inputs):
        return Point(y.v[0], -self.gravity - self.drag.coefficient * y.v)

    @classmethod
    def example(cls):
        return simkit.Example(cls(), Point(0.0, jnp.ones(2)), jnp.linspace(0.0, 1.0, 3))


SETUP = Setup(Faller(), Point(1.0, jnp.array([2.0, 3.0])), {"wind": simkit.Constant(4.0)})


@pytest.mark.parametrize("value", [1, 1.0, np.float64(1), jnp.float64(1), np.ones(()), True])
def test_every_kind_of_number_becomes_one_strong_type(value):
    array = as_float_array(value)
    assert array.dtype == jnp.float64
    assert not array.aval.weak_type


def test_arrays_keep_their_own_float_type():
    assert as_float_array(jnp.ones(2, jnp.float32)).dtype == jnp.float32
    assert Drag(jnp.float32(0.2)).coefficient.dtype == jnp.float32


def test_equal_structure_for_every_kind_of_number_means_one_trace():
    traces = []

    @jax.jit
    def slope(system):
        traces.append(1)
        return system.gravity * 2

    for value in (1, 2.0, jnp.float64(3), np.float64(4)):
        assert slope(Faller(gravity=value)) == 2 * value
    assert len(traces) == 1


def test_names_root_in_the_system_and_reach_everything():
    assert SETUP.names() == ("gravity", "drag.coefficient", "y0.x", "y0.v", "inputs.wind.value")
    assert SETUP.get("inputs.wind.value") == 4.0
    assert SETUP.get("y0.v.1") == 3.0


def test_put_replaces_arrays_and_elements_and_nothing_else():
    new = SETUP.put({"drag.coefficient": 7, "y0.v.1": 5.0})
    assert new.system.drag.coefficient == 7.0
    assert new.system.drag.coefficient.dtype == jnp.float64
    np.testing.assert_array_equal(new.y0.v, [2.0, 5.0])
    np.testing.assert_array_equal(SETUP.y0.v, [2.0, 3.0])
    assert new.system.gravity == SETUP.system.gravity


def test_put_differentiates():
    slope = jax.grad(lambda g: SETUP.put({"gravity": g, "y0.v.0": g}).y0.v.sum() + g)(2.0)
    assert slope == 2.0


def test_metadata_follows_the_path():
    assert SETUP.metadata("drag.coefficient") == (("kg/s"), simkit.POSITIVE, "linear drag")
    assert SETUP.metadata("y0.v.1").unit == "m/s"
    assert field_metadata(SETUP.system, "nothing").support == Support()


def test_a_wrong_name_lists_the_close_matches():
    with pytest.raises(simkit.UnknownNameError, match=r"no quantity `drag.coeficient`.*`drag.coefficient`"):
        SETUP.put({"drag.coeficient": 1.0})


@pytest.mark.parametrize("path", ["y0.v.2", "y0.v.0.0", "gravity.0"])
def test_an_index_that_is_out_of_range_is_refused(path):
    with pytest.raises(simkit.ArgumentError, match="must name an element"):
        SETUP.get(path)


def test_a_system_must_not_take_the_name_of_a_root():
    class Bad(simkit.PlainSystem):
        y0: simkit.Scalar = simkit.quantity(1.0)
        vector_field = outputs = lambda self, t, y, inputs: y
        invariants = lambda self, t, y: {}
        example = classmethod(lambda cls: None)

    with pytest.raises(simkit.ArgumentError, match="must not have a field named `y0`"):
        Setup(Bad())


def test_cast_changes_every_float_array():
    small = simkit.cast(SETUP, jnp.float32)
    assert {leaf.dtype for leaf in jax.tree.leaves(small)} == {jnp.dtype(jnp.float32)}
