"""What a server of many volumes, and one of many clients, takes: memory, time to start, time of a status, reads beside idle clients.

    python3 scale.py NITRO FOLDER VOLUMES,... CLIENTS,...

Prints a JSON object a line. A cache knows at most 64 volumes, so that more are spread over several caches."""
import asyncio
import json
import os
import resource
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests/long"))
from nbd import READ, Connection  # noqa: E402

VOLUMES_A_CACHE = 64
CACHE_BYTES = 64 << 20
VOLUME_BYTES = 1 << 20
SECONDS = 3


class Served:
    """A server of as many volumes; `seconds` is the time until it answers."""

    def __init__(self, nitro, folder, volumes, clients):
        self.folder, self.nitro = folder, nitro
        self.socket, self.control = (os.path.join(folder, name) for name in ("nbd.sock", "control.sock"))
        config = os.path.join(folder, "nitro.toml")
        caches = -(-volumes // VOLUMES_A_CACHE)
        with open(config, "w") as out:
            out.write(f'[server]\nlisten = ["unix:{self.socket}"]\ncontrol = "{self.control}"\nmax_connections = {clients * 8 // 7 + 64}\n'
                      f"max_connections_per_peer = {clients + 16}\n")
            for cache in range(caches):
                out.write(f'[cache.c{cache}]\npath = "{folder}/cache{cache}"\nsize = {CACHE_BYTES}\nram = 0\n')
            for volume in range(volumes):
                path = os.path.join(folder, f"origin{volume}")
                with open(path, "wb") as origin:
                    origin.truncate(VOLUME_BYTES)
                out.write(f'[volume.v{volume}]\norigin = "{path}"\ncache = "c{volume // VOLUMES_A_CACHE}"\n')
        # Caches are formatted first, which is not what is timed.
        self.start(config)
        self.stop()
        begun = time.monotonic()
        self.start(config)
        self.seconds = time.monotonic() - begun

    def start(self, config):
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.process = subprocess.Popen([self.nitro, "serve", "--config", config], stdout=self.log, stderr=subprocess.STDOUT)
        while "ready" not in open(self.log.name).read():
            time.sleep(0.01)
            if self.process.poll() is not None:
                raise SystemExit(f"scale: the server does not start: {open(self.log.name).read()[-2000:]}")

    def stop(self):
        self.process.terminate()
        self.process.wait(300)

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS:"))

    def status_seconds(self):
        begun = time.monotonic()
        subprocess.run([self.nitro, "status", "--control", self.control, "-o", "json"], check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - begun


def clean(folder):
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))


def of_volumes(nitro, folder, count):
    server = Served(nitro, folder, count, 16)
    try:
        return {"volumes": count, "resident_bytes": server.resident(), "start_seconds": server.seconds,
                "status_seconds": server.status_seconds()}
    finally:
        server.stop()
        clean(folder)


async def read_for(client, seconds):
    ends, count = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        await client.request(READ, 8192 * (count % (VOLUME_BYTES // 8192)), 8192)
        count += 1
    return count / seconds


async def beside_clients(server, count):
    """Reads a second of one client alone and beside `count` idle ones, and the memory of each of those."""
    reader = await Connection.open(server.socket, "v0")
    await read_for(reader, 1)
    alone = await read_for(reader, SECONDS)
    before, begun = server.resident(), time.monotonic()
    idle = [await Connection.open(server.socket, "v0") for _ in range(count)]
    connect = (time.monotonic() - begun) / count
    resident = server.resident() - before
    beside = await read_for(reader, SECONDS)
    for client in [reader, *idle]:
        client.writer.close()
    return {"clients": count, "resident_bytes": resident, "connect_seconds": connect, "reads_alone": alone, "reads_beside": beside}


def of_clients(nitro, folder, count):
    server = Served(nitro, folder, 1, count)
    try:
        return asyncio.run(beside_clients(server, count))
    finally:
        server.stop()
        clean(folder)


def main():
    nitro, folder, volumes, clients = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for count in map(int, filter(None, volumes.split(","))):
        print(json.dumps(of_volumes(nitro, folder, count)), flush=True)
    for count in map(int, filter(None, clients.split(","))):
        print(json.dumps(of_clients(nitro, folder, count)), flush=True)


if __name__ == "__main__":
    main()
