"""Each kind of call to an origin fails in turn, with EIO or ENOSPC."""
from .. import sick
from ..stage import MIB

KINDS = ("pread", "pwrite", "zero", "trim", "flush")


async def run(stage):
    errors = {kind: stage.random.choice(["EIO", "ENOSPC"]) for kind in KINDS}
    place = stage.use(sick.NbdkitFile(stage, "remote", 12 * MIB, errors))
    stage.neighbours()
    volume = stage.volume("sick", place.file, bytes_=12 * MIB, healthy=False)
    stage.expect("volume sick", "destage", "request failed", "flush")
    await stage.start()
    await stage.load()
    await stage.load(volume)
    await stage.pass_time("before")
    kinds = list(KINDS)
    stage.random.shuffle(kinds)
    for kind in kinds:
        place.fail(kind)
        await stage.pass_time("fault", stage.seconds / 2)
        if stage.random.random() < 0.7:
            place.heal()
            await stage.pass_time("fault", stage.seconds / 8)
    if stage.random.random() < 0.5:
        await stage.end_beside(volume)
        place.heal()
        volume.healthy = True
        await stage.restart()
    else:
        place.heal()
        await stage.reopen()
    await stage.finish()
