"""Two servers of which an etcd decides which one serves a volume, and a client that goes to the one that does.

etcd.py --nitro PROGRAM --work FOLDER --peer scripts/peers/etcd [--rounds N] [--seed S]; $ETCD_URL is its address.
"""
import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import urllib.parse

import nbd
from hosts import IMAGE_BYTES, PATIENCE_S, Host, check, load, until, verify
from oracle import SECTOR, Oracle, content_bytes
from served import Failure, judge

LEASE_S = 3
BLOCK = 16 * SECTOR


class Link:
    """A host's way to etcd, which can be cut."""

    def __init__(self, url):
        self.etcd = urllib.parse.urlsplit(url)
        self.server, self.ends, self.is_cut = None, set(), False

    async def open(self):
        self.server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def _pass_on(self, reader, writer):
        ends = [writer]
        try:
            if self.is_cut:
                return
            there, back = await asyncio.open_connection(self.etcd.hostname, self.etcd.port)
            ends.append(back)
            self.ends.update(ends)
            await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
        except OSError:
            # It was cut, or etcd is not there.
            pass
        finally:
            for end in ends:
                end.close()
                self.ends.discard(end)

    async def _copy(self, reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    def cut(self):
        self.is_cut = True
        for end in list(self.ends):
            end.transport.abort()

    def mend(self):
        self.is_cut = False


class Test:
    def __init__(self, arguments):
        self.peer, self.folder = arguments.peer, os.path.join(arguments.work, "etcd")
        self.rounds, self.draw = arguments.rounds, random.Random(arguments.seed)
        self.image = os.path.join(arguments.work, "vm.img")
        self.hosts = [Host(arguments.nitro, arguments.work, name) for name in ("one", "two")]
        self.links = [Link(os.environ["ETCD_URL"]) for _ in self.hosts]
        self.oracle = Oracle(IMAGE_BYTES // SECTOR, 0)
        # In write-through, what was acknowledged is in the origin, whichever host is lost.
        self.oracle.durable_at_once = True
        self.marks = os.path.join(arguments.work, "marks")
        # Hosts that are one machine would keep each other out by the lock of a file: the origin is an export.
        self.export = Host(arguments.nitro, arguments.work, "export")
        self.gaps = {}

    def etcd(self, number):
        pid = subprocess.run([self.peer, "pid", self.folder], capture_output=True, text=True, check=True).stdout
        os.kill(int(pid), number)

    def start_etcd(self):
        subprocess.run([self.peer, "start", self.folder], check=True, stdout=subprocess.DEVNULL)

    async def configure(self):
        with open(self.image, "wb") as image:
            image.truncate(IMAGE_BYTES)
        os.mkdir(self.marks)
        self.export.configure(self.image, "write-through")
        await (await self.export.start()).close()
        origin = f"nbd+unix:///vm?socket={self.export.path('nbd.sock')}"
        for host, link, name in zip(self.hosts, self.links, ("one", "two")):
            host.configure(origin, "write-through", "cluster = true\n",
                           f'takeover = "{self.marks}"\netcd = ["{await link.open()}"]\nhost = "{name}"\nlease = "{LEASE_S}s"\n')

    def revive(self):
        """Starts the hosts that have ended."""
        for host in self.hosts:
            if host.server is None or host.server.poll() is not None:
                host.spawn()

    async def connect(self, but=None):
        """A connection to the host that serves, and the host."""
        begun = time.monotonic()
        while True:
            for host in self.hosts:
                if host is but or host.server is None or host.server.poll() is not None:
                    continue
                with contextlib.suppress(OSError, asyncio.IncompleteReadError, nbd.Refused, asyncio.TimeoutError):
                    return await asyncio.wait_for(nbd.Connection.open(host.path("nbd.sock"), "vm"), 2), host
            check(time.monotonic() - begun < PATIENCE_S, "no host serves the volume")
            await asyncio.sleep(0.02)

    async def taken_over(self, but, since, what):
        """Waits until the volume is served after something has happened, and checks all of it."""
        connection, _ = await self.connect(but)
        self.gaps.setdefault(what, []).append(time.monotonic() - since)
        await verify(connection, self.oracle)
        await connection.close()

    async def lost(self, what, act, undo=None):
        """A host that serves is lost under load; returns who serves then."""
        connection, host = await self.connect()
        running = asyncio.create_task(load(connection, self.oracle, self.draw, 1 << 30))
        await asyncio.sleep(self.draw.uniform(0.3, 1.5))
        act(self.hosts.index(host))
        since = time.monotonic()
        await asyncio.wait_for(running, PATIENCE_S)
        self.oracle.crash()
        await self.taken_over(host, since, what)
        if undo:
            undo(self.hosts.index(host))
        await until("the lost host has ended", lambda: host.server.poll() is not None)
        return host

    def ended_by_itself(self, host, why):
        said = host.said()
        check(host.server.returncode == 1 and "this host serves no more" in said and why in said,
              f"it ended with {host.server.returncode}: {said[-2000:]}")

    async def killed(self):
        await self.lost("a host killed", lambda at: (self.hosts[at].server.kill(), self.hosts[at].server.wait()))

    async def cut(self):
        host = await self.lost("a host cut off from etcd", lambda at: self.links[at].cut(), lambda at: self.links[at].mend())
        self.ended_by_itself(host, "its lease was not renewed in time")

    async def stopped(self):
        """What is asked of a host while it is stopped is not answered when it goes on after its lease."""
        connection, host = await self.connect()
        await load(connection, self.oracle, self.draw, 300)
        host.server.send_signal(signal.SIGSTOP)
        since = time.monotonic()
        data = content_bytes(1, BLOCK // SECTOR)
        late = [asyncio.create_task(connection.request(kind, at * BLOCK, BLOCK, data if kind == nbd.WRITE else b""))
                for at in range(32) for kind in (nbd.WRITE, nbd.READ)]
        await self.taken_over(host, since, "a host stopped")
        other, _ = await self.connect(host)
        await load(other, self.oracle, self.draw, 300)
        host.server.send_signal(signal.SIGCONT)
        answers = await asyncio.gather(*late, return_exceptions=True)
        check(all(isinstance(answer, ConnectionError) for answer in answers), f"answered after the lease: {answers}")
        await until("the stopped host has ended", lambda: host.server.poll() is not None)
        self.ended_by_itself(host, "lease")
        await verify(other, self.oracle)
        await other.close()

    async def etcd_stopped(self):
        """Without etcd, nobody serves; nothing is lost."""
        connection, host = await self.connect()
        running = asyncio.create_task(load(connection, self.oracle, self.draw, 1 << 30))
        await asyncio.sleep(0.5)
        self.etcd(signal.SIGSTOP)
        since = time.monotonic()
        try:
            await asyncio.wait_for(running, PATIENCE_S)
            check(time.monotonic() - since < LEASE_S, "requests were answered when the lease could have ended")
            self.oracle.crash()
            for each in self.hosts:
                await until("the hosts have ended", lambda each=each: each.server.poll() is not None)
                self.ended_by_itself(each, "its lease was not renewed in time")
        finally:
            self.etcd(signal.SIGCONT)
        self.revive()
        await self.taken_over(None, since, "etcd stopped")

    async def etcd_killed(self):
        """An etcd that is back before the lease ends is not noticed by clients."""
        connection, host = await self.connect()
        running = asyncio.create_task(load(connection, self.oracle, self.draw, 1 << 30))
        await asyncio.sleep(0.5)
        self.etcd(signal.SIGKILL)
        since = time.monotonic()
        await asyncio.to_thread(self.start_etcd)
        self.gaps.setdefault("etcd killed and started", []).append(time.monotonic() - since)
        await asyncio.sleep(1)
        if running.done():
            await running
        else:
            # It goes on: its clients are disconnected to look at all of it.
            await connection.close()
            await running
        self.oracle.crash()
        await asyncio.sleep(LEASE_S)
        self.revive()
        connection, _ = await self.connect()
        await verify(connection, self.oracle)
        await connection.close()

    async def handed_over(self):
        """An orderly end: the other host serves at once."""
        connection, host = await self.connect()
        await load(connection, self.oracle, self.draw, 500)
        since = time.monotonic()
        await connection.close()
        code = await asyncio.to_thread(host.end)
        check(code == 0, f"an orderly end had the code {code}: {host.said()[-2000:]}")
        await self.taken_over(host, since, "an orderly end")

    async def run(self):
        await self.configure()
        kinds = [self.killed, self.cut, self.stopped, self.etcd_stopped, self.etcd_killed, self.handed_over]
        for number in range(self.rounds):
            self.revive()
            for host in self.hosts:
                await host.ready()
            kind = kinds[number % len(kinds)]
            begun = time.monotonic()
            await kind()
            print(f"{number}: {kind.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
        self.revive()
        for host in self.hosts:
            await host.ready()
            check(host.end() == 0, f"{host.said()[-2000:]}")
        self.export.stop()
        with open(self.image, "rb") as image:
            judge("vm", self.oracle.read(self.oracle.reading(0, IMAGE_BYTES // SECTOR), image.read()))
        return "; ".join(f"{what}: {min(gaps):.1f} to {max(gaps):.1f} s" for what, gaps in self.gaps.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--nitro", "--work", "--peer"):
        parser.add_argument(option, required=True)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, required=True)
    test = Test(parser.parse_args())
    try:
        gaps = asyncio.run(test.run())
    except (Failure, nbd.Refused, ConnectionError, asyncio.TimeoutError) as failure:
        logs = "\n".join(f"{host.work}: {host.said()[-2000:]}" for host in test.hosts)
        sys.exit(f"{type(failure).__name__}: {failure}\nthe servers' last words:\n{logs}")
    finally:
        for host in [*test.hosts, test.export]:
            if host.server and host.server.poll() is None:
                host.server.kill()
                host.server.wait()
    print(f"{test.rounds} rounds; until served again: {gaps}")


main()
