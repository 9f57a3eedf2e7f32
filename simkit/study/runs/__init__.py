"""Runs of studies: phases in order, simulations of particles, sweeps, and comparisons with older results."""

from ._aside import REPORT as REPORT  # internal
from ._aside import RESULT as RESULT  # internal
from ._aside import TRAJECTORY as TRAJECTORY  # internal
from ._aside import check_folder as check_folder  # internal
from ._aside import check_is_folder as check_is_folder  # internal
from ._aside import identity as identity  # internal
from ._assimilate import assimilate_study as assimilate_study  # internal
from ._assimilate import run_assimilation as run_assimilation  # internal
from ._checked import check_study as check_study  # internal
from ._explain import explain_study as explain_study  # internal
from ._listed import ListedRun as ListedRun  # internal
from ._listed import list_runs as list_runs  # internal
from ._particles import average_particles as average_particles  # internal
from ._particles import is_simulation as is_simulation  # internal
from ._particles import run_particles as run_particles  # internal
from ._reproduce import changes as changes  # internal
from ._reproduce import comparisons as comparisons  # internal
from ._run import PHASES as PHASES  # internal
from ._run import UNFINISHED as UNFINISHED  # internal
from ._run import Found as Found  # internal
from ._run import compute as compute  # internal
from ._run import run as run  # internal
from ._run import simulate_study as simulate_study  # internal
from ._sweep import finished_so_far as finished_so_far  # internal
from ._sweep import sensitivity as sensitivity  # internal
from ._sweep import sweep_study as sweep_study  # internal
