"""Training: stochastic gradient steps on the parts of a model that learn, by a loss over data."""

from ._result import Training as Training
from ._train import train as train
