"""A hostile tenant, as a process of its own: `python3 -m faults.hostile ATTACK --socket PATH --export NAME --seed N`.

Attacks that only send what the protocol allows (sparse, overwrite, trim) end by themselves with a line of JSON that tells how
many requests were answered and which errors came; the others go on until they are killed."""
import argparse
import asyncio
import contextlib
import json
import os
import random
import struct
import time

import nbd

MIB = 1 << 20
OPT_GO, OPT_INFO, OPT_STRUCTURED, OPT_SET_META = 7, 6, 8, 10
BLOCK_STATUS, CACHE = 7, 5
MAX_REQUEST = 32 * MIB


def option(kind, body=b"", length=None):
    return b"IHAVEOPT" + struct.pack(">II", kind, len(body) if length is None else length) + body


def go(export, kind=OPT_GO):
    name = export.encode()
    return option(kind, struct.pack(">I", len(name)) + name + b"\0\0")


def request(kind, offset, length, cookie=1, flags=0):
    return struct.pack(">IHHQQI", nbd.REQUEST, flags, kind, cookie, offset, length)


def noise(draw, length):
    return draw.randbytes(length)


async def raw(arguments, sent):
    """A connection that has sent `sent` after the server's greeting and reads nothing more."""
    reader, writer = await asyncio.open_unix_connection(arguments.socket, limit=1 << 14)
    with contextlib.suppress(asyncio.IncompleteReadError):
        await reader.readexactly(18)
    writer.write(sent)
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(writer.drain(), 5)
    return reader, writer


async def ready(arguments, structured=False):
    """A connection in transmission, read by nobody."""
    reader, writer = await asyncio.open_unix_connection(arguments.socket, limit=1 << 14)
    await reader.readexactly(18)
    writer.write(struct.pack(">I", 3))
    options = [go(arguments.export)]
    if structured:
        name = arguments.export.encode()
        contexts = b"".join(struct.pack(">I", len(context)) + context for context in (b"base:allocation", b"nitro:cache"))
        asked = struct.pack(">I", len(name)) + name + struct.pack(">I", 2) + contexts
        options = [option(OPT_STRUCTURED), option(OPT_SET_META, asked), *options]
    for sent in options:
        writer.write(sent)
        kind = 0
        while kind not in (1,) and kind < 1 << 31:
            _, _, kind, size = struct.unpack(">QIII", await reader.readexactly(20))
            await reader.readexactly(size)
    return reader, writer


async def stall(arguments, draw):
    """Handshakes that do not go on, in every state; some break off and begin anew."""
    flags = struct.pack(">I", 3)
    states = [b"", flags[:2], flags, flags + b"IHAVEOPT"[:5], flags + go(arguments.export, OPT_INFO), flags + option(OPT_GO, b"\0\0", length=4000),
              flags + option(OPT_GO, length=0xffffffff), flags + option(99, b"x" * 100) * 20]

    async def one():
        while True:
            with contextlib.suppress(ConnectionError, asyncio.TimeoutError, OSError):
                sent = noise(draw, draw.randint(1, 4000)) if draw.random() < 0.2 else draw.choice(states)
                reader, writer = await raw(arguments, sent)
                if draw.random() < 0.3:
                    await asyncio.sleep(draw.uniform(0, 0.2))
                    writer.close()
                    continue
                while await asyncio.wait_for(reader.read(1 << 14), 3600):
                    pass
                writer.close()
            await asyncio.sleep(0.1)

    await asyncio.gather(*(one() for _ in range(arguments.connections)))


async def announce(arguments, draw):
    """Writes of 32 MiB whose bytes do not come, or only some of them."""
    async def one():
        while True:
            with contextlib.suppress(ConnectionError, OSError, asyncio.IncompleteReadError):
                reader, writer = await ready(arguments)
                offset = draw.randrange(0, max(1, arguments.size - MAX_REQUEST))
                writer.write(request(nbd.WRITE, offset, MAX_REQUEST) + bytes(draw.choice([0, 0, 1, 5000, 3 * MIB])))
                if draw.random() < 0.2:
                    await asyncio.sleep(draw.uniform(0, 0.3))
                    writer.transport.abort()
                    continue
                await asyncio.wait_for(reader.read(1), 3600)
            await asyncio.sleep(0.1)

    await asyncio.gather(*(one() for _ in range(arguments.connections)))


async def unread(arguments, draw):
    """Requests whose replies are not read: reads, and the status of everything."""
    async def one(number):
        while True:
            with contextlib.suppress(ConnectionError, OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                reader, writer = await ready(arguments, structured=number % 2 == 0)
                reader._transport.pause_reading()
                for cookie in range(2000):
                    length = draw.choice([4096, MIB, min(MAX_REQUEST, arguments.size)])
                    kind = nbd.READ
                    if number % 2 == 0:
                        kind, length = draw.choice([(nbd.READ, length), (BLOCK_STATUS, min(arguments.size, 0xfffffe00)), (CACHE, length)])
                    writer.write(request(kind, 0, length, cookie))
                    await asyncio.wait_for(writer.drain(), 2)
                await asyncio.sleep(3600)
            # The server takes no more: hold it a while, then leave without a word.
            await asyncio.sleep(draw.uniform(0.5, 3))
            with contextlib.suppress(UnboundLocalError):
                writer.transport.abort()

    await asyncio.gather(*(one(number) for number in range(arguments.connections)))


async def garbage(arguments, draw):
    """Noise where requests are expected, requests out of every range, and connections cut in the middle of a payload."""
    async def one():
        while True:
            with contextlib.suppress(ConnectionError, OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                _, writer = await ready(arguments)
                size = arguments.size
                writer.write(draw.choice([
                    noise(draw, draw.randint(1, 100_000)),
                    request(nbd.READ, size - 1, 4096) + request(nbd.READ, (1 << 64) - 4096, 8192) + request(nbd.READ, 0, 0xffffffff),
                    request(nbd.TRIM, (1 << 63), 0xffffffff) + request(nbd.WRITE_ZEROES, size, 0) + request(77, 0, 0, flags=0xffff),
                    request(nbd.WRITE, 0, MIB) + bytes(draw.randrange(MIB)),
                    request(nbd.WRITE, 0, 0xffffffff) + bytes(1000),
                    request(nbd.WRITE, size - 4096, 8192) + bytes(8192) + request(nbd.READ, 0, 4096),
                    request(nbd.FLUSH, 0, 0) * 500]))
                await asyncio.wait_for(writer.drain(), 5)
                await asyncio.sleep(draw.uniform(0, 0.05))
                writer.transport.abort()
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one() for _ in range(arguments.connections)))


async def pile(arguments, draw):
    """Hundreds of requests of each kind at once, to an origin that does not answer."""
    connections = [await ready(arguments) for _ in range(4)]
    for cookie in range(arguments.requests):
        _, writer = draw.choice(connections)
        kind, data = draw.choice([(nbd.TRIM, b""), (nbd.TRIM, b""), (nbd.WRITE_ZEROES, b""), (nbd.READ, b""), (nbd.WRITE, bytes(8192))])
        writer.write(request(kind, draw.randrange(0, arguments.size - 8192, 8192), 8192, cookie) + data)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(writer.drain(), 5)
    await asyncio.sleep(3600)


class Tally:
    """Requests that the protocol allows, answered or refused."""

    def __init__(self):
        self.answered, self.refused, self.slowest_s, self.begun = 0, {}, 0.0, time.monotonic()

    async def send(self, connection, *words):
        begun = time.monotonic()
        try:
            await connection.request(*words)
            self.answered += 1
        except nbd.Refused as refused:
            error = str(refused).rsplit(" ", 1)[-1]
            self.refused[error] = self.refused.get(error, 0) + 1
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)

    def tell(self):
        print(json.dumps({**vars(self), "seconds": time.monotonic() - self.begun}))


async def each(connections, count, send):
    """Calls `send(connection, number)` for all numbers, one under way for each connection."""
    numbers = iter(range(count))

    async def one(connection):
        for number in numbers:
            await send(connection, number)

    await asyncio.gather(*(one(connection) for connection in connections))


async def sparse(arguments, draw):
    """Writes of 8 to 32 MiB of zeroes with one block that is none."""
    tally = Tally()
    connections = [await nbd.Connection.open(arguments.socket, arguments.export) for _ in range(2)]

    async def send(connection, _):
        length = min(draw.choice([8, 8, 16, 32]) * MIB, arguments.size)
        data = bytearray(length)
        at = draw.randrange(0, length, 8192)
        data[at:at + 8192] = noise(draw, 8192)
        await tally.send(connection, nbd.WRITE, draw.randrange(0, arguments.size - length + 1, 8192), length, bytes(data))

    await each(connections, arguments.count, send)
    tally.tell()


def shrinking(draw, length):
    """Bytes that are like no others and shrink eight to one."""
    return b"".join(noise(draw, 1024) + bytes(7168) for _ in range(length // 8192))


async def overwrite(arguments, draw):
    """Writes of 1 MiB round and round, without a flush."""
    tally = Tally()
    connections = [await nbd.Connection.open(arguments.socket, arguments.export) for _ in range(4)]
    places = min(arguments.size // MIB, 12)

    async def send(connection, number):
        await tally.send(connection, nbd.WRITE, number % places * MIB, MIB, shrinking(draw, MIB))

    await each(connections, arguments.count, send)
    tally.tell()


async def trim(arguments, draw):
    """Much that shrinks, then TRIM, WRITE_ZEROES and CACHE of everything at once."""
    tally = Tally()
    connections = [await nbd.Connection.open(arguments.socket, arguments.export) for _ in range(4)]

    async def send(connection, number):
        await tally.send(connection, nbd.WRITE, number * MIB % (arguments.size - MIB + 1), MIB, shrinking(draw, MIB))

    await each(connections, arguments.count, send)
    longest = min(arguments.size, 0xfffffe00)
    for kind in (nbd.TRIM, CACHE, nbd.WRITE_ZEROES, nbd.TRIM, nbd.FLUSH):
        length = 0 if kind == nbd.FLUSH else min(longest, 256 * MIB) if kind == CACHE else longest
        await asyncio.gather(*(tally.send(connection, kind, 0, length) for connection in connections))
    tally.tell()


ATTACKS = {attack.__name__: attack for attack in (stall, announce, unread, garbage, pile, sparse, overwrite, trim)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--export", required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--size", type=int, default=16 * MIB)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--count", type=int, default=100)
    arguments = parser.parse_args()
    os.nice(10)
    asyncio.run(ATTACKS[arguments.attack](arguments, random.Random(arguments.seed)))


if __name__ == "__main__":
    main()
