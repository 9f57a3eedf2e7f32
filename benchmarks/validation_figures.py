"""Claim: what the page of validation says. It draws the page's figures anew, each with an outside truth beside ours.

The figures go to `docs/_static`. FIGURES=cavity,sod draws some of them; all take some ten minutes of one core, and
`radial_distribution` needs MDAnalysis (`pip install "simkit[md]"`).
"""

import io
import os
import pathlib
import sys
import time

import _harness
import _validation_atoms as atoms
import _validation_fits as fits
import _validation_flows as flows
import _validation_rates as rates
from PIL import Image

import simkit
from simkit.viz import to_png

FOLDER = _harness.HERE.parent / "docs" / "_static"
sys.path[:0] = [str(_harness.HERE.parent / "tests"), str(_harness.HERE.parent)]

DRAWN = {
    function.__name__: function
    for function in (
        rates.orders,
        rates.robertson,
        rates.quantum,
        rates.epidemics,
        fits.nist,
        fits.posterior,
        fits.petab,
        atoms.lammps,
        atoms.radial_distribution,
        atoms.coexistence,
        atoms.canonical,
        atoms.drift,
        flows.cavity,
        flows.starting,
        flows.riemann,
        flows.waves,
    )
}
"""Each draws one figure, and returns it with the numbers that stand beside it on the page."""


def path_of(name: str) -> pathlib.Path:
    """Where a figure is kept."""
    return FOLDER / f"validation-{name.replace('_', '-')}.png"


def small(picture: bytes) -> bytes:
    """The same picture with few colours, which drawings of lines need no more of."""
    few = Image.open(io.BytesIO(picture)).convert("RGB").quantize(96, dither=Image.Dither.NONE)
    few.save(out := io.BytesIO(), "PNG", optimize=True)
    return out.getvalue()


def main() -> dict[str, float]:
    simkit.enable_x64()
    asked = [name for name in os.environ.get("FIGURES", "").split(",") if name] or list(DRAWN)
    rows, found = [], {}
    for name in asked:
        begin = time.process_time()
        figure, numbers = DRAWN[name]()
        path_of(name).write_bytes(small(to_png(figure)))
        found |= {f"{name}: {row}": value for row, value in numbers.items()}
        size = path_of(name).stat().st_size / 1000
        rows.append([name, f"{time.process_time() - begin:.0f}", f"{size:.0f}", *_words(numbers)])
        print(" ".join(rows[-1]), flush=True)
    _harness.print_table("Figures of the page of validation", ["figure", "CPU s", "kB", "numbers"], rows)
    return found


def _words(numbers: dict[str, float]) -> list[str]:
    return ["; ".join(f"{row} {value:.3g}" for row, value in numbers.items())]


if __name__ == "__main__":
    main()
