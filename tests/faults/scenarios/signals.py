"""Two signals at once, also while SIGHUP has the configuration read again: the server ends in order, with all that was acknowledged."""
import asyncio
from signal import SIGHUP, SIGINT, SIGTERM

from ..stage import Failure


async def run(stage):
    stage.neighbours()
    stage.expect("dirty data stay in the cache")
    await stage.start(dirty_age="1h")
    for _ in range(5 if stage.is_quick else 40):
        await stage.load()
        await stage.pass_time("fault", stage.random.uniform(0.1, 0.5))
        first, second = stage.random.choice([(SIGTERM, SIGTERM), (SIGTERM, SIGTERM), (SIGTERM, SIGINT), (SIGTERM, None), (SIGHUP, SIGTERM)])
        if second:
            for load in stage.loads:
                load.ended = True
            stage.server.signal(first)
            await asyncio.sleep(stage.random.choice([0, 0, stage.random.uniform(0, 0.003), stage.random.uniform(0, 0.1)]))
        code = await stage.end(second or first)
        if code < 0:
            raise Failure(f"{first.name}{f' and {second.name}' if second else ''} killed the server")
        await stage.restart()
        await stage.look()
    await stage.finish()
