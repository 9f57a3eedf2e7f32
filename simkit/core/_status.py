"""Status of a simulation: how it ended, with texts that say what to do."""

import enum


class Status(enum.IntEnum):
    """The end of one simulation. Inside jit a failure is marked with it, never raised."""

    OK = 0
    NON_FINITE = 1
    STEP_LIMIT = 2
    STEP_TOO_SMALL = 3
    NO_ROOM = 4
    UNSTABLE = 5
    INCONSISTENT = 6
    ENDLESS_EVENTS = 7
    BAD_LAG = 8
    HISTORY_SHORT = 9
    HISTORY_FULL = 10
    NEGATIVE_PROPENSITY = 11
    TOO_MANY = 12
    BOUND_PASSED = 13
    WORKER_DIED = 14

    @property
    def message(self) -> str:
        """Text: what happened, the likely cause, and what to change."""
        return _MESSAGES[self]

    def told(self, solver: str) -> str:
        """The message for a run by a solver, as a trajectory names it: it advises nothing that the run did already."""
        if any(name in solver for name in STIFF) and self in _OF_STIFF:
            return _OF_STIFF[self]
        if "DirectMethod" in solver and self is Status.STEP_LIMIT:
            return _OF_JUMPS
        if "TauLeaping" in solver and self is Status.STEP_LIMIT:
            return _OF_LEAPS
        if COURANT in solver and self is Status.STEP_LIMIT:
            return _OF_COURANT
        if "DiscreteStepper" in solver and self is Status.NON_FINITE:
            return _OF_DISCRETE
        if "Reversible" in solver and self is Status.NON_FINITE:
            return _OF_REVERSIBLE
        return self.message


STIFF = "Rodas5P", "BDF"
"""The solvers for stiff systems; messages advise the first of them."""

COURANT = " with Courant steps"
"""Text by which a trajectory tells that its steps had lengths of a Courant number."""


_MESSAGES = {
    Status.OK: "Finished.",
    Status.NON_FINITE: (
        "The state stopped being finite: a parameter is extreme, the model divides by zero, or a fixed step is too long. "
        "Check the parameters, shorten `step` or let it adapt with `step=Adaptive()`."
    ),
    Status.STEP_LIMIT: (
        "The step limit was reached before the last time: the problem is stiff for this solver, the tolerances are very tight, "
        "or the solution runs away. Take `solver=Rodas5P()`, loosen `rtol` and `atol`, or raise `max_steps`."
    ),
    Status.STEP_TOO_SMALL: (
        "The adaptive step shrank to nothing: the model returns a non-finite derivative or the solution runs into a "
        "singularity. Check the parameters and what the model does near the last state."
    ),
    Status.BOUND_PASSED: (
        "The sum of the propensities was larger than `bound` of the system said, so that jumps were missed: let `bound` hold for "
        "all times from `t` to `until` at the given state."
    ),
    Status.NO_ROOM: (
        "Particles came closer together than the neighbour list had room for, so later states are wrong: the density grew, or the "
        "system was prepared at another one. Prepare it at a denser state, `system = system.prepared(y0)`."
    ),
    Status.UNSTABLE: (
        "The state grew from step to step although its own derivative does not make it grow, so its values mean nothing: the fixed "
        "step is too long for this solver. Shorten `step`, let it adapt with `step=Adaptive()`, or take a stiff solver, "
        "`solver=Rodas5P()`."
    ),
    Status.INCONSISTENT: (
        "The algebraic equations could not be solved at the first time: they contradict each other or the differential states, the "
        "guess is far off, or the index is above 1. Start nearer to a solution, or state other equations."
    ),
    Status.ENDLESS_EVENTS: (
        "Events follow each other without time going on: they set each other off, or their intervals shrink to nothing, as those "
        "of a ball that comes to rest. End the simulation there with an event of `ends=True`, or let a change leave its condition."
    ),
    Status.BAD_LAG: (
        "A lag was not positive, or `past` was asked for a time that had not come, so that the slope would depend on the future. "
        "Bound the parameters that make the lag, or let `lags` and `delayed_field` keep it above 0."
    ),
    Status.HISTORY_SHORT: (
        "A lag, or a time that `past` was asked for, reached back to before the earliest time of the history. Give an earlier "
        "history, or bound the lag."
    ),
    Status.HISTORY_FULL: (
        "The longest lag held more steps than are kept, or `past` was asked for a time that no lag of `lags` reaches and that is "
        "not kept any more. Let `lags` name all lags; keep more steps, `kept_steps` of the system, or loosen `rtol` and `atol`."
    ),
    Status.NEGATIVE_PROPENSITY: (
        "The propensity of a reaction was negative or no number: a jump process needs rates of 0 or more in every state that it "
        "reaches. Check the parameters, and that a reaction has the rate 0 where what it takes is not there."
    ),
    Status.TOO_MANY: (
        "A count grew beyond the whole numbers that its float type holds exactly. Take float64, "
        "`simkit.enable_x64()`, or the equation "
        "of large numbers."
    ),
    Status.WORKER_DIED: (
        "The worker that computed it died each time, and the other members of its chunk were computed without it: its values need "
        "more memory or crash compiled code. Compute it alone, by `simulate` with its values; after a repair remove its chunk file "
        "and call `sweep` again, as before."
    ),
}

_OF_JUMPS = (
    "The bound of the number of jumps was reached before the last time. Raise `max_jumps` of the solver, or take the diffusion "
    "approximation, `ChemicalLangevin(system)`, where counts are large."
)

_OF_LEAPS = (
    "The bound of the number of leaps and jumps was reached before the last time. Raise `max_steps` or `epsilon` of the solver, or "
    "take the diffusion approximation, `ChemicalLangevin(system)`, where counts are large."
)

_OF_STIFF = {
    Status.STEP_LIMIT: (
        "The step limit was reached before the last time, by the solver for stiff systems: the tolerances are very tight, or the "
        "solution runs away. Loosen `rtol` and `atol`, or raise `max_steps`."
    ),
    Status.UNSTABLE: (
        "The state grew from step to step although its own derivative does not make it grow, so its values mean nothing: the fixed "
        "step is too long. Shorten `step`, or let it adapt with `step=Adaptive()`."
    ),
}

_OF_COURANT = (
    "The step limit was reached before the last time. Give more steps, `step=Courant(number, max_steps=...)`, or take wider "
    "cells where they are narrowest."
)

_OF_DISCRETE = (
    "The state stopped being finite: a parameter is extreme, the model divides by zero, or the step that the system was made with "
    "is too long. Check the parameters, or make the system anew with a smaller `step` or, where it has one, a finer grid."
)

_OF_REVERSIBLE = (
    "The two states of reversible steps came apart by more than a thousandth, or the state stopped being finite: their difference "
    "grows by coupling * exp(a h) in each step of length h where the system contracts at the rate a. Take a smaller `coupling` "
    "of `Reversible`, below exp(-a h), shorter steps or shorter runs, or another solver with `gradient=Checkpointed(...)` or "
    "`gradient=OnDisk(...)`."
)
