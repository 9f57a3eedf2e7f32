"""Every example in a docstring of simkit runs, and prints what a comment `# prints ...` on its line says."""

import ast
import contextlib
import functools
import io
import os
import pathlib
import re

import matplotlib.pyplot as plt
import pytest

ROOT = pathlib.Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAYS = re.compile(r"  # prints (.+)$")

NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")

SLOW = {
    "simkit.md.space._boxes.Boxes",
    "simkit.core._event.Event",
    "simkit.fitting._fit.fit",
    "simkit.fitting._matching.gradient_matching",
    "simkit.fluids.spectral._flow2d.SpectralFlow2D",
    "simkit.fluids.spectral._observables.Probes",
    "simkit.fluids.spectral._smooth.SmoothVorticity",
    "simkit.inspect._explain.explain",
    "simkit.inspect._export.export",
    "simkit.io._ase.from_ase",
    "simkit.io._ase_calculator.ase_calculator",
    "simkit.io._fields.write_fields",
    "simkit.md.averages._average.sensitivity",
    "simkit.md.free_energy._exchange.replica_exchange",
    "simkit.md.free_energy._mbar.mbar",
    "simkit.md.free_energy._metadynamics.metadynamics",
    "simkit.md.free_energy._profile.free_energy_profile",
    "simkit.md.free_energy._states.sample_states",
    "simkit.md.free_energy._umbrella.umbrella_sampling",
    "simkit.md.free_energy._work.bar",
    "simkit.md.free_energy._work.switch",
    "simkit.md.averages._front.ensemble_average",
    "simkit.md.averages._lyapunov.lyapunov_exponent",
    "simkit.md.averages._reweighting.sample_ensemble",
    "simkit.md.relaxation._minimise.minimise",
    "simkit.md.observables._bond_order.bond_order",
    "simkit.md._particles.Particles",
    "simkit.md.averages._run_averages.averages",
    "simkit.md._stack.stack_atoms",
    "simkit.sweeps._sweep.sweep",
    "simkit.testing._check_system.check_system",
    "simkit.testing._reproducibility.reproducibility",
    "simkit.viz._atom_figures.animate",
    "simkit.viz._atom_figures.plot_atoms",
    "simkit.viz._field_figures.plot_fields",
    "simkit.testing._trust.perturbation_growth",
}
"""Examples of more than a second or two, most of it compilation."""


@functools.cache
def fences() -> list[tuple[str, str, str]]:
    """Every fenced block in a docstring: dotted name, language and text."""
    found = []
    for path in sorted((ROOT / "simkit").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                name = module if isinstance(node, ast.Module) else f"{module}.{node.name}"
                found += [(name, *match.groups()) for match in FENCE.finditer(ast.get_docstring(node) or "")]
    return found


EXAMPLES: dict[str, list[str]] = {}
for _name, _language, _text in fences():
    if _language == "python":
        EXAMPLES.setdefault(_name, []).append(_text)


def execute(source: str, namespace: dict, name: str) -> list[tuple[str, str]]:
    """Run a block, statement by statement; what each promises to print, and prints."""
    lines, promises = source.splitlines(), []
    for statement in ast.parse(source).body:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(ast.Module([statement], []), name, "exec"), namespace)
        if said := SAYS.search(lines[(statement.end_lineno or 0) - 1]):
            promises.append((said.group(1), printed.getvalue().strip()))
    return promises


def agree(said: str, printed: str) -> bool:
    """The same words, and numbers to one unit of the last digit that is said: other machines and precisions round differently."""
    if [word.split() for word in NUMBER.split(said)] != [word.split() for word in NUMBER.split(printed)]:
        return False
    unit = lambda text: 10.0 ** -len(text.partition(".")[2])
    pairs = zip(NUMBER.findall(said), NUMBER.findall(printed), strict=True)
    return all(abs(float(a) - float(b)) <= unit(a) if "." in a else a == b for a, b in pairs)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in EXAMPLES])
@pytest.mark.usefixtures("cache_as_before")
def test_example(name, tmp_path, monkeypatch):
    for shared in ("data", "examples"):
        os.symlink(ROOT / shared, tmp_path / shared)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for source in EXAMPLES[name]:
        for said, printed in execute(source, namespace, name):
            assert agree(said, printed), f"{said!r} is said, {printed!r} is printed"
    plt.close("all")


def test_examples_are_found():
    assert len(EXAMPLES) > 70
    assert set(EXAMPLES) >= SLOW


def test_no_example_escapes():
    # Another language, or a prompt, would be an example that nothing runs.
    assert {language for _, language, _ in fences()} == {"python"}
    for path in (ROOT / "simkit").rglob("*.py"):
        assert ">>> " not in path.read_text(encoding="utf-8"), path


def test_what_is_printed_is_compared():
    promises = execute("x = 1\nprint(x + 1)  # prints 2\nprint(x)  # the first", {}, "here")
    assert promises == [("2", "2")]
    assert agree("1.386 of 3", "1.3862943 of 3")
    assert not agree("1.386 of 3", "1.3878 of 3")
    assert not agree("1.386 of 3", "1.3863 of 4")
    assert not agree("1.386 of 3", "1.3863 from 3")
