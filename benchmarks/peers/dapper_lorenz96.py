"""DAPPER on Lorenz-96, with given truths and observations."""

import inspect
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

import _harness
import dapper as dpr
import dapper.da_methods as methods
import dapper.tools.progressbar as progressbar
import numpy as np
from dapper.da_methods import variational
from dapper.mods.Lorenz96.sakov2008 import HMM

dpr.rc.liveplotting = False
progressbar.disable_progbar = True


def mended_four_dimensional():
    """`Var4D`, which calls the operator of observations of a time once, not twice."""
    source = inspect.getsource(variational)
    source = source.replace("Obs(ko).linear(x) @ X", "Obs.linear(x) @ X").replace("xo = Obs(ko)(x)", "xo = Obs(x)")
    exec(compile(source, variational.__file__, "exec"), variational.__dict__)
    return variational.Var4D


def main(arrays, options):
    name = options["method"]
    HMM.tseq.dko = round(options["interval"] / 0.05)
    HMM.tseq.Ko = arrays["observed"].shape[1] - 1
    HMM.tseq.BurnIn = options["settling"]
    errors, costs = [], []
    for seed, (states, observed) in enumerate(zip(arrays["states"], arrays["observed"])):
        dpr.set_seed(1 + seed)
        method = {
            "enkf": lambda: methods.EnKF("PertObs", N=40, infl=1.06),
            "etkf": lambda: methods.EnKF("Sqrt", N=24, infl=1.02, rot=True),
            "letkf": lambda: methods.LETKF(N=7, rot=True, infl=1.04, loc_rad=4),
        }.get(name, lambda: mended_four_dimensional()(Lag=int(name[-1]), xB=options["share"]))()
        begun = time.process_time()
        method.assimilate(HMM, states, observed, liveplots=False)
        costs.append((time.process_time() - begun) / len(observed))
        errors.append(float(np.mean(method.stats.err.rms.a[HMM.tseq.masko])))
    return {"errors": np.array(errors), "costs": np.array(costs)}, {}


_harness.serve(main)
