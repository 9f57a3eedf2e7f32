r"""Logarithms of distribution functions and of their complements, right far out in both tails, with derivatives.

A tail is written as its density at the limit times an integral $\int_0^\infty e^{\varphi(u)} du$ with $\varphi(0) = 0$ and a
decreasing $\varphi$. The double exponential rule takes that integral, so nothing underflows, and automatic differentiation gives
the derivatives by every number, also by those by which the incomplete gamma and beta functions have none in JAX.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, log_ndtr
from jaxtyping import Array, Float

Values = Float[Array, "..."]
Sides = tuple[Values, Values]
"""log P(Y <= value) and log P(Y > value)."""

FAR = 5.0
"""Standard deviations below the mean from which on Mills' ratio is taken by quadrature."""

HERMITE = 20
"""Nodes of Gauss and Hermite, which make the continued fraction of 40 terms and leave less than rounding at `FAR`."""

NODES, FIRST, LAST = 96, -3.7, 3.9
"""Nodes of the double exponential rule in tau, u = exp(tau - exp(-tau)): from 6e-20 to 48 decay lengths."""

INNER = 24
"""Nodes of Gauss and Legendre for the body of Student's distribution."""


def log_complement(log_probability: Values) -> Values:
    """log(1 - p) of a probability given by its logarithm."""
    small = log_probability < -math.log(2)
    one, other = jnp.where(small, log_probability, -1.0), jnp.where(small, -1.0, log_probability)
    # Where p is 1 but for rounding nothing is left: minus infinity, with a derivative of 0 in place of NaN.
    none = other >= 0
    rest = jnp.where(none, -jnp.inf, jnp.log(-jnp.expm1(jnp.where(none, -1.0, other))))
    return jnp.where(small, jnp.log1p(-jnp.exp(one)), rest)


def normal_sides(z: Values) -> Sides:
    """Both sides of the standard normal distribution."""
    return _log_normal(z), _log_normal(-z)


def _log_normal(z: Values) -> Values:
    far = z < -FAR
    x = jnp.where(far, -z, FAR)
    # Mills' ratio is the mean of x / (x^2 + t^2) over normal t; half of the nodes by symmetry.
    nodes, weights = (part[HERMITE // 2 :] for part in np.polynomial.hermite_e.hermegauss(HERMITE))
    weights = 2 * weights / math.sqrt(2 * math.pi)
    rule = jnp.asarray(nodes**2, z.dtype), jnp.asarray(weights, z.dtype)
    # 1 / (x + t^2 / x) in place of x / (x^2 + t^2), which overflows far out.
    ratio = jnp.sum(jax.vmap(lambda square, weight: weight / (x + square / x))(*rule), axis=0)
    tail = -0.5 * x**2 - 0.5 * math.log(2 * math.pi) + jnp.log(ratio)
    return jnp.where(far, tail, log_ndtr(jnp.where(far, 0.0, z)))


def laplace_sides(z: Values) -> Sides:
    """Both sides of the standard Laplace distribution."""
    far = math.log(0.5) - jnp.abs(z)
    near = jnp.log1p(-jnp.exp(far))
    return jnp.where(z < 0, far, near), jnp.where(z < 0, near, far)


def student_sides(z: Values, freedom: Values) -> Sides:
    r"""Both sides of Student's distribution.

    With $t = \sqrt\nu \tan\theta$ the body is $\int \cos^{\nu - 1}\theta\, d\theta$ on a short interval; a tail is half the
    incomplete beta function $I_x(\nu/2, 1/2)$ at $x = \nu / (\nu + z^2)$.
    """
    z, nu = jnp.broadcast_arrays(z, freedom)
    body = jnp.abs(z) < jnp.minimum(1.0, jnp.sqrt(nu))
    scale = gammaln(0.5 * nu + 0.5) - gammaln(0.5 * nu) - 0.5 * math.log(math.pi)
    nodes, weights = (jnp.asarray(x, z.dtype) for x in np.polynomial.legendre.leggauss(INNER))
    angle = jnp.arctan(jnp.where(body, z, 0.0) / jnp.sqrt(nu))
    inner = jax.vmap(lambda node, weight: weight * jnp.cos(0.5 * angle * (1 + node)) ** (nu - 1))(nodes, weights)
    half = jnp.exp(scale) * 0.5 * angle * jnp.sum(inner, axis=0)
    size = jnp.where(body, 1.0, jnp.abs(z))
    ratio = (size / jnp.sqrt(nu)) ** 2
    share = 1 / (1 + ratio)

    def exponent(u: Array) -> Array:
        rest = ratio * share - share * jnp.expm1(-u)
        return -0.5 * nu * u - 0.5 * jnp.log(rest)

    # The infinite `ratio` of a huge z still has a finite logarithm.
    start = (
        -0.5
        * nu
        * jnp.where(
            jnp.isinf(ratio), 2 * jnp.log(size) - jnp.log(nu), jnp.log1p(jnp.where(jnp.isinf(ratio), 0.0, ratio))
        )
    )
    tail = start + scale - math.log(2) + _log_integral(exponent, 2 / nu)
    other, low = log_complement(tail), z < 0
    below = jnp.where(body, jnp.log(0.5 + half), jnp.where(low, tail, other))
    return below, jnp.where(body, jnp.log(0.5 - half), jnp.where(low, other, tail))


def poisson_sides(count: Values, mean: Values) -> Sides:
    r"""Both sides of Poisson's distribution: $P(Y \le n) = Q(n + 1, m)$, the incomplete gamma function."""
    count, mean = jnp.broadcast_arrays(jnp.floor(count), mean)
    here = jnp.maximum(count, 0.0)
    # A mean of 0 would be the logarithm of 0.
    known = jnp.maximum(mean, jnp.finfo(mean.dtype).tiny)
    a, low = here + 1, known < here + 1
    inside, outside = jnp.where(low, known, 0.5 * a), jnp.where(low, a + 1, known)

    def rising(u: Array) -> Array:  # P(a, x) of x < a
        return -a * u - inside * jnp.expm1(-u)

    def falling(u: Array) -> Array:  # Q(a, x) of x >= a
        return a * u - outside * jnp.expm1(u)

    above = _log_integral(rising, 1 / (a - inside + jnp.sqrt(inside)))
    below = _log_integral(falling, 1 / (outside - a + jnp.sqrt(outside)))
    tail = a * jnp.log(known) - known - gammaln(a) + jnp.where(low, above, below)
    return _of_counts(count, mean, low, tail)


def negative_binomial_sides(
    count: Values, mean: Values, concentration: Values, log_prob: Callable[..., Values]
) -> Sides:
    r"""Both sides of the negative binomial distribution: $P(Y \le n) = I_{k / (k + m)}(k, n + 1)$, the incomplete beta function.

    **Arguments:** `log_prob`: the log probability of a count, given its mean.
    """
    count, mean, k = jnp.broadcast_arrays(jnp.floor(count), mean, concentration)
    here = jnp.maximum(count, 0.0)
    known = jnp.maximum(mean, jnp.finfo(mean.dtype).tiny)
    low = known <= here  # the upper tail is the small one
    odds = jnp.where(low, jnp.minimum(known, here + 1), 1.0) / k  # of the mean, for the branch that is taken
    inverse = k / jnp.where(low, here + 1, known)

    def above(u: Array) -> Array:
        return -(here + 1) * u + (k - 1) * jnp.log1p(-odds * jnp.expm1(-u))

    def below(u: Array) -> Array:
        return -k * u + here * jnp.log1p(-inverse * jnp.expm1(-u))

    curved = jnp.sqrt(jnp.maximum(k - 1, 0.0) * odds * (1 + odds))
    steep = jnp.where(k > 1, here + 1 - (k - 1) * odds, here + 1)
    upper = jnp.log(odds) + _log_integral(above, 1 / (steep + curved))
    curved = jnp.sqrt(here * inverse * (1 + inverse))
    lower = _log_integral(below, 1 / (k - here * inverse + curved))
    tail = log_prob(here, known) + jnp.log(k + here) + jnp.where(low, upper, lower)
    return _of_counts(count, mean, low, tail)


def _of_counts(count: Values, mean: Values, low: Array, tail: Values) -> Sides:
    """Both sides from the smaller one: that above where `low`. Below 0 there are no counts."""
    tail = jnp.where(mean >= 0, jnp.minimum(tail, 0.0), jnp.nan)
    other, none = log_complement(tail), count < 0
    below, above = jnp.where(low, other, tail), jnp.where(low, tail, other)
    return jnp.where(none, -jnp.inf, below), jnp.where(none, 0.0, above)


def _log_integral(exponent: Callable[[Array], Array], length: Values) -> Values:
    """The logarithm of the integral of exp(exponent) from 0 to infinity, which decays over about this length."""
    tau = np.linspace(FIRST, LAST, NODES)
    # Where the nodes are does not change the integral, so it has no part in the derivatives.
    length = jax.lax.stop_gradient(length)
    log_node = tau - np.exp(-tau)
    log_weight = log_node + np.log1p(np.exp(-tau)) + math.log(tau[1] - tau[0])
    nodes, weights = (jnp.asarray(x, length.dtype) for x in (np.exp(log_node), log_weight))
    values = jax.vmap(lambda node, weight: exponent(length * node) + weight)(nodes, weights)
    return jnp.log(length) + jax.scipy.special.logsumexp(values, axis=0)
