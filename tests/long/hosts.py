"""Servers that are as if on machines of their own, and the load of a client whose every sector is checked."""
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time

import nbd
from oracle import SECTOR, content_bytes
from served import Failure, Served, judge

MIB = 1 << 20
IMAGE_BYTES = 32 * MIB
PATIENCE_S = 60


def check(is_so, what):
    if not is_so:
        raise Failure(what)


class Host(Served):
    """A server with state, cache and sockets of its own: as if on a machine of its own."""

    def __init__(self, nitro, work, name):
        work = os.path.join(work, name)
        os.makedirs(os.path.join(work, "state"))
        super().__init__(nitro, work, PATIENCE_S)
        self.environment = {**os.environ, "STATE_DIRECTORY": self.path("state")}
        self.control = self.path("control.sock")

    def configure(self, origin, mode="write-back", volume="", server=""):
        with open(self.path("nitro.toml"), "w") as file:
            file.write(f'[server]\nlisten = ["unix:{self.path("nbd.sock")}"]\ncontrol = "{self.control}"\n{server}'
                       f'[cache.small]\npath = "{self.path("cache.img")}"\nsize = "24M"\nweu_size = "512K"\nram = "0"\n'
                       f'dirty_age = "1h"\norigin_timeout = "3s"\n[volume.vm]\norigin = "{origin}"\nmode = "{mode}"\n{volume}')

    def command(self, *arguments, timeout=PATIENCE_S):
        return subprocess.run([self.nitro, *arguments], capture_output=True, text=True, timeout=timeout, env=self.environment,
                              stdin=subprocess.DEVNULL)

    def spawn(self, *more):
        self.starts += 1
        with open(self.path(f"log.{self.starts}"), "wb") as log:
            self.server = subprocess.Popen([self.nitro, "serve", "--config", self.path("nitro.toml"), *more], stdout=log,
                                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=self.environment)

    async def start(self, *more):
        self.spawn(*more)
        await self.ready()
        return await nbd.Connection.open(self.path("nbd.sock"), "vm")

    def refused(self, *phrases, more=()):
        """A start has to be refused, with these words."""
        done = self.command("serve", "--config", self.path("nitro.toml"), *more)
        said = done.stdout + done.stderr
        check(done.returncode == 1, f"a start ended with {done.returncode}: {said}")
        for phrase in phrases:
            check(phrase in said, f"{phrase!r} is not in: {said}")

    def status(self):
        return json.loads(self.command("status", "-o", "json", "--control", self.control).stdout)["volumes"][0]

    def end(self):
        """Ends in order; returns the exit code."""
        self.server.send_signal(signal.SIGTERM)
        return self.server.wait(PATIENCE_S)

    def stop(self):
        code = self.end()
        check(code == 0, f"the server ended with {code}:\n{self.said()}")


async def until(what, is_so, patience_s=PATIENCE_S):
    begun = time.monotonic()
    while not is_so():
        check(time.monotonic() - begun < patience_s, f"not within {patience_s} s: {what}")
        await asyncio.sleep(0.1)


async def load(connection, oracle, draw, requests, depth=16):
    """Random requests side by side, with flushes in between. What fails because the server is gone may have happened or not."""
    left = [requests]

    async def client():
        while left[0] > 0:
            left[0] -= 1
            kind, sectors = draw.random(), draw.choice([1, 8, 16, 16, 16, 64])
            first = draw.randrange(IMAGE_BYTES // SECTOR - sectors)
            if kind < 0.5:
                number = draw.randrange(4, 1 << 30)
                write = oracle.write(number, first, sectors)
                await connection.request(nbd.WRITE, first * SECTOR, sectors * SECTOR, content_bytes(number, sectors))
                oracle.written(write, False)
            elif kind < 0.9:
                read = oracle.reading(first, sectors)
                judge("vm", oracle.read(read, await connection.request(nbd.READ, first * SECTOR, sectors * SECTOR)))
            elif kind < 0.95:
                sent = oracle.now()
                await connection.request(nbd.FLUSH, 0, 0)
                oracle.flushed(sent)
            else:
                write = oracle.write(0, first, sectors)
                await connection.request(nbd.WRITE_ZEROES, first * SECTOR, sectors * SECTOR)
                oracle.written(write, False)

    with contextlib.suppress(ConnectionError):
        await asyncio.gather(*(client() for _ in range(depth)))


async def verify(connection, oracle):
    for at in range(0, IMAGE_BYTES, 1 << 18):
        read = oracle.reading(at // SECTOR, (1 << 18) // SECTOR)
        judge("vm", oracle.read(read, await connection.request(nbd.READ, at, 1 << 18)))
