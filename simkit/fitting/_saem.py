"""Stochastic approximation of expectation and maximisation: the method and its options."""

import equinox as eqx

from .._doors import check_count


class SAEM(eqx.Module):
    r"""Maximum marginal likelihood of a population by stochastic approximation of EM (SAEM), for `fit`.

    Nothing is linearised, so it fits where `Marginal` (FOCE) is biased: few data for each individual, grades, counts, yes or no.

    Each iteration draws the deviations of every individual given its data by Metropolis and Hastings, in several chains for all
    individuals at once, and moves the sufficient statistics of the individual parameters $\phi_i = g(\theta_i)$ by

    $$S_k = S_{k-1} + \gamma_k (\overline{s(\phi)} - S_{k-1}), \qquad \gamma_k = 1 \text{ at first, then } 1 / (k - K)$$

    Means, effects, spreads and correlations follow from S in closed form where priors are flat, else by Newton's method from there.
    Numbers that do not differ between individuals, such as the scale of the noise, take steps
    $\gamma_k I^{-1} \nabla \log p(y \mid \phi)$ with the information I of the complete data, whose fixed points are maxima of the
    marginal likelihood too (Fisher's identity).

    The log likelihood at the end is found by importance sampling, with its Monte Carlo error (`log_likelihood_error`), and from the
    same draws come gradient and second derivative, and so the standard errors and the distance from the maximum.

    **Arguments:**

    - `burn_in`: iterations with $\gamma = 1$. In their first half a spread shrinks by 2.5 % an iteration at most, so that
        it does not vanish before the mean is found.
    - `smoothing`: iterations with $\gamma = 1 / k$.
    - `chains`: chains of each individual. `sweeps`: how often an iteration goes through all kinds of moves: drawn anew from the
        population, each deviation for itself, and all together.
    - `draws`: draws of importance sampling for each individual.

    **Good values:** the defaults for 12 individuals and more with some data each. Few individuals take more chains, so that
    chains times individuals are 36 or more; many parameters without much data take more iterations. The error of the log likelihood
    should be below 0.5, which ten times `draws` make three times smaller.

    **References:** Delyon, Lavielle & Moulines (1999), doi:10.1214/aos/1018031103; Kuhn & Lavielle (2005),
    doi:10.1016/j.csda.2004.07.002, for the moves; Lange (1995), doi:10.1111/j.2517-6161.1995.tb02037.x, for the steps.

    ```python
    import simkit

    method = simkit.SAEM(chains=5)
    ```
    """

    burn_in: int = eqx.field(static=True, default=300)
    smoothing: int = eqx.field(static=True, default=200)
    chains: int = eqx.field(static=True, default=3)
    sweeps: int = eqx.field(static=True, default=2)
    draws: int = eqx.field(static=True, default=1000)

    def __check_init__(self):
        for name in ("burn_in", "smoothing", "chains", "sweeps"):
            check_count(name, getattr(self, name))
        check_count("draws", self.draws, least=40)

    @property
    def name(self) -> str:
        """Name of the method in results."""
        return "marginal likelihood (SAEM)"
