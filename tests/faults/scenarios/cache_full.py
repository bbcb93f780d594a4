"""The cache is a sparse file on a filesystem that has no room left for it."""
from .. import sick
from ..stage import MIB


async def run(stage):
    place = stage.use(sick.Filesystem(stage, "ssd", 40 * MIB, tmpfs=stage.random.random() < 0.5))
    stage.cache_path, stage.cache_is_sick = place.sparse("cache.img", 32 * MIB), True
    for volume in stage.neighbours():
        volume.healthy = volume.settings["mode"] == "write-through"
    stage.expect("")
    await stage.start(size=None)
    await stage.load(*stage.modelled())
    await stage.pass_time("before", stage.seconds / 3)
    place.fill()
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
