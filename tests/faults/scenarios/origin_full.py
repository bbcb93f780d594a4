"""The origin's filesystem has no room."""
from .. import sick
from ..stage import MIB


async def run(stage):
    place = stage.use(sick.Filesystem(stage, "small", 40 * MIB, tmpfs=stage.random.random() < 0.5))
    stage.neighbours()
    volume = stage.volume("sick", place.sparse("vm.img", 28 * MIB), bytes_=28 * MIB, content=0, healthy=False)
    stage.expect("volume sick", "No space left", "destage", "request failed")
    await stage.start()
    await stage.load()
    await stage.load(volume, trims=False)
    await stage.pass_time("before")
    place.fill()
    await stage.load(volume, trims=False, large=True)
    await stage.pass_time("fault", stage.seconds * 2)
    how = stage.random.choice(["crash", "end", "go on"])
    if how != "go on":
        await (stage.crash() if how == "crash" else stage.end_beside(volume))
        await stage.restart()
        await stage.look()
        await stage.load()
        await stage.pass_time("fault")
    place.heal()
    await stage.pass_time("after the fault")
    await stage.reopen()
    await stage.finish()
