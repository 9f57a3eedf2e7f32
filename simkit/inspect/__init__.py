"""Inspection of simulations: what compiles, what it costs, and where it goes wrong."""

from ._explain import explain as explain
from ._explanation import Explanation as Explanation  # internal
from ._export import Exported as Exported  # internal
from ._export import export as export
from ._export import load_exported as load_exported
from ._locate import Failure as Failure  # internal
from ._locate import locate as locate
from ._trace_back import Culprit as Culprit  # internal
from ._watch import Moment as Moment  # internal
from ._watch import watch as watch
