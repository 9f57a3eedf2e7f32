"""What JAX made of a simulation: what compiles, what it costs, and where it goes wrong."""

from ._explain import explain as explain
from ._explanation import Explanation as Explanation
from ._export import Exported as Exported
from ._export import export as export
from ._export import load_exported as load_exported
from ._locate import Failure as Failure
from ._locate import locate as locate
from ._trace_back import Culprit as Culprit
from ._watch import Moment as Moment
from ._watch import watch as watch
