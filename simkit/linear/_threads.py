"""One owner of the processor's threads: OpenBLAS keeps to the thread that calls it."""

import ctypes
import functools

NAMES = ("scipy_openblas_set_num_threads", "scipy_openblas_set_num_threads64_", "openblas_set_num_threads")
"""Names of the function in SciPy's own wheels and in other builds."""


@functools.cache
def one_thread() -> bool:
    """Have the LAPACK that JAX takes from SciPy use no threads of its own; whether it listened.

    A decomposition of some tens of rows already starts a thread of OpenBLAS on each core. They wait for work in loops, beside
    those of XLA, which do the same: on two cores a singular value decomposition of 46 columns took up to a hundred times as
    long. Called while a program with such a decomposition is traced; it holds for the whole process, `scipy.linalg` included.
    NumPy has a library of its own.
    """
    try:
        import scipy.linalg.cython_lapack as lapack

        library = ctypes.CDLL(lapack.__file__)  # with it come the names of the libraries that it is linked to
    except (ImportError, OSError):
        return False
    for name in NAMES:
        limit = getattr(library, name, None)
        if limit is not None:
            limit(1)
            return True
    return False  # another LAPACK, such as Apple's or Intel's
