"""Simulations, curves and answers: the same as those of nitro-lab, and of the plainest models."""

import json
import subprocess
from collections import OrderedDict

import nitro_lab as nl
import pytest
from conftest import EXTENT, REQUESTS


def places(trace):
    with open(trace) as file:
        return [int(line.split(",")[2]) for line in file]


def lru_misses(names, objects):
    cache, misses = OrderedDict(), 0
    for name in names:
        if name in cache:
            cache.move_to_end(name)
            continue
        misses += 1
        cache[name] = None
        if len(cache) > objects:
            cache.popitem(last=False)
    return misses


def told(lab, *arguments):
    return json.loads(subprocess.run([lab, *arguments, "-o", "json"], check=True, capture_output=True).stdout)


@pytest.mark.parametrize("policy", ["weu", "lru", "s3-fifo"])
def test_simulations_are_those_of_the_program(trace, lab, policy):
    whole = nl.simulate(trace, policy, "8M", ram=0, warmup=1000)
    assert whole == told(lab, "sim", trace, f"--variant={policy}", "--cache-size=8M", "--ram=0", "--warmup=1000")
    assert 0 < whole["read_hit_ratio"] < 1
    assert nl.simulate(trace, policy, 8 << 20, ram=0, warmup=1000) == whole


def test_settings_of_the_call_and_of_the_trace(trace):
    named = nl.Trace(trace, trace_format="alibaba")
    assert nl.simulate(named, size="8M") == nl.simulate(trace, size="8M")
    with pytest.raises(ValueError):
        nl.simulate(named, size="8M", trace_format="msr")
    back = nl.simulate(trace, size="8M", mode="write-back", compression="none", drop_repeats=False)
    assert back["settings"]["write_back"] is not None


def test_misses_are_those_of_the_plainest_lru(trace):
    names = places(trace)
    for objects in (10, 500, 2000):
        found = nl.misses(trace, "lru", objects)
        assert (found["requests"], found["misses"]) == (REQUESTS, lru_misses(names, objects))
    belady = nl.misses(trace, "belady", 500)["misses"]
    assert belady < nl.misses(trace, "s3-fifo", 500)["misses"] < REQUESTS
    halves = nl.misses(trace, "lru", 1000, object_size=EXTENT // 2)
    assert (halves["requests"], halves["misses"]) == (2 * REQUESTS, 2 * lru_misses(names, 500))


def test_a_whole_curve_is_exact(trace):
    names = places(trace)
    curve = nl.miss_curve(trace, sample=100)
    assert curve.rate == 1.0 and curve.cache_bytes == sorted(curve.cache_bytes)
    assert all(before >= after for before, after in zip(curve.miss_ratio, curve.miss_ratio[1:]))
    for objects in (100, 1000):
        at = max(at for at, size in enumerate(curve.cache_bytes) if size <= objects * EXTENT)
        expected = lru_misses(names, curve.cache_bytes[at] // EXTENT) / REQUESTS
        assert curve.miss_ratio[at] == pytest.approx(expected, abs=1e-9)


def test_curves_of_caches_are_simulations(trace):
    curve = nl.miss_curve(trace, "weu", sizes=["4M", 8 << 20], sample=100)
    assert curve.cache_bytes == [4 << 20, 8 << 20]
    for size, missed in zip(curve.cache_bytes, curve.miss_ratio):
        assert missed == pytest.approx(1 - nl.simulate(trace, "weu", size)["read_extent_hit_ratio"], abs=1e-9)
    assert curve.details["points"][0]["ssd_bytes_written"] > 0
    unnamed = nl.miss_curve(trace, "weu")
    assert unnamed.cache_bytes[-1] > unnamed.details["touched_bytes"] and len(unnamed.cache_bytes) > 3
    assert unnamed.miss_ratio[-1] <= unnamed.miss_ratio[0]


def test_the_answer_is_that_of_the_program(trace, lab):
    answer = nl.size(trace, hits=70)
    words = answer.pop("words")
    assert answer == told(lab, "size", trace, "--hits=70")
    shown = subprocess.run([lab, "size", trace, "--hits=70"], check=True, capture_output=True, text=True).stdout
    assert words.splitlines()[0] == shown.splitlines()[0]
    assert str(nl.size(trace, hits=70)) == words


def test_settings_are_listed_with_their_meaning():
    simulation = nl.settings()
    assert {"cache_size", "variant", "admission", "ram", "warmup", "trace_format"} <= simulation.keys()
    assert "s3-fifo" in simulation["variant"] and all(simulation.values())
    assert "output" not in simulation and "sweep" not in simulation
    assert "hits" in nl.settings("size") and "columns" in nl.settings("reading")
    assert "cache_size" not in nl.settings("curve")
    assert nl.values("size=1G..4G:x2") == [str(1 << 30), str(2 << 30), str(4 << 30)]
