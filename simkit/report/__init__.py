"""Reports: a page that says what was asked, found and done, in one file."""

from ._report import report as report
from ._report import write_report as write_report
from ._table import Row as Row
from ._table import parameter_rows as parameter_rows
from ._table import table_cells as table_cells
from ._table import warnings_in_words as warnings_in_words
