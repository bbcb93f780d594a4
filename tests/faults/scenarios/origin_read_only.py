"""The origin's filesystem finds itself damaged and becomes read-only."""
from .. import sick
from ..stage import MIB


async def run(stage):
    place = stage.use(sick.Filesystem(stage, "small", 32 * MIB))
    stage.neighbours()
    volume = stage.volume("sick", place.path("vm.img"), bytes_=12 * MIB, healthy=False)
    # A damaged filesystem does not write what is still in the page cache, such as the edges of a range that was zeroed.
    volume.forgets()
    stage.expect("volume sick", "destage", "request failed", "flush", "Read-only", "Input/output error", "mark")
    await stage.start()
    await stage.load()
    await stage.load(volume)
    await stage.pass_time("before")
    place.make_read_only()
    await stage.pass_time("fault", stage.seconds * 2)
    await (stage.crash() if stage.random.random() < 0.5 else stage.end_beside(volume))
    # Mounted anew, the filesystem takes back the modification time, also that of writes that it refused.
    place.mount_anew()
    volume.healthy = True
    await stage.restart()
    await stage.finish()
