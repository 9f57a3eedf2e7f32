"""Pair styles of LAMMPS as formulas with named numbers, and the rules by which numbers of two types are mixed."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

MIXED: Mapping[str, Callable[..., tuple[Any, Any]]] = {
    "geometric": lambda e, f, s, t: (np.sqrt(e * f), np.sqrt(s * t)),
    "arithmetic": lambda e, f, s, t: (np.sqrt(e * f), (s + t) / 2),
    "sixthpower": lambda e, f, s, t: (
        2 * np.sqrt(e * f) * s**3 * t**3 / (s**6 + t**6),
        ((s**6 + t**6) / 2) ** (1 / 6),
    ),
}
"""Depth and diameter of two types from those of each."""


class PairStyle(NamedTuple):
    """The energy of a pair by its distance `r`.

    - `formula`: in `r`, the numbers below, and the cutoff `rc` of the two types.
    - `names`: the numbers of a line of `pair_coeff` in their order; a cutoff may follow.
    - `mixed`: how each is mixed: "energy", "distance", "mean", "decay" (1 over the square of a distance), "smaller" or "larger" (of
        that type). Empty where every pair of types needs a line.
    - `arguments`: the numbers of `pair_style` before the cutoff.
    - `words`: words that may stand for numbers.
    - `reach`: the cutoff from `rc` and the numbers.
    - `rule`: the mixing rule that this style takes whatever is said.
    - `usual`: the mixing rule where none is said.
    - `special`: tell whether `special_bonds` weights pairs that are near along bonds.
    """

    formula: str
    names: tuple[str, ...]
    mixed: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    words: Mapping[str, tuple[float, ...]] = {}
    reach: str = "rc"
    rule: str | None = None
    usual: str = "geometric"
    special: bool = True


LJ, SIZES = ("epsilon", "sigma"), ("energy", "distance")
TWELVE_SIX = "4*epsilon*((sigma/r)^12 - (sigma/r)^6)"
MORSE = "depth*(exp(-2*a*(r - r0)) - 2*exp(-a*(r - r0)))"
MIE = "g/(g - h)*(g/h)^(h/(g - h))*epsilon*((sigma/r)^g - (sigma/r)^h)"
CHARMM = "select(step(r - ri), (rc^2 - r^2)^2*(rc^2 + 2*r^2 - 3*ri^2)/(rc^2 - ri^2)^3, 1)"
FORCE_SWITCHED = (
    "4*epsilon*sigma^6*select(step(r - ri), sigma^6*a*(1/r^6 - 1/rc^6)^2 - b*(1/r^3 - 1/rc^3)^2"
    ", sigma^6*(1/r^12 - 1/(ri*rc)^6) - 1/r^6 + 1/(ri*rc)^3); a = rc^6/(rc^6 - ri^6); b = rc^3/(rc^3 - ri^3)"
)
"""Lennard-Jones energy whose force falls to 0 between `ri` and `rc`, as CHARMM does it."""
SWITCH3 = "select(step(r - rc + width), ((rc - r)/width)^2*(3 - 2*(rc - r)/width), 1)"
"""The cubic switch of the styles `switch3`."""
TAPER = "select(step(r - ri), (1 - x)^3*(1 + 3*x + 6*x^2), 1); x = (r - ri)/(rc - ri)"


def switched(power: int, factor: str) -> str:
    """The energy `factor / r^power` brought to 0 with its force between `ri` and `rc`, by the polynomial in GROMACS' manual."""
    width, first, second = "(rc - ri)", f"{power}/rc^{power + 1}", f"{power * (power + 1)}/rc^{power + 2}"
    a = f"(3*{first} + {width}*{second})/{width}^2"
    b = f"(-2*{first} - {width}*{second})/{width}^3"
    c = f"(-1/rc^{power} - {width}*{first}/2 - {width}^2*{second}/12)"
    return f"{factor}*(1/r^{power} + {a}/3*max(r - ri, 0)^3 + {b}/4*max(r - ri, 0)^4 + {c})"


DAMPED = "exp(-x)*(1 + x + x^2/2); x = (GEWALD*r)^2"
DISPERSION: Mapping[str, tuple[str, str]] = {
    "lj/long": (f"4*epsilon*((sigma/r)^12 - (sigma/r)^6*d); d = {DAMPED}", "4*epsilon*sigma^6"),
    "buck/long": (f"A*exp(-r/rho) - C/r^6*d; d = {DAMPED}", "C"),
}
"""Pair styles whose attraction has no cutoff: the energy within the cutoff, in the damping `GEWALD`, and what r^6 divides."""

SCREENS = ((0.18175, 3.19980), (0.50986, 0.94229), (0.28022, 0.40290), (0.02817, 0.20162))
"""Weights and inverse lengths of the universal screening function of Ziegler, Biersack and Littmark."""


def _screened(power: int, r: str) -> str:
    """The screened 1/r, or its first or second derivative."""
    lever = ("1", f"-(k{{0}}*{r} + 1)", f"((k{{0}}*{r} + 1)^2 + 1)")[power]
    terms = [f"{weight}*exp(-k{i}*{r})*{lever.format(i)}" for i, (weight, _) in enumerate(SCREENS)]
    return f"(({' + '.join(terms)})/{r}^{power + 1})"


ZBL = (
    "charges*(u + a/3*x^3 + b/4*x^4 + c); x = max(r - ri, 0); w = rc - ri"
    f"; u = {_screened(0, 'r')}; v = {_screened(1, 'rc')}; v2 = {_screened(2, 'rc')}"
    f"; a = (-3*v + w*v2)/w^2; b = (2*v - w*v2)/w^3; c = -{_screened(0, 'rc')} + w*v/2 - w^2*v2/12"
    "; charges = COULOMB*z1*z2; k = (z1^0.23 + z2^0.23)/0.46850; "
    + "; ".join(f"k{i} = {length}*k" for i, (_, length) in enumerate(SCREENS))
)
CUBIC = (
    "select(step(rs - r), 4*epsilon*((sigma/r)^12 - (sigma/r)^6), u + t*v - a/6*t^3); t = r - rs; rs = sigma*(26/7)^(1/6)"
    "; x = 7/26; u = 4*epsilon*(x^2 - x); v = 24*epsilon*(x - 2*x^2)/rs; a = 8*v^3/(9*u^2)"
)
SMOOTH = (
    "select(step(ri - r), 4*epsilon*((sigma/r)^12 - (sigma/r)^6), u - t*(f + t*(g/2 + t*(c/3 + t*d/4)))); t = r - ri; w = rc - ri"
    "; s = (sigma/ri)^6; u = 4*epsilon*(s^2 - s); f = 24*epsilon*(2*s^2 - s)/ri; g = -24*epsilon*(26*s^2 - 7*s)/ri^2"
    "; c = -(3*f + 2*g*w)/w^2; d = (2*f + g*w)/w^3"
)
RELATIVE = (
    "select(step(r - ri), p0 - v*(p1 + v*(p2/2 + v*(p3/3 + v*p4/4))), select(step(r - fo), 4*epsilon*((sigma/r)^12 - (sigma/r)^6), "
    "select(step(r - fi), f0 - t*(f1 + t*(f2/2 + t*(f3/3 + t*f4/4))) - t^3*(c3/3 + t*c4/4)"
    ", 4*epsilonf*((sigmaf/r)^12 - (sigmaf/r)^6)) - lost + c0)); t = r - fi; w = fo - fi; v = r - ri; z = rc - ri"
    "; s = (sigmaf/fi)^6; f0 = 4*epsilonf*(s^2 - s); f1 = 24*epsilonf*(2*s^2 - s)/fi; f2 = -24*epsilonf*(26*s^2 - 7*s)/fi^2"
    "; f3 = -(3*f1 + 2*f2*w)/w^2; f4 = -(f2 + 2*f3*w)/(3*w^2); lost = f0 - w*(f1 + w*(f2/2 + w*(f3/3 + w*f4/4)))"
    "; o = (sigma/fo)^6; o1 = 24*epsilon*(2*o^2 - o)/fo; o2 = -24*epsilon*(26*o^2 - 7*o)/fo^2"
    "; c3 = (3*o1 + o2*w)/w^2; c4 = -(2*o1 + o2*w)/w^3; c0 = 4*epsilon*(o^2 - o) + w^3*(c3/3 + w*c4/4)"
    "; i = (sigma/ri)^6; p0 = 4*epsilon*(i^2 - i); p1 = 24*epsilon*(2*i^2 - i)/ri; p2 = -24*epsilon*(26*i^2 - 7*i)/ri^2"
    "; p3 = -(3*p1 + 2*p2*z)/z^2; p4 = -(p2 + 2*p3*z)/(3*z^2)"
)
"""Fine Lennard-Jones energy up to `fo`, ended from `fi` on; behind it a coarse one, ended from `ri` on."""
WELL = (
    "select(step(sigma - r), repels*epsilon*((sigma/r)^12 - 2*(sigma/r)^6 + 1) - epsilon, "
    "-epsilon*cos(1.5707963267948966*(r - sigma)/(rc - sigma))^2)"
)

PAIR_STYLES: Mapping[str, PairStyle] = {
    "lj/cut": PairStyle(TWELVE_SIX, LJ, SIZES),
    "lj/smooth/linear": PairStyle(TWELVE_SIX, LJ, SIZES),
    "lj96/cut": PairStyle("4*epsilon*((sigma/r)^9 - (sigma/r)^6)", LJ, SIZES),
    "lj/class2": PairStyle("epsilon*(2*(sigma/r)^9 - 3*(sigma/r)^6)", LJ, SIZES, rule="sixthpower"),
    "lj/expand": PairStyle(
        "4*epsilon*((sigma/d)^12 - (sigma/d)^6); d = r - delta0",
        (*LJ, "delta0"),
        (*SIZES, "mean"),
        reach="rc + delta0",
    ),
    "mie/cut": PairStyle(MIE, (*LJ, "g", "h"), (*SIZES, "distance", "distance")),
    "lj/spica": PairStyle(
        MIE,
        ("g", "h", *LJ),
        words={f"lj{g}_{h}": (float(g), float(h)) for g, h in ((9, 6), (12, 4), (12, 6), (12, 5))},
    ),
    "nm/cut/split": PairStyle(
        "select(step(r0 - r), depth/(n - m)*(m*(r0/r)^n - n*(r0/r)^m), 4*depth*(1/r^12 - 1/r^6))",
        ("depth", "r0", "n", "m"),
    ),
    "nm/cut": PairStyle("depth/(n - m)*(m*(r0/r)^n - n*(r0/r)^m)", ("depth", "r0", "n", "m")),
    "lj/smooth": PairStyle(SMOOTH, LJ, SIZES, ("ri",)),
    "lj/relres": PairStyle(RELATIVE, ("epsilonf", "sigmaf", *LJ), (), ("fi", "fo", "ri")),
    "lj/cubic": PairStyle(CUBIC, LJ, SIZES, reach="sigma*(26/7)^(1/6)*67/48"),
    "lj/gromacs": PairStyle(
        f"{switched(12, '4*epsilon*sigma^12')} - {switched(6, '4*epsilon*sigma^6')}", LJ, SIZES, ("ri",)
    ),
    "lj/charmm": PairStyle(f"{TWELVE_SIX}*{CHARMM}", LJ, SIZES, ("ri",), usual="arithmetic"),
    "lj/charmmfsw": PairStyle(FORCE_SWITCHED, LJ, SIZES, ("ri",), usual="arithmetic"),
    "lj/mdf": PairStyle(f"{TWELVE_SIX}*{TAPER}", LJ, SIZES, ("ri",)),
    "buck/mdf": PairStyle(f"(A*exp(-r/rho) - C/r^6)*{TAPER}", ("A", "rho", "C"), (), ("ri",)),
    "lennard/mdf": PairStyle(f"(A/r^12 - B/r^6)*{TAPER}", ("A", "B"), (), ("ri",)),
    "lj/cut/soft": PairStyle(
        "4*scale^n*epsilon*(1/x^2 - 1/x); x = alpha*(1 - scale)^2 + (r/sigma)^6",
        (*LJ, "scale"),
        (*SIZES, "mean"),
        ("n", "alpha"),
    ),
    "lj/class2/soft": PairStyle(
        "scale^n*epsilon*(2/x^1.5 - 3/x); x = alpha*(1 - scale)^2 + (r/sigma)^6",
        (*LJ, "scale"),
        (*SIZES, "mean"),
        ("n", "alpha"),
        rule="sixthpower",
    ),
    "lj/switch3": PairStyle(f"{TWELVE_SIX}*{SWITCH3}", (*LJ, "gamma"), (*SIZES, "norm"), ("width",)),
    "mm3/switch3": PairStyle(
        f"epsilon*(184000*exp(-6*r/sigma) - 2.25*(2*sigma/r)^6)*{SWITCH3}", (*LJ, "gamma"), (*SIZES, "norm"), ("width",)
    ),
    "cosine/squared": PairStyle(
        WELL, (*LJ, "repels"), (*SIZES, "mean"), words={"wca": (1.0,), "": (0.0,)}, reach="max(rc, sigma)"
    ),
    "born": PairStyle("A*exp((sigma - r)/rho) - C/r^6 + D/r^8", ("A", "rho", "sigma", "C", "D")),
    "born/gauss": PairStyle("A0*exp(-alpha*r) - A1*exp(-beta*(r - r0)^2)", ("A0", "alpha", "A1", "beta", "r0")),
    "buck": PairStyle("A*exp(-r/rho) - C/r^6", ("A", "rho", "C")),
    "lj/long": PairStyle(TWELVE_SIX, LJ, SIZES),
    "buck/long": PairStyle("A*exp(-r/rho) - C/r^6", ("A", "rho", "C")),
    "morse": PairStyle(MORSE, ("depth", "a", "r0")),
    "morse/smooth/linear": PairStyle(MORSE, ("depth", "a", "r0")),
    "morse/soft": PairStyle(
        f"select(step(scale - soft), {MORSE} + b*(1 - scale)/(1 - soft), (scale/soft)^n*({MORSE} + b))"
        "; b = -2/3*depth*exp(-2*a*r0)*(exp(a*r0) - 1)*exp(-3*a*(r - r0))",
        ("depth", "a", "r0", "scale"),
        (),
        ("n", "soft"),
    ),
    "momb": PairStyle(
        f"{MORSE} - s6*C/r^6/(1 + exp(-d*(r/reach - 1)))", ("depth", "a", "r0", "C", "reach"), (), ("s6", "d")
    ),
    "beck": PairStyle(
        "A*exp(-alpha*r - beta*r^6) - B/(r^2 + a^2)^3*(1 + (2.709 + 3*a^2)/(r^2 + a^2))",
        ("A", "B", "a", "alpha", "beta"),
    ),
    "gauss": PairStyle("-A*exp(-B*r^2)", ("A", "B"), ("energy", "decay")),
    "gauss/cut": PairStyle(
        "H/(width*sqrt(6.283185307179586))*exp(-(r - r0)^2/(2*width^2))",
        ("H", "r0", "width"),
        ("energy", "distance", "distance"),
    ),
    "yukawa": PairStyle("A*exp(-kappa*r)/r", ("A",), ("energy",), ("kappa",)),
    "soft": PairStyle("A*(1 + cos(3.141592653589793*r/rc))", ("A",), ("energy",)),
    "ufm": PairStyle("-epsilon*log(1 - exp(-(r/sigma)^2))", LJ, SIZES),
    "wf/cut": PairStyle(
        "epsilon*a*((sigma/r)^(2*mu) - 1)*((rc/r)^(2*mu) - 1)^(2*nu); y = (rc/sigma)^(2*mu)"
        "; a = 2*nu*y*((1 + 2*nu)/(2*nu*(y - 1)))^(2*nu + 1)",
        (*LJ, "nu", "mu"),
    ),
    "harmonic/cut": PairStyle("k*(size - r)^2", ("k", "size"), SIZES, reach="size"),
    "zbl": PairStyle(ZBL, ("z1", "z2"), ("smaller", "larger"), ("ri",), special=False),
}
"""Pair styles without charges."""

CHARGES: Mapping[str, PairStyle] = {
    "coul/debye": PairStyle("COULOMB*exp(-kappa*r)/r", (), (), ("kappa",)),
    "coul/slater/cut": PairStyle("COULOMB/r*(1 - (1 + r/reach)*exp(-2*r/reach))", (), (), ("reach",)),
    "coul/charmm/implicit": PairStyle(f"COULOMB/r^2*{CHARMM}", (), (), ("ri",)),
    "coul/charmmfsh": PairStyle("COULOMB/r*(1 - r/rc)^2", ()),
    "coul/gromacs": PairStyle(switched(1, "COULOMB"), (), (), ("ri",)),
    "coul/cut": PairStyle("COULOMB/r", ()),
    "coul/cut/global": PairStyle("COULOMB/r", ()),
    "coul/dsf": PairStyle("", (), (), ("damping",)),
    "coul/long": PairStyle("", ()),
    "coul/exclude": PairStyle("", ()),
    "coul/diel": PairStyle(
        "COULOMB/r*(bulk/inside - 1); inside = (5.2 + bulk)/2 + (bulk - 5.2)/2*tanh((r - middle)/width)",
        ("bulk", "middle", "width"),
    ),
    "coul/cut/soft": PairStyle(
        "COULOMB*scale^n/sqrt(alpha*(1 - scale)^2 + r^2)", ("scale",), ("mean",), ("n", "alpha")
    ),
}
"""Pair styles of charges: a formula that their product multiplies; those without one have a potential of their own."""


SPLIT = " + ".join(
    f"{(-1) ** k * math.prod((0.5 + i) / (i + 1) for i in range(k))!r}*((r/rc)^2 - 1)^{k}" for k in range(6)
)
"""The Taylor series of 1/r by r^2 around the cutoff, in units of it, up to the power that LAMMPS takes for a mesh of order 10."""


class LongStyle(NamedTuple):
    """Charges whose waves `kspace_style` sums, but for `coul/long` itself.

    - `bare`: the interaction of a pair without a cutoff, which the product of charges multiplies.
    - `damped`: what is taken off it within the cutoff, in the damping `GEWALD` of the waves.
    - `names`, `mixed`, `arguments`: as for a `PairStyle`.
    """

    bare: str
    damped: str
    names: tuple[str, ...] = ()
    mixed: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


LONG: Mapping[str, LongStyle] = {
    "coul/slater/long": LongStyle(
        "COULOMB*(1 - (1 + r/reach)*exp(-2*r/reach))/r", "COULOMB*erf(GEWALD*r)/r", (), (), ("reach",)
    ),
    "coulgauss/long": LongStyle("COULOMB*erf(r/gamma)/r", "COULOMB*erf(GEWALD*r)/r", ("gamma",), ("norm",)),
    "coul/msm": LongStyle("COULOMB/r", f"COULOMB/rc*({SPLIT})"),
}
_ALONE = {
    "lj/charmm",
    "lj/charmmfsw",
    "coul/charmmfsh",
    "lj/switch3",
    "mm3/switch3",
    *DISPERSION,
    "coul/charmm/implicit",
    "coul/gromacs",
    "coulgauss/long",
}
"""Parts that are no styles of LAMMPS by themselves."""
_WITH: Mapping[str, tuple[str, ...]] = {
    "coul/cut": ("lj/cut", "buck", "lj/class2", "nm/cut"),
    "coul/long": ("lj/cut", "buck", "lj/class2", "nm/cut", "born", "lj/expand", "lj/charmm", "lj/spica"),
    "coul/msm": ("lj/cut", "buck", "born", "lj/charmm", "lj/spica"),
    "coul/dsf": ("lj/cut", "born"),
    "coul/debye": ("lj/cut",),
}
_PARTS: dict[str, tuple[str | None, str | None]] = {
    **{name: (name, None) for name in PAIR_STYLES if name not in _ALONE},
    **{name: (None, name) for name in (*CHARGES, *LONG) if name not in _ALONE},
    **{f"{first}/{second}": (first, second) for second, firsts in _WITH.items() for first in firsts},
    "lj/charmm/coul/charmm/implicit": ("lj/charmm", "coul/charmm/implicit"),
    "lj/charmmfsw/coul/charmmfsh": ("lj/charmmfsw", "coul/charmmfsh"),
    "lj/charmmfsw/coul/long": ("lj/charmmfsw", "coul/long"),
    "lj/gromacs/coul/gromacs": ("lj/gromacs", "coul/gromacs"),
    "lj/cut/coul/cut/soft": ("lj/cut/soft", "coul/cut/soft"),
    "lj/class2/coul/cut/soft": ("lj/class2/soft", "coul/cut/soft"),
    "lj/switch3/coulgauss/long": ("lj/switch3", "coulgauss/long"),
    "mm3/switch3/coulgauss/long": ("mm3/switch3", "coulgauss/long"),
}
_CORE_SHELL = [
    name for name in _PARTS if name.endswith(("coul/long", "coul/dsf")) and name[:2] in ("bo", "bu", "co", "lj")
]
PARTS = {**_PARTS, **{f"{name}/cs": _PARTS[name] for name in _CORE_SHELL}}
"""Pair style -> its part without charges and its part of charges."""

CHARMM_STYLES = ("lj/charmm", "lj/charmmfsw")
"""Parts whose lines may hold depth and diameter of pairs three bonds apart, too; dihedrals of CHARMM weight these."""
