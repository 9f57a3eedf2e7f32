"""The study file that `simkit new` writes."""

from pathlib import Path

from .language._names import NOISES

STUDY = """# A study: a model, data, what is unknown, and what to do. It runs as it stands:
#     simkit run {name}
# Then change it, one table at a time. `simkit models` lists the models, `simkit models NAME` shows one with its names.
#
# Every number has one dotted path: `growth` (of the system), `y0.size` (of the initial state),
# `noise.size.scale`. A path under [free] is unknown and gets estimated.

[study]
title = "Logistic growth"
question = "How fast does the population grow, and how far?"
time = "day"                       # what time axes are called
seed = 1                           # every random number of the study follows from it

[system]
model = "logistic_growth"
# parameters = {{ growth = 0.8 }}  # values of what is not free; what is left out takes the model's good values

[y0]                               # the state at the start
size = 1.0                         # thousand

[solve]
# solver = "tsit5"                 # left out: chosen from the system, and reported
step = {{ rtol = 1e-6 }}            # adaptive; or a number: fixed steps, at most this long

[noise]                            # {noises}
size = {{ model = "log_normal", scale = 0.1 }}

[free]                             # prior, bounds = [lower, upper], transform = "log" or "linear", start: each may be left out
growth           = {{ prior = {{ log_normal = [0.0, 1.0] }} }}
capacity         = {{ prior = {{ log_normal = [2.0, 1.0] }} }}
y0.size          = {{ prior = {{ log_normal = [0.0, 0.5] }} }}
noise.size.scale = {{ prior = {{ log_normal = [-2.0, 1.0] }} }}

[experiments.first]                # one table an experiment; a missing value is nan
# file = "data.csv"                # in place of times and data: a CSV file beside this one, with a header
# columns = {{ time = "day", size = "count" }}
times = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
data = {{ size = [1.03, 1.88, 3.6, 5.2, 7.64, 8.31, 10.2, 9.05, 10.6, 9.8, 9.3, 10.9, 9.7] }}   # invented
# set = {{ growth = 0.9 }}         # what differs here: path = a number, or the name of a free parameter

# [[events]]                       # where the state changes; formulas of states, parameters, inputs and t
# name = "harvest"
# condition = "size > 20"          # or known times: at = 3.0, every = 7.0
# change = {{ size = "0.5 * size" }}

[fit]
starts = 8

[sample]
chains = 4
warmup = 300
draws = 500

[predict]
times = {{ from = 0.0, to = 15.0, count = 151 }}
"""


def study_text(path: Path) -> str:
    """Return the text of a study file for a path, which its comments name."""
    return STUDY.format(name=path, noises=", ".join(NOISES.own))
