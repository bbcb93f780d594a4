"""Simulations, curves and answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Union

from . import _native
from ._trace import Trace, pairs

Size = Union[int, str]


def _traces(trace: Any, settings: dict[str, Any]) -> tuple[list[str], list[tuple[str, Any]]]:
    """Paths and settings for the native part. Settings of the call take precedence over those of the trace."""
    trace = Trace.of(trace)
    trace.check()
    return list(trace.paths), pairs({**trace.reading, **settings})


def simulate(trace: Any, policy: str = "weu", size: Size | None = None, **settings: Any) -> dict[str, Any]:
    """Simulates one cache; returns what `nitro-lab sim -o json` prints.

    `policy` is the organisation of the cache (`--variant`): `weu` is Nitro with the server's policies; `lru`, `s3-fifo`, `arc`
    and others are plain policies over extents. `size` is in bytes, or a text such as "1G". `settings("simulation")` lists
    the other settings; what is not given has its default.
    """
    return _simulate(trace, {"variant": policy, "cache_size": size, **settings}, keep=False)


def _simulate(trace: Any, settings: dict[str, Any], keep: bool) -> dict[str, Any]:
    if settings.get("cache_size") is None and settings["variant"] != "none":
        raise ValueError("simulate(): size is missing; give bytes, or a text such as '1G'")
    paths, given = _traces(trace, settings)
    return json.loads(_native.simulate(paths, given, keep))


def misses(
    trace: Any, policy: str, objects: int, object_size: int | None = None, **reading: Any
) -> dict[str, Any]:
    """Counts the misses of a plain policy with room for `objects` objects of one size, as `nitro-lab sim --policy`.

    Each request, read or write, is for one object, named by its address; with `object_size`, for each block of this size that
    it touches.
    """
    for name, value in (("objects", objects), ("object_size", object_size)):
        if value is not None and not 1 <= value < 1 << 32:
            raise ValueError(f"misses(): {name} = {value}: must be 1 to 2^32 - 1")
    paths, given = _traces(trace, reading)
    return json.loads(_native.misses(paths, policy, objects, object_size, given))


class Curve(NamedTuple):
    """The misses by the size of a cache."""

    #: Sizes, in ascending order unless they were given.
    cache_bytes: list[int]
    #: Misses over requests of extents, for each size.
    miss_ratio: list[float]
    #: The share of the extents that was simulated; 1: all.
    rate: float
    #: All that is known.
    details: dict[str, Any]


def miss_curve(
    trace: Any,
    policy: str = "lru",
    sizes: Sequence[Size] | None = None,
    sample: float | None = None,
    **settings: Any,
) -> Curve:
    """The misses by the size of a cache, from a sample of the extents, in one pass over the trace.

    For `lru` without `sizes`, reads and writes count, and a few numbers for each sampled extent give all sizes (SHARDS), as
    `nitro-lab sim --mrc`. Otherwise, caches of `sizes` are simulated on the sample (miniature simulation), reads count, and
    `details["points"]` has the bytes written to the SSD, too; without sizes there are up to nine, each twice the one before,
    the last of which holds all that the trace touches. `sample` is a percentage of the extents; 100 is exact. `settings("curve")` lists the settings.
    """
    paths, given = _traces(trace, settings)
    sample = None if sample is None else float(sample)
    if policy == "lru" and sizes is None:
        found = json.loads(_native.lru_curve(paths, sample, given))
        cache_bytes = [point["objects"] * found["extent_bytes"] for point in found["points"]]
        ratios = [point["miss_ratio"] for point in found["points"]]
    else:
        texts = [str(size) for size in sizes or ()]
        if sizes is not None and not texts:
            raise ValueError("miss_curve(): sizes is empty; give sizes, or leave it out")
        found = json.loads(_native.curve(paths, policy, texts, sample, given))
        cache_bytes = [point["cache_bytes"] for point in found["points"]]
        ratios = [1.0 - point["read_extent_hit_ratio"] for point in found["points"]]
    return Curve(cache_bytes, ratios, found["rate"], found)


class Answer(dict):
    """What `nitro-lab size -o json` prints; as a text, the answer in words."""

    def __str__(self) -> str:
        return self["words"]


def size(trace: Any, **settings: Any) -> Answer:
    """How large a cache should be, how long its SSD lasts and what it costs, as `nitro-lab size`.

    `hits` is the percentage of the extents read that should hit; `settings("size")` lists the settings.
    """
    paths, given = _traces(trace, settings)
    return Answer(json.loads(_native.answer(paths, given)))


def settings(call: str = "simulation") -> dict[str, str]:
    """The settings of a call (`simulation`, `curve`, `size` or `reading`) by name, with their meaning and default."""
    named = {}
    for name, meaning, choices in _native.settings(call):
        named[name] = f"{meaning} [one of: {', '.join(choices)}]" if choices else meaning
    return named


def values(axis: str) -> list[str]:
    """The values of an axis as `nitro-lab sim --sweep` has it, such as "size=1G..16G:x2"."""
    return _native.values(axis)
