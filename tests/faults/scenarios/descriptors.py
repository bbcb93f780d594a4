"""No file descriptor is left for new clients."""
import resource

from ..stage import MIB
from ..tenants import connect


async def run(stage):
    stage.server.limits = {resource.RLIMIT_NOFILE: 100}
    stage.neighbours()
    hostile = stage.volume("hostile", bytes_=16 * MIB, modelled=False)
    stage.expect("open files: the limit is", "cannot accept a (control )?client", "refused a client", "cannot set a connection up")
    await stage.start()
    await stage.load()
    await stage.pass_time("before")
    attack = stage.attack(hostile.name, "stall", connections=200, size=hostile.bytes)
    await stage.pass_time("fault", stage.seconds * 2)
    stage.leave(attack)
    connection = await connect(stage.server.socket, "second")
    await connection.close()
    await stage.server.status()
    await stage.finish()
