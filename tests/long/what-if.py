"""Records a live volume, simulates its recording with other caches, and runs the same requests live with these caches.

what-if.py --nitro PROGRAM --lab PROGRAM --work FOLDER [--requests N] [--seed S] [--only NAME]

For each pair it prints what was hit and written to the SSD, simulated and live. Hits must agree within a point, bytes within 3 %. One request is
under way at a time, and the insertion queue has room for all, so nothing depends on the speed of this machine. Bytes of the SSD are those of
write-evict units: the simulator models neither journal nor superblocks.
"""
import argparse
import asyncio
import bisect
import itertools
import json
import os
import random
import signal
import subprocess

from nbd import FLUSH, READ, WRITE, Connection

KIB, MIB = 1 << 10, 1 << 20
VOLUME_BYTES = 256 * MIB
BLOCK = 4 * KIB
# Whoever reads a stream does something with each part. The simulator has at once what is read ahead: a reader that asked for the
# next part without a pause would often come before it.
STREAM_BYTES, STREAM_SECONDS = 128 * KIB, 0.002
POINTS, BYTES = 0.01, 0.03
UNIT_BYTES = ("payload", "header", "padding")
# The cache of the recording, and the caches for which the simulator is asked: options of nitro serve and of nitro-lab sim alike.
RECORDED = "--cache-size 64M"
PAIRS = {
    "same": RECORDED,
    "half": "--cache-size 32M",
    "double": "--cache-size 128M",
    "no-dedup": "--cache-size 64M --dedup off",
    "no-compression": "--cache-size 64M --compression none",
    "lru": "--cache-size 48M --admission all --eviction lru",
    "second-miss": "--cache-size 48M --admission second-miss",
    "fifo": "--cache-size 64M --eviction fifo --ram 8M",
    "extents": "--cache-size 64M --extent-size 16K",
    "no-staging": "--cache-size 64M --staging 0 --ram 0",
    "write-back": "--cache-size 64M --mode write-back",
}


class Failure(Exception):
    """Something is not as promised."""


class Volume:
    """The contents of the volume, of which a third are duplicates, and all can be compressed to about half."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.common = [self.half_random(random.Random(f"{seed} {number}")) for number in range(512)]

    @staticmethod
    def half_random(draw):
        return draw.randbytes(BLOCK // 2) + bytes(BLOCK // 2)

    def blocks(self, count):
        """Contents of neighbouring blocks."""
        if self.draw.random() < 1 / 3:
            first = self.draw.randrange(len(self.common) - count)
            return b"".join(self.common[first:first + count])
        return b"".join(self.half_random(self.draw) for _ in range(count))

    def fill(self, path):
        with open(path, "wb") as image:
            for _ in range(VOLUME_BYTES // (64 * KIB)):
                image.write(self.blocks(16))


def requests(seed, count):
    """Reads and writes by Zipf's law over places of 64 KiB, some of parts of extents, and now and then a stream of reads."""
    draw = random.Random(f"requests {seed}")
    places = list(range(VOLUME_BYTES // (64 * KIB)))
    draw.shuffle(places)
    sums = list(itertools.accumulate((rank + 1) ** -0.8 for rank in range(len(places))))
    content, made = Volume(f"written {seed}"), 0
    while made < count:
        if draw.random() < 0.0005:
            at = draw.randrange(VOLUME_BYTES // MIB - 8) * MIB
            for step in range(0, 4 * MIB, STREAM_BYTES):
                yield READ, at + step, STREAM_BYTES, b""
            made += 32
            continue
        place = places[bisect.bisect(sums, draw.random() * sums[-1])] * 64 * KIB
        blocks = draw.choice((1, 2, 2, 2, 4, 8))
        offset = place + draw.randrange(0, 16 - blocks + 1, 1 if blocks == 1 else 2) * BLOCK
        made += 1
        if draw.random() < 0.75:
            yield READ, offset, blocks * BLOCK, b""
        else:
            yield WRITE, offset, blocks * BLOCK, content.blocks(blocks)
            if draw.random() < 0.02:
                yield FLUSH, 0, 0, b""


class Server:
    """A server of a fresh copy of the volume, with an empty cache."""

    def __init__(self, arguments, options, recording=None):
        self.arguments, self.log = arguments, os.path.join(arguments.work, "log")
        self.nbd, self.control = (os.path.join(arguments.work, name) for name in ("nbd.sock", "control.sock"))
        origin, cache = (os.path.join(arguments.work, name) for name in ("live.img", "cache.img"))
        subprocess.run(["cp", "--reflink=auto", os.path.join(arguments.work, "vm.img"), origin], check=True)
        if os.path.exists(cache):
            os.remove(cache)
        command = [arguments.nitro, "serve", "--origin", origin, "--name", "vm", "--cache", cache, "--listen", f"unix:{self.nbd}",
                   "--control", self.control, *options.split()]
        if recording:
            command += ["--record", recording]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def said(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    async def ready(self):
        while not any(line.startswith("ready") for line in self.said().splitlines()):
            if self.process.poll() is not None:
                raise Failure(f"the server does not start: {self.said()}")
            await asyncio.sleep(0.02)

    def status(self):
        told = subprocess.run([self.arguments.nitro, "status", "--control", self.control, "-o", "json"], check=True, capture_output=True)
        return json.loads(told.stdout)

    async def settled(self):
        """The status when nothing waits for insertion any more."""
        while True:
            status = self.status()
            if status["caches"][0]["insert_queue_bytes"] + status["caches"][0]["dirty_queue_bytes"] == 0:
                return status
            await asyncio.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait() != 0:
            raise Failure(f"the server ended with an error: {self.said()}")


async def live(arguments, options, recording=None):
    """Hits and bytes of the requests with a cache."""
    server = Server(arguments, options, recording)
    try:
        await server.ready()
        client = await Connection.open(server.nbd, "vm")
        for kind, offset, length, data in requests(arguments.seed, arguments.requests):
            await client.request(kind, offset, length, data)
            if length == STREAM_BYTES:
                await asyncio.sleep(STREAM_SECONDS)
        status = await server.settled()
        await client.close()
        server.stop()
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
    volume, cache = status["volumes"][0], status["caches"][0]
    if cache["fills_dropped"]:
        raise Failure(f"{cache['fills_dropped']} fills were dropped: the pair says nothing")
    if recording and status["server"]["recording"]["dropped"]:
        raise Failure("the recording has gaps")
    # With one request at a time, a read can join only what the server reads ahead, which the simulator has at once.
    hits = volume["read_hit_extents"] + volume["read_joined_extents"]
    return hits / (hits + volume["read_miss_extents"]), sum(cache[f"ssd_written_{part}_bytes"] for part in UNIT_BYTES), status


def simulated(arguments, options, recording):
    told = subprocess.run([arguments.lab, "sim", recording, *options.split(), "-o", "json"], capture_output=True)
    if told.returncode:
        raise Failure(told.stderr.decode(errors="replace"))
    outcome = json.loads(told.stdout)
    return outcome["read_extent_hit_ratio"], outcome["ssd_bytes_written"]


async def run(arguments):
    recording = os.path.join(arguments.work, "recording.parquet")
    Volume(arguments.seed).fill(os.path.join(arguments.work, "vm.img"))
    await live(arguments, RECORDED, recording)
    worst, wrong = [0, 0], []
    for name, options in PAIRS.items():
        if arguments.only and name not in arguments.only:
            continue
        said, (hits, written, _) = simulated(arguments, options, recording), await live(arguments, options)
        differ = abs(said[0] - hits), abs(said[1] / max(written, 1) - 1)
        worst = [max(pair) for pair in zip(worst, differ)]
        print(f"{name:15} {options:50} hits {100 * said[0]:6.2f} % simulated, {100 * hits:6.2f} % live; SSD {said[1] / MIB:7.1f} MiB simulated, "
              f"{written / MIB:7.1f} MiB live", flush=True)
        if differ[0] > POINTS or differ[1] > BYTES:
            wrong.append(f"{name}: {100 * differ[0]:.2f} points and {100 * differ[1]:.2f} % apart")
    if wrong:
        raise Failure("\n".join(wrong))
    print(f"{len(arguments.only or PAIRS)} pairs: hits at most {100 * worst[0]:.2f} points apart, bytes of the SSD {100 * worst[1]:.2f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--nitro", "--lab", "--work"):
        parser.add_argument(name, required=True)
    parser.add_argument("--requests", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=PAIRS)
    try:
        asyncio.run(run(parser.parse_args()))
    except (Failure, OSError) as failure:
        raise SystemExit(f"what-if: {failure}")


main()
