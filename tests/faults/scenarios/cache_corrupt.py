"""Bytes in the cache device change by themselves: that costs misses and nothing else."""
import os

from ..stage import MIB, Failure

MODES = ("through",)


def damage(stage, places):
    """Overwrites random blocks of the part for data."""
    with open(stage.cache_path, "r+b") as file:
        for _ in range(places):
            file.seek(stage.random.randrange(12 * MIB, 30 * MIB, 4096))
            file.write(stage.random.randbytes(stage.random.choice([1, 512, 4096, 65536])))
        file.flush()
        os.fsync(file.fileno())


async def run(stage):
    stage.neighbours()
    stage.cache_is_damaged = True
    stage.expect("checksum", "corrupt")
    await stage.start(ram="0")
    await stage.load()
    await stage.pass_time("before")
    for _ in range(10):
        damage(stage, 40)
        await stage.pass_time("fault", stage.seconds / 10)
    await stage.look()
    status = await stage.server.status()
    corrupt = status["caches"][0]["corrupt_extents"]
    if corrupt == 0:
        raise Failure("no corrupt extent was counted")
    stage.figures["told"] = [f"{corrupt} corrupt extents"]
    await stage.finish()
