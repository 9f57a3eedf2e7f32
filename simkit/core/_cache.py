"""Compiled programs on disk."""

import os
import sys
import warnings
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache


def enable_cache(folder: str | Path | None = None) -> Path | None:
    """Keep compiled programs on disk, so that a later process need not compile them again.

    Importing simkit does not touch JAX's configuration; a script calls this before its first simulation. The command line does.

    **Arguments:** `folder`: by default what the environment variable SIMKIT_CACHE names, or `simkit/jax` in the user's folder of
    caches.

    **Returns:** the folder, or None where it cannot be written: that costs time, nothing else.

    ```python
    import simkit
    print(simkit.enable_cache("programs").name)  # prints programs
    ```
    """
    # Absolute: a script may change its working directory, and JAX opens the folder at the first program.
    folder = cache_folder() if folder is None else Path(folder).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if jax.config.values["jax_compilation_cache_dir"] != str(folder):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        compilation_cache.reset_cache()  # JAX stays with the folder of its first program otherwise
    # Small programs as well: a run has some hundred, and each takes longer to compile than to read.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # A full disk, a folder that is read-only or an entry cut short cost time, and JAX would warn of every program.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    return folder


def cache_folder() -> Path:
    """Return the folder of compiled programs: SIMKIT_CACHE, or the user's cache folder."""
    if given := os.environ.get("SIMKIT_CACHE"):
        return Path(given)
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base / "simkit" / "jax"
