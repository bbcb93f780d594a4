"""The write log's device fails: clients see no error, and nothing that was acknowledged is lost."""
from .. import sick
from ..stage import MIB

MODES = ("log",)


async def run(stage):
    errors = {kind: stage.random.choice(["EIO", "ENOSPC"]) for kind in sick.NbdkitFile.KINDS}
    place = stage.use(sick.NbdkitFile(stage, "log", 16 * MIB, errors))
    stage.log_path = place.file
    stage.neighbours()
    stage.expect("write log")
    await stage.start(write_log_size=None)
    await stage.load()
    await stage.pass_time("before")
    for volume in stage.modelled():
        volume.oracle.durable_at_once = volume.settings["mode"] == "write-through"
    place.fail(*stage.random.choice([("pwrite",), ("flush",), ("pread", "pwrite", "flush")]))
    await stage.pass_time("fault")
    if stage.random.random() < 0.7:
        await stage.crash()
        place.heal()
        await stage.restart()
        await stage.look()
    place.heal()
    await stage.finish()
