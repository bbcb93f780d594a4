"""The origin answers nothing, with and without a timeout, and answers again later."""
from .. import sick
from ..stage import MIB


async def run(stage):
    place = stage.use(sick.NbdkitFile(stage, "remote", 12 * MIB))
    stage.neighbours()
    volume = stage.volume("sick", place.file, bytes_=12 * MIB, healthy=False)
    stage.expect("volume sick", "destage", "request failed", "does not answer")
    await stage.start(origin_timeout=stage.random.choice([None, "1s"]))
    await stage.load()
    await stage.load(volume)
    await stage.pass_time("before")
    place.hang()
    await stage.pass_time("fault", max(3, stage.seconds))
    await stage.server.status()
    place.heal()
    await stage.pass_time("after the fault")
    await stage.reopen()
    await stage.finish()
