"""The command that writes a study as a Tesseract."""

import argparse
from pathlib import Path

from ..stores import write_text
from ..study import Study
from ..tesseract import study_files
from ._answer import answer
from ._files import check_free


def write_tesseract(study: Study, folder: Path, options: argparse.Namespace) -> int:
    """Write the folder of a Tesseract and say how it is used."""
    files = {folder / path: text for path, text in study_files(study).items()}
    for path in files:
        check_free(path, options.overwrite, "folder")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    use = f"tesseract_core.Tesseract.from_tesseract_api({str(folder / 'tesseract_api.py')!r})"
    lines = [*map(str, files), f"Without containers: {use}", f"With them: tesseract build {folder}"]
    answer(options, "\n".join(lines), files=list(files), next=[use, f"tesseract build {folder}"])
    return 0
