"""Study files: the TOML language; what runs it is in `runs`, which loads fits and samplers."""

from ._from_table import study_of_table as study_of_table  # internal
from ._package import package_files as package_files  # internal
from ._template import study_text as study_text  # internal
from .language._names import DYNAMICS as DYNAMICS  # internal
from .language._names import NOISES as NOISES  # internal
from .language._names import POTENTIALS as POTENTIALS  # internal
from .language._names import READERS as READERS  # internal
from .language._names import REGISTRIES as REGISTRIES
from .language._names import SOLVERS as SOLVERS  # internal
from .language._names import SPACES as SPACES  # internal
from .language._names import SYSTEMS as SYSTEMS  # internal
from .language._names import TRUNCATIONS as TRUNCATIONS  # internal
from .language._own_models import OwnModels as OwnModels  # internal
from .language._own_models import load_models as load_models
from .language._own_models import loaded_models as loaded_models  # internal
from .language._own_models import models_of as models_of  # internal
from .language._schema import study_schema as study_schema
from .language._study import Study as Study
from .language._study import load_study as load_study
from .language._study import study_from_provenance as study_from_provenance
from .language._study import study_from_text as study_from_text  # internal
from .language._written import written_events as written_events  # internal
