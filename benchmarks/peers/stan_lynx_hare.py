"""The lynx and hare posterior in Stan, with its non-stiff Runge-Kutta solver and starting values near the answer."""

import _harness
import numpy as np
import psutil
import stan

PROGRAM = """
functions {
  vector field(real t, vector y, vector k) {
    return [(k[1] - k[2] * y[2]) * y[1], (k[4] * y[1] - k[3]) * y[2]]';
  }
}
data {
  int<lower=2> n;
  array[n] real times;
  matrix[n, 2] pelts;
}
parameters {
  vector<lower=0>[4] k;
  vector<lower=0>[2] start;
  vector<lower=0>[2] scale;
}
transformed parameters {
  array[n - 1] vector[2] path = ode_rk45_tol(field, start, times[1], times[2:n], 1e-6, 1e-6, 1000, k);
}
model {
  k[{1, 3}] ~ normal(1, 0.5);
  k[{2, 4}] ~ normal(0.05, 0.05);
  scale ~ lognormal(-1, 1);
  start ~ lognormal(log(10), 1);
  pelts[1] ~ lognormal(log(start'), scale');
  for (i in 1:(n - 1))
    pelts[i + 1] ~ lognormal(log(path[i]'), scale');
}
"""


def main(arrays, options):
    times, pelts = arrays["times"], arrays["pelts"]
    data = {"n": len(times), "times": times.tolist(), "pelts": pelts.tolist()}
    begin = [{"k": [0.55, 0.028, 0.8, 0.024], "start": [30.0, 5.0], "scale": [0.3, 0.3]}] * 4
    found = {"draws": [], "cpu": []}
    for seed in range(int(options["seeds"])):
        posterior = stan.build(PROGRAM, data=data, random_seed=seed + 1)
        mark = _cpu()
        fit = posterior.sample(num_chains=4, num_warmup=500, num_samples=500, init=begin)
        found["cpu"].append(_cpu() - mark)
        values = [fit[name] for name in ("k", "start", "scale")]
        found["draws"].append(np.concatenate(values, axis=0).reshape(8, 500, 4))
    return {name: np.array(values) for name, values in found.items()}, {}


def _cpu() -> float:
    """CPU seconds of this process and its children: Stan samples in worker processes that stay alive."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


if __name__ == "__main__":
    _harness.serve(main)
