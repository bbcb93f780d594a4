"""path.py PORT TARGET: passes connections to PORT of the loopback address on to TARGET, another port, until it is killed.

PORT may be 0: then a free one is printed.
"""
import asyncio
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def connected(reader, writer):
    try:
        back, forth = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, forth), copy(back, writer))


async def main():
    server = await asyncio.start_server(connected, "127.0.0.1", int(sys.argv[1]), reuse_address=True)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
