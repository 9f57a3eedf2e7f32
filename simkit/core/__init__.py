"""Systems, quantities, names, signals, trajectories: the nouns everything else speaks of."""

from ._beside import just_after as just_after  # internal
from ._beside import just_before as just_before  # internal
from ._brownian_path import BrownianPath as BrownianPath
from ._brownian_tree import BrownianTree as BrownianTree  # internal
from ._brownian_tree import KnownIncrement as KnownIncrement  # internal
from ._brownian_tree import brownian_tree as brownian_tree  # internal
from ._cache import cache_folder as cache_folder  # internal
from ._cache import enable_cache as enable_cache
from ._coupled import Coupled as Coupled
from ._coupled_noise import noise_kind_of as noise_kind_of  # internal
from ._coupled_system import CoupledSystem as CoupledSystem
from ._coupled_system import PlainCoupled as PlainCoupled  # internal
from ._coupled_system import apart as apart  # internal
from ._coupled_system import together as together  # internal
from ._delayed_system import DelayedSystem as DelayedSystem
from ._delayed_system import Past as Past  # internal
from ._delayed_system import constant_lags as constant_lags  # internal
from ._delayed_system import is_neutral as is_neutral  # internal
from ._derivative import check_derivative as check_derivative
from ._discrete_system import DiscreteSystem as DiscreteSystem
from ._elementary import ELEMENTARY as ELEMENTARY
from ._event import Event as Event
from ._event import NamedEvents as NamedEvents
from ._event import as_events as as_events
from ._event import check_own_events as check_own_events
from ._events import Events as Events
from ._families import family_of as family_of
from ._fast_length import fast_length as fast_length  # internal
from ._given_inputs import as_inputs as as_inputs  # internal
from ._given_system import as_state as as_state
from ._given_system import check_system as check_system
from ._greatest import greatest as greatest  # internal
from ._guard import alike_together as alike_together  # internal
from ._guard import by_member as by_member
from ._guard import finite as finite
from ._guard import member_inputs as member_inputs
from ._guard import member_results as member_results
from ._guard import own as own
from ._held import held as held  # internal
from ._html import html_notes as html_notes
from ._html import html_page as html_page
from ._html import html_table as html_table
from ._html import system_html as system_html  # internal
from ._html import value_text as value_text  # internal
from ._input import Input as Input
from ._input import dotted as dotted  # internal
from ._interpolated import Interpolated as Interpolated
from ._interpolated import stop_times as stop_times
from ._interpolated import with_curves as with_curves
from ._jump_diffusion import jumps_too as jumps_too  # internal
from ._jump_diffusion import refuse_jumps as refuse_jumps  # internal
from ._jump_system import ChemicalLangevin as ChemicalLangevin
from ._jump_system import JumpSystem as JumpSystem
from ._jump_system import KnownProducts as KnownProducts  # internal
from ._jump_system import Products as Products  # internal
from ._jump_system import RandomSystem as RandomSystem  # internal
from ._jump_system import flat_propensities as flat_propensities  # internal
from ._jump_system import jump_matrix as jump_matrix  # internal
from ._jump_system import reaction_names as reaction_names  # internal
from ._jump_system import thinned as thinned  # internal
from ._keys import generator as generator
from ._keys import whole_number as whole_number
from ._mirrored import mirrored_events as mirrored_events
from ._mirrored import mirrored_inputs as mirrored_inputs
from ._mirrored import mirrored_system as mirrored_system
from ._names import Setup as Setup
from ._names import check_roots as check_roots
from ._names import name_width as name_width
from ._names import named_leaves as named_leaves
from ._numbers import Seen as Seen
from ._numbers import check_member_numbers as check_member_numbers  # internal
from ._numbers import check_numbers as check_numbers
from ._numbers import check_supports as check_supports
from ._particle_system import ParticleSystem as ParticleSystem
from ._particle_system import driven as driven
from ._patched_system import PatchedSystem as PatchedSystem
from ._patches import Patches as Patches
from ._place import MARK as MARK
from ._place import Place as Place
from ._place import is_library as is_library
from ._place import marked as marked
from ._place import place_among as place_among
from ._place import place_of as place_of
from ._precision import cast as cast
from ._precision import check_tolerance as check_tolerance
from ._precision import enable_x64 as enable_x64
from ._precision import full_products as full_products
from ._processor import enable_processor as enable_processor
from ._processor import set_compiler as set_compiler  # internal
from ._processor import set_device_count as set_device_count  # internal
from ._processor import wide_vectors as wide_vectors  # internal
from ._quantity import POSITIVE as POSITIVE
from ._quantity import REAL as REAL
from ._quantity import UNIT_INTERVAL as UNIT_INTERVAL
from ._quantity import Metadata as Metadata
from ._quantity import Support as Support
from ._quantity import as_float_array as as_float_array
from ._quantity import field_metadata as field_metadata
from ._quantity import quantity as quantity
from ._quantity import quantity_or as quantity_or  # internal
from ._quantity import unit_of as unit_of  # internal
from ._reads_time import reads_time as reads_time  # internal
from ._regimen import Regimen as Regimen  # internal
from ._reviewed import Explained as Explained
from ._reviewed import Noted as Noted
from ._reviewed import Reviewed as Reviewed
from ._sampled_system import SampledDensity as SampledDensity  # internal
from ._sampled_system import SampledSystem as SampledSystem
from ._scaled import scaled as scaled
from ._signals import AbstractSignal as AbstractSignal
from ._signals import Constant as Constant
from ._signals import PiecewiseConstant as PiecewiseConstant
from ._signals import Pulses as Pulses
from ._signals import as_signals as as_signals
from ._signals import at_time as at_time
from ._signals import jump_times as jump_times
from ._sparse_matrix import SparseMatrix as SparseMatrix  # internal
from ._sparse_matrix import entries_at as entries_at  # internal
from ._sparse_matrix import full_matrix as full_matrix  # internal
from ._spread import batched_together as batched_together
from ._start import Start as Start
from ._start import started as started
from ._status import Status as Status
from ._switched import OCCASIONS as OCCASIONS  # internal
from ._switched import switched_events as switched_events  # internal
from ._switched import switched_system as switched_system  # internal
from ._switched import system_at as system_at  # internal
from ._switched import unswitched as unswitched  # internal
from ._system import SYSTEMS as SYSTEMS
from ._system import ConstrainedSystem as ConstrainedSystem
from ._system import Example as Example
from ._system import KnownJacobian as KnownJacobian
from ._system import Phase as Phase  # internal
from ._system import PlainSystem as PlainSystem
from ._system import SeparableSystem as SeparableSystem
from ._system import SplitSystem as SplitSystem
from ._system import StaticSystem as StaticSystem
from ._system import StiffTransportSystem as StiffTransportSystem
from ._system import StochasticSystem as StochasticSystem
from ._system import System as System
from ._system import TransportSystem as TransportSystem
from ._tables import data_frame as data_frame  # internal
from ._tables import data_set as data_set  # internal
from ._term import Common as Common  # internal
from ._term import SystemTerm as SystemTerm
from ._term import brownian_path as brownian_path
from ._term import brownian_shape as brownian_shape
from ._term import forced as forced
from ._term import known_jacobian as known_jacobian
from ._traced import traced as traced
from ._traced import tracing as tracing
from ._traced import unknown as unknown
from ._trajectory import Trajectory as Trajectory
from ._trajectory import with_fields as with_fields
from ._uncertain import uncertain_text as uncertain_text  # internal
from ._unread import warn_of_unread as warn_of_unread  # internal
from ._wired import wired as wired  # internal
from ._wired import wired_family as wired_family  # internal
