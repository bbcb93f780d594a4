"""The origin takes 80 ms for each request."""
from .. import sick
from ..stage import MIB


async def run(stage):
    place = stage.use(sick.NbdkitFile(stage, "remote", 4 * MIB, filters=["delay"], settings=["rdelay=80ms", "wdelay=80ms"]))
    stage.neighbours()
    volume = stage.volume("slow", place.file, bytes_=4 * MIB, mode="write-back" if stage.mode != "through" else None)
    await stage.start()
    await stage.load(*[v for v in stage.modelled() if v is not volume])
    await stage.pass_time("before")
    await stage.load(volume)
    await stage.pass_time("slow", stage.seconds * 2)
    await stage.finish()
