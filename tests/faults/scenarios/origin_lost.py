"""The origin is a device that goes while it is served, or the server of a file that does."""
from .. import sick
from ..stage import MIB


async def run(stage):
    if stage.random.random() < 0.5:
        place = stage.use(sick.LoopDevice(stage, "disk", 12 * MIB))
        origin, lose = place.device, place.lose
    else:
        place = stage.use(sick.NbdkitFile(stage, "remote", 12 * MIB))
        origin, lose = place.file, place.vanish
    stage.neighbours()
    volume = stage.volume("sick", origin, bytes_=12 * MIB, healthy=False)
    stage.expect("volume sick", "destage", "request failed", "flush", "is not served")
    await stage.start()
    await stage.load()
    await stage.load(volume)
    await stage.pass_time("before")
    lose()
    await stage.pass_time("fault", stage.seconds * 2)
    await (stage.crash() if stage.random.random() < 0.5 else stage.end_beside(volume))
    # The others are served without it; its dirty data stay in the cache.
    del stage.volumes[volume.name]
    await stage.restart()
    await stage.finish()
