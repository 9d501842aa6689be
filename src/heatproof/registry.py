"""Named things that are found by name: one registry per kind, filled by decorators beside the definitions.

What installed packages add (`heatproof.plugins`) is found after that, when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from heatproof.errors import HeatproofError, unknown_name
from heatproof.plugins import Plugin, note_problem, plugins_of

T = TypeVar("T")
C = TypeVar("C", bound=type)


class Registry(Generic[T]):
    """A name -> thing table whose errors name the nearest valid name.

    `group` is the entry-point group of plug-ins, and `admit(name, found)` makes an entry of what one of them names, or
    says in an error why it is none.
    """

    def __init__(self, kind: str, group: str = "", admit: Callable[[str, Any], T] | None = None) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}
        self._group = group
        self._admit = admit
        self._tried: set[Plugin] = set()
        self._added: set[str] = set()
        self._left_out: dict[str, str] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that files its argument under `name`."""

        def file_under_name(entry: T) -> T:
            if name in self._entries:
                raise HeatproofError(f"{self.kind} {name!r} is registered already; choose another name.")
            self._entries[name] = entry
            return entry

        return file_under_name

    def register_class(self, name: str) -> Callable[[C], C]:
        """Class decorator: the class is filed under `name`, and knows it as its attribute `name`."""

        def file_under_name(cls: C) -> C:
            cls.name = name  # type: ignore[attr-defined]
            self.register(name)(cls)  # type: ignore[arg-type]
            return cls

        return file_under_name

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            self._load(plugin for plugin in self.plugins() if plugin.name == name)
        if name in self._entries:
            return self._entries[name]
        if name in self._left_out:
            raise HeatproofError(self._left_out[name])
        raise unknown_name(self.kind, name, [*self._entries, *(plugin.name for plugin in self.plugins())])

    def __contains__(self, name: object) -> bool:
        if name not in self._entries:
            self._load(plugin for plugin in self.plugins() if plugin.name == name)
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._load(self.plugins())
        return iter(self._entries)

    def __len__(self) -> int:
        self._load(self.plugins())
        return len(self._entries)

    def items(self) -> Iterator[tuple[str, T]]:
        self._load(self.plugins())
        return iter(self._entries.items())

    def own(self) -> dict[str, T]:
        """What is registered without any plug-in; none is loaded for it."""
        return {name: entry for name, entry in self._entries.items() if name not in self._added}

    def plugins(self) -> tuple[Plugin, ...]:
        """What installed packages want to add, loaded or not."""
        return plugins_of(self._group) if self._group else ()

    def _load(self, wanted: Iterable[Plugin]) -> None:
        """File these plug-ins under their names; one that fails is left out, and it is noted why."""
        for plugin in [plugin for plugin in wanted if plugin not in self._tried]:
            self._tried.add(plugin)
            before = set(self._entries)
            try:
                self._file(plugin)
            except HeatproofError as problem:
                self._left_out[plugin.name] = str(problem)
                note_problem(plugin, str(problem))
            self._added |= self._entries.keys() - before

    def _file(self, plugin: Plugin) -> None:
        """Load a plug-in, which may register itself by a decorator, or else is admitted under its name."""
        found = plugin.load()
        present = self._entries.get(plugin.name)
        if present is not None and found in (present, getattr(present, "function", None)):
            return
        if present is not None:
            raise HeatproofError(f"{plugin.title} is left out: the name is taken; its author must choose another.")
        try:
            assert self._admit is not None  # a registry with a group has one
            self._entries[plugin.name] = self._admit(plugin.name, found)
        except HeatproofError as problem:
            raise HeatproofError(f"{plugin.title} is left out: {problem}") from problem
