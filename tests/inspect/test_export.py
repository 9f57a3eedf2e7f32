"""Programs in files: the same numbers, without the model's code."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, ResultFileError, UnknownNameError
from simkit.inspect import export, load_exported

VALUES = {"rate": np.linspace(0.2, 1.0, 5), "y0.amount": np.linspace(1.0, 2.0, 5)}

ELSEWHERE = """
import json, sys, zipfile
import jax
jax.config.update("jax_enable_x64", True)
with zipfile.ZipFile(sys.argv[1]) as archive:
    program = jax.export.deserialize(bytearray(archive.read("program.bin")))
out = program.call(*[jax.numpy.asarray(x) for x in json.loads(sys.argv[2])])
assert not any(name.startswith("simkit") for name in sys.modules)
print(json.dumps({name: value.tolist() for name, value in out.items()}))
"""


@pytest.fixture(scope="module")
def decay(tmp_path_factory):
    system, y0, _, _ = simkit.odes.ExponentialDecay.example()
    times = np.linspace(0.0, 2.0, 5)
    made = export(system, y0, times, over=["rate", "y0.amount"], step=simkit.Fixed(4))
    path = made.save(tmp_path_factory.mktemp("programs") / "decay.zip")
    return (system, y0), times, load_exported(path), path


def test_the_same_numbers(decay):
    (system, y0), times, program, _ = decay
    expected = simkit.ensemble(system, y0, times, over=VALUES, step=simkit.Fixed(4), devices=jax.devices()[:1])
    found = program(VALUES)
    np.testing.assert_array_equal(found["status"], 0)
    np.testing.assert_allclose(found["amount"], expected.ys.amount, rtol=1e-14)
    assert "rate[], y0.amount[] -> amount[5]" in repr(program)
    assert program.platforms == ("cpu", "cuda")


def test_the_gradient_is_in_it(decay):
    (system, y0), times, program, _ = decay

    def total(values):
        members = simkit.ensemble(system, y0, times, over=values, step=simkit.Fixed(4), devices=jax.devices()[:1])
        return jnp.sum(members.ys.amount[:, -1])

    last = np.zeros((5, 5))
    last[:, -1] = 1
    found = program.pull_back(VALUES, {"amount": last})
    for name, expected in jax.grad(total)({k: jnp.asarray(v) for k, v in VALUES.items()}).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-12)


def test_a_process_without_simkit_runs_it(decay):
    *_, program, path = decay
    given = json.dumps([list(VALUES["rate"][:2]), list(VALUES["y0.amount"][:2])])
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(path), given], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    two = program({name: value[:2] for name, value in VALUES.items()})
    np.testing.assert_array_equal(json.loads(done.stdout)["amount"], two["amount"])


def test_bad_input(decay, tmp_path):
    (system, y0), times, program, _ = decay
    with pytest.raises(ArgumentError, match=r"must hold \['rate', 'y0.amount'\]"):
        program({"rate": [1.0]})
    with pytest.raises(ArgumentError, match=r"The values of `y0\.amount` must have shape"):
        program({"rate": [1.0], "y0.amount": [1.0, 2.0]})
    with pytest.raises(UnknownNameError, match="There is no output `z`"):
        program.pull_back(VALUES, {"z": 1.0})
    with pytest.raises(ArgumentError, match="Argument `over` must name"):
        export(system, y0, times, over=[])
    (tmp_path / "no.zip").write_text("nothing")
    with pytest.raises(ResultFileError, match="is not an exported program"):
        load_exported(tmp_path / "no.zip")


def test_members_of_a_stochastic_system_draw_by_the_key_of_the_program():
    system, y0, _, _ = simkit.odes.OrnsteinUhlenbeck.example()
    times, key = np.linspace(0.0, 1.0, 3), jax.random.key(4)
    options = {"over": ["reversion"], "step": simkit.Fixed(4), "gradient": False, "platforms": ["cpu"]}
    with pytest.raises(ArgumentError, match="`key` must be a random key"):
        export(system, y0, times, **options)
    found = export(system, y0, times, key=key, **options)({"reversion": np.full(2, float(system.reversion))})
    for member in range(2):
        own = jax.random.fold_in(key, member)
        expected = simkit.simulate(system, y0, times, step=simkit.Fixed(4), key=own)
        np.testing.assert_allclose(found["x"][member], expected.ys.x, rtol=1e-13)  # another program rounds elsewhere
