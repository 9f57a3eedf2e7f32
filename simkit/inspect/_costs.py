"""Costs of one operation: floating-point operations, transcendental functions, bytes."""

import math
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import JaxprEqn, Literal, Var

from ._program_blocks import Block, shape_of


class Cost(NamedTuple):
    """Floating-point operations, how many of them are transcendental functions, and bytes read and written."""

    flops: float = 0.0
    transcendentals: float = 0.0
    bytes: float = 0.0

    def plus(self, other: "Cost", times: float = 1.0) -> "Cost":
        return Cost(*(a + times * b for a, b in zip(self, other, strict=True)))


ARITHMETIC = {"add": 1, "add_any": 1, "sub": 1, "mul": 1, "div": 1, "rem": 1, "max": 1, "min": 1, "sqrt": 1, "rsqrt": 1}
ARITHMETIC |= {"square": 1, "nextafter": 1, "clamp": 2}
OF_COMPLEX = {"add": 2, "add_any": 2, "sub": 2, "mul": 6, "div": 11, "square": 5}
TRANSCENDENTAL = {
    *(
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "log2",
        "pow",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "atan2",
        "sinh",
        "cosh",
    ),
    *(
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "logistic",
        "cbrt",
        "erf",
        "erfc",
        "erf_inv",
        "lgamma",
        "digamma",
        "polygamma",
        "igamma",
    ),
    *("igammac", "zeta", "bessel_i0e", "bessel_i1e", "regularized_incomplete_beta", "random_gamma_grad"),
}
SUMS = {
    "reduce_sum",
    "reduce_prod",
    "reduce_max",
    "reduce_min",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "cumlogsumexp",
}

FUSED = {
    *ARITHMETIC,
    *TRANSCENDENTAL,
    *(
        "neg",
        "sign",
        "abs",
        "floor",
        "ceil",
        "round",
        "is_finite",
        "not",
        "and",
        "or",
        "xor",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    ),
    *(
        "select_n",
        "convert_element_type",
        "broadcast_in_dim",
        "reshape",
        "squeeze",
        "expand_dims",
        "transpose",
        "rev",
        "iota",
    ),
    *(
        "integer_pow",
        "slice",
        "pad",
        "concatenate",
        "real",
        "imag",
        "complex",
        "conj",
        "copy",
        "copy_p",
        "stop_gradient",
    ),
    *(
        "shift_left",
        "shift_right_logical",
        "shift_right_arithmetic",
        "bitcast_convert_type",
        "reduce_precision",
        "split",
    ),
    *(
        "optimization_barrier",
        "pvary",
        "reduce_and",
        "reduce_or",
        "reduce_sum",
        "reduce_max",
        "reduce_min",
        "reduce_prod",
    ),
}
"""Operations that a compiler makes together with their neighbours, so that values between them never reach memory."""


def cost_of(equation: JaxprEqn) -> Cost:
    """The arithmetic of one equation without blocks of its own; bytes are counted for a block, by `bytes_of`.

    Additions, products, quotients, square roots, comparisons for a largest or smallest number and transcendental functions count
    as one operation each; signs, choices, conversions and integers count nothing. Of complex numbers a sum is 2 and a product 6.
    A transform of length n is 5 n log2 n, or half of that where one side is real.
    """
    name, out = equation.primitive.name, equation.outvars[0] if equation.outvars else None
    kind = _kind(None if out is None else out.aval)
    if name == "fft":
        return Cost(_transform(equation))
    if kind not in "fc" or out is None:
        return Cost()
    size = math.prod(shape_of(out))
    if name in ARITHMETIC:
        each = OF_COMPLEX.get(name, ARITHMETIC[name]) if kind == "c" else ARITHMETIC[name]
        return Cost(each * size)
    if name in TRANSCENDENTAL:
        return Cost(size, size)
    if name == "integer_pow":
        return Cost(size * _products(equation.params["y"]) * (6 if kind == "c" else 1))
    if name in SUMS:
        terms = math.prod(shape_of(equation.invars[0]))
        return Cost((terms - size if name.startswith("reduce") else terms) * (2 if kind == "c" else 1))
    if name == "dot_general":
        return Cost(_product(equation) * (8 if kind == "c" else 2))
    if name in OTHERS:
        return Cost(OTHERS[name](equation) * (4 if kind == "c" else 1))
    return Cost()


def bytes_of(block: Block) -> dict[int, float]:
    """Bytes that each equation of a block reads and writes where everything is fused that can be.

    A value counts where it comes into a run of fused operations and where it leaves one; what only passes between fused operations
    does not. Reads of a few rows of an array count those rows.
    """
    jaxpr = block.jaxpr
    fused: set[Any] = set()  # values made by a fused operation and not yet written
    for place, equation in enumerate(jaxpr.eqns):
        if place not in block.inner and equation.primitive.name in FUSED:
            fused.update(equation.outvars)
    leaving = {atom for atom in jaxpr.outvars if not isinstance(atom, Literal)}
    for place, equation in enumerate(jaxpr.eqns):
        if place in block.inner or equation.primitive.name not in FUSED:
            leaving.update(atom for atom in equation.invars if not isinstance(atom, Literal))
    read: set[Any] = set()
    found = {}
    for place, equation in enumerate(jaxpr.eqns):
        if place in block.inner:  # its blocks count their own
            continue
        if equation.primitive.name in FUSED:
            new = {atom for atom in equation.invars if not isinstance(atom, Literal)} - fused - read
            read |= new
            found[place] = sum(map(_size, new), 0.0) + sum(_size(v) for v in equation.outvars if v in leaving)
        else:
            found[place] = _moved(equation)
    return found


def _moved(equation: JaxprEqn) -> float:
    name = equation.primitive.name
    written = sum(map(_size, equation.outvars), 0.0)
    if name in ("gather", "dynamic_slice"):
        return 2 * written + sum(_size(x) for x in equation.invars[1:])
    if name == "dynamic_update_slice":
        return 2 * _size(equation.invars[1])
    if name.startswith("scatter"):
        return 3 * _size(equation.invars[2]) + _size(equation.invars[1])
    return written + sum(map(_size, equation.invars))


def _size(atom: Var | Literal) -> float:
    aval: Any = atom.aval
    if not hasattr(aval, "shape"):  # a token
        return 0.0
    itemsize = getattr(aval.dtype, "itemsize", 8)
    return float(math.prod(aval.shape) * itemsize)


def _kind(aval: object) -> str:
    dtype = getattr(aval, "dtype", None)
    if dtype is None:
        return "-"
    try:
        return "f" if str(dtype) == "bfloat16" else np.dtype(dtype).kind
    except TypeError:
        return "-"


def _products(power: int) -> int:
    """Products that a whole power takes by squaring, and the quotient of a negative one."""
    n = abs(power)
    return max(n.bit_length() - 1 + bin(n).count("1") - 1, 0) + (power < 0)


def _transform(equation: JaxprEqn) -> float:
    lengths, kind = equation.params["fft_lengths"], str(equation.params["fft_type"]).upper()
    real = "RFFT" in kind
    whole = equation.outvars[0] if "IRFFT" in kind else equation.invars[0]
    points = math.prod(shape_of(whole))
    return (2.5 if real else 5.0) * points * math.log2(max(math.prod(lengths), 1))


def _product(equation: JaxprEqn) -> float:
    ((of_left, _), _) = equation.params["dimension_numbers"]
    left = shape_of(equation.invars[0])
    return float(math.prod(shape_of(equation.outvars[0]))) * math.prod(left[axis] for axis in of_left)


def _convolution(equation: JaxprEqn) -> float:
    kernel = shape_of(equation.invars[1])
    numbers = equation.params["dimension_numbers"]
    inputs = kernel[numbers.rhs_spec[1]] * math.prod(kernel[axis] for axis in numbers.rhs_spec[2:])
    return 2.0 * math.prod(shape_of(equation.outvars[0])) * inputs


def _factorisation(weight: float) -> Any:
    """Return the cost of a factorisation of an m by n matrix: weight m n min(m, n), at leading order."""

    def flops(equation: JaxprEqn) -> float:
        *batch, m, n = shape_of(equation.invars[0])
        return weight * math.prod(batch) * m * n * min(m, n)

    return flops


def _window(equation: JaxprEqn) -> float:
    return float(math.prod(shape_of(equation.outvars[0]))) * math.prod(equation.params["window_dimensions"])


OTHERS = {
    "conv_general_dilated": _convolution,
    "cholesky": _factorisation(1 / 3),
    "lu": _factorisation(2 / 3),
    "geqrf": _factorisation(4 / 3),
    "householder_product": _factorisation(4 / 3),
    "eigh": _factorisation(9.0),
    "eig": _factorisation(25.0),
    "svd": _factorisation(22.0),
    "triangular_solve": lambda e: float(math.prod(shape_of(e.invars[1])) * shape_of(e.invars[0])[-1]),
    "scatter-add": lambda e: float(math.prod(shape_of(e.invars[2]))),
    "scatter_add": lambda e: float(math.prod(shape_of(e.invars[2]))),
    "reduce_window_sum": _window,
    "reduce_window_max": _window,
    "reduce_window": _window,
}
