"""Checks for solvers and systems, for a user's own as for simkit's."""

from ._check_system import SystemReport as SystemReport  # internal
from ._check_system import check_system as check_system
from ._event_trust import EventTrust as EventTrust  # internal
from ._event_trust import check_events as check_events
from ._gradients import GradientReport as GradientReport  # internal
from ._gradients import check_gradients as check_gradients
from ._order import order_of_convergence as order_of_convergence
from ._reproducibility import Reproducibility as Reproducibility  # internal
from ._reproducibility import reproducibility as reproducibility
from ._trust import GradientTrust as GradientTrust  # internal
from ._trust import Growth as Growth  # internal
from ._trust import check_gradient as check_gradient
from ._trust import perturbation_growth as perturbation_growth
from ._trust_line import TrustLine as TrustLine  # internal
from ._trust_line import trust_line as trust_line
