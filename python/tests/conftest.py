"""Traces for the tests, made anew: no test needs a program or a file from outside."""

import bisect
import itertools
import os
import random
import shutil

import nitro_lab as nl
import pytest

SAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "traces")
EXTENT = 8192
OBJECTS, REQUESTS = 3000, 30000


def made(path, writes=20, seed=1):
    """A trace in the format of Alibaba: extents of 8 KiB by Zipf's law, of which a percentage is written."""
    chance = random.Random(seed)
    weights = list(itertools.accumulate(1 / rank**0.9 for rank in range(1, OBJECTS + 1)))
    places = list(range(OBJECTS))
    chance.shuffle(places)
    with open(path, "w") as file:
        for number in range(REQUESTS):
            place = places[bisect.bisect_left(weights, chance.random() * weights[-1])]
            op = "W" if chance.random() * 100 < writes else "R"
            file.write(f"1,{op},{place * EXTENT},{EXTENT},{1000 * number}\n")
    return str(path)


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    """Reads and writes."""
    return made(tmp_path_factory.mktemp("traces") / "mixed.csv")


@pytest.fixture(scope="session")
def only_writes(tmp_path_factory):
    return made(tmp_path_factory.mktemp("traces") / "writes.csv", writes=100)


@pytest.fixture(scope="session")
def without_requests(tmp_path_factory):
    """A recording of a device that did nothing: it has a record, which is no request."""
    path = tmp_path_factory.mktemp("traces") / "idle.blkparse"
    path.write_text("  8,0    3        3     0.000002197     0  m   N cfq697S / alloced\n")
    return str(path)


@pytest.fixture(scope="session")
def lab():
    """The program nitro-lab of the same build, with the same results."""
    nitro = os.environ.get("NITRO")
    program = nitro + "-lab" if nitro else shutil.which("nitro-lab")
    if not program or not os.path.exists(program):
        pytest.skip("no nitro-lab: NITRO names nitro, and nitro-lab is beside it")
    return program


@pytest.fixture(autouse=True)
def nothing_is_kept():
    yield
    nl._native.forget()
