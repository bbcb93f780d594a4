"""A driver of a vhost-user-blk device: vhost.py SOCKET exercise|compare FILE [REQUESTS]

exercise: random requests of 16 clients at once, each with a part of the disk of its own, in three queues; what is read must be what
FILE and the writes before say. Then a FLUSH; FILE becomes what the disk must hold. compare: reads all of the disk.
"""
import asyncio
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../long"))
import vhost_user as vhost  # noqa: E402

CLIENTS = 16
SECTORS_MAX = vhost.REQUEST_BYTES_MAX // vhost.SECTOR


async def done(guest, kind, sector, sectors, data=b""):
    status, read = await guest.request(kind, sector, sectors, data)
    if status != vhost.OK:
        sys.exit(f"request {kind} of {sectors} sectors at {sector} fails with status {status}")
    return read


def check(model, sector, read):
    expected = model[sector * vhost.SECTOR:sector * vhost.SECTOR + len(read)]
    if read != expected:
        at = next(at for at, (one, other) in enumerate(zip(read, expected)) if one != other)
        sys.exit(f"other bytes than expected at {sector * vhost.SECTOR + at}")


async def client(guest, model, base, total, requests):
    draw = random.Random(base)
    for _ in range(requests):
        unit = draw.choice([1, 8, 16])
        sectors = min(draw.choice([1, 1, 1, 2, 4, 16]) * unit, SECTORS_MAX, total)
        # Half of them in an eighth of the part.
        first = draw.randrange((total - sectors) // draw.choice([1, 8]) + 1)
        first = base + first - first % unit
        kind, at = draw.random(), first * vhost.SECTOR
        if kind < 0.5:
            check(model, first, await done(guest, vhost.READ, first, sectors))
            continue
        if kind < 0.6:
            await done(guest, vhost.WRITE_ZEROES, first, sectors)
            model[at:at + sectors * vhost.SECTOR] = bytes(sectors * vhost.SECTOR)
            continue
        if kind < 0.65:
            # What a discarded range holds is not said: it is written after that.
            await done(guest, vhost.DISCARD, first, sectors)
        elif kind < 0.68:
            await done(guest, vhost.FLUSH, 0, 0)
        data = draw.randbytes(sectors * vhost.SECTOR // 2) + bytes(sectors * vhost.SECTOR // 2)
        await done(guest, vhost.WRITE, first, sectors, data)
        model[at:at + len(data)] = data


async def exercise(guest, model, requests):
    part = len(model) // vhost.SECTOR // CLIENTS
    await asyncio.gather(*(client(guest, model, index * part, part, requests // CLIENTS) for index in range(CLIENTS)))
    await done(guest, vhost.FLUSH, 0, 0)


async def compare(guest, model):
    async def piece(sector):
        check(model, sector, await done(guest, vhost.READ, sector, min(SECTORS_MAX, len(model) // vhost.SECTOR - sector)))
    for start in range(0, len(model) // vhost.SECTOR, 32 * SECTORS_MAX):
        end = min(start + 32 * SECTORS_MAX, len(model) // vhost.SECTOR)
        await asyncio.gather(*(piece(sector) for sector in range(start, end, SECTORS_MAX)))


async def main():
    socket, what, path = sys.argv[1:4]
    with open(path, "rb") as file:
        model = bytearray(file.read())
    guest = vhost.Guest(socket, queues=3, indirect=what == "exercise")
    guest.connect()
    if guest.size_bytes != len(model):
        sys.exit(f"the disk has {guest.size_bytes} bytes, not {len(model)}")
    if what == "exercise":
        await exercise(guest, model, int(sys.argv[4]))
        with open(path, "wb") as file:
            file.write(model)
    else:
        await compare(guest, model)
    guest.close()


asyncio.run(asyncio.wait_for(main(), 300))
