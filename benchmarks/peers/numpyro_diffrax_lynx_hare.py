"""The lynx and hare posterior as one writes it by hand in NumPyro and Diffrax."""

import time

import _harness
import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS, init_to_median

jax.config.update("jax_enable_x64", True)
numpyro.set_host_device_count(2)


def field(t, y, k):
    hare, lynx = y
    return jnp.stack([(k[0] - k[1] * lynx) * hare, (k[3] * hare - k[2]) * lynx])


def model(times, pelts):
    center, spread = jnp.array([1.0, 0.05, 1.0, 0.05]), jnp.array([0.5, 0.05, 0.5, 0.05])
    rates = numpyro.sample("rates", dist.TruncatedNormal(center, spread, low=0.0))
    start = numpyro.sample("start", dist.LogNormal(jnp.log(10.0), 1.0).expand([2]))
    scale = numpyro.sample("scale", dist.LogNormal(-1.0, 1.0).expand([2]))
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Tsit5(), times[0], times[-1], 0.1, start, rates, saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(1e-6, 1e-9), adjoint=diffrax.ForwardMode(), max_steps=1000, throw=False,
    )  # fmt: skip
    path = jnp.where(jnp.isfinite(solution.ys) & (solution.ys > 0), solution.ys, 1e-10)
    numpyro.sample("pelts", dist.LogNormal(jnp.log(path), scale), obs=pelts)


def main(arrays, options):
    kernel = NUTS(model, init_strategy=init_to_median, forward_mode_differentiation=True, dense_mass=True)
    smallest, r_hats, seconds, means = [], [], [], []
    mcmc = MCMC(kernel, num_warmup=500, num_samples=500, num_chains=4, chain_method="sequential", progress_bar=False)
    data = jnp.asarray(arrays["times"]), jnp.asarray(arrays["pelts"])
    mcmc.run(jax.random.key(1000), *data)  # compiles
    for seed in range(int(options["seeds"])):
        begin = time.process_time()
        mcmc.run(jax.random.key(seed), *data)
        draws = mcmc.get_samples(group_by_chain=True)
        stacked = np.concatenate([np.asarray(draws[name]) for name in ("rates", "start", "scale")], axis=-1)
        seconds.append(time.process_time() - begin)
        columns = [stacked[..., i] for i in range(8)]
        smallest.append(min(effective_sample_size(x) for x in columns))
        r_hats.append(max(split_gelman_rubin(x) for x in columns))
        means.append(stacked.mean((0, 1)))
    return {
        "ess": np.array(smallest),
        "r_hat": np.array(r_hats),
        "cpu": np.array(seconds),
        "means": np.array(means),
    }, {}


if __name__ == "__main__":
    _harness.serve(main)
