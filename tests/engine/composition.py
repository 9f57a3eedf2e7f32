"""The composition matrix: every transformation around `simkit.simulate`, over every family and every solver.

Each cell compares numbers with a plain computation: a reverse derivative with a forward one, a batch with its members one by one,
a program on two devices with the same on one. `python tests/engine/composition.py` writes docs/composition.md.
"""

import functools
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
    jax.config.update("jax_enable_x64", True)

from engine.composition_cases import BASIS, CASES, QS, SOLVERS, TOLERANCES, Q, Subject

# The same arithmetic in another order: rounding, some thousand operations long. Relative to the largest number compared.
ROUNDING = 1e-10


def close(found: Any, expected: Any, tolerance: float = ROUNDING) -> None:
    expected = np.asarray(expected)
    assert np.shape(found) == expected.shape
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(np.abs(expected).max(), 1e-3))


def differences(function: Callable[[Any], Any], q: Any, h: float) -> Any:
    """Central differences of a compiled function, the direction last."""
    function = jax.jit(function)
    return np.stack([(function(q + h * v) - function(q - h * v)) / (2 * h) for v in BASIS], axis=-1)


def jit(s: Subject) -> None:
    close(jax.jit(s.states)(Q), s.states(Q))


def eval_shape(s: Subject) -> None:
    found, value = jax.eval_shape(s.states, Q), s.values[1]
    assert (found.shape, found.dtype) == (value.shape, value.dtype)


def jvp(s: Subject) -> None:
    """Against central differences. Adaptive steps are held in derivatives and not in differences, which therefore differ by
    errors of the solve, that is some hundred tolerances. Twelfth powers have third derivatives of 12^3 their values."""
    held = 1e-7 if s.case.step != "adaptive" else max(1e-6, 300 * TOLERANCES[s.case.solver])
    if s.case.family == "particles":
        held = 1e-5
    close(s.jacobian(Q), differences(s.states, Q, 1e-4), held)


def grad(s: Subject) -> None:
    close(jax.grad(s.loss)(Q), s.slope(Q))


def jacfwd(s: Subject) -> None:
    close(jax.jit(jax.jacfwd(s.states))(Q), s.jacobian(Q))


def jacrev(s: Subject) -> None:
    close(jax.jit(jax.jacrev(s.states))(Q), s.jacobian(Q))


def linearize(s: Subject) -> None:
    value, linear = jax.linearize(s.states, Q)
    close(value, s.values[1])
    close(jnp.stack([linear(v) for v in BASIS], axis=1), s.jacobian(Q))


def vjp(s: Subject) -> None:
    def with_aux(q):
        ys = s.states(q)
        return ys, {"twice": 2 * ys}

    value, pull, aux = jax.vjp(with_aux, Q, has_aux=True)
    close(value, s.values[1])
    close(aux["twice"], 2 * s.values[1])
    weights = jnp.cos(jnp.arange(value.size, dtype=value.dtype))
    close(pull(weights)[0], weights @ s.jacobian(Q))


def checkpoint(s: Subject) -> None:
    close(jax.jit(jax.grad(jax.checkpoint(s.loss)))(Q), s.slope(Q))


def forward_forward(s: Subject) -> None:
    """Against differences of the first derivative: errors as in `jvp`, which a second derivative enlarges."""
    held = 1e-6 if s.case.step != "adaptive" else max(1e-5, 3000 * TOLERANCES[s.case.solver])
    if s.case.family == "particles":
        held = 1e-4
    close(jax.jit(jax.jacfwd(jax.jacfwd(s.loss)))(Q), s.curvature(Q))
    close(s.curvature(Q), differences(lambda q: jax.jacfwd(s.loss)(q), Q, 1e-4), held)


def hessian(s: Subject) -> None:
    close(jax.jit(jax.hessian(s.loss))(Q), s.curvature(Q))


def reverse_forward(s: Subject) -> None:
    close(jax.jit(jax.jacrev(jax.jacfwd(s.loss)))(Q), s.curvature(Q))


def reverse_reverse(s: Subject) -> None:
    close(jax.jit(jax.jacrev(jax.jacrev(s.loss)))(Q), s.curvature(Q))


def vmap(s: Subject) -> None:
    close(jax.jit(jax.vmap(s.states))(QS), s.values)


def vmap_grad(s: Subject) -> None:
    close(jax.jit(jax.vmap(jax.grad(s.loss)))(QS), s.slopes)


def grad_vmap(s: Subject) -> None:
    """The first parameter is one that all members share."""

    def total(shared, own):
        return jnp.sum(jax.vmap(lambda q: s.loss(jnp.concatenate([shared, q])))(own))

    common, own = jax.jit(jax.grad(total, argnums=(0, 1)))(Q[:1], QS[:, 1:])
    slopes = np.stack([s.slope(jnp.concatenate([Q[:1], q[1:]])) for q in QS])
    close(common, slopes[:, :1].sum(0))
    close(own, slopes[:, 1:])


def failed_member(s: Subject) -> None:
    """One member of four fails. Left out, it leaves the others their gradient, and its own is 0; else that is NaN."""
    sound = np.array([0, 2, 3])

    def total(shared, own, filled):
        return jnp.sum(jax.vmap(lambda q: s.loss(jnp.concatenate([shared, q]), filled))(own))

    slope = jax.jit(jax.grad(total, argnums=(0, 1)), static_argnums=2)
    with_failed = QS.at[1].set(jnp.nan)[:, 1:]
    common, own = slope(Q[:1], with_failed, True)
    slopes = np.stack([s.slope(jnp.concatenate([Q[:1], QS[i, 1:]])) for i in sound])
    close(common, slopes[:, :1].sum(0))
    close(own[sound], slopes[:, 1:])
    np.testing.assert_array_equal(own[1], 0.0)
    common, own = slope(Q[:1], with_failed, False)
    np.testing.assert_array_equal(np.isnan(np.asarray(own)).all(axis=1), [False, True, False, False])
    assert np.isnan(common).all()


def vmap_hessian(s: Subject) -> None:
    close(jax.jit(jax.vmap(jax.hessian(s.loss)))(QS[:2]), s.curvatures)


def scan(s: Subject) -> None:
    """Each solve sets out from what the last one found; against the unrolled loop in forward mode."""

    def step(q):
        return q * (1 + 0.02 * jnp.sin(s.loss(q)))

    rolled = lambda q: jax.lax.scan(lambda q, _: (step(q), None), q, None, length=3)[0]
    jacobian, q = np.eye(3), Q
    for _ in range(3):
        slope = s.slope(q)
        loss = s.loss(q)
        jacobian = (
            np.eye(3) * (1 + 0.02 * np.sin(loss)) + 0.02 * np.cos(loss) * np.outer(np.asarray(q), slope)
        ) @ jacobian
        q = step(q)
    close(jax.jit(jax.jacrev(rolled))(Q), jacobian)


def cond(s: Subject) -> None:
    """A branch chosen member by member."""
    chosen = lambda q: jax.lax.cond(q[0] > 1.05, s.loss, lambda q: jnp.sum(q**2), q)
    solved = np.asarray(QS[:, :1]) > 1.05
    assert 0 < solved.sum() < len(QS)
    close(jax.jit(jax.vmap(jax.grad(chosen)))(QS), np.where(solved, s.slopes, 2 * QS))


def meta_gradient(s: Subject) -> None:
    """The gradient, by the target, after three steps of gradient descent on a fit to it."""

    def fitted(target):
        q = Q
        for _ in range(3):
            q = q - 0.01 * jax.grad(lambda q: (s.loss(q) - target) ** 2)(q)
        return jnp.sum(q**2)

    # The recurrence of the tangent by hand: dq' = dq - 0.01 d[2 (loss - target) slope].
    target, q, dq = 0.3, Q, np.zeros(3)
    for _ in range(3):
        slope, curvature, gap = s.slope(q), s.curvature(q), float(s.loss(q)) - target
        moved = 2 * ((slope @ dq - 1) * slope + gap * curvature @ dq)
        q, dq = q - 0.01 * 2 * gap * slope, dq - 0.01 * moved
    close(jax.jit(jax.grad(fitted))(jnp.asarray(target)), 2 * np.asarray(q) @ dq)


def export(s: Subject) -> None:
    """Serialised and read again: the value and its gradient in one program."""
    exported = jax.export.export(jax.jit(jax.value_and_grad(s.loss)))(jax.ShapeDtypeStruct(Q.shape, Q.dtype))
    value, slope = jax.export.deserialize(exported.serialize()).call(Q)
    close(value, s.loss(Q))
    close(slope, s.slope(Q))


def spread(function: Callable[..., Any], checked: bool, in_specs: Any = PartitionSpec("m")) -> Callable[..., Any]:
    """A function of a batch on two devices, each with its half."""
    mesh = jax.make_mesh((2,), ("m",), axis_types=(AxisType.Auto,))
    return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=PartitionSpec("m"), check_vma=checked)


def shard_map(s: Subject, checked: bool) -> None:
    close(jax.jit(spread(jax.vmap(s.states), checked))(QS), s.values)


def shard_map_grad(s: Subject, checked: bool) -> None:
    """The gradient of a sum over the members of a device, by parameters that are on all of them."""

    def local(shared, qs):
        total = lambda shared: jnp.sum(jax.vmap(lambda q: s.loss(q * shared))(qs))
        shared = jax.lax.pcast(shared, ("m",), to="varying") if checked else shared
        return jax.grad(total)(shared)[None]

    found = jax.jit(spread(local, checked, (PartitionSpec(), PartitionSpec("m"))))(jnp.ones(3), QS)
    expected = s.slopes * np.asarray(QS)
    close(found, np.stack([expected[:2].sum(0), expected[2:].sum(0)]))


def grad_shard_map(s: Subject, checked: bool) -> None:
    losses = lambda qs: jnp.sum(spread(jax.vmap(s.loss), checked)(qs))
    close(jax.jit(jax.grad(losses))(QS), s.slopes)


def shard_map_vmap_grad(s: Subject, checked: bool) -> None:
    close(jax.jit(spread(jax.vmap(jax.grad(s.loss)), checked))(QS), s.slopes)


TRANSFORMATIONS: dict[str, Callable[[Subject], None]] = {
    "jit": jit,
    "eval_shape": eval_shape,
    "jvp": jvp,
    "grad": grad,
    "jacfwd": jacfwd,
    "jacrev": jacrev,
    "linearize": linearize,
    "vjp, aux": vjp,
    "grad(checkpoint)": checkpoint,
    "jacfwd(jacfwd)": forward_forward,
    "hessian": hessian,
    "jacrev(jacfwd)": reverse_forward,
    "jacrev(jacrev)": reverse_reverse,
    "vmap": vmap,
    "vmap(grad)": vmap_grad,
    "grad(vmap)": grad_vmap,
    "grad(vmap), one member failed": failed_member,
    "vmap(hessian)": vmap_hessian,
    "jacrev(scan)": scan,
    "vmap(grad(cond))": cond,
    "meta-gradient": meta_gradient,
    "export": export,
}
for _checked in (True, False):
    _suffix = "" if _checked else ", unchecked"
    for _name, _function in (
        ("shard_map", shard_map),
        ("shard_map(grad)", shard_map_grad),
        ("grad(shard_map)", grad_shard_map),
        ("jit(shard_map(vmap(grad)))", shard_map_vmap_grad),
    ):
        TRANSFORMATIONS[_name + _suffix] = functools.partial(_function, checked=_checked)

# Cells that cannot work, with the reason. The test asserts that they still fail, so that this list follows JAX.
_FAILED = {
    "particles": "Of particles one failed member makes all derivatives by what members share NaN.",
    "static": "A response has no steps that could fail: what is NaN stays NaN.",
}
UPSTREAM: dict[tuple[str, str], str] = {
    (case.label, "grad(vmap), one member failed"): _FAILED[case.family] for case in CASES if case.family in _FAILED
}

# Families of which a part of the transformations is tried.
_PART = "jit", "jvp", "grad", "vmap(grad)"
ROWS = dict.fromkeys(("events", "doses", "delayed", "coupled", "patches", "coupled noise"), _PART)


def rows(family: str) -> tuple[str, ...]:
    """The transformations that are tried of a family."""
    return ROWS.get(family, tuple(TRANSFORMATIONS))


# Every family, the adaptive solve (an operation of our own, hence the most to go wrong) more than the loops of fixed steps.
DEFAULT = {
    "plain-Tsit5-adaptive": (
        *("jit", "eval_shape", "jvp", "grad", "vjp, aux", "vmap", "vmap(grad)"),
        *("jacrev(scan)", "shard_map(grad)", "jit(shard_map(vmap(grad))), unchecked", "grad(vmap), one member failed"),
    ),
    "stiff-Rodas5P-adaptive": ("jvp", "grad(vmap)", "shard_map"),
    "split-KenCarp4-adaptive": ("jit", "jvp"),
    "split-ETDRK4-fixed": ("jvp", "vmap(grad)"),
    "separable-VelocityVerlet-fixed": (
        "jvp",
        "hessian",
        "vmap(grad)",
        "shard_map(grad)",
        "meta-gradient",
        "grad(vmap), one member failed",
    ),
    "stochastic-SRA1-fixed": ("jvp", "vmap(grad)", "grad(shard_map)"),
    "particles-clusters-fixed": ("jvp", "grad(vmap)", "shard_map(grad)"),
    "events-Tsit5-adaptive": ("vmap(grad)",),
    "doses-Tsit5-adaptive": ("jvp",),
    "delayed-Tsit5-adaptive": ("jvp",),
    "coupled-Tsit5-adaptive": ("jvp",),
    "coupled noise-SRA1-fixed": ("jvp",),
    "static-none-none": tuple(TRANSFORMATIONS),
}

MEANINGS = {
    "plain": "A system without structure: dy/dt = f(t, y)",
    "separable": "Positions and momenta",
    "split": "A diagonal linear part and the rest, with an encoded state of complex numbers",
    "stochastic": "Drift and diffusion, one key for all",
    "stiff": "A plain system that is stiff",
    "particles": "Atoms, with all pairs or with lists of neighbours that a run makes again; they step themselves",
    "events": "A ball with drag, whose bounces are found, and a kick at a known time",
    "doses": "Two compartments with a bolus that is given twice, after a lag that is a parameter, and an infusion",
    "delayed": "A feedback with a lag that is a parameter, a history, and a dose",
    "coupled": "Two tanks with wires in a ring",
    "patches": "Three patches of a population with a limit of its own in each, and exchange",
    "coupled noise": "A stochastic part that drives a plain one through a wire",
    "static": "A response without dynamics; no solver",
}


def page() -> str:
    """docs/composition.md."""
    lines = [
        "# Composition",
        "",
        "Everything in the tables is a test, and every test compares numbers with a plain computation: a reverse derivative",
        "with a forward one, a forward one with differences, a batch with its members one by one, two devices with one.",
        "Agreement is 1e-10 relative to the largest number, looser only with differences, where `tests/engine/composition.py`",
        "says why. That file writes this page.",
        "",
        "- `check_vma` is on in rows that name `shard_map`, and off where they say unchecked. Meshes have two devices.",
        "- Adaptive solves hold their step sizes in derivatives: those are exact for the steps taken.",
        "- `jacrev(scan)` chains three solves; `meta-gradient` is the slope, by the data, of three steps of gradient descent.",
        "- `vmap(grad(cond))` chooses for each member whether it is solved.",
        "- In `vmap(grad)` every member has its own parameters; in `grad(vmap)` they share one.",
        "- Where one member failed, `Trajectory.filled` leaves it out and the others keep their derivatives by what all share.",
        "- Families with four rows: the other rows are not tried. Meshes and second derivatives of events are tested in",
        "  `engine/test_event.py`, second derivatives of delays in `engine/test_delayed.py`.",
        "",
    ]
    notes: dict[str, int] = {}
    for family in SOLVERS:
        cases = [case for case in CASES if case.family == family]
        heads = [case.solver if case.step == "none" else f"{case.solver}, {case.step}" for case in cases]
        lines += [f"## {family.capitalize()}", "", f"{MEANINGS[family]}.", ""]
        lines += [f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(cases)]
        for name in rows(family):
            cells = []
            for case in cases:
                reason = UPSTREAM.get((case.label, name))
                cells.append("yes" if reason is None else f"no ({notes.setdefault(reason, len(notes) + 1)})")
            lines.append(f"| `{name}` | {' | '.join(cells)} |")
        lines.append("")
    lines += [f"{number}. {reason}" for reason, number in notes.items()]
    return "\n".join(lines).rstrip() + "\n"


PAGE = pathlib.Path(__file__).parents[2] / "docs" / "composition.md"

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
