"""The Lorenz ensemble in torchode: Tsit5 with a step of its own for each member, on one thread."""

import time

import _harness
import numpy as np
import torch
import torchode


def main(arrays, options):
    torch.set_num_threads(1)
    end, tolerance = options["end"], options["tolerance"]
    y0, rho = torch.from_numpy(arrays["y0"]), torch.from_numpy(arrays["p"][:, 0])

    def field(t, y):
        a, b, c = y.unbind(-1)
        return torch.stack([10.0 * (b - a), a * (rho - c) - b, a * b - 8.0 / 3.0 * c], dim=-1)

    term = torchode.ODETerm(field)
    controller = torchode.IntegralController(atol=tolerance, rtol=tolerance, term=term)
    solver = torchode.AutoDiffAdjoint(torchode.Tsit5(term=term), controller)
    times = torch.tensor([0.0, end], dtype=y0.dtype).expand(len(y0), 2).contiguous()
    problem = torchode.InitialValueProblem(y0=y0, t_eval=times)
    found = {}
    for name, solve in {"eager": solver.solve, "compiled": torch.compile(solver.solve)}.items():
        with torch.no_grad():
            try:
                answer = solve(problem)
            except Exception as error:  # the compiler's limits are no reason to drop the peer
                if name == "eager":
                    raise
                print(f"torchode does not compile here: {type(error).__name__}", flush=True)
                continue
            spent = []
            for _ in range(options["samples"]):
                began = time.process_time()
                answer = solve(problem)
                spent.append(time.process_time() - began)
        found |= {f"{name}.y": answer.ys[:, -1].numpy(), f"{name}.cpu": np.array(spent)}
        found |= {f"{name}.steps": answer.stats["n_steps"].numpy()}
    return found, {}


if __name__ == "__main__":
    _harness.serve(main)
