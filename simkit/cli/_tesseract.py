"""The command that writes a study as a Tesseract."""

from pathlib import Path

from ..stores import write_text
from ..study import Study
from ..tesseract import study_files
from ._files import check_free


def write_tesseract(study: Study, folder: Path, overwrite: bool) -> int:
    """Write the folder of a Tesseract and say how it is used."""
    files = {folder / path: text for path, text in study_files(study).items()}
    for path in files:
        check_free(path, overwrite, "folder")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
        print(path)
    print(f"Without containers: tesseract_core.Tesseract.from_tesseract_api({str(folder / 'tesseract_api.py')!r})")
    print(f"With them: tesseract build {folder}")
    return 0
