"""Report on the installation: versions, devices, precision, cache, and a small simulation that is checked."""

import collections
import importlib.metadata
import importlib.util
import math
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..core import cache_folder, wide_vectors
from ._environment import cores

NEEDED = ("jax", "jaxlib", "equinox", "diffrax", "optax", "numpyro", "h5py", "numpy", "matplotlib")
EXTRAS = {
    "arviz": ("arviz", "ArviZ of a posterior"),
    "dask": ("dask", "sweeps over Dask"),
    "fmi": ("fmpy", "functional mock-up units"),
    "md": ("ase", "files and potentials of atoms"),
    "mp4": ("imageio_ffmpeg", "animations as MP4"),
    "petab": ("libsbml", "PEtab and SBML"),
    "sensitivity": ("SALib", "Sobol indices"),
    "view": ("py3Dmol", "atoms in three dimensions"),
    "xarray": ("xarray", "netCDF as datasets"),
}
DRIVER = Path("/proc/driver/nvidia/version")
NEWEST_CUDA_DRIVER = 580
"""Oldest version of NVIDIA's driver for JAX's builds for CUDA 13; older drivers need those for CUDA 12."""


class Line(NamedTuple):
    """One thing that was looked at; `fault` is what to do about it, empty where all is well."""

    name: str
    text: str
    fault: str = ""


def examine() -> list[Line]:
    """Look at everything; takes some seconds."""
    return [*_versions(), *_devices(), _precision(), _cache(), _trial()]


def _versions() -> Iterator[Line]:
    python = f"Python {platform.python_version()}, {platform.platform(terse=True)}"
    yield Line("simkit", f"{importlib.metadata.version('simkit')} on {python}")
    for name in NEEDED:
        version = _version(name)
        yield Line(name, version or "-", "" if version else f'pip install "{name}"')
    extras = importlib.metadata.metadata("simkit").get_all("Provides-Extra") or []
    for extra, (module, use) in EXTRAS.items():
        if extra in extras:
            there = importlib.util.find_spec(module) is not None
            yield Line(f"[{extra}]", f"{use}" if there else f'not installed; for {use}: pip install "simkit[{extra}]"')


def _devices() -> Iterator[Line]:
    import jax

    devices = jax.devices()
    kinds = collections.Counter(device.device_kind for device in devices)
    text = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    yield Line("devices", f"{devices[0].platform}: {text}; {cores()} cores")
    if devices[0].platform == "cpu" and wide_vectors():
        yield Line(
            "vectors",
            "512 bits, which the command line uses; in Python call `simkit.enable_processor()` first of all",
        )
    driver = nvidia_driver()
    if driver is not None and devices[0].platform == "cpu":
        yield Line(
            "GPU", f"NVIDIA's driver {driver} is here, and JAX does not use it", f"pip install {gpu_package(driver)}"
        )
    elif devices[0].platform == "cpu":
        yield Line("GPU", "none found; all of simkit runs without one")


def nvidia_driver(text: str | None = None) -> str | None:
    """The version of NVIDIA's driver, where there is one."""
    if text is None:
        try:
            text = DRIVER.read_text(encoding="utf-8")
        except OSError:
            return "of unknown version" if shutil.which("nvidia-smi") else None
    found = re.search(r"Module\s+(?:for \S+\s+)?(\d+[\d.]*)", text)
    return found[1] if found else "of unknown version"


def gpu_package(driver: str) -> str:
    """The package that makes JAX use a GPU of NVIDIA's: of the JAX that is installed, for the CUDA that the driver knows."""
    newest = driver.split(".")[0].isdigit() and int(driver.split(".")[0]) >= NEWEST_CUDA_DRIVER
    return f'"jax[cuda{13 if newest else 12}]=={_version("jax")}"'


def _precision() -> Line:
    import jax

    if jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        return Line("precision", "float64, as the command line always has it; in Python call simkit.enable_x64() first")
    return Line("precision", "float32, as asked for by --float32")


def _cache() -> Line:
    folder = cache_folder()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files) / 2**20
    above = next(parent for parent in (folder, *folder.parents) if parent.exists())
    text = f"{folder}: {len(files)} compiled programs, {size:.0f} MiB"
    if os.access(above, os.W_OK):
        return Line("cache", text)
    return Line("cache", f"{text}; cannot be written", "set SIMKIT_CACHE to a folder that can")


def _trial() -> Line:
    """A decay over its lifetime, against the exponential."""
    import numpy as np

    from .. import odes, simulate

    begin = time.perf_counter()
    run = lambda: float(
        simulate(odes.ExponentialDecay(1.0), odes.ExponentialDecay.State(amount=1.0), np.array([0.0, 1.0])).ys.amount[
            -1
        ]
    )
    value = run()
    first, begin = time.perf_counter() - begin, time.perf_counter()
    run()
    again = time.perf_counter() - begin
    text = f"first {first:.1f} s, then {1e3 * again:.2f} ms; {value:.8f}, exactly {math.exp(-1):.8f}"
    return Line("a solve", text, "" if abs(value - math.exp(-1)) < 1e-3 else "the result is wrong: install JAX anew")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
