"""How many hits of a served cache are left after a restart, by how often its contents repeat.

    python3 restart.py NITRO FOLDER RATIO,...

For each ratio a volume of that many copies of CONTENTS_MIB of random data is read through a cache that holds all of it: twice, so
that the second reading hits; then the server is ended in order, or killed, started again, and the volume is read once more when the
cache has all back. Prints a JSON object a line."""
import asyncio
import json
import os
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests/long"))
from nbd import FLUSH, READ, Connection  # noqa: E402

CONTENTS_MIB = 160
# Units of 512 KiB, so that the contents fill more than 256 of them.
CACHE_MIB, UNIT = 256, "512K"
REQUEST = 64 << 10
PATIENCE_S = 60


class Served:
    def __init__(self, nitro, folder, volume):
        self.socket, self.control = (os.path.join(folder, name) for name in ("nbd.sock", "control.sock"))
        self.command = [nitro, "serve", "--origin", volume, "--name", "vm", "--cache", os.path.join(folder, "cache"), "--cache-size",
                        f"{CACHE_MIB}M", "--weu-size", UNIT, "--ram", "0", "--sequential-threshold", "0", "--listen", "unix:" + self.socket,
                        "--control", self.control]
        self.nitro, self.log = nitro, os.path.join(folder, "log")
        self.start()

    def start(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)
        self.until(lambda: "ready" in open(self.log).read())
        self.until(lambda: not self.status()["caches"][0]["loading"])

    def until(self, condition):
        ends = time.monotonic() + PATIENCE_S
        while not condition():
            if self.process.poll() is not None or time.monotonic() > ends:
                raise SystemExit(f"restart: the server does not serve: {open(self.log).read()[-2000:]}")
            time.sleep(0.02)

    def status(self):
        return json.loads(subprocess.check_output([self.nitro, "status", "--control", self.control, "-o", "json"]))

    def hits(self):
        return self.status()["volumes"][0]["read_hit_extents"]

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait(PATIENCE_S)


async def read_all(socket, size):
    client = await Connection.open(socket, "vm")
    for at in range(0, size, 8 * REQUEST):
        await asyncio.gather(*(client.request(READ, offset, REQUEST) for offset in range(at, min(size, at + 8 * REQUEST), REQUEST)))
    await client.request(FLUSH, 0, 0)
    client.writer.close()


def settled(server):
    server.until(lambda: server.status()["caches"][0]["insert_queue_bytes"] == 0)


def hits_of(server, size):
    before = server.hits()
    asyncio.run(read_all(server.socket, size))
    settled(server)
    return server.hits() - before


def measure(nitro, folder, ratio):
    volume, contents = os.path.join(folder, "volume"), CONTENTS_MIB << 20
    data = os.urandom(contents)
    with open(volume, "wb") as out:
        for _ in range(ratio):
            out.write(data)
    server, size = Served(nitro, folder, volume), contents * ratio
    hits_of(server, size)
    told = {"ratio": ratio, "extents": size // 8192, "before": hits_of(server, size)}
    for name, how in (("killed", signal.SIGKILL), ("ended", signal.SIGTERM)):
        server.end(how)
        server.start()
        told[name] = hits_of(server, size)
    server.end(signal.SIGTERM)
    for name in ("volume", "cache"):
        os.unlink(os.path.join(folder, name))
    return told


def main():
    nitro, folder, ratios = sys.argv[1:]
    for ratio in map(int, ratios.split(",")):
        print(json.dumps(measure(nitro, folder, ratio)), flush=True)


if __name__ == "__main__":
    main()
