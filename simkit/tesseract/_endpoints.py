"""The endpoints of a Tesseract from one pure function of nested dictionaries."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._doors import check_function, shown
from .._errors import ArgumentError

Tree = dict[str, Any]


class Endpoints(NamedTuple):
    """The functions that a `tesseract_api.py` must define, in the order of this tuple.

    Each takes inputs as a model of pydantic or as a dictionary. Paths name arrays inside them: `a.b` for keys of dictionaries
    and fields of models, `a.[0]` for entries of lists.
    """

    apply: Callable[..., Tree]
    jacobian: Callable[..., dict[str, dict[str, Array]]]
    jacobian_vector_product: Callable[..., dict[str, Array]]
    vector_jacobian_product: Callable[..., dict[str, Array]]
    abstract_eval: Callable[..., Tree]


def endpoints(function: Callable[[Tree], Tree]) -> Endpoints:
    """Make the endpoints of a Tesseract from a pure function.

    **Arguments:**

    - `function`: takes a dictionary of inputs and returns a dictionary of outputs, each nested in any way. Arrays among the inputs
        are traced; everything else (counts, names, flags, None) is known, and a new value compiles again.

    **Returns:** apply, Jacobian, Jacobian-vector product, vector-Jacobian product and abstract evaluation, compiled, as
    `tesseract_core` calls them. The function must therefore be one that `jit` and `grad` may wrap, as all verbs of simkit are;
    its failures are numbers that are not finite.

    **Raises:** an `ArgumentError` where `function` is no function of one argument, or where there is no array at a path.

    **Source:** the contract of endpoints of Haefner and Lavin (2025), Tesseract Core, J. Open Source Softw. 10:8385.

    ```python
    import numpy as np
    from simkit.tesseract import endpoints

    made = endpoints(lambda inputs: {"square": inputs["x"] ** inputs["power"]})
    given = {"x": np.array([1.0, 2.0]), "power": 2}
    slopes = made.vector_jacobian_product(given, {"x"}, {"square"}, {"square": np.ones(2)})
    ```
    """
    check_function("function", function, ("inputs",))
    return Endpoints(
        functools.partial(_apply, function),
        functools.partial(_jacobian, function),
        functools.partial(_jvp, function),
        functools.partial(_vjp, function),
        functools.partial(_abstract_eval, function),
    )


def _apply(function: Callable[[Tree], Tree], inputs: Any) -> Tree:
    return _called(function, _read(inputs))


def _jacobian(
    function: Callable[[Tree], Tree], inputs: Any, jac_inputs: Iterable[str], jac_outputs: Iterable[str]
) -> dict[str, dict[str, Array]]:
    """Derivatives by the side that is smaller: rows of outputs backward, or columns of inputs forward."""
    inputs, names, wanted = _read(inputs), _paths("jac_inputs", jac_inputs), _paths("jac_outputs", jac_outputs)
    return _jacobian_of(function, inputs, names, wanted)


def _jvp(
    function: Callable[[Tree], Tree],
    inputs: Any,
    jvp_inputs: Iterable[str],
    jvp_outputs: Iterable[str],
    tangent_vector: Mapping[str, Any],
) -> dict[str, Array]:
    names, wanted = _paths("jvp_inputs", jvp_inputs), _paths("jvp_outputs", jvp_outputs)
    return _jvp_of(function, _read(inputs), names, wanted, _vector("tangent_vector", tangent_vector, names))


def _vjp(
    function: Callable[[Tree], Tree],
    inputs: Any,
    vjp_inputs: Iterable[str],
    vjp_outputs: Iterable[str],
    cotangent_vector: Mapping[str, Any],
) -> dict[str, Array]:
    names, wanted = _paths("vjp_inputs", vjp_inputs), _paths("vjp_outputs", vjp_outputs)
    return _vjp_of(function, _read(inputs), names, wanted, _vector("cotangent_vector", cotangent_vector, wanted))


def _paths(name: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Return paths in order; refuse one text, which would be read letter by letter, and none at all."""
    found = () if isinstance(paths, str) else tuple(paths)
    if not found or not all(isinstance(path, str) for path in found):
        raise ArgumentError(f'Argument `{name}` must hold paths, such as {{"x"}}, but it is {shown(paths)}.')
    return tuple(sorted(found))


def _vector(name: str, values: Mapping[str, Any], paths: tuple[str, ...]) -> dict[str, Array]:
    for path in paths:
        if path not in values:
            raise ArgumentError(f"Argument `{name}` must hold an array for each path, but there is none for `{path}`.")
    return {path: jnp.asarray(values[path]) for path in paths}


def _abstract_eval(function: Callable[[Tree], Tree], abstract_inputs: Any) -> Tree:
    """Shapes and types of outputs from those of the inputs, `{"shape": ..., "dtype": ...}` each."""
    given = _dumped(abstract_inputs)
    made = jax.tree.map(lambda leaf: _shaped(leaf), given, is_leaf=_is_shape)
    found = eqx.filter_eval_shape(function, made)
    named = lambda s: {"shape": tuple(s.shape), "dtype": str(s.dtype)} if isinstance(s, jax.ShapeDtypeStruct) else s
    return jax.tree.map(named, found)


@eqx.filter_jit
def _called(function: Callable[[Tree], Tree], inputs: Tree) -> Tree:
    return function(inputs)


@eqx.filter_jit
def _jacobian_of(function: Any, inputs: Tree, names: tuple[str, ...], wanted: tuple[str, ...]) -> Any:
    of, given = _restricted(function, inputs, names, wanted)
    shapes = jax.eval_shape(of, given)
    size = lambda tree: sum(int(np.prod(leaf.shape)) for leaf in tree.values())
    return (jax.jacrev if size(shapes) < size(given) else jax.jacfwd)(of)(given)


@eqx.filter_jit
def _jvp_of(function: Any, inputs: Tree, names: tuple[str, ...], wanted: tuple[str, ...], tangent: Any) -> Any:
    of, given = _restricted(function, inputs, names, wanted)
    return jax.jvp(of, (given,), (_alike(tangent, given),))[1]


@eqx.filter_jit
def _vjp_of(function: Any, inputs: Tree, names: tuple[str, ...], wanted: tuple[str, ...], cotangent: Any) -> Any:
    of, given = _restricted(function, inputs, names, wanted)
    found, back = jax.vjp(of, given)
    return back(_alike(cotangent, found))[0]


def _restricted(
    function: Callable[[Tree], Tree], inputs: Tree, names: tuple[str, ...], wanted: tuple[str, ...]
) -> tuple[Callable[[dict[str, Array]], dict[str, Array]], dict[str, Array]]:
    """Return the function of some arrays alone, by their paths, and these arrays."""

    def of(chosen: dict[str, Array]) -> dict[str, Array]:
        changed = inputs
        for path, value in chosen.items():
            changed = _with(changed, _keys(path), value)
        found = function(changed)
        return {path: _at(found, path) for path in wanted}

    return of, {path: jnp.asarray(_at(inputs, path)) for path in names}


def _alike(values: dict[str, Array], like: Mapping[str, Any]) -> dict[str, Array]:
    for path, leaf in like.items():
        if values[path].size != leaf.size:
            raise ArgumentError(
                f"The vector at `{path}` must have the shape {leaf.shape} of the array there, but it has {values[path].shape}."
            )
    return {path: values[path].astype(leaf.dtype).reshape(leaf.shape) for path, leaf in like.items()}


def _read(inputs: Any) -> Tree:
    """Return a dictionary of inputs with arrays of JAX."""
    return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray | np.generic) else x, _dumped(inputs))


def _dumped(inputs: Any) -> Tree:
    return dict(inputs) if isinstance(inputs, Mapping) else inputs.model_dump()


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, Mapping) and set(leaf) == {"shape", "dtype"}


def _shaped(leaf: Any) -> Any:
    if _is_shape(leaf):
        return jax.ShapeDtypeStruct(tuple(leaf["shape"]), np.dtype(leaf["dtype"]))
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def _keys(path: str) -> list[str | int]:
    """Return the keys and positions of a path such as `a.{b}.[0]`."""
    parts = re.findall(r"\{[^}]*\}|\[\d+\]|[^.]+", path)
    return [int(p[1:-1]) if p[0] == "[" else p.strip("{}") for p in parts]


def _at(tree: Any, path: str) -> Any:
    for key in _keys(path):
        try:
            tree = tree[key]
        except (KeyError, IndexError, TypeError):
            raise ArgumentError(f"There is no `{path}`: in the place of `{key}` there is {_kind(tree)}.") from None
    return tree


def _kind(tree: Any) -> str:
    if not isinstance(tree, Mapping):
        return f"a {type(tree).__name__}"
    return "only " + ", ".join(f"`{k}`" for k in tree) if tree else "nothing"


def _with(tree: Any, keys: list[str | int], value: Any) -> Any:
    """Return a copy of nested dictionaries and lists with one value in place of another."""
    if not keys:
        return value
    changed: Any = tree.copy() if isinstance(tree, dict) else list(tree)
    changed[keys[0]] = _with(tree[keys[0]], keys[1:], value)
    return changed
