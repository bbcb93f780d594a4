"""Tenants under a model: random requests to a volume, every read checked, every request timed."""
import asyncio
import contextlib
import random
import time

import nbd
from oracle import SECTOR, Oracle, content_bytes

from .server import Failure

DEADLINE_S = 40
PAUSE_S = 0.006
LOOK_BYTES = 256 << 10
SHARED_CONTENTS = range(4, 12)


def judge(name, wrong):
    """Fails if a model found sectors wrong."""
    if wrong:
        lines = [f"volume {name}: {len(wrong)} sectors are wrong"]
        raise Failure("\n".join(lines + [f"  sector {sector} (at {sector * SECTOR}) {what}" for sector, what in wrong[:6]]))


class Volume:
    """A volume, its model, and the latencies of its tenants' requests by phase."""

    def __init__(self, name, origin, bytes_, seed, content, contents_from, healthy, modelled):
        self.name, self.origin, self.bytes, self.seed = name, origin, bytes_, seed
        self.healthy, self.modelled = healthy, modelled
        self.neighbour = healthy  # also of a fault that is over
        self.oracle = Oracle(bytes_ // SECTOR if modelled else 0, content)
        self.contents = contents_from
        self.latencies, self.refused, self.settings = {}, {}, {}
        self.mark = f"{origin}.nitro-dirty"
        self.origin_forgets = False

    def forgets(self):
        """The origin is to lose what is not flushed; in write-through, so does the volume."""
        if self.settings["mode"] == "write-through":
            self.origin_forgets, self.oracle.durable_at_once = True, False

    def new_content(self):
        self.contents += 1
        return self.contents


class Load:
    """Tenants of one volume, each with one request under way, until they are told to stop."""

    def __init__(self, stage, volume, tenants=4, pause_s=PAUSE_S, trims=True, large=False, writes=True):
        self.stage, self.volume, self.tenants, self.pause_s, self.trims = stage, volume, tenants, pause_s, trims
        self.large, self.writes = large, writes
        self.connections, self.tasks = [], []
        self.stopping = False
        self.ended = False

    async def start(self):
        for _ in range(2):
            self.connections.append(await connect(self.stage.server.socket, self.volume.name))
        number = self.stage.next_load()
        self.tasks = [asyncio.create_task(self._tenant(f"{number}.{n}", self.connections[n % 2])) for n in range(self.tenants)]

    async def stop(self):
        """Lets the requests under way end and gives their failures."""
        self.stopping = True
        results = await asyncio.gather(*self.tasks, return_exceptions=True)
        for connection in self.connections:
            await connection.close()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def cut(self):
        """After a crash: what was under way is lost."""
        self.ended = True
        await self.stop()

    def check(self):
        for task in self.tasks:
            if task.done() and not task.cancelled() and task.exception():
                raise task.exception()

    async def _tenant(self, name, connection):
        draw = random.Random(f"{self.volume.seed}.{self.volume.name}.{name}")
        while not self.stopping:
            try:
                await self._request(draw, connection)
            except ConnectionError:
                # Killed or ended by the scenario: it says so before the connection breaks.
                if self.ended:
                    return
                raise Failure(f"volume {self.volume.name}: the server hung up on a tenant") from None
            await asyncio.sleep(draw.uniform(0, 2 * self.pause_s))

    def _place(self, draw):
        """First sector and number of sectors of a request: extents, blocks, any sectors, long ones; some places are hot."""
        total = self.volume.bytes // SECTOR
        if self.large and draw.random() < 0.5:
            sectors = min(draw.choice([256, 1024, 2048]), total)
            return draw.randrange(0, total - sectors + 1, 16), sectors
        kind = draw.random()
        unit, length = ((16, draw.choice([1, 1, 2, 4])) if kind < 0.5 else (8, draw.randint(1, 3)) if kind < 0.7
                        else (1, draw.randint(1, 15)) if kind < 0.9 else (1, draw.randint(16, 192)))
        first = draw.randrange((total // 8 if draw.random() < 0.5 else total) // unit) * unit
        return first, min(length * unit, total - first)

    async def _request(self, draw, connection):
        oracle = self.volume.oracle
        kind = draw.random()
        first, sectors = self._place(draw)
        where = (first * SECTOR, sectors * SECTOR)
        if kind < 0.45 or not self.writes:
            asked = oracle.reading(first, sectors)
            data = await self._send(connection, nbd.READ, *where)
            if data is None:
                oracle.reads.remove(asked)
            else:
                judge(self.volume.name, oracle.read(asked, data))
        elif kind < 0.52:
            sent = oracle.now()
            if await self._send(connection, nbd.FLUSH, 0, 0) is not None:
                oracle.flushed(sent)
        else:
            command, content, data = nbd.WRITE, 0, b""
            if kind < 0.56:
                command = nbd.WRITE_ZEROES if kind < 0.54 or not self.trims else nbd.TRIM
            else:
                shared = draw.random() < 0.2 and first % 16 == 0
                content = draw.choice(SHARED_CONTENTS) if shared else self.volume.new_content()
                data = content_bytes(content, sectors)
            fua = nbd.FUA if draw.random() < 0.06 else 0
            write = oracle.write(content, first, sectors, certain=command != nbd.TRIM)
            if await self._send(connection, command, *where, data, fua) is None:
                oracle.failed(write)
            else:
                oracle.written(write, bool(fua))

    async def _send(self, connection, command, offset, length, data=b"", flags=0):
        """The answer, or None if a sick volume refuses."""
        begun = time.monotonic()
        try:
            answer = await asyncio.wait_for(connection.request(command, offset, length, data, flags), DEADLINE_S)
        except asyncio.TimeoutError:
            raise Failure(f"volume {self.volume.name}: request {command} of {length} bytes at {offset} is not answered "
                          f"after {DEADLINE_S} s ({self.stage.phase})") from None
        except nbd.Refused as refused:
            if self.volume.healthy:
                raise Failure(f"volume {self.volume.name}, which is healthy: {refused} ({self.stage.phase})") from None
            error = str(refused).rsplit(" ", 1)[-1]
            self.volume.refused[error] = self.volume.refused.get(error, 0) + 1
            answer = None
            await asyncio.sleep(0.05)
        self.volume.latencies.setdefault(self.stage.phase, []).append(time.monotonic() - begun)
        return answer


async def connect(socket, name):
    """A connection; being served is subject to the deadline, too."""
    try:
        return await asyncio.wait_for(nbd.Connection.open(socket, name), DEADLINE_S)
    except asyncio.TimeoutError:
        raise Failure(f"volume {name}: a new client is not served after {DEADLINE_S} s") from None
    except (ConnectionError, asyncio.IncompleteReadError, nbd.Refused) as error:
        raise Failure(f"volume {name}: a new client is turned away: {error!r}") from None


async def look(stage, volume):
    """Reads every sector of a volume, in any order. Of a sick one, what cannot be read is left out."""
    connection = await connect(stage.server.socket, volume.name)
    pieces = list(range(0, volume.bytes, LOOK_BYTES))
    stage.random.shuffle(pieces)
    wrong, unread = [], 0
    for at in pieces:
        length = min(LOOK_BYTES, volume.bytes - at)
        asked = volume.oracle.reading(at // SECTOR, length // SECTOR)
        try:
            data = await asyncio.wait_for(connection.request(nbd.READ, at, length), DEADLINE_S)
        except asyncio.TimeoutError:
            raise Failure(f"volume {volume.name}: a read of {length} bytes at {at} is not answered after {DEADLINE_S} s") from None
        except nbd.Refused as refused:
            if volume.healthy:
                raise Failure(f"volume {volume.name}, which is healthy: {refused}") from None
            volume.oracle.reads.remove(asked)
            unread += length
            continue
        wrong += volume.oracle.read(asked, data)
    with contextlib.suppress(ConnectionError):
        await connection.close()
    judge(volume.name, wrong)
    return unread
