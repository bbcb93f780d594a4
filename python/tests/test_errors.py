"""What cannot be done is refused with words that say what is wrong and what to do."""

import subprocess
import sys
from pathlib import Path

import nitro_lab as nl
import pytest

CALLS = {
    "simulate": lambda trace: nl.simulate(trace, size="8M"),
    "misses": lambda trace: nl.misses(trace, "lru", 100),
    "miss_curve": lambda trace: nl.miss_curve(trace),
    "miss_curve of a cache": lambda trace: nl.miss_curve(trace, "weu", ["8M"]),
    "size": lambda trace: nl.size(trace),
    "sweep": lambda trace: nl.sweep(trace, ["lru", "weu"], "8M"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_trace_without_requests(call, without_requests):
    with pytest.raises(ValueError, match=r"idle\.blkparse: it has no requests"):
        CALLS[call](without_requests)


@pytest.mark.parametrize("call", [name for name in CALLS if name != "misses"])
def test_a_trace_without_reads(call, only_writes):
    with pytest.raises(ValueError, match=r"writes\.csv: it has no reads"):
        CALLS[call](only_writes)


def test_writes_alone_are_for_a_cache_in_write_back(only_writes):
    with pytest.raises(ValueError, match="mode to write-back"):
        nl.simulate(only_writes, size="8M")
    assert nl.simulate(only_writes, size="8M", mode="write-back")["reads"] == 0


@pytest.mark.parametrize("call", [*CALLS, "read"])
def test_a_trace_that_is_not_there(call, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        {**CALLS, "read": nl.read}[call](tmp_path / "nowhere")


def test_names_of_files_stay_as_they_are(tmp_path):
    (tmp_path / "a--b`--c").write_text("no trace")
    with pytest.raises(ValueError, match="a--b`--c"):
        nl.read(tmp_path / "a--b`--c")


@pytest.mark.parametrize("content", [b"", b"hello, world\n", b"\xff" * 4096])
@pytest.mark.parametrize("call", [*CALLS, "read"])
def test_a_file_that_is_no_trace(call, content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=str(path)):
        {**CALLS, "read": nl.read}[call](path)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda trace: nl.simulate(trace), "size is missing; give bytes, or a text"),
        (lambda trace: nl.simulate(trace, size=0), "cache_size"),
        (lambda trace: nl.simulate(trace, "lru", 0), "the cache is smaller than an extent"),
        (lambda trace: nl.simulate(trace, size="8 elephants"), "cache_size"),
        (lambda trace: nl.simulate(trace, "lur", "8M"), r"lur.*s3-fifo.*see `nitro_lab\.settings\(\)`"),
        (lambda trace: nl.simulate(trace, size="8M", colour="red"), "colour: there is no such setting; there are .*admission"),
        (lambda trace: nl.simulate(trace, size="8M", admission="nobody"), "admission.*nobody"),
        (lambda trace: nl.simulate(trace, size="8M", warmup=10**9), "warmup"),
        (lambda trace: nl.simulate(trace, size="8M", help=True), "no such setting"),
        (lambda trace: nl.simulate(trace, size="8M", sweep="size=1M,2M"), "no such setting"),
        (lambda trace: nl.misses(trace, "lur", 100), "lur.*lru"),
        (lambda trace: nl.misses(trace, "lru", 0), "objects = 0: must be 1"),
        (lambda trace: nl.misses(trace, "lru", 100, object_size=0), "object_size = 0: must be 1"),
        (lambda trace: nl.miss_curve(trace, sample=0), "sample = 0: must be above 0"),
        (lambda trace: nl.miss_curve(trace, sample=101), "sample = 101: must be above 0 and at most 100"),
        (lambda trace: nl.miss_curve(trace, "weu", []), "sizes is empty"),
        (lambda trace: nl.miss_curve(trace, "weu", [0]), "sizes?.*0"),
        (lambda trace: nl.miss_curve(trace, "lur", ["8M"]), "policy = lur"),
        (lambda trace: nl.size(trace, hits=0), "'hits': must be"),
        (lambda trace: list(nl.batches(trace, rows=0)), "rows = 0: must be 1 or more"),
        (lambda trace: nl.read(trace, trace_format="paper"), "'paper' for 'trace_format'.*alibaba"),
        (lambda trace: nl.settings("nothing"), "simulation, curve, size, reading"),
        (lambda trace: nl.misses(trace, "lru", 100, object_size=1, columns="offset=9"), "offset|column"),
        (lambda trace: nl.values("size"), "size"),
        (lambda trace: nl.Trace(), "no file is named"),
    ],
)
def test_wrong_calls(call, words, trace):
    with pytest.raises(ValueError, match=words) as raised:
        call(trace)
    assert "--" not in str(raised.value), "options of the program have no meaning here"


def test_what_is_no_trace_at_all():
    with pytest.raises(TypeError, match="a path, several paths, or a Trace, not int"):
        nl.simulate(3, size="8M")


def test_the_package_without_its_native_part():
    sources = Path(__file__).resolve().parents[1]
    ran = subprocess.run([sys.executable, "-c", "import nitro_lab"], cwd=sources, env={}, capture_output=True, text=True)
    assert ran.returncode and "run `pip install ./python` in the folder of Nitro's sources" in ran.stderr
