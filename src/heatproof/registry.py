"""Named things that are found by name: one registry per kind, filled by decorators beside the definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from heatproof.errors import HeatproofError, unknown_name

T = TypeVar("T")
C = TypeVar("C", bound=type)


class Registry(Generic[T]):
    """A name -> thing table whose errors name the nearest valid name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

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
            raise unknown_name(self.kind, name, self._entries)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> Iterator[tuple[str, T]]:
        return iter(self._entries.items())
