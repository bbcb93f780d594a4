"""Many faults, one after the other and together, with kill -9 and orderly ends between them."""
from .. import sick
from ..stage import MIB

LONG_ONLY = True
ATTACKS = ("stall", "announce", "unread", "garbage", "sparse", "overwrite", "trim")


async def run(stage):
    draw = stage.random
    place = stage.use(sick.NbdkitFile(stage, "remote", 12 * MIB, {kind: draw.choice(["EIO", "ENOSPC"]) for kind in sick.NbdkitFile.KINDS}))
    stage.neighbours()
    volume = stage.volume("sick", place.file, bytes_=12 * MIB, healthy=False)
    hostile = stage.volume("hostile", bytes_=64 * MIB, modelled=False)
    stage.expect("volume (sick|hostile)", "destage", "request failed", "flush", "does not answer", "refused a client", "handshake")
    await stage.start(origin_timeout="10s")
    await stage.load()
    await stage.load(volume)
    await stage.pass_time("before")
    for _ in range(12):
        attacks = [stage.attack(hostile.name, kind, size=hostile.bytes, connections=10, count=100_000)
                   for kind in draw.sample(ATTACKS, draw.randint(0, 2))]
        what = draw.choice(["nothing", "hang", *sick.NbdkitFile.KINDS, "flush"])
        if what == "hang":
            place.hang()
        elif what != "nothing":
            place.fail(what)
        await stage.pass_time("fault", draw.uniform(0.5, 4))
        how = draw.choice(["go on", "go on", "kill", "end"])
        if how == "kill":
            await stage.crash(before_wait=place.go_on)
        for attack in attacks:
            stage.leave(attack)
        if how == "end":
            place.go_on()
            await stage.end_beside(volume)
        place.heal()
        if how != "go on":
            await stage.restart()
            await stage.look()
            await stage.load()
            await stage.load(volume)
    await stage.reopen()
    await stage.finish()
