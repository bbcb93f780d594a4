"""Sweeps: many simulations of one trace, on this machine or on a cluster."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from . import _native
from ._simulate import _simulate
from ._trace import Trace

KINDS = (
    "a concurrent.futures.Executor, a dask.distributed.Client, the module ray, or something with map(function, tasks); "
    "without one, threads of this process are used"
)


def run_all(function: Callable[[Any], Any], tasks: Iterable[Any], executor: Any = None) -> list[Any]:
    """Calls `function` with each task on an executor; returns the results in the order of the tasks.

    `executor` is a `concurrent.futures.Executor`, a `dask.distributed.Client`, the module `ray` after `ray.init()`, or anything
    with `map(function, tasks)`, such as a pool of multiprocessing. `None`: threads of this process, one for each core.
    The first exception of a task is raised.
    """
    tasks = list(tasks)
    if not tasks:
        return []
    if executor is None:
        with ThreadPoolExecutor(max_workers=min(len(tasks), _cores())) as threads:
            return _in_order(threads, function, tasks)
    if isinstance(executor, Executor):
        return _in_order(executor, function, tasks)
    if type(executor).__module__.partition(".")[0] == "distributed" and hasattr(executor, "gather"):
        # Not pure: a trace of the same name may have another content the next time.
        return executor.gather(executor.map(function, tasks, pure=False))
    if inspect.ismodule(executor) and hasattr(executor, "remote") and hasattr(executor, "get"):
        remote = executor.remote(function)
        return executor.get([remote.remote(task) for task in tasks])
    if hasattr(executor, "map"):
        return list(executor.map(function, tasks))
    raise TypeError(f"executor: {type(executor).__name__} is none; give {KINDS}")


def _in_order(executor: Executor, function: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
    futures = [executor.submit(function, task) for task in tasks]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()


# A child has none of the threads that may be reading a trace for all.
os.register_at_fork(after_in_child=_native.forget)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _task(task: tuple[Trace, dict[str, Any]]) -> dict[str, Any]:
    """A point of a sweep. Points of the same trace in the same process read the trace once."""
    trace, settings = task
    return _simulate(trace, settings, keep=True)


def sweep(
    trace: Any,
    policy: Any = "weu",
    size: Any = None,
    *,
    executor: Any = None,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Simulates all combinations of settings: `policy`, `size` and each setting may be a list of values.

    The results are those of `simulate`, in the order of the combinations (the last setting changes fastest), each with its
    combination as `point`. Each is one task for the `executor`, see `run_all`: a process that does several of them reads the
    trace once, and keeps what it needs of it until it simulates another one, in at most 64 MiB and an unnamed file in TMPDIR.
    """
    trace = Trace.of(trace)
    trace.check()
    given = {"variant": policy, "cache_size": size, **settings}
    axes = {name: _values(name, value) for name, value in given.items()}
    combinations = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    try:
        results = run_all(_task, [(trace, combination) for combination in combinations], executor)
    finally:
        _native.forget()
    swept = [name for name, values in axes.items() if len(values) > 1]
    public = {"variant": "policy", "cache_size": "size"}
    for combination, result in zip(combinations, results):
        result["point"] = {public.get(name, name): combination[name] for name in swept}
    return results


def _values(name: str, value: Any) -> list[Any]:
    if isinstance(value, (str, bytes, os.PathLike)) or not isinstance(value, Iterable):
        return [value]
    values = list(value)
    if not values:
        raise ValueError(f"sweep(): {name} has no values; give at least one, or leave it out")
    return values
