"""Simulations of SSD caches on traces of requests: Nitro's laboratory for Python.

    import nitro_lab as nl

    trace = nl.Trace("recorded.parquet")
    nl.simulate(trace, "weu", "1G")["read_hit_ratio"]
    nl.sweep(trace, ["lru", "s3-fifo", "weu"], nl.values("size=256M..16G:x2"), executor=client)

Settings have the names of the options of `nitro-lab sim`, with underscores, and their values and defaults; `settings()` lists
them. Calls of the native part release the interpreter's lock, and take and return what can be pickled.
"""

try:
    from . import _native
except ImportError as error:  # the folder of the sources, or a wheel of another machine
    raise ImportError(
        "nitro_lab has no native part here: run `pip install ./python` in the folder of Nitro's sources (it needs Rust 1.95 "
        f"or later), and start Python outside of python/ ({error})"
    ) from error

from ._requests import Requests, batches, read
from ._simulate import (
    Answer,
    Curve,
    misses,
    miss_curve,
    settings,
    simulate,
    size,
    values,
)
from ._sweep import run_all, sweep
from ._trace import Trace

__all__ = [
    "Answer",
    "Curve",
    "Requests",
    "Trace",
    "batches",
    "misses",
    "miss_curve",
    "read",
    "run_all",
    "settings",
    "simulate",
    "size",
    "sweep",
    "values",
]
