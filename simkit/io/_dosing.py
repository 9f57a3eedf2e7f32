"""Reader of dosing tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..problem import DosingRows, Subject, check_header, subjects_of
from ._table import number_of, read_text, rows_of


def read_doses(
    path: str | Path,
    *,
    compartments: Sequence[str] = (),
    outputs: str | Mapping[int | str, str] = "y",
    start: float | None = None,
    text: str | None = None,
    occasion: str | None = None,
) -> tuple[Subject, ...]:
    """Subjects with their doses and observations, from a CSV table as NONMEM, nlmixr2 and mrgsolve read it.

    | column | holds |
    |---|---|
    | ID, TIME | the subject, whose rows stand together, and the time, which does not decrease within it |
    | EVID | 0 observation, 1 dose (101, 201, ... of RxODE too), 2 other, 3 reset, 4 reset and dose; else AMT tells a dose |
    | AMT, CMT | how much, and the number or name of the compartment; the first where it is missing |
    | RATE or DUR | rate or duration of an infusion |
    | ADDL, II, SS | how many equal doses follow, at which interval, and whether they were given for ever before (2: added) |
    | DV, MDV, DVID | the datum, whether it is missing, which output it is of (else CMT says that) |
    | CENS, LIMIT | 1 below DV, -1 above; the other end of an interval: the data become `Censored` |

    Other columns of numbers are covariates, by their names in small letters; `subject.varying` has those that change within a
    subject. Headers in small letters count as well; cells that are empty or `.` are missing.

    Rows of one time count in their order: the time of a datum in front of a dose or a reset of the same time is the number just
    before it in the float type in use, and so is the start where that is a baseline. Additional doses come before data.

    **Arguments:**

    - `path`: the file, as in `read_table`; `text`: its content where it is at hand.
    - `compartments`: the names of the compartments in their order; numbers are kept where it is empty.
    - `outputs`: the output that DV holds, or by DVID (by CMT without such a column) the output of each.
    - `start`: the time at which the state starts; doses before it are refused. By default that of each subject's first row.

    - `occasion`: the column that numbers the occasions of a subject, such as "OCC": `subject.occasions` has the time of the first
        row of each, from which on its parameters hold.

    **Returns:** one `Subject` each, in the order of the table; `subject.doses` is a `Doses`.

    **Raises:** a `DataError` that names the line: an unknown EVID, rows that are not sorted, a dose before the start or into a
    compartment that does not exist, a negative amount, RATE with DUR, ADDL without II. Rates and durations that are parameters
    (RATE -1 and -2) and compartments that are switched off are refused by name.
    """
    name = Path(path).name
    header, rows = rows_of(name, (read_text(path) if text is None else text).removeprefix("\ufeff"))
    check_header(name, header)
    columns = {column.lower(): [cells[i] for _, cells in rows] for i, column in enumerate(header)}
    number = lambda line, column, cell: number_of(name, line, column, cell)
    table = DosingRows(columns, [line for line, _ in rows], name, number)
    return subjects_of(table, compartments=compartments, outputs=outputs, start=start, occasion=occasion)
