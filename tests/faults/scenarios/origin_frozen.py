"""The origin's filesystem is frozen while hundreds of requests are under way there."""
from .. import sick
from ..stage import MIB


async def run(stage):
    place = stage.use(sick.Filesystem(stage, "small", 48 * MIB))
    stage.neighbours()
    volume = stage.volume("sick", place.path("vm.img"), bytes_=12 * MIB, healthy=False)
    hostile = stage.volume("hostile", place.sparse("hostile.img", 16 * MIB), bytes_=16 * MIB, modelled=False)
    stage.expect("volume (sick|hostile)", "destage", "request failed", "does not answer")
    await stage.start(origin_timeout=stage.random.choice(["1s", "2s"]))
    await stage.load()
    await stage.load(volume)
    await stage.pass_time("before")
    place.freeze()
    attack = stage.attack(hostile.name, "pile", size=hostile.bytes, requests=800)
    await stage.pass_time("fault", max(4, stage.seconds))
    await stage.server.status()
    if stage.random.random() < 0.5:
        stage.leave(attack)
    place.heal()
    await stage.pass_time("after the fault")
    await stage.reopen()
    await stage.finish()
