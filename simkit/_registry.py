"""Registries: classes and functions of one family by the names that study files and arguments give them."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from ._doors import shown
from ._errors import PluginError, UnknownNameError, close_matches

T = TypeVar("T")
C = TypeVar("C")


class Registry(Mapping[str, T], Generic[T]):
    """The members of one family by name: those of simkit, each declared where it is defined, and those of other packages.

    Other packages declare theirs as entry points of the group `simkit.FAMILY`. They are looked for when a name is not among
    those of simkit, and when names are listed; an entry point is imported when its name is asked for.

    **Arguments:**

    - `what`: a noun for messages, such as "solver".
    - `base`: the class that members subclass.
    - `group`: the group of entry points; None: other packages add none.
    - `instances`: whether members are instances of `base` and no classes.
    """

    def __init__(self, what: str, base: type, *, group: str | None = None, instances: bool = False):
        self.what, self.base, self.group, self.instances = what, base, group, instances
        self._own: dict[str, T] = {}
        self._loaded: dict[str, T] = {}

    def named(self, name: str) -> Callable[[C], C]:
        """Declare what follows under a name, as a decorator."""

        def declare(member: C) -> C:
            self.add(name, member)  # pyright: ignore[reportArgumentType]
            return member

        return declare

    def add(self, name: str, member: T) -> None:
        """Declare a member of simkit under a name."""
        assert name not in self._own, f"there are two of the name {name}"
        self._own[name] = member

    @property
    def own(self) -> Mapping[str, T]:
        """The members of simkit itself."""
        return MappingProxyType(self._own)

    def of(self, room: str) -> Mapping[str, T]:
        """The members that are defined in one room of simkit, such as `simkit.odes`."""
        inside = lambda member: f"{member.__module__}.".startswith(f"{room}.")
        return MappingProxyType({name: member for name, member in self._own.items() if inside(member)})

    def __getitem__(self, name: str) -> T:
        if name in self._own:
            return self._own[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._loaded or any(point.name == name for point in self._points())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._own, *self._loaded, *sorted(point.name for point in self._points())]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"Registry of {len(self)} names: {', '.join(self)}"

    def _points(self) -> tuple[Any, ...]:
        """The entry points of installed packages; reading them takes some milliseconds."""
        if self.group is None:
            return ()
        import importlib.metadata

        return tuple(importlib.metadata.entry_points(group=self.group))

    def _load(self, name: str) -> T:
        points = [point for point in self._points() if point.name == name]
        if not points:
            raise UnknownNameError(f"There is no {self.what} `{name}`. {close_matches(name, self)}")
        if len({point.value for point in points}) > 1:
            packages = ", ".join(f"`{_package(point)}`" for point in points)
            raise PluginError(
                f"The {self.what} `{name}` is in more than one package: {packages}. Uninstall all but one."
            )
        label = f"The {self.what} `{name}` of the package `{_package(points[0])}`, which is `{points[0].value}`,"
        try:
            found = points[0].load()
        except Exception as error:  # whatever the package does while it is imported
            text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'without a text'}"
            raise PluginError(f"{label} cannot be loaded: {text}. Mend that package, or uninstall it.") from error
        if not self._fits(found):
            kind = f"{'an instance' if self.instances else 'a subclass'} of `{self.base.__name__}`"
            raise PluginError(f"{label} must be {kind} of simkit, but it is {shown(found)}. Mend that package.")
        return found

    def _fits(self, found: object) -> bool:
        if self.instances:
            return isinstance(found, self.base)
        return isinstance(found, type) and issubclass(found, self.base)


def _package(point: Any) -> str:
    return point.dist.name if point.dist is not None else "unknown"
