"""Bytes in the cache device change by themselves: that costs misses and nothing else."""
import mmap
import os

from ..stage import MIB, Failure

MODES = ("through",)
BLOCK = 4096
ROUNDS = 10
ROUNDS_MAX = 100


def damage(stage, places):
    """Overwrites random blocks of the part for data, past the page cache as the server does.

    Dirty pages of another process make the kernel fail the next fsync of the file, the server's too, with EIO: a direct write
    cannot invalidate them."""
    try:
        file = os.open(stage.cache_path, os.O_RDWR | os.O_DIRECT)
    except OSError:
        file = os.open(stage.cache_path, os.O_RDWR)
    try:
        for _ in range(places):
            place = stage.random.randrange(12 * MIB, 30 * MIB, BLOCK)
            bytes_ = stage.random.randbytes(stage.random.choice([1, 512, 4096, 65536]))
            # Anonymous memory begins at a page, as direct requests must.
            with mmap.mmap(-1, -(-len(bytes_) // BLOCK) * BLOCK) as buffer:
                os.preadv(file, [buffer], place)
                buffer[: len(bytes_)] = bytes_
                if os.pwritev(file, [buffer], place) != len(buffer):
                    raise Failure(f"a damage of {len(buffer)} bytes at {place} was cut short")
    finally:
        os.close(file)


async def run(stage):
    stage.neighbours()
    stage.cache_is_damaged = True
    stage.expect("checksum", "corrupt")
    await stage.start(ram="0")
    await stage.load()
    await stage.pass_time("before")
    corrupt = 0
    # On a busy machine little more is cached at first than what is still in RAM, where nothing damages it.
    for round in range(ROUNDS_MAX):
        damage(stage, 40)
        await stage.pass_time("fault", stage.seconds / 10)
        corrupt = (await stage.server.status())["caches"][0]["corrupt_extents"]
        if round + 1 >= ROUNDS and corrupt > 0:
            break
    await stage.look()
    if corrupt == 0:
        raise Failure("no corrupt extent was counted")
    stage.figures["told"] = [f"{corrupt} corrupt extents"]
    await stage.finish()
