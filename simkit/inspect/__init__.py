"""What JAX made of a simulation: what compiles, what it costs, and where it goes wrong."""

from ._explain import explain as explain
from ._explanation import Explanation as Explanation
