"""Quadratic model of the objective of a fit near one point."""

import equinox as eqx
from jaxtyping import Array, Bool, Float


class LocalModel(eqx.Module):
    r"""The negative log posterior f near one point z of the coordinates of a fit.

    $$f(z + s) \approx f + s^T (R^T q + b) + \tfrac12 s^T (R^T R + \mathrm{diag}(c)) s$$

    where $R^T R$ is the Fisher information of the data. R and q come from a QR decomposition of the weighted Jacobian, never
    from its square, so that a step keeps the digits which squaring the condition number would cost.

    - `value`: f, infinite where a simulation failed; `penalty`: the part of it that is the negative log prior.
    - `rows`, `pull`: R, of shape `(parameters, parameters)`, and q.
    - `slope`: b, the gradient of the prior and of data without information.
    - `curvature`: c, the second derivative of the negative log prior, at least 0; where a copula joins priors, a root P in place of
        diag(c) = P^T P.
    - `chi_squared`: the sum of squared standardised residuals (Pearson's, for counts).
    - `steps`: those that the experiment took which took most, accepted and rejected.
    - `good`: whether all simulations ended and everything is finite; else all but `value` and `steps` is 0.
    - `predicted`: by output the predicted location and the noise model's numbers of every datum, along the axis after that of
        starts; empty where that would be more than `MOST_DATA` data.
    """

    value: Float[Array, "*starts"]
    penalty: Float[Array, "*starts"]
    rows: Float[Array, "*starts parameters parameters"]
    pull: Float[Array, "*starts parameters"]
    slope: Float[Array, "*starts parameters"]
    curvature: Float[Array, "*starts parameters"] | Float[Array, "*starts parameters parameters"]
    chi_squared: Float[Array, "*starts"]
    steps: Float[Array, "*starts"]
    good: Bool[Array, "*starts"]
    predicted: dict[str, Float[Array, "..."]] = eqx.field(default_factory=dict)

    @property
    def gradient(self) -> Float[Array, " parameters"]:
        """The gradient of the negative log posterior."""
        return self.pull @ self.rows + self.slope
