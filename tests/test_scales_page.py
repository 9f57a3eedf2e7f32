"""The page on scales lists every small number of the code."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| `([^`]+\.py)` \| ([^|]+) \|", re.MULTILINE)
LEFT_OUT = ("odes/", "fluids/equations/", "md/space/_unit_text.py")
"""Worked examples, and the constants of nature."""


def small_numbers(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    values = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, float))
    return {f"{x:g}" for x in values if 0 < abs(x) <= 1e-4}


def test_every_small_number_has_its_reason():
    listed = {
        file: {part.strip() for part in numbers.split(",")}
        for file, numbers in ROW.findall((ROOT / "docs/scales.md").read_text())
    }
    found = {}
    for path in sorted((ROOT / "simkit").rglob("*.py")):
        name = path.relative_to(ROOT / "simkit").as_posix()
        if not name.startswith(LEFT_OUT) and (numbers := small_numbers(path)):
            found[name] = numbers
    wrong = {
        name: (found.get(name), listed.get(name)) for name in found | listed if found.get(name) != listed.get(name)
    }
    assert not wrong, (
        f"(in the code, in the table of docs/scales.md) by file: {wrong}. Is the number relative? Then list it."
    )
