"""A control group limits the server's RAM to what it says it needs, beside tenants that try to have it take more."""
from .. import sick
from ..stage import MIB


async def run(stage):
    limit = stage.use(sick.MemoryLimit(stage))
    stage.server.cgroup = limit.folder
    stage.neighbours()
    hostile = stage.volume("hostile", bytes_=64 * MIB, modelled=False)
    await stage.start()
    # What the kernel keeps for it, sockets and pages of files, counts there, too.
    limit.set(stage.need_bytes + 48 * MIB)
    await stage.load()
    await stage.pass_time("before")
    attacks = [stage.attack(hostile.name, kind, connections=16, size=hostile.bytes, count=100_000)
               for kind in ("announce", "sparse", "unread")]
    await stage.pass_time("fault", stage.seconds * 2)
    for attack in attacks:
        stage.leave(attack)
    await stage.finish()
