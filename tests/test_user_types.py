"""What a type checker tells a user: it underlines the mistakes of a script, and nothing that is right."""

import json
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parent / "mistakes.py"


def test_mistakes_are_underlined():
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error"]
    done = subprocess.run(
        [*command, "--pythonpath", sys.executable, str(SCRIPT)], capture_output=True, text=True, cwd=SCRIPT.parents[1]
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    marked = {i for i, line in enumerate(SCRIPT.read_text(encoding="utf-8").splitlines()) if line.endswith("# wrong")}
    assert {each["range"]["start"]["line"] for each in found if each["severity"] == "error"} == marked, found
    assert len(marked) == 11
