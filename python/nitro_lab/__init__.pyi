import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, TypedDict, TypeVar, Union

from typing_extensions import Unpack

_Path = Union[str, os.PathLike[str]]
_Traces = Union[_Path, Iterable[_Path], "Trace"]
_Size = Union[int, str]
_Setting = Union[bool, int, float, str, os.PathLike[str], None]
_T = TypeVar("_T")
_R = TypeVar("_R")

class _Reading(TypedDict, total=False):
    trace_format: str | None
    columns: str | None
    bad_records: str | None
    event: str | None
    same_disks: str | None
    drop_repeats: bool | None

class Trace:
    paths: tuple[str, ...]
    reading: dict[str, _Setting]
    def __init__(self, *paths: _Path, **reading: Unpack[_Reading]) -> None: ...
    @classmethod
    def of(cls, trace: _Traces) -> Trace: ...
    def check(self) -> None: ...

class Requests:
    OPERATIONS: tuple[str, ...]
    skipped: int
    def __len__(self) -> int: ...
    def numpy(self) -> dict[str, Any]: ...
    def arrow(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class Curve(NamedTuple):
    cache_bytes: list[int]
    miss_ratio: list[float]
    rate: float
    details: dict[str, Any]

class Answer(dict[str, Any]): ...

def read(trace: _Traces, **reading: Unpack[_Reading]) -> Requests: ...
def batches(trace: _Traces, rows: int = 1048576, **reading: Unpack[_Reading]) -> Iterator[Requests]: ...
def simulate(
    trace: _Traces, policy: str = "weu", size: _Size | None = None, **settings: _Setting
) -> dict[str, Any]: ...
def misses(
    trace: _Traces, policy: str, objects: int, object_size: int | None = None, **reading: Unpack[_Reading]
) -> dict[str, Any]: ...
def miss_curve(
    trace: _Traces,
    policy: str = "lru",
    sizes: Sequence[_Size] | None = None,
    sample: float | None = None,
    **settings: _Setting,
) -> Curve: ...
def size(trace: _Traces, **settings: _Setting | Sequence[_Path]) -> Answer: ...
def settings(call: str = "simulation") -> dict[str, str]: ...
def values(axis: str) -> list[str]: ...
def run_all(function: Callable[[_T], _R], tasks: Iterable[_T], executor: Executor | Any = None) -> list[_R]: ...
def sweep(
    trace: _Traces,
    policy: str | Iterable[str] = "weu",
    size: _Size | Iterable[_Size] | None = None,
    *,
    executor: Executor | Any = None,
    **settings: _Setting | Iterable[_Setting],
) -> list[dict[str, Any]]: ...
