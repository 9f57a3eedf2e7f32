"""ParticleFilter: the likelihood of any stochastic system by simulated paths, with random numbers of its own."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._doors import check_key, shown
from .._errors import ArgumentError
from ..core import JumpSystem, Setup, Status
from ..engine import Fixed, integrate
from ..problem import AbstractLikelihood, Dataset, ForwardModel
from ._euler import Euler
from ._guided import Flown, blind, check_guided, guide_of, guided
from ._resampling import systematic
from ._rows import Row, check_filtered, drawn_data, first_failed, log_density, rows_of

PROPOSALS = ("bootstrap", "guided")
"""Ways to draw paths of particles."""


class Cloud(NamedTuple):
    """Weighted particles of one experiment after the data of one time, or with a leading axis after all of them."""

    states: Any
    log_weight: Array  # normalised
    gained: Array  # log density of the row's data given those before, estimated
    status: Array
    ancestors: Array  # of the particles that go on: their places among those of this row
    firsts: Array | None = None  # flat states after the first step of the way to this row


class ParticleFilter(AbstractLikelihood):
    r"""The likelihood of a stochastic system by the bootstrap particle filter, for any drift, noise and noise model of data.

    N particles are simulated from datum to datum and weighted by the density of the datum; where the effective number
    $1 / \sum w^2$ falls below a share of N they are resampled systematically. The estimate of the likelihood is unbiased, that
    of its logarithm has a variance that grows with the number of data and falls as 1 / N.

    **Arguments:**

    - `particles`: N. A good number gives the log likelihood a standard deviation of 1 to 1.5 near the optimum, where
        particle Markov chains are most efficient (Doucet et al. 2015); `spread` measures it.
    - `key`: of the random numbers, the same at every call, so that one number follows from `theta`.
    - `threshold`: the share of effective particles below which they are resampled.
    - `proposal`: "bootstrap", paths that know nothing of the data ahead, or "guided", paths that are drawn towards the next datum.

    The problem's `step` is that of the paths, its `solver` a stochastic one; the step's bias is part of the estimate. Paths of a
    `JumpSystem` are exact and need neither; there are no derivatives of them.

    **Guided paths** are for precise data, which no blind path meets. The datum is taken as a normal number by its noise model's
    score and Fisher information, and the system as linear around the path from the mean of the particles to the datum; this tells
    the density of the datum given the state at each step, and each step draws its noise from the law given that density. The
    weights hold the ratio of both laws, so that the estimate stays without bias for any system and noise model. For a linear
    system whose noise does not depend on the state, seen with normal errors, this is the optimal proposal. It needs steps of
    `EulerMaruyama`, which divide the time between data evenly; the noise may be of any rank. A step costs two to three times one
    of the bootstrap filter.

    Derivatives are those of the estimate with the choice of ancestors weighted as in Scibior and Wood (2021): in the mean over
    keys that of the likelihood, so that they may be averaged, but the estimate itself jumps where an ancestor changes. Fits by
    gradients stop at such jumps; `ParticleMetropolis` of `simkit.infer` samples the exact posterior.

    **Reference:** Gordon, Salmond and Smith (1993), IEE Proc. F 140:107, doi:10.1049/ip-f-2.1993.0015; Doucet, Pitt, Deligiannidis
    and Kohn (2015), Biometrika 102:295, doi:10.1093/biomet/asu075; Scibior and Wood (2021), arXiv:2106.10314.
    For guided paths Doucet, Godsill and Andrieu (2000), Stat. Comput. 10:197, doi:10.1023/A:1008935410038, section II-D, and van
    der Meulen and Schauer (2017), Electron. J. Stat. 11:2358, doi:10.1214/17-EJS1290.
    """

    particles: int = eqx.field(static=True)
    key: PRNGKeyArray
    threshold: float = eqx.field(static=True)
    proposal: str = eqx.field(static=True)

    def __init__(
        self,
        particles: int | np.integer = 500,
        *,
        key: PRNGKeyArray,
        threshold: float = 0.5,
        proposal: str = "bootstrap",
    ):
        if not isinstance(particles, int | np.integer) or isinstance(particles, bool) or particles < 2:
            raise ArgumentError(f"Argument `particles` must be an integer of at least 2, but it is {particles!r}.")
        if not (isinstance(threshold, int | float) and 0 <= threshold <= 1):
            raise ArgumentError(f"Argument `threshold` must lie between 0 and 1, but it is {shown(threshold)}.")
        if proposal not in PROPOSALS:
            raise ArgumentError(f"Argument `proposal` must be one of {PROPOSALS}, but it is {shown(proposal)}.")
        check_key(key, needed=True)
        self.particles, self.key, self.threshold, self.proposal = int(particles), key, float(threshold), proposal

    def with_key(self, key: PRNGKeyArray) -> "ParticleFilter":
        return eqx.tree_at(lambda found: found.key, self, key)

    def check(self, model: ForwardModel, data: Dataset) -> None:
        check_filtered(type(self).__name__, model, data)
        steps = not isinstance(model.base.system, JumpSystem)
        if steps and (model.method.solver is None or not isinstance(model.method.step, Fixed)):
            raise ArgumentError(
                "`ParticleFilter` simulates paths with fixed steps, so the problem's argument `step` must be given, such as "
                "`step=0.01` in the unit of time."
            )
        if self.proposal == "guided":
            check_guided(model, data)

    def log_prob(self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset) -> Any:
        def one(setup: Setup, times: Array, row: Row, key: PRNGKeyArray) -> tuple[Array, Array]:
            cloud = self.passed(setup, times, row, key, model.method)
            return jnp.sum(cloud.gained), cloud.status[first_failed(cloud.status)]

        keys = jax.random.split(self.key, len(data.labels))
        gained, status = eqx.filter_vmap(one)(model.setups(theta), data.times, rows_of(data), keys)
        return jnp.sum(gained), status

    def sample(
        self, key: PRNGKeyArray, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> dict[str, Array]:
        """Random data around one random path for each experiment."""

        def one(setup: Setup, times: Array, rows: Row, key: PRNGKeyArray) -> dict[str, Array]:
            for_path, for_data = jax.random.split(key)
            ran = integrate(Setup(setup.system, setup.y0, setup.inputs), times, model.method, key=for_path)
            keys = jax.random.split(for_data, times.shape[0] - 1)
            each = lambda key, t, y, row: drawn_data(key, setup, t, y, row)
            return jax.vmap(each)(keys, times[1:], jax.tree.map(lambda y: y[1:], ran.ys), rows)

        keys = jax.random.split(key, len(data.labels))
        return eqx.filter_vmap(one)(model.setups(theta), data.times, rows_of(data), keys)

    # ---- one experiment ----

    def passed(
        self, setup: Setup, times: Array, rows: Row, key: PRNGKeyArray, method: Any, *, firsts: bool = False
    ) -> Cloud:
        """Pass over the data of one experiment, from the first to the last; `firsts` are for steps of a known density."""
        count = self.particles
        states = jax.tree.map(lambda y: jnp.broadcast_to(y, (count, *y.shape)), setup.y0)
        even = jnp.full((count,), -math.log(count), jax.tree.leaves(setup.y0)[0].dtype)

        def step(cloud: tuple[Any, Array], now: tuple[Array, Array, Row, PRNGKeyArray]) -> tuple[Any, Cloud]:
            (states, log_weight), (t, until, row, key) = cloud, now
            for_paths, for_choice = jax.random.split(key)
            keys = jax.random.split(for_paths, count)
            states, density, after_one = self.proposed(
                setup, states, log_weight, t, until, row, keys, method, firsts=firsts
            )
            log_weight, gained, few = weighed(log_weight, density, even, self.threshold)
            ancestors = systematic(for_choice, jnp.exp(jax.lax.stop_gradient(log_weight)))
            # Each copy has the weight 1 / N, with the derivative of its ancestor's weight.
            tied = even + log_weight[ancestors] - jax.lax.stop_gradient(log_weight[ancestors])
            after = jax.tree.map(lambda y: jnp.where(few.reshape((1,) * y.ndim), y[ancestors], y), states)
            status = jnp.where(jnp.isfinite(gained), int(Status.OK), int(Status.NON_FINITE))
            origin = jnp.where(few, ancestors, jnp.arange(count, dtype=ancestors.dtype))
            return (after, jnp.where(few, tied, log_weight)), Cloud(
                states, log_weight, gained, status, origin, after_one
            )

        keys = jax.random.split(key, times.shape[0] - 1)
        return jax.lax.scan(step, (states, even), (times[:-1], times[1:], rows, keys))[1]

    def proposed(
        self,
        setup: Setup,
        states: Any,
        log_weight: Array,
        t: Array,
        until: Array,
        row: Row,
        keys: Array,
        method: Any,
        *,
        firsts: bool,
    ) -> Flown:
        """Paths of all particles to the next datum."""
        if self.proposal == "guided":
            euler = Euler.of(setup, method)
            guide = guide_of(euler, middle(states, log_weight), t, until, row)
            return jax.vmap(lambda y, key: guided(euler, guide, y, t, until, row, key, first=firsts))(states, keys)
        if firsts:
            euler = Euler.of(setup, method)
            return jax.vmap(lambda y, key: blind(euler, y, t, until, row, key))(states, keys)
        states = jax.vmap(lambda y, key: moved(setup, y, t, until, method, key))(states, keys)
        return Flown(states, jax.vmap(lambda y: log_density(setup, until, y, row))(states), None)


def middle(states: Any, log_weight: Float[Array, " particles"]) -> Float[Array, " n"]:
    """The mean of the flat states of particles, held: any guide gives the same estimate in the mean."""
    flat = jax.lax.stop_gradient(jax.vmap(lambda y: ravel_pytree(y)[0])(states))
    weight = jax.nn.softmax(jax.lax.stop_gradient(log_weight)).astype(flat.dtype)[:, None]
    return jnp.sum(jnp.where(weight > 0, weight * flat, 0), axis=0)


def moved(setup: Setup, y: Any, t: Array, until: Array, method: Any, key: PRNGKeyArray) -> Any:
    """The state at the next time, of a random path."""
    ran = integrate(Setup(setup.system, y, setup.inputs), jnp.stack([t, until]), method, key=key)
    return jax.tree.map(lambda y: y[-1], ran.ys)


def weighed(
    log_weight: Float[Array, " particles"], density: Float[Array, " particles"], even: Array, threshold: float
) -> tuple[Float[Array, " particles"], Float[Array, ""], Bool[Array, ""]]:
    """Log weights after a datum, what it adds to the log likelihood, and whether too few particles count.

    A path that left the numbers has no density; where all have left, the data were impossible, and weights are `even`.
    """
    total = log_weight + jnp.where(jnp.isfinite(density), density, -jnp.inf)
    gained = jax.scipy.special.logsumexp(total)
    log_weight = jnp.where(jnp.isfinite(gained), total - gained, even)
    effective = jnp.exp(-jax.scipy.special.logsumexp(2 * log_weight))
    return log_weight, gained, effective < threshold * log_weight.size
