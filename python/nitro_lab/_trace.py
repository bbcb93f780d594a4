"""Traces as arguments: paths, and how they are read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any


class Trace:
    """Traces in files, merged in the order of their times, and the settings with which they are read.

    It is a name, not the requests: it takes no memory, and can be pickled and sent to other processes and machines that see
    the same files. `settings("reading")` lists the settings, such as `trace_format`, `columns` and `bad_records`.
    """

    __slots__ = ("paths", "reading")

    def __init__(self, *paths: str | os.PathLike[str], **reading: Any) -> None:
        if not paths:
            raise ValueError("Trace(): no file is named; give the path of a trace")
        self.paths = tuple(os.path.abspath(os.fsdecode(path)) for path in paths)
        self.reading = {name: value for name, value in reading.items() if value is not None}

    @classmethod
    def of(cls, trace: Any) -> Trace:
        """The trace that a call was given: a `Trace`, a path, or several paths."""
        if isinstance(trace, cls):
            return trace
        if isinstance(trace, (str, bytes, os.PathLike)):
            return cls(trace)
        if isinstance(trace, Iterable):
            return cls(*trace)
        raise TypeError(f"a trace is a path, several paths, or a Trace, not {type(trace).__name__}")

    def check(self) -> None:
        """Raises the system's error for a file that cannot be read."""
        for path in self.paths:
            kind = os.stat(path).st_mode
            if stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISBLK(kind):
                with open(path, "rb"):
                    pass

    def __repr__(self) -> str:
        given = [repr(path) for path in self.paths] + [f"{name}={value!r}" for name, value in self.reading.items()]
        return f"Trace({', '.join(given)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((self.paths, repr(sorted(self.reading.items()))))

    def __getstate__(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        return self.paths, self.reading

    def __setstate__(self, state: tuple[tuple[str, ...], dict[str, Any]]) -> None:
        self.paths, self.reading = state


def pairs(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Settings as the native part takes them: switches, texts and lists of texts. `None` is the default."""
    return [(name, _value(value)) for name, value in settings.items() if value is not None]


def _value(value: Any) -> Any:
    if type(value).__name__ in ("bool", "bool_"):  # NumPy's, too
        return bool(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [str(_value(one)) for one in value]
    return str(value)
