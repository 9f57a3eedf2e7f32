"""Networks of BioNetGen as jump processes: laws count pairs, and means are those of exact sums over states."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from helpers import mean_within

import simkit

TEXT = """
begin parameters
    1 bind 0.1
    2 leave 0.4
end parameters
begin functions
    1 slowed() leave/(1 + Pairs)
end functions
begin species
    1 A() 7
    2 B() 0
    3 $C() 2
end species
begin reactions
    1 1,1 2 0.5*bind
    2 2 1,1 slowed
    3 3,1 3,1 bind
end reactions
begin groups
    1 Pairs 2
end groups
"""


def test_dimers(tmp_path):
    path = tmp_path / "dimers.net"
    path.write_text(TEXT)
    system = simkit.networks.load(path).as_jumps()
    start = system.start()
    rates = system.propensities(0.0, start, None)
    assert {name: float(x) for name, x in rates.items()} == {"reaction 1": 0.5 * 0.1 * 7 * 6, "reaction 2": 0.0}
    assert float(system.outputs(0.0, start, None)["Pairs"]) == 0
    found = simkit.ensemble(system, start, [0.0, 2.0], over={"bind": jnp.full(600, 0.1)}, key=jax.random.key(0))
    # The exact chances of 0 to 3 pairs, by the generator of the process.
    pairs = np.arange(4)
    up, down = 0.05 * (7 - 2 * pairs) * (6 - 2 * pairs), 0.4 * pairs / (1 + pairs)
    generator = np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    generator -= np.diag(generator.sum(axis=1))
    chance = scipy.linalg.expm(2.0 * generator)[0]
    assert mean_within(found.ys["B()"][:, -1], float(chance @ pairs))
    assert (found.ys["A()"] + 2 * found.ys["B()"] == 7).all()
