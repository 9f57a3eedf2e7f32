"""Noise inside the model and unknown fields: rows as `_jump_rows.py`, `_particle_rows.py`,
`_assimilation_rows.py` and `_field_rows.py` say.

Run: `python benchmarks/run.py inference`.
"""

import _assimilation_rows
import _field_rows
import _jump_rows
import _particle_rows


def main() -> dict[str, float]:
    return _jump_rows.rows() | _particle_rows.rows() | _assimilation_rows.rows() | _field_rows.rows()


if __name__ == "__main__":
    print(main())
