"""Problems of a test set in SUNDIALS' CVODE and IDA and in SciPy's Radau, one tolerance after the other.

Each gets the field and its Jacobian as machine code: SymPy writes both out and differentiates exactly, Numba compiles them. Medical
Akzo Nobel is written out by hand with its band, which CVODE takes; Radau has a sparse Jacobian there. EMEP is solved in pieces,
from each turn of the day to the next.
"""

import itertools

import _harness
import numba
import numpy as np
import sympy
from _set_problems import PROBLEMS
from sympy.printing.pycode import PythonCodePrinter

MOST_SECONDS = 8.0


class Expressions:
    """The functions of NumPy that fields read, on SymPy's expressions."""

    exp, sin, cos = (staticmethod(np.vectorize(f, otypes=[object])) for f in (sympy.exp, sympy.sin, sympy.cos))
    sqrt, abs = (staticmethod(np.vectorize(f, otypes=[object])) for f in (sympy.sqrt, sympy.Abs))
    where, concatenate, stack = np.where, np.concatenate, np.stack
    ones, pi = np.ones, np.pi


def compiled(problem, day):
    """The functions `field(t, y, out)` and `jacobian(t, y, out)` as machine code."""
    n = len(problem.y0)
    t, states = sympy.Symbol("t", real=True), sympy.symbols(f"y:{n}", real=True)
    slopes = problem.field(Expressions, t, np.array(states, object), day)
    slopes = [sympy.sympify(x[()] if isinstance(x, np.ndarray) else x) for x in slopes]
    entries = {
        (i, states.index(s)): slope.diff(s)
        for i, slope in enumerate(slopes)
        for s in sorted(slope.free_symbols & set(states), key=str)
    }
    whole = written("field", {f"out[{i}]": slope for i, slope in enumerate(slopes)}, states)
    return whole, written("jacobian", {f"out[{i}, {j}]": entry for (i, j), entry in entries.items()}, states)


def written(name, results, states):
    """A compiled function that fills `out`."""
    printer = PythonCodePrinter({"fully_qualified_modules": True})
    shared, ends = sympy.cse(list(results.values()))
    lines = [f"{s} = y[{i}]" for i, s in enumerate(states)]
    lines += [f"{s} = {printer.doprint(x)}" for s, x in shared]
    lines += [f"{place} = {printer.doprint(x)}" for place, x in zip(results, ends, strict=True)]
    scope = {"math": __import__("math")}
    exec(f"def {name}(t, y, out):\n    " + "\n    ".join(lines), scope)  # text that SymPy printed
    return numba.njit(scope[name])


@numba.njit
def medical_field(t, y, out):
    """Medical Akzo Nobel, cell by cell."""
    n = 200
    outside = 2.0 if t <= 5.0 else 0.0
    for j in range(n):
        z = (j + 1) / n
        u, v = y[2 * j], y[2 * j + 1]
        used, spread = 100.0 * u * v, 0.0
        if j < n - 1:
            left = outside if j == 0 else y[2 * j - 2]
            right = y[2 * j + 2]
            spread = (z - 1) ** 4 / 16 * (left - 2 * u + right) * n**2 + (z - 1) ** 3 / 8 * (right - left) * (n / 2)
        out[2 * j], out[2 * j + 1] = spread - used, -used


@numba.njit
def medical_jacobian(t, y, out):
    """Its Jacobian, of two diagonals below and two above."""
    n = 200
    for j in range(n):
        z = (j + 1) / n
        beta, alpha = (z - 1) ** 4 / 16 * n**2, (z - 1) ** 3 / 8 * (n / 2)
        u, v = y[2 * j], y[2 * j + 1]
        if j == n - 1:
            beta = alpha = 0.0
        out[2 * j, 2 * j], out[2 * j, 2 * j + 1] = -2 * beta - 100 * v, -100 * u
        out[2 * j + 1, 2 * j], out[2 * j + 1, 2 * j + 1] = -100 * v, -100 * u
        if j > 0:
            out[2 * j, 2 * j - 2] = beta - alpha
        if j < n - 1:
            out[2 * j, 2 * j + 2] = beta + alpha


def sundials(problem, pieces, tolerance, banded):
    """CVODE, or IDA where there is a mass matrix."""
    from sksundae.cvode import CVODE
    from sksundae.ida import IDA

    options = {"rtol": tolerance, "atol": tolerance * problem.floor, "max_num_steps": 1_000_000}
    if problem.mass is None:
        how = {"linsolver": "band", "lband": 2, "uband": 2} if banded else {"linsolver": "dense"}
        solvers = []
        for _, _, field, jacobian in pieces:
            solvers.append(CVODE(of_time(field), method="BDF", jacfn=of_slopes(jacobian), **how, **options))

        def run():
            y = problem.y0
            for (begin, end, *_), solver in zip(pieces, solvers, strict=True):
                found = solver.solve(np.array([begin, end]), y)
                if not found.success:
                    raise ArithmeticError(found.message)
                y = found.y[-1]
            return y

        return run
    ((begin, end, field, jacobian),) = pieces
    mass = problem.mass
    diagonal = np.diag(mass)
    diagonal = np.ascontiguousarray(diagonal) if (np.diag(diagonal) == mass).all() else None
    residual, matrix = implicit(field, jacobian, mass, diagonal)
    slope = np.linalg.lstsq(mass, right_side(field, begin, problem.y0), rcond=None)[0]
    y = unwritable(problem.y0)
    residual(begin, y, unwritable(slope), np.zeros_like(y))
    matrix(begin, y, 1.0, np.zeros_like(mass))

    def filled(t, y, slope, left, c, out):
        matrix(t, y, c, out)

    solver = IDA(lambda t, y, slope, out: residual(t, y, slope, out), jacfn=filled, **options)

    def run():
        found = solver.solve(np.array([begin, end]), problem.y0, slope)
        if not found.success:
            raise ArithmeticError(found.message)
        return found.y[-1]

    return run


def of_time(field):
    """A field with the names of arguments that CVODE looks at."""
    return lambda t, y, out: field(t, y, out)


def of_slopes(jacobian):
    """The same of a Jacobian."""
    return lambda t, y, slope, out: jacobian(t, y, out)


def unwritable(y):
    """An array as SUNDIALS gives it, for which Numba compiles anew."""
    y = y.copy()
    y.flags.writeable = False
    return y


def right_side(field, t, y):
    out = np.zeros_like(y)
    field(t, y, out)
    return out


def implicit(field, jacobian, mass, diagonal):
    """The residual M y' - f and its matrix c M - J, compiled."""

    @numba.njit
    def residual(t, y, slope, out):
        field(t, y, out)
        for i in range(len(y)):
            out[i] = -out[i]
            for j in range(len(y)):
                out[i] += mass[i, j] * slope[j]

    @numba.njit
    def matrix(t, y, c, out):
        out[:] = 0.0
        jacobian(t, y, out)
        for i in range(len(y)):
            for j in range(len(y)):
                out[i, j] = c * mass[i, j] - out[i, j]

    return residual, matrix


def radau(problem, pieces, tolerance, banded):
    import scipy.integrate
    import scipy.sparse as sp

    n = len(problem.y0)

    def run():
        y = problem.y0
        for begin, end, field, jacobian in pieces:

            def slope(t, y, field=field):
                out = np.empty(n)
                field(t, y, out)
                return out

            def matrix(t, y, jacobian=jacobian):
                out = np.zeros((n, n))
                jacobian(t, y, out)
                return sp.csc_array(out) if banded else out

            options = {"rtol": tolerance, "atol": tolerance * problem.floor, "jac": matrix}
            found = scipy.integrate.solve_ivp(slope, (begin, end), y, "Radau", **options)
            if not found.success:
                raise ArithmeticError(found.message)
            y = found.y[:, -1]
        return y

    return run


def main(arrays, options):
    problem, name = PROBLEMS[options["problem"]](), options["problem"]
    banded = name == "medical Akzo Nobel"
    functions = [medical_functions()] if banded else [compiled(problem, 1.0)]
    if problem.turns:
        functions.append(compiled(problem, 0.0))
    ends = (problem.times[0], *problem.turns, problem.times[1])
    pieces = [(a, b, *functions[k % len(functions)]) for k, (a, b) in enumerate(itertools.pairwise(ends))]
    expected = np.asarray(problem.field(np, ends[0], problem.y0, 1.0), float)
    begun = right_side(pieces[0][2], ends[0], problem.y0)
    if not np.allclose(begun, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max()):
        raise AssertionError(f"The compiled field of {name} is another one: {begun} for {expected}.")
    for _, _, field, jacobian in pieces:
        for y in (problem.y0, unwritable(problem.y0)):
            field(ends[0], y, np.zeros_like(y))
            jacobian(ends[0], y, np.zeros((len(y), len(y))))
    peers = {"IDA": sundials} if problem.mass is not None else {"CVODE": sundials, "Radau": radau}
    found = {}
    for peer, make in peers.items():
        for tolerance in options["tolerances"]:
            run = make(problem, pieces, tolerance, banded)
            try:
                end, spent = _harness.least_cpu(run)
            except ArithmeticError as error:
                print(f"{name}: {peer} at {tolerance:g}: {error}", flush=True)
                continue
            found[f"{peer}:{tolerance:g}"] = np.array([problem.error(end), spent])
            if spent > MOST_SECONDS:
                break
    return found, {}


def medical_functions():
    return medical_field, medical_jacobian


if __name__ == "__main__":
    _harness.serve(main)
