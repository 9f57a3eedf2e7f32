"""Noise inside the model and unknown fields: rows as `_jump_rows.py`, `_particle_rows.py`, `_guided_rows.py`,
`_assimilation_rows.py` and `_field_rows.py` say.

Run: `python benchmarks/run.py inference`.
"""

import _assimilation_rows
import _field_rows
import _guided_rows
import _jump_rows
import _particle_rows


def main() -> dict[str, float]:
    particles = _particle_rows.rows() | _guided_rows.rows()
    return _jump_rows.rows() | particles | _assimilation_rows.rows() | _field_rows.rows()


if __name__ == "__main__":
    print(main())
