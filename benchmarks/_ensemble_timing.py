"""First calls apart from later ones: `ensembles.py` looks at every answer before it times."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import _harness
import jax


class Contest:
    """Functions of no arguments that are called once for their answers, and then timed in turns."""

    def __init__(self, functions: Mapping[str, Callable[[], Any]]):
        self.functions = dict(functions)
        self.answers: dict[str, Any] = {}
        self._first: dict[str, float] = {}
        for name, function in self.functions.items():
            began = time.process_time()
            self.answers[name] = jax.block_until_ready(function())
            self._first[name] = time.process_time() - began

    def time(self, title: str, samples: int, reference: str | None = None) -> dict[str, _harness.Timing]:
        """Time them all, print the table, and return the timings."""
        timings = _harness.compare(self.functions, samples=samples)
        timings = {name: timing._replace(first=self._first[name]) for name, timing in timings.items()}
        _harness.print_timings(title, timings, reference=reference)
        return timings
