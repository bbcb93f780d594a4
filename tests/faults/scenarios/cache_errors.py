"""The cache device fails, by one kind of call or all: volumes in write-through go on, flushed data of the others is there later."""
from .. import sick
from ..stage import MIB


async def run(stage):
    errors = {kind: stage.random.choice(["EIO", "ENOSPC"]) for kind in sick.NbdkitFile.KINDS}
    place = stage.use(sick.NbdkitFile(stage, "ssd", 32 * MIB, errors))
    stage.cache_path, stage.cache_is_sick = place.file, True
    for volume in stage.neighbours():
        volume.healthy = volume.settings["mode"] == "write-through"
    stage.expect("")
    await stage.start(size=None)
    await stage.load(*stage.modelled())
    await stage.pass_time("before")
    place.fail(*stage.random.choice([("pread",), ("pwrite",), ("flush",), ("pread", "pwrite", "flush", "zero", "trim")]))
    await stage.pass_time("fault", stage.seconds * 2)
    if stage.random.random() < 0.3:
        await stage.end()
    else:
        await stage.crash()
    place.heal()
    for volume in stage.modelled():
        volume.healthy = True
    await stage.restart()
    await stage.finish()
