"""Reports: a page that says what was asked, found and done, in one file."""

from ._report import report as report
from ._report import write_report as write_report
from ._result_cells import Row as Row  # internal
from ._result_cells import parameter_rows as parameter_rows  # internal
from ._result_cells import table_cells as table_cells  # internal
from ._verdict import answers as answers  # internal
