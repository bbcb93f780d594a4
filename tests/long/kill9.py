"""Kills the server with -9 over and over while clients write, and looks at every sector after each start.

kill9.py --nitro PROGRAM --work FOLDER [--rounds N] [--seed S] [--s3 URI]

Three volumes share one small cache: one in write-back, one in write-through, one whose mode is drawn at every start. What was
flushed must be there, and everything else be a value that was written later; what was read once after a crash must stay.
Writes that are acknowledged in write-through count as flushed: the origin has them. The same seed sends the same requests.
With --s3, there is one volume, in write-back, whose origin is an empty volume in a bucket.
"""
import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys

import nbd
from oracle import SECTOR, Oracle, content_bytes
from served import Failure, Served, judge

MIB = 1 << 20
VOLUME_BYTES = 36 * MIB
WINDOW_BYTES = 8 * MIB
CACHE = {"size": "24M", "weu_size": "512K"}
CONNECTIONS, DEPTH = 2, 6
SHARED_CONTENTS = range(4, 12)
INITIAL = {"back": 1, "through": 2, "either": 3}
PATIENCE_S = 60


class Place(Served):
    """The server, its files, and what the volumes may hold."""

    def __init__(self, nitro, work, seed, s3=None):
        super().__init__(nitro, work, PATIENCE_S)
        self.seed, self.random = seed, random.Random(f"{seed}")
        self.called_damaged = []
        self.contents = 100
        self.oracles = {}
        self.s3 = s3
        if s3:
            self.oracles["back"] = Oracle(VOLUME_BYTES // SECTOR, 0)
        for name, content in ({} if s3 else INITIAL).items():
            sectors = VOLUME_BYTES // SECTOR
            with open(self.path(f"{name}.img"), "wb") as origin:
                origin.write(content_bytes(content, sectors))
            self.oracles[name] = Oracle(sectors, content)

    def new_content(self):
        self.contents += 1
        return self.contents

    def configure(self):
        """Writes the configuration of the next start."""
        mode = {"back": "write-back", "through": "write-through", "either": self.random.choice(["write-back", "write-through"])}
        age = self.random.choice(["0s", "1s", "1h"])
        ram = self.random.choice(["0", "2M"])
        text = (f'[server]\nlisten = ["unix:{self.path("nbd.sock")}"]\ncontrol = "{self.path("control.sock")}"\n'
                f'[cache.small]\npath = "{self.path("cache.img")}"\nram = "{ram}"\ndirty_age = "{age}"\n'
                + "".join(f'{key} = "{value}"\n' for key, value in CACHE.items()))
        for name, oracle in self.oracles.items():
            origin = self.s3 or self.path(name + ".img")
            text += f'[volume.{name}]\norigin = "{origin}"\nmode = "{mode[name]}"\n'
            oracle.durable_at_once = mode[name] == "write-through"
        with open(self.path("nitro.toml"), "w") as file:
            file.write(text)
        return f"either in {mode['either']}, dirty_age {age}, ram {ram}"

    def kill(self):
        super().kill()
        for oracle in self.oracles.values():
            oracle.crash()

    def stop(self):
        """Has the server end in order."""
        self.server.send_signal(signal.SIGTERM)
        try:
            code = self.server.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"the server does not end:\n{self.said()}") from None
        if code:
            raise Failure(f"the server ended with {code}:\n{self.said()}")

    def check_cache(self):
        """What a crash leaves is no damage. It is told at the end, so that what is served is looked at, too."""
        done = subprocess.run([self.nitro, "cache", "fsck", self.path("cache.img")], capture_output=True, text=True)
        if done.returncode:
            self.called_damaged.append(f"after start {self.starts}:\n{done.stdout[-1500:]}{done.stderr}")
            shutil.copy(self.path("cache.img"), self.path(f"damaged.{self.starts}.img"))


async def verify(place):
    """Reads every sector of every volume, in any order."""
    async def volume(name, oracle):
        connection = await nbd.Connection.open(place.path("nbd.sock"), name)
        pieces = list(range(0, VOLUME_BYTES, 128 << 10))
        place.random.shuffle(pieces)
        wrong = []
        for at in pieces:
            asked = oracle.reading(at // SECTOR, (128 << 10) // SECTOR)
            wrong += oracle.read(asked, await connection.request(nbd.READ, at, 128 << 10))
        await connection.close()
        judge(name, wrong)
    for name, oracle in place.oracles.items():
        await volume(name, oracle)


class Load:
    """Random requests to all volumes until so many are answered. Writes stay in a window, so that some regions rest."""

    def __init__(self, place, number, requests):
        self.place, self.number, self.left = place, number, requests
        self.window = place.random.randrange(0, VOLUME_BYTES - WINDOW_BYTES, 1 << 16) // SECTOR
        self.enough = asyncio.Event()

    async def run(self):
        """Returns once the server is to be killed; requests are still under way then."""
        connections, tasks = [], []
        for name in self.place.oracles:
            for _ in range(CONNECTIONS):
                connections.append((name, await nbd.Connection.open(self.place.path("nbd.sock"), name)))
        for index, (name, connection) in enumerate(connections):
            if not connection.flags & nbd.CAN_MULTI_CONN:
                raise Failure("a flush does not hold for all connections")
            tasks += [asyncio.create_task(self.client(name, connection, f"{index}.{n}")) for n in range(DEPTH)]
        enough = asyncio.create_task(self.enough.wait())
        await asyncio.wait([enough, *tasks], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
        if not self.enough.is_set():
            for task in tasks:
                if task.done() and task.exception():
                    raise task.exception()
            raise Failure(f"clients wait for {PATIENCE_S} s, or the server hung up:\n{self.place.said()}")
        enough.cancel()
        return tasks, connections

    async def client(self, name, connection, client):
        draw = random.Random(f"{self.place.seed}.{self.number}.{client}")
        with contextlib.suppress(ConnectionError):
            while True:
                await self.request(draw, name, connection)
                self.left -= 1
                if self.left == 0:
                    self.enough.set()

    def extent(self, draw, base, total):
        """First sector and number of sectors of a request: whole extents, blocks, any sectors, long ones; some places are hot."""
        kind = draw.random()
        unit, length = ((16, draw.choice([1, 1, 1, 2, 4])) if kind < 0.5 else (8, draw.randint(1, 3)) if kind < 0.65
                        else (1, draw.randint(1, 15)) if kind < 0.9 else (1, draw.randint(16, 192)))
        within = total // 16 if draw.random() < 0.6 else total
        first = draw.randrange(within // unit) * unit
        return base + first, min(length * unit, total - first)

    async def request(self, draw, name, connection):
        oracle = self.place.oracles[name]
        kind = draw.random()
        everywhere = kind < 0.15
        first, sectors = self.extent(draw, 0 if everywhere else self.window,
                                     (VOLUME_BYTES if everywhere else WINDOW_BYTES) // SECTOR)
        if kind < 0.25:
            asked = oracle.reading(first, sectors)
            judge(name, oracle.read(asked, await self.send(connection, nbd.READ, first, sectors)))
        elif kind < 0.33:
            sent = oracle.now()
            await connection.request(nbd.FLUSH, 0, 0)
            oracle.flushed(sent)
        else:
            fua = nbd.FUA if draw.random() < 0.06 else 0
            if kind < 0.36:
                command, content, data = nbd.WRITE_ZEROES, 0, b""
            elif kind < 0.38:
                command, content, data = nbd.TRIM, 0, b""
            else:
                shared = draw.random() < 0.2 and first % 16 == 0
                command, content = nbd.WRITE, draw.choice(SHARED_CONTENTS) if shared else self.place.new_content()
                data = content_bytes(content, sectors)
            write = oracle.write(content, first, sectors, certain=command != nbd.TRIM)
            await self.send(connection, command, first, sectors, data, fua)
            oracle.written(write, bool(fua))

    @staticmethod
    def send(connection, command, first, sectors, data=b"", flags=0):
        return connection.request(command, first * SECTOR, sectors * SECTOR, data, flags)


async def one_round(place, number):
    """One start, perhaps a look at everything, load, a death. Returns what happened, in a few words."""
    told = place.configure()
    place.spawn()
    if place.starts > 1 and place.random.random() < 0.15:
        await asyncio.sleep(place.random.uniform(0, 0.08))
        place.kill()
        return "killed while it started"
    await place.ready()
    if looked := place.random.random() < 0.8:
        await verify(place)
    requests = int(10 ** place.random.uniform(1.0, 3.7))
    load = Load(place, number, requests)
    tasks, connections = await load.run()
    how = "killed"
    if place.random.random() < 0.15:
        place.server.send_signal(signal.SIGTERM)
        await asyncio.sleep(place.random.uniform(0, 0.2))
        how = "killed while it stopped"
    place.server.kill()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    place.kill()
    for _, connection in connections:
        await connection.receiver
    for result in results:
        if isinstance(result, Exception):
            raise result
    return f"{how} after {requests} requests{'' if looked else ', nothing looked at before'}; {told}"


async def run(place, rounds):
    for number in range(rounds):
        print(f"round {number}: {await one_round(place, number)}", flush=True)
        if place.random.random() < 0.3 and os.path.exists(place.path("cache.img")):
            place.check_cache()
    place.configure()
    place.spawn()
    await place.ready()
    await verify(place)
    await verify(place)
    place.stop()
    if place.s3:
        # From the bucket alone.
        os.remove(place.path("cache.img"))
        place.configure()
        place.spawn()
        await place.ready()
        await verify(place)
        place.stop()
    for name, oracle in ({} if place.s3 else place.oracles).items():
        with open(place.path(f"{name}.img"), "rb") as origin:
            judge(f"{name} (its origin, after an orderly end)",
                  oracle.read(oracle.reading(0, VOLUME_BYTES // SECTOR), origin.read()))
        if os.path.exists(place.path(f"{name}.img.nitro-dirty")):
            raise Failure(f"volume {name} is still marked as dirty after an orderly end")
    place.check_cache()
    if place.called_damaged:
        raise Failure("nitro cache fsck calls it damage what a crash left:\n" + "\n".join(place.called_damaged))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nitro", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--s3")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    scenario = "s3-chaos" if arguments.s3 else "kill9"
    again = f"NITRO_SEED={seed} NITRO_ROUNDS={arguments.rounds} scripts/test-long {scenario}"
    print(f"seed {seed}", flush=True)
    place = Place(arguments.nitro, arguments.work, seed, arguments.s3)
    try:
        asyncio.run(run(place, arguments.rounds))
    except (Failure, nbd.Refused, ConnectionError) as failure:
        sys.exit(f"{type(failure).__name__}: {failure}\nthe server's last words: {place.said()[-2000:]}\nagain: {again}")
    finally:
        if place.server and place.server.poll() is None:
            place.server.kill()
            place.server.wait()
    print(f"{arguments.rounds} rounds, {place.contents} contents written, seed {seed}")


main()
