"""Styles of LAMMPS for bonds, angles, dihedrals and impropers, as formulas with named numbers."""

from collections.abc import Mapping
from typing import NamedTuple


class Style(NamedTuple):
    """A formula, the numbers of a line of coefficients in their order, and those of them that are angles in degrees.

    `more`: names of the numbers of further lines by the word that begins these.
    """

    formula: str
    names: tuple[str, ...]
    degrees: tuple[str, ...] = ()
    more: Mapping[str, tuple[str, ...]] = {}


_FENE = (
    "-k*R0^2*log(1 - (d/R0)^2)/2 + select(step(2^(1/6)*sigma - d), 4*epsilon*((sigma/d)^12 - (sigma/d)^6) + epsilon, 0)"
)
_QUARTIC = (
    "k*d^2*(d - b1)*(d - b2) + u0 + select(step(1.122462048309373 - r), 4*(1/r^12 - 1/r^6) + 1, 0); d = min(r - rc, 0)"
)
_ENDS = "; u = distance(p1, p2); v = distance(p2, p3)"
_CROSSED = "m*(u - r1)*(v - r2) + (n1*(u - r3) + n2*(v - r4))*d; d = theta - theta0" + _ENDS
_CROSSES = {"bb": ("m", "r1", "r2"), "ba": ("n1", "n2", "r3", "r4")}
_SHIFTED_EXP = "-depth*(exp(a*(1 + cos(theta - theta0))/2) - 1)/(exp(a) - 1)"


def _over_plane(name: str, centre: int, a: int, b: int, axis: int) -> str:
    """Definitions of the sine of the angle between an axis and a plane, both through the centre."""
    side = lambda c, atom: f"({c}{atom} - {c}{centre})"
    normal = {
        "x": f"{side('y', a)}*{side('z', b)} - {side('z', a)}*{side('y', b)}",
        "y": f"{side('z', a)}*{side('x', b)} - {side('x', a)}*{side('z', b)}",
        "z": f"{side('x', a)}*{side('y', b)} - {side('y', a)}*{side('x', b)}",
    }
    parts = [f"n{c}{name} = {text}" for c, text in normal.items()]
    dot = " + ".join(f"n{c}{name}*{side(c, axis)}" for c in "xyz")
    square = "(" + " + ".join(f"n{c}{name}^2" for c in "xyz") + ")"
    return "; ".join(["", *parts, f"{name} = ({dot})/sqrt({square})/distance(p{centre}, p{axis})"])


def _rise(name: str, centre: int, a: int, b: int, axis: int) -> str:
    """Definitions of the sine and of the cosine of that angle, beyond 90 degrees where the axis leans to both others."""
    lean = f"cos(angle(p{a}, p{centre}, p{axis})) + cos(angle(p{b}, p{centre}, p{axis}))"
    return f"{_over_plane(name, centre, a, b, axis)}; c{name} = sqrt(1 - {name}^2)*select(step({lean}), -1, 1)"


def _height(apex: int, a: int, b: int, c: int) -> str:
    """Definition of the distance `d` of an atom from the plane of three others."""
    return f"{_over_plane('sine', a, b, c, apex)}; d = sine*distance(p{a}, p{apex})"


_TURNS = ("cos(theta)", "cos(2*theta)", "cos(3*theta)")
_turned = lambda letter: "(" + " + ".join(f"{letter}{i + 1}*{turn}" for i, turn in enumerate(_TURNS)) + ")"
_CLASS2 = (
    " + ".join(f"k{n}*(1 - cos({n}*theta - phi{n}))" for n in (1, 2, 3))
    + f" + (v - r2)*{_turned('a')} + (u - r1)*{_turned('b')} + (w - r3)*{_turned('c')}"
    + f" + (f - theta1)*{_turned('d')} + (g - theta2)*{_turned('e')} + m*(f - theta3)*(g - theta4)*cos(theta)"
    + " + n*(u - r4)*(w - r5)"
    + _ENDS
    + "; w = distance(p3, p4); f = angle(p1, p2, p3); g = angle(p2, p3, p4)"
)

STYLES: Mapping[str, Mapping[str, Style]] = {
    "bond": {
        "harmonic": Style("k*(r - r0)^2", ("k", "r0")),
        "morse": Style("depth*(1 - exp(-a*(r - r0)))^2", ("depth", "a", "r0")),
        "fene": Style(f"{_FENE}; d = r", ("k", "R0", "epsilon", "sigma")),
        "fene/expand": Style(f"{_FENE}; d = r - delta0", ("k", "R0", "epsilon", "sigma", "delta0")),
        "class2": Style("k2*d^2 + k3*d^3 + k4*d^4; d = r - r0", ("r0", "k2", "k3", "k4")),
        "gromos": Style("k*(r^2 - r0^2)^2", ("k", "r0")),
        "nonlinear": Style("epsilon*(r - r0)^2/(reach^2 - (r - r0)^2)", ("epsilon", "r0", "reach")),
        "harmonic/shift": Style("depth/(r0 - rc)^2*((r - r0)^2 - (rc - r0)^2)", ("depth", "r0", "rc")),
        "harmonic/shift/cut": Style(
            "select(step(rc - r), depth/(r0 - rc)^2*((r - r0)^2 - (rc - r0)^2), 0)", ("depth", "r0", "rc")
        ),
        "mm3": Style("k*d^2*(1 - 2.55*d + 7/12*(2.55*d)^2); d = r - r0", ("k", "r0")),
        "quartic": Style(_QUARTIC, ("k", "b1", "b2", "rc", "u0")),
        "fene/nm": Style(
            "-k*R0^2*log(1 - (r/R0)^2)/2 + select(step(r0 - r), epsilon/(n - m)*(m*(r0/r)^n - n*(r0/r)^m), 0)",
            ("k", "R0", "epsilon", "r0", "n", "m"),
        ),
    },
    "angle": {
        "harmonic": Style("k*(theta - theta0)^2", ("k", "theta0"), ("theta0",)),
        "charmm": Style(
            "k*(theta - theta0)^2 + kub*(distance(p1, p3) - rub)^2", ("k", "theta0", "kub", "rub"), ("theta0",)
        ),
        "mm3": Style(
            "k*d^2*(1 - 0.802141*d + 0.183837*d^2 - 0.131664*d^3 + 0.237090*d^4); d = theta - theta0",
            ("k", "theta0"),
            ("theta0",),
        ),
        "cosine": Style("k*(1 + cos(theta))", ("k",)),
        "cosine/squared": Style("k*(cos(theta) - cos(theta0))^2", ("k", "theta0"), ("theta0",)),
        "cosine/squared/restricted": Style("k*(cos(theta) - cos(theta0))^2/sin(theta)^2", ("k", "theta0"), ("theta0",)),
        "cosine/delta": Style("k*(1 - cos(theta - theta0))", ("k", "theta0"), ("theta0",)),
        "cosine/periodic": Style("2*c/n^2*(1 - b*cos(3.141592653589793*n)*cos(n*theta))", ("c", "b", "n")),
        "cosine/shift": Style("-depth/2*(1 + cos(theta - theta0))", ("depth", "theta0"), ("theta0",)),
        "fourier": Style("k*(c0 + c1*cos(theta) + c2*cos(2*theta))", ("k", "c0", "c1", "c2")),
        "fourier/simple": Style("k*(1 + c*cos(n*theta))", ("k", "c", "n")),
        "quartic": Style("k2*d^2 + k3*d^3 + k4*d^4; d = theta - theta0", ("theta0", "k2", "k3", "k4"), ("theta0",)),
        "cosine/shift/exp": Style(_SHIFTED_EXP, ("depth", "theta0", "a"), ("theta0",)),
        "cross": Style(
            f"kss*(u - r1)*(v - r2) + (k1*(u - r1) + k2*(v - r2))*(theta - theta0){_ENDS}",
            ("kss", "k1", "k2", "r1", "r2", "theta0"),
            ("theta0",),
        ),
        "class2": Style(f"k2*d^2 + k3*d^3 + k4*d^4 + {_CROSSED}", ("theta0", "k2", "k3", "k4"), ("theta0",), _CROSSES),
        "class2/p6": Style(
            f"k2*d^2 + k3*d^3 + k4*d^4 + k5*d^5 + k6*d^6 + {_CROSSED}",
            ("theta0", "k2", "k3", "k4", "k5", "k6"),
            ("theta0",),
            _CROSSES,
        ),
    },
    "dihedral": {
        "harmonic": Style("k*(1 + d*cos(n*theta))", ("k", "d", "n")),
        "charmm": Style("k*(1 + cos(n*theta - phase))", ("k", "n", "phase"), ("phase",)),
        "charmmfsw": Style("k*(1 + cos(n*theta - phase))", ("k", "n", "phase"), ("phase",)),
        "opls": Style(
            "(k1*(1 + cos(theta)) + k2*(1 - cos(2*theta)) + k3*(1 + cos(3*theta)) + k4*(1 - cos(4*theta)))/2",
            ("k1", "k2", "k3", "k4"),
        ),
        "multi/harmonic": Style("a1 + a2*c + a3*c^2 + a4*c^3 + a5*c^4; c = cos(theta)", ("a1", "a2", "a3", "a4", "a5")),
        "helix": Style(
            "a*(1 - cos(theta)) + b*(1 + cos(3*theta)) + c*(1 + cos(theta + 0.7853981633974483))", ("a", "b", "c")
        ),
        "quadratic": Style(
            "k*d^2; d = g - 6.283185307179586*floor((g + 3.141592653589793)/6.283185307179586); g = theta - theta0",
            ("k", "theta0"),
            ("theta0",),
        ),
        "cosine/shift/exp": Style(_SHIFTED_EXP, ("depth", "theta0", "a"), ("theta0",)),
        "class2": Style(
            _CLASS2,
            ("k1", "phi1", "k2", "phi2", "k3", "phi3"),
            ("phi1", "phi2", "phi3", "theta1", "theta2", "theta3", "theta4"),
            {
                "mbt": ("a1", "a2", "a3", "r2"),
                "ebt": ("b1", "b2", "b3", "c1", "c2", "c3", "r1", "r3"),
                "at": ("d1", "d2", "d3", "e1", "e2", "e3", "theta1", "theta2"),
                "aat": ("m", "theta3", "theta4"),
                "bb13": ("n", "r4", "r5"),
            },
        ),
    },
    "improper": {
        "ring": Style(
            "k/6*(cos(angle(p1, p2, p4)) + cos(angle(p1, p2, p3)) + cos(angle(p3, p2, p4)) + 3*cos(theta0))^6",
            ("k", "theta0"),
            ("theta0",),
        ),
        "umbrella": Style(
            "k*select(sin(omega0), (cs - cos(omega0))^2/(2*select(sin(omega0), sin(omega0), 1)^2), 1 - cs)"
            + _rise("s", 1, 2, 3, 4),
            ("k", "omega0"),
            ("omega0",),
        ),
        "inversion/harmonic": Style(
            "k*((asin(abs(s)) - omega0)^2 + (asin(abs(t)) - omega0)^2 + (asin(abs(q)) - omega0)^2)/3"
            + _over_plane("s", 1, 2, 3, 4)
            + _over_plane("t", 1, 3, 4, 2)
            + _over_plane("q", 1, 4, 2, 3),
            ("k", "omega0"),
            ("omega0",),
        ),
        "fourier": Style(
            "k*(e1 + every*(e2 + e3))"
            + "".join(f"; e{i} = c0 + c1*cs{i} + c2*(1 - 2*s{i}^2)" for i in (1, 2, 3))
            + _rise("s1", 1, 2, 3, 4)
            + _rise("s2", 1, 3, 4, 2)
            + _rise("s3", 1, 4, 2, 3),
            ("k", "c0", "c1", "c2", "every"),
        ),
        "distance": Style("k2*d^2 + k4*d^4" + _height(1, 2, 3, 4), ("k2", "k4")),
        "distharm": Style("k*(abs(d) - d0)^2" + _height(1, 2, 3, 4), ("k", "d0")),
        "sqdistharm": Style("k*(d^2 - d0)^2" + _height(1, 2, 3, 4), ("k", "d0")),
        "class2": Style(
            "k*((asin(s) + asin(t) + asin(q))/3 - chi0)^2 + m1*(a - theta1)*(c - theta3) + m2*(a - theta1)*(b - theta2)"
            " + m3*(b - theta2)*(c - theta3); a = angle(p1, p2, p3); b = angle(p1, p2, p4); c = angle(p3, p2, p4)"
            + _over_plane("s", 2, 1, 3, 4)
            + _over_plane("t", 2, 3, 4, 1)
            + _over_plane("q", 2, 4, 1, 3),
            ("k", "chi0"),
            ("chi0", "theta1", "theta2", "theta3"),
            {"aa": ("m1", "m2", "m3", "theta1", "theta2", "theta3")},
        ),
        "harmonic": Style("k*(abs(theta) - chi0)^2", ("k", "chi0"), ("chi0",)),
        "cvff": Style("k*(1 + d*cos(n*theta))", ("k", "d", "n")),
    },
}
"""Kind of term -> name of a style -> its formula; angles in radians, a dihedral of 0 being cis."""


class Series(NamedTuple):
    """A style whose lines say how many terms follow.

    - `term`: the formula of term `{i}`, or of the name `g{i}` where `definitions` define that.
    - `names`: the numbers of a term, the amplitude first: terms that other types have more are repeated with an amplitude of 0.
    - `degrees`: those of them that are angles in degrees.
    - `head`: the numbers before the count.
    - `whole`: the formula, in which `{sum}` stands for the sum of terms and `{least}` for the least of the names `e{i}`.
    - `definitions`: of each term.
    """

    term: str
    names: tuple[str, ...]
    degrees: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    whole: str = "{sum}"
    definitions: str = ""


def _gaussians(variable: str) -> Series:
    """Minus kT times the logarithm of a sum of Gaussians; the largest exponential is taken out, so that no sum is 0."""
    return Series(
        "g{i}",
        ("A{i}", "w{i}", "c{i}"),
        ("c",) if variable == "theta" else (),
        ("T",),
        "T*(least - log({sum})); least = {least}",
        f"; e{{i}} = 2*(({variable} - c{{i}})/w{{i}})^2; g{{i}} = A{{i}}/(w{{i}}*1.2533141373155003)*exp(least - e{{i}})",
    )


SERIES: Mapping[str, Series] = {
    "bond gaussian": _gaussians("r"),
    "angle gaussian": _gaussians("theta"),
    "dihedral fourier": Series("k{i}*(1 + cos(n{i}*theta - d{i}))", ("k{i}", "n{i}", "d{i}"), ("d",)),
    "dihedral nharmonic": Series("a{i}*cos(theta)^{power}", ("a{i}",)),
    "dihedral spherical": Series(
        "c{i}*(u{i} - cos(n{i}*(theta - a{i})))*(v{i} - cos(l{i}*(f - b{i})))*(w{i} - cos(m{i}*(g - d{i})))",
        ("c{i}", "n{i}", "a{i}", "u{i}", "l{i}", "b{i}", "v{i}", "m{i}", "d{i}", "w{i}"),
        ("a", "b", "d"),
        whole="{sum}; f = angle(p1, p2, p3); g = angle(p2, p3, p4)",
    ),
}
"""Styles of as many terms as a number of their lines says. A temperature `T` is taken times Boltzmann's constant."""
