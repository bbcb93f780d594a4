"""The cache device fails, by one kind of call or all: volumes in write-through go on, flushed data of the others is there later."""
from .. import sick, sick_cache
from ..stage import MIB

CALLS = [("pread",), ("pwrite",), ("flush",), ("pread", "pwrite", "flush", "zero", "trim")]


async def run(stage):
    errors = {kind: stage.random.choice(["EIO", "ENOSPC"]) for kind in sick.NbdkitFile.KINDS}
    place = stage.use(sick.NbdkitFile(stage, "ssd", 32 * MIB, errors))
    await sick_cache.outlive(stage, place, place.file, lambda: place.fail(*stage.random.choice(CALLS)))
