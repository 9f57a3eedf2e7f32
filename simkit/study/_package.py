"""The package that `simkit new --package` writes: a system of one's own, found by study files, with its tests."""

import re
from collections.abc import Mapping
from pathlib import Path

from .._errors import ArgumentError

PROJECT = """[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "Systems for simkit"
readme = "README.md"
requires-python = ">=3.11"
license-files = ["LICENSE"]
dependencies = ["simkit"]

[project.optional-dependencies]
test = ["pytest>=8.3"]

# What study files find by name. The other groups are simkit.solvers, simkit.potentials, simkit.noises and simkit.readers.
[project.entry-points."simkit.systems"]
{module}_cooling = "{module}:Cooling"

[tool.hatch.build.targets.wheel]
packages = ["src/{module}"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

SYSTEM = '''"""Newton's law of cooling."""

import jax.numpy as jnp
import simkit


class Cooling(simkit.PlainSystem):
    """Newton's law of cooling, dT/dt = -rate (T - room)."""

    rate: simkit.Scalar = simkit.quantity(0.1, unit="1/min", support=simkit.POSITIVE, doc="heat loss")
    room: simkit.Scalar = simkit.quantity(20.0, unit="degC", doc="temperature of the room")

    def vector_field(self, t, y, inputs):
        return {{"temperature": -self.rate * (y["temperature"] - self.room)}}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {{"temperature": jnp.asarray(90.0)}}, jnp.linspace(0.0, 30.0, 31))
'''

TESTS = '''"""The system passes simkit's checks, is right, and is found by study files."""

import pathlib

import jax.numpy as jnp
import numpy as np
import simkit
from {module} import Cooling

STUDY = pathlib.Path(__file__).parents[1] / "study.toml"
simkit.enable_x64()


def test_the_system_passes_the_checks():
    print(simkit.testing.check_system(Cooling))


def test_the_solution_is_the_exact_one():
    system, y0, times, _ = Cooling.example()
    exact = system.room + (y0["temperature"] - system.room) * jnp.exp(-system.rate * times)
    found = simkit.simulate(system, y0, times, step=simkit.Adaptive(1e-8)).ys["temperature"]
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_a_study_finds_the_system_by_its_name():
    assert isinstance(simkit.load_study(STUDY).system, Cooling)
'''

STUDY = """# Run it with: simkit run study.toml

[study]
title = "A cup of tea"
question = "How fast does it lose its heat?"
time = "min"

[system]
model = "{module}_cooling"         # the entry point of this package, in pyproject.toml

[y0]
temperature = 90.0

[noise]
temperature = {{ model = "normal", scale = 0.5 }}

[free]
rate = {{ prior = {{ log_normal = [-2.3, 1.0] }} }}

[experiments.tea]                  # invented
times = [0, 5, 10, 15, 20, 25, 30]
data = {{ temperature = [90.2, 62.1, 45.9, 35.4, 29.6, 25.9, 23.3] }}
"""

README = """# {name}

Systems for simkit. Each is one class in `src/{module}`, has a name among the entry points of
`pyproject.toml`, and passes `simkit.testing.check_system`.

```bash
pip install -e ".[test]"
pytest
simkit models {module}_cooling
simkit run study.toml
```
"""

LICENSE = "Replace this text by the licence under which you give this package away.\n"


def package_files(name: str) -> Mapping[Path, str]:
    """The files of a package by their paths within its folder.

    **Raises:** an `ArgumentError` for what is no name of a package.
    """
    if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?", name):
        raise ArgumentError(
            f"The name of a package must be of letters, digits, `-` and `_`, and begin with a letter, but it is {name!r}. "
            "Take one such as `my-models`."
        )
    module = name.replace("-", "_").lower()
    if module in ("simkit", "test", "tests"):
        raise ArgumentError(
            f"The package must not be called `{name}`, which is another one. Take one such as `my-models`."
        )
    source = Path("src") / module
    texts = {
        Path("pyproject.toml"): PROJECT,
        Path("README.md"): README,
        Path("study.toml"): STUDY,
        source / "__init__.py": '"""Systems of one\'s own for simkit."""\n\nfrom ._cooling import Cooling as Cooling\n',
        source / "_cooling.py": SYSTEM,
        Path("tests") / "test_cooling.py": TESTS,
    }
    return {path: text.format(name=name, module=module) for path, text in texts.items()} | {Path("LICENSE"): LICENSE}
