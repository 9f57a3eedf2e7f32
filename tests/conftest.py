"""What all tests share: double precision, two devices, strict promotion, and checked types. It must run before simkit loads."""

import functools
import gc
import hashlib
import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import time
from collections.abc import Iterator

if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2").strip()

if importlib.metadata.version("jaxlib").startswith("0.10."):
    # Fusions are compiled by the older of XLA's two ways: a third less time for all tests, results equal to rounding. Newer
    # releases have one way.
    os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job in the background; the tests of interrupts need it
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest

NEEDED = ("SALib", "arviz", "ase", "beartype", "dask", "h5netcdf", "libsbml", "petab", "py3Dmol", "xarray", "yaml")

if _missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
    pytest.exit(
        f"The tests need packages that are not installed: {', '.join(_missing)}. Install them with "
        '`pip install "simkit[test]"`, in a checkout with `pip install -e ".[test]"`.',
        returncode=4,
    )

import durations  # noqa: E402
import jax  # noqa: E402
from jax.experimental.compilation_cache import compilation_cache  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# The hook stays installed: parts of simkit load on first use, in the middle of a test.
install_import_hook("simkit", "beartype.beartype")


BEGIN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--budget", type=float, help="after so many seconds, skip what has not begun; outside truth first, then by lot"
    )


@pytest.hookimpl(tryfirst=True)  # before the marks are read
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    long = durations.known()
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.slow)
    if config.getoption("budget") is not None:
        items.sort(key=lambda item: ("validation" not in item.path.parts, _lot(item.path.name), _lot(item.nodeid)))


@functools.cache
def _commit() -> str:
    """Name of the commit under test; empty where there is no repository."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=os.path.dirname(__file__), capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _lot(name: str) -> str:
    """Place of a name in an order of its commit's own, so that a short budget reaches other tests at each commit."""
    return hashlib.sha256(f"{_commit()} {name}".encode()).hexdigest()


def pytest_runtest_setup(item: pytest.Item) -> None:
    budget = item.config.getoption("budget")
    # A test that would end later than a minute after the budget does not begin.
    late = max(0.0, durations.known().get(item.nodeid, 0.0) - 60.0)
    if budget is not None and time.monotonic() - BEGIN + late > budget:
        pytest.skip("no time left")


@pytest.fixture(autouse=True, scope="session")
def _cache_apart(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands that tests run in this process keep compiled programs where no one else looks for them."""
    os.environ.setdefault("SIMKIT_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    """Compiled programs of a file go with it."""
    yield
    _forget()


@pytest.fixture
def cache_as_before() -> Iterator[None]:
    """What an example says about compiled programs on disk ends with it."""
    before = {name: value for name, value in jax.config.values.items() if "cache" in name}
    yield
    if any(jax.config.values[name] != value for name, value in before.items()):
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


MAPPED = 20_000
"""How many pieces of memory a process may have mapped before it forgets its programs: it dies at 65,530, each program
maps some, and a file of many programs, as the pages of the documentation are, takes more than that."""


@pytest.fixture(autouse=True)
def _forget_many_programs() -> Iterator[None]:
    yield
    try:
        with open("/proc/self/maps", "rb") as maps:
            many = sum(1 for _ in maps) > MAPPED
    except FileNotFoundError:  # no Linux: nothing counts the maps
        return
    if many:
        _forget()


def _forget() -> None:
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()  # JAX keeps the folder of its first program otherwise
    jax.clear_caches()
    gc.collect()
