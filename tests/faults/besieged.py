"""A hostile tenant beside two healthy ones: what the scenarios of hostile tenants share."""
from .server import Failure
from .tenants import connect


async def besieged(stage, *attacks, bytes_, newcomers=0, writes=True, **cache):
    """Runs the attacks, words for `Stage.attack` each, while neighbours work and `newcomers` connect.

    An attack with a count ends by itself: its requests are allowed by the protocol, and none may be refused. `cache`
    are settings for `Stage.start`, `writes` tells whether the neighbours write."""
    stage.neighbours()
    hostile = stage.volume("hostile", bytes_=bytes_, modelled=False)
    await stage.start(**cache)
    await stage.load(writes=writes)
    await stage.pass_time("before")
    processes = [(stage.attack(hostile.name, kind, size=bytes_, **words), "count" in words) for kind, words in attacks]
    await stage.pass_time("fault")
    for _ in range(newcomers):
        connection = await connect(stage.server.socket, "first")
        await connection.close()
    for process, ends in processes:
        if ends:
            said = await stage.attack_ends(process)
            stage.figures.setdefault("told", []).append(
                f"{said['answered']} hostile requests in {said['seconds']:.1f} s, the slowest {said['slowest_s']:.1f} s")
            if said["refused"]:
                raise Failure(f"requests that the protocol allows were refused: {said['refused']}, {said['answered']} were answered")
    if not all(ends for _, ends in processes):
        await stage.pass_time("fault")
    for process, ends in processes:
        if not ends:
            stage.leave(process)
    await stage.finish()
