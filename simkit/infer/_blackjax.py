"""BlackJAX, which some methods of `sample` need."""

from typing import Any

from .._errors import missing_package


def blackjax_for(method: str) -> Any:
    """The library.

    **Raises:** a `MissingPackageError` that names the method and the extra where it is not installed.
    """
    try:
        import blackjax
        import blackjax.ns.nss
        import blackjax.ns.utils
    except ModuleNotFoundError as error:
        raise missing_package(f"`{method}`", error.name, "samplers") from error
    return blackjax
