"""Requests as columns, for NumPy and Arrow."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

from . import _native
from ._trace import Trace, pairs

# What each column has: the type for NumPy.
TYPES = {
    "time": "i8",
    "op": "u1",
    "object": "u4",
    "offset": "i8",
    "length": "i8",
    "fingerprint_start": "i8",
    "fingerprint": "u1",
    "block": "u4",
    "compressed": "i8",
    "class": "u1",
}
PRINT_BYTES = 20


def _needs(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{what} needs {name}: run `pip install {name}`") from error


class Requests:
    """The requests of a trace, or a batch of them, in columns.

    `skipped` is the number of bad records that were left out so far.
    """

    #: The names of operations, by the numbers in the column `op`.
    OPERATIONS = tuple(_native.operations())

    def __init__(self, columns: dict[str, bytearray], skipped: int = 0) -> None:
        self._columns = columns
        self.skipped = skipped

    def __len__(self) -> int:
        return len(self._columns["op"])

    def __repr__(self) -> str:
        return f"<{len(self)} requests>"

    def numpy(self) -> dict[str, Any]:
        """The columns as NumPy arrays, which share the memory of this object.

        `time` in nanoseconds, `op` (see `OPERATIONS`), `object`, `offset` and `length` in bytes, `block` in bytes (0: the request
        has no fingerprints), `compressed` in bytes (-1: unknown), `class` (0: none). The fingerprints of request i are
        `fingerprint[fingerprint_start[i]:fingerprint_start[i + 1]]`, 20 bytes each.
        """
        numpy = _needs("numpy", "Requests.numpy()")
        arrays = {name: numpy.frombuffer(self._columns[name], dtype=kind) for name, kind in TYPES.items()}
        arrays["fingerprint"] = arrays["fingerprint"].reshape(-1, PRINT_BYTES)
        return arrays

    def arrow(self) -> Any:
        """The columns as a `pyarrow.Table`, which shares the memory of this object where that is possible.

        It has the columns of Nitro's Parquet files, and their mark:
        `pyarrow.parquet.write_table(requests.arrow(), "t.parquet", compression="zstd")` writes a trace.
        """
        arrow = _needs("pyarrow", "Requests.arrow()")
        compute = _needs("pyarrow.compute", "Requests.arrow()")
        columns, rows = self.numpy(), len(self)

        def whole(name: str, kind: Any) -> Any:
            return arrow.Array.from_buffers(kind, rows, [None, arrow.py_buffer(self._columns[name])])

        def partly(name: str, kind: Any, known: Any) -> Any:
            return arrow.array(columns[name], type=kind, mask=~known) if rows else arrow.array([], type=kind)

        operations = arrow.DictionaryArray.from_arrays(
            arrow.Array.from_buffers(arrow.int8(), rows, [None, arrow.py_buffer(self._columns["op"])]),
            arrow.array(self.OPERATIONS),
        )
        prints = arrow.LargeBinaryArray.from_buffers(
            arrow.large_binary(),
            rows,
            [None, arrow.py_buffer(columns["fingerprint_start"] * PRINT_BYTES), arrow.py_buffer(self._columns["fingerprint"])],
        )
        has_prints = columns["block"] > 0
        prints = compute.if_else(arrow.array(has_prints), prints, None)
        all_columns = {
            "time": whole("time", arrow.int64()),
            "op": operations,
            "object": whole("object", arrow.uint32()),
            "offset": whole("offset", arrow.int64()),
            "length": whole("length", arrow.int64()),
            "fingerprint": prints,
            "block": partly("block", arrow.uint32(), has_prints),
            "compressed": partly("compressed", arrow.uint32(), columns["compressed"] >= 0),
            "class": partly("class", arrow.uint32(), columns["class"] > 0),
        }
        optional = ("fingerprint", "block", "compressed", "class")
        fields = [arrow.field(name, column.type, nullable=name in optional) for name, column in all_columns.items()]
        return arrow.table(list(all_columns.values()), arrow.schema(fields, metadata={"nitro.trace": "1"}))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The Arrow C data interface, by pyarrow: `polars.DataFrame(requests)`, `duckdb.from_arrow(requests)`."""
        return self.arrow().__arrow_c_stream__(requested_schema)


def batches(trace: Any, rows: int = 1 << 20, **reading: Any) -> Iterator[Requests]:
    """The requests of a trace in batches of `rows`, for traces that do not fit into memory."""
    if rows < 1:
        raise ValueError(f"batches(): rows = {rows}: must be 1 or more")
    native = _open(trace, reading)
    while True:
        batch = Requests(native.read(rows), native.skipped())
        if not len(batch):
            return
        yield batch


def read(trace: Any, **reading: Any) -> Requests:
    """All requests of a trace, in about 50 bytes of memory each, and twice as many while they are read."""
    native = _open(trace, reading)
    columns = native.read(sys.maxsize)
    return Requests(columns, native.skipped())


def _open(trace: Any, reading: dict[str, Any]) -> Any:
    trace = Trace.of(trace)
    trace.check()
    return _native.Requests(list(trace.paths), pairs({**trace.reading, **reading}))
