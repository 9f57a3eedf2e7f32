"""Animations as small files."""

import importlib
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter

from .._errors import ArgumentError, missing_package

SUFFIXES = (".gif", ".webp", ".mp4")


def save_animation(
    animation: FuncAnimation, path: str | Path, *, rate: float | int = 15, dpi: float | int = 80
) -> Path:
    """Write an animation as GIF, WebP or MP4, as the ending of its name says.

    **Arguments:**

    - `animation`: what `animate` or `animate_field` returns, or any other of Matplotlib's.
    - `path`: ends in `.gif`, `.webp` or `.mp4`. GIF opens everywhere; WebP, which browsers show, takes a third of its space for
        fields and two thirds for atoms; MP4 takes a fifth or less, and needs FFmpeg or `pip install "simkit[mp4]"`.
    - `rate`: frames a second.
    - `dpi`: dots an inch: 80 makes an animation of atoms 400 pixels wide.

    **Returns:** the path.

    **Raises:** an `ArgumentError` where the ending is another, a `MissingPackageError` where there is no FFmpeg.

    ```python
    import jax
    import simkit
    fluid = simkit.md.liquid(jax.random.key(0), 64, 0.8)
    steps = 0.05 * jax.random.normal(jax.random.key(1), (3, 64, 3))
    simkit.viz.save_animation(simkit.viz.animate(fluid.space, fluid.position[None] + steps), "run.webp", dpi=50)
    ```
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ArgumentError(f"Argument `path` must end in {', '.join(SUFFIXES)}, but it is `{path}`.")
    if not rate > 0:
        raise ArgumentError(f"Argument `rate` must be a positive number of frames a second, but it is {rate}.")
    if suffix != ".mp4":
        animation.save(path, writer=PillowWriter(fps=rate), dpi=dpi)  # pyright: ignore[reportArgumentType]
        return path
    with matplotlib.rc_context(_ffmpeg()):
        # Players want an even number of pixels and no colours of higher resolution than half of them.
        even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p"]
        animation.save(path, writer=FFMpegWriter(fps=rate, codec="libx264", extra_args=even), dpi=dpi)  # pyright: ignore
    return path


def _ffmpeg() -> Any:
    """The setting that tells Matplotlib where FFmpeg is; none where it finds that by itself."""
    if FFMpegWriter.isAvailable():
        return {}
    try:
        found = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except ImportError as error:
        raise missing_package("An MP4, unlike a `.webp` or a `.gif`,", "imageio-ffmpeg", "mp4") from error
    return {"animation.ffmpeg_path": found}
