"""kill -9 at random moments, also during the start and the end, beside a tenant that overwrites without a FLUSH."""
import asyncio
import signal

from ..stage import MIB


async def run(stage):
    stage.neighbours()
    hostile = stage.volume("hostile", bytes_=16 * MIB, modelled=False)
    await stage.start()
    for _ in range(4 if stage.is_quick else 25):
        await stage.load()
        attack = stage.attack(hostile.name, "overwrite", size=hostile.bytes, count=100_000)
        await stage.pass_time("fault", stage.random.uniform(0.1, 1))
        if stage.random.random() < 0.3:
            for load in stage.loads:
                load.ended = True
            stage.server.signal(signal.SIGTERM)
            await asyncio.sleep(stage.random.uniform(0, 0.2))
        await stage.crash()
        stage.leave(attack)
        if stage.random.random() < 0.3:
            stage.server.spawn()
            await asyncio.sleep(stage.random.uniform(0, 0.1))
            await stage.crash()
        await stage.restart()
        if stage.random.random() < 0.7:
            await stage.look()
    await stage.finish()
