"""The 27 nonlinear regression problems of NIST's Statistical Reference Datasets: their files read, their models written."""

import dataclasses
import pathlib
import re
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

FOLDER = pathlib.Path(__file__).parents[2] / "data" / "nist"

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


@dataclasses.dataclass(frozen=True)
class Problem:
    """One regression problem: y = model(x, b1, b2, ...) + error.

    - `text`: the model as NIST writes it.
    - `starts`: shape `(2, parameters)`, the far start and the near one.
    - `certified`, `standard_deviations`: shape `(parameters,)`, to 11 digits.
    - `last_digits`: shape `(parameters,)`, what one unit of a certified value's last printed digit is worth.
    - `residual_sum_of_squares`: its certified value, to 11 digits.
    - `x`: shape `(data,)`, or `(data, 2)` for the one problem with two predictors.
    - `y`: shape `(data,)`, the response that the model speaks of: for Nelson the logarithm of the measured one.
    """

    name: str
    text: str
    starts: np.ndarray
    certified: np.ndarray
    standard_deviations: np.ndarray
    last_digits: np.ndarray
    residual_sum_of_squares: float
    x: np.ndarray
    y: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """The parameter names b1, b2, ... in order."""
        return tuple(f"b{i + 1}" for i in range(len(self.certified)))

    @property
    def model(self) -> Callable:
        """The model as a function of x and the parameters by position or by name."""
        return MODELS[self.name]


def load(name: str) -> Problem:
    """The problem in `data/nist/NAME.dat`."""
    lines = (FOLDER / f"{name}.dat").read_text(encoding="ascii").splitlines()
    header, data = lines[:60], lines[60:]
    rows = [match.groups() for line in header if (match := _PARAMETER_ROW.match(line))]
    parameters = np.array([[float(word) for word in row] for row in rows])
    (residual,) = [float(line.split()[-1]) for line in header if line.startswith("Residual Sum of Squares")]
    table = np.array([[float(word) for word in line.split()] for line in data if line.strip()])
    response, predictors = table[:, 0], table[:, 1:]
    text = _model_text(header)
    return Problem(
        name=name,
        text=text,
        starts=parameters[:, :2].T,
        certified=parameters[:, 2],
        standard_deviations=parameters[:, 3],
        last_digits=np.array([_last_digit(row[2]) for row in rows]),
        residual_sum_of_squares=residual,
        x=predictors[:, 0] if predictors.shape[1] == 1 else predictors,
        y=np.log(response) if text.startswith("log[y]") else response,
    )


_PARAMETER_ROW = re.compile(r"\s*b\d\s*=" + rf"\s+({_NUMBER})" * 4 + r"\s*$")


def _model_text(header: list[str]) -> str:
    first = next(i for i, line in enumerate(header) if re.match(r"\s*(y|log\[y\])\s*=", line))
    last = next(i for i in range(first, len(header)) if re.search(r"\+\s*e\s*$", header[i]))
    return " ".join(" ".join(header[first : last + 1]).split())


def _last_digit(printed: str) -> float:
    mantissa, exponent = printed.upper().split("E")
    return 10.0 ** (int(exponent) - len(mantissa.split(".")[1]))


def _saturation(x, b1, b2):
    return b1 * (1 - jnp.exp(-b2 * x))


def _chwirut(x, b1, b2, b3):
    return jnp.exp(-b1 * x) / (b2 + b3 * x)


def _enso(x, b1, b2, b3, b4, b5, b6, b7, b8, b9):
    def wave(period, cosine, sine):
        angle = 2 * jnp.pi * x / period
        return cosine * jnp.cos(angle) + sine * jnp.sin(angle)

    return b1 + wave(12, b2, b3) + wave(b4, b5, b6) + wave(b7, b8, b9)


def _two_peaks(x, b1, b2, b3, b4, b5, b6, b7, b8):
    peaks = b3 * jnp.exp(-((x - b4) ** 2) / b5**2) + b6 * jnp.exp(-((x - b7) ** 2) / b8**2)
    return b1 * jnp.exp(-b2 * x) + peaks


def _three_exponentials(x, b1, b2, b3, b4, b5, b6):
    return b1 * jnp.exp(-b2 * x) + b3 * jnp.exp(-b4 * x) + b5 * jnp.exp(-b6 * x)


def _cubic_ratio(x, b1, b2, b3, b4, b5, b6, b7):
    return (b1 + b2 * x + b3 * x**2 + b4 * x**3) / (1 + b5 * x + b6 * x**2 + b7 * x**3)


MODELS: dict[str, Callable] = {
    "Bennett5": lambda x, b1, b2, b3: b1 * (b2 + x) ** (-1 / b3),
    "BoxBOD": _saturation,
    "Chwirut1": _chwirut,
    "Chwirut2": _chwirut,
    "DanWood": lambda x, b1, b2: b1 * x**b2,
    "ENSO": _enso,
    "Eckerle4": lambda x, b1, b2, b3: (b1 / b2) * jnp.exp(-0.5 * ((x - b3) / b2) ** 2),
    "Gauss1": _two_peaks,
    "Gauss2": _two_peaks,
    "Gauss3": _two_peaks,
    "Hahn1": _cubic_ratio,
    "Kirby2": lambda x, b1, b2, b3, b4, b5: (b1 + b2 * x + b3 * x**2) / (1 + b4 * x + b5 * x**2),
    "Lanczos1": _three_exponentials,
    "Lanczos2": _three_exponentials,
    "Lanczos3": _three_exponentials,
    "MGH09": lambda x, b1, b2, b3, b4: b1 * (x**2 + x * b2) / (x**2 + x * b3 + b4),
    "MGH10": lambda x, b1, b2, b3: b1 * jnp.exp(b2 / (x + b3)),
    "MGH17": lambda x, b1, b2, b3, b4, b5: b1 + b2 * jnp.exp(-x * b4) + b3 * jnp.exp(-x * b5),
    "Misra1a": _saturation,
    "Misra1b": lambda x, b1, b2: b1 * (1 - (1 + b2 * x / 2) ** -2),
    "Misra1c": lambda x, b1, b2: b1 * (1 - (1 + 2 * b2 * x) ** -0.5),
    "Misra1d": lambda x, b1, b2: b1 * b2 * x / (1 + b2 * x),
    "Nelson": lambda x, b1, b2, b3: b1 - b2 * x[..., 0] * jnp.exp(-b3 * x[..., 1]),
    "Rat42": lambda x, b1, b2, b3: b1 / (1 + jnp.exp(b2 - b3 * x)),
    "Rat43": lambda x, b1, b2, b3, b4: b1 / (1 + jnp.exp(b2 - b3 * x)) ** (1 / b4),
    "Roszman1": lambda x, b1, b2, b3, b4: b1 - b2 * x - jnp.arctan(b3 / (x - b4)) / jnp.pi,
    "Thurber": _cubic_ratio,
}
