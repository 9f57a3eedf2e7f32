"""NumPy with pyFFTW: the decaying plane flow of `fluids.py` by the classical Runge-Kutta method, with five transforms."""

import time

import _harness
import numpy as np
import pyfftw


def main(arrays, options):
    real = np.dtype(options["precision"])
    start = arrays["start"].astype(real)
    n, m = start.shape
    complex_type = np.result_type(real, np.complex64)
    effort = {"planner_effort": "FFTW_MEASURE", "threads": 1}
    forward = pyfftw.builders.rfft2(pyfftw.empty_aligned((n, m), real), **effort)
    backward = pyfftw.builders.irfft2(pyfftw.empty_aligned((n, m // 2 + 1), complex_type), s=(n, m), **effort)
    kx, ky = np.fft.fftfreq(n, 1 / n)[:, None].astype(real), np.arange(m // 2 + 1)[None].astype(real)
    square = kx**2 + ky**2
    inverse = np.divide(1, square, out=np.zeros_like(square), where=square > 0)
    kept = (np.abs(kx) <= (n - 1) // 3) & (ky <= (m - 1) // 3)
    damping = (options["viscosity"] * square + options["drag"]).astype(real)

    def slope(w):
        u, v = (backward(f).copy() for f in (1j * ky * inverse * w, -1j * kx * inverse * w))
        wx, wy = (backward(f).copy() for f in (1j * kx * w, 1j * ky * w))
        return (-(kept * forward(u * wx + v * wy)) - damping * w).astype(complex_type)

    def step(w, h):
        a = slope(w)
        b = slope(w + h / 2 * a)
        c = slope(w + h / 2 * b)
        d = slope(w + h * c)
        return (w + h / 6 * (a + 2 * b + 2 * c + d)).astype(complex_type)

    modes, spent = (kept * forward(start)).astype(complex_type), []
    for _ in range(options["samples"]):
        w, began = modes, time.process_time()
        for _ in range(options["steps"]):
            w = step(w, real.type(options["step"]))
        spent.append((time.process_time() - began) / options["steps"])
    return {"end": backward(w).copy(), "spent": np.array(spent)}, {"pyfftw": pyfftw.__version__}


if __name__ == "__main__":
    _harness.serve(main)
