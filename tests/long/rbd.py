"""Images of a Ceph cluster as origins, with one server and with two that want the same image.

rbd.py --nitro PROGRAM --work FOLDER --peer scripts/peers/ceph [--rounds N] [--seed S]; $CEPH_CONF names the cluster.
"""
import argparse
import asyncio
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time

import nbd
from hosts import IMAGE_BYTES, MIB, PATIENCE_S, Host, check, load, until, verify
from oracle import SECTOR, Oracle, content_bytes
from served import Failure, judge


def rbd(*arguments, **options):
    done = subprocess.run(["rbd", *arguments], capture_output=True, text=True, timeout=PATIENCE_S, **options)
    check(done.returncode == 0, f"rbd {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def content():
    """The bytes of the image, as Ceph's own program reads them."""
    return subprocess.run(["rbd", "export", "--no-progress", "rbd/vm", "-"], capture_output=True, check=True, timeout=PATIENCE_S).stdout


def is_unlocked():
    return rbd("lock", "ls", "rbd/vm").strip() == ""


async def refusal(request):
    try:
        await request
    except nbd.Refused as refused:
        return str(refused)
    raise Failure("a request succeeded that must not")


class Test:
    def __init__(self, arguments):
        self.peer, self.folder = arguments.peer, os.path.join(arguments.work, "ceph")
        self.rounds, self.draw = arguments.rounds, random.Random(arguments.seed)
        self.one, self.two = (Host(arguments.nitro, arguments.work, name) for name in ("one", "two"))
        self.oracle = Oracle(IMAGE_BYTES // SECTOR, 0)

    def daemon(self, name):
        return int(subprocess.run([self.peer, "pid", self.folder, name], capture_output=True, text=True, check=True).stdout)

    async def kills(self):
        """Killed under load with dirty data; started again at once, though the lock is still that of the dead one."""
        rbd("create", "rbd/vm", "--size", f"{IMAGE_BYTES >> 20}M")
        slowest = 0
        for number in range(self.rounds):
            self.one.configure("rbd:rbd/vm", self.draw.choice(["write-back", "write-back", "write-through"]))
            begun = time.monotonic()
            connection = await self.one.start()
            slowest = max(slowest, time.monotonic() - begun)
            await verify(connection, self.oracle)
            running = asyncio.create_task(load(connection, self.oracle, self.draw, 1 << 30))
            await asyncio.sleep(self.draw.uniform(0.5, 2))
            check(not running.done() or not running.exception(), f"{running.done() and running.exception()}")
            self.one.kill()
            await running
            self.oracle.crash()
            if number == 0:
                check(not is_unlocked(), "the dead server has no lock")
        check(slowest < 15, f"a start after a kill took {slowest:.1f} s")
        self.one.configure("rbd:rbd/vm")
        connection = await self.one.start()
        await load(connection, self.oracle, self.draw, 2000)
        await verify(connection, self.oracle)
        self.one.stop()
        self.oracle.ended()
        check(is_unlocked(), "the image is locked after an orderly end")
        check("nitro.dirty" not in rbd("image-meta", "ls", "rbd/vm"), "the image is marked as dirty after an orderly end")
        judge("rbd/vm", self.oracle.read(self.oracle.reading(0, IMAGE_BYTES // SECTOR), content()))
        return f"{self.rounds} kills, starts took at most {slowest:.1f} s"

    async def two_servers(self):
        """A second server is refused while the first is alive, and may not have what the first one's cache holds."""
        one, two = self.one, self.two
        one.configure("rbd:rbd/vm", "write-through")
        two.configure("rbd:rbd/vm", "write-through")
        connection = await one.start()
        two.refused("has its exclusive lock", "the client at 127.0.0.1:0/", "?lock=break")
        checked = two.command("check", two.path("nitro.toml"))
        check(checked.returncode == 0 and "is in use" in checked.stdout + checked.stderr, f"{checked}")
        two.configure("rbd:rbd/vm", "write-through", "read_only = true\n")
        two.refused("has its exclusive lock", "@SNAPSHOT")
        data = content_bytes(1, 16)
        await connection.request(nbd.WRITE, 0, len(data), data)
        one.stop()
        # Dirty data of a server that is gone: the mark is found from another machine.
        one.configure("rbd:rbd/vm", "write-back")
        connection = await one.start()
        await connection.request(nbd.WRITE, 0, len(data), content_bytes(2, 16))
        await connection.request(nbd.FLUSH, 0, 0)
        one.kill()
        two.configure("rbd:rbd/vm?lock=break", "write-through")
        two.refused(one.path("cache.img"), "--force-discard-dirty", "nitro.dirty")
        connection = await one.start()
        check(await connection.request(nbd.READ, 0, len(data)) == content_bytes(2, 16), "dirty data are lost")
        one.stop()
        check(content()[:len(data)] == content_bytes(2, 16), "dirty data have not come to the image")
        return "refused with the owner's address, and for the dirty data of the other's cache"

    async def fenced(self, mode):
        """The lock is broken while the first server is stopped with writes under way; then it goes on."""
        one, two = self.one, self.two
        one.configure("rbd:rbd/vm", mode)
        connection = await one.start()
        ours, theirs = content_bytes(5, 16), content_bytes(6, 16)
        places = [place * len(ours) for place in range(64)]
        for place in places:
            await connection.request(nbd.WRITE, place, len(ours), ours)
        await connection.request(nbd.FLUSH, 0, 0)
        dirty = one.status()["dirty_bytes"]
        one.server.send_signal(signal.SIGSTOP)
        late = [asyncio.create_task(connection.request(nbd.WRITE, place, len(ours), ours)) for place in places]
        await asyncio.sleep(0.2)
        begun = time.monotonic()
        two.configure("rbd:rbd/vm?lock=break", "write-through")
        second = await two.start(*(["--force-discard-dirty"] if mode == "write-back" else []))
        took = time.monotonic() - begun
        check("was broken" in two.said() and "for an hour only" not in two.said(), two.said())
        for place in places:
            await second.request(nbd.WRITE, place, len(theirs), theirs)
        one.server.send_signal(signal.SIGCONT)
        answers = await asyncio.gather(*late, return_exceptions=True)
        if mode == "write-through":
            check(all(isinstance(answer, nbd.Refused) for answer in answers), "a write was acknowledged after the lock was broken")
        await until("the state of the volume says that it is lost", lambda: one.status()["poisoned"])
        check("has broken its exclusive lock" in one.status()["poisoned"], one.status()["poisoned"])
        for kind, data in [(nbd.READ, b""), (nbd.WRITE, ours), (nbd.FLUSH, b"")]:
            length = 0 if kind == nbd.FLUSH else len(ours)
            await refusal(connection.request(kind, 0, length, data))
        if mode == "write-back":
            one.command("flush", "--control", one.control)
            check(one.status()["dirty_bytes"] >= dirty > 0, "dirty data are gone that nobody has")
        for place in places:
            check(await second.request(nbd.READ, place, len(theirs)) == theirs, "the first server has written")
        check("for an hour" not in one.said(), one.said())
        code = one.end()
        check(code != 0, "a server that has lost its origin ends as if nothing had happened")
        one.refused("has its exclusive lock")
        two.stop()
        check(content()[:len(places) * len(theirs)] == theirs * len(places), "the image does not have what was written last")
        if mode == "write-back":
            one.refused("dirty data", "another cache", "--accept-origin vm")
            one.spawn("--force-discard-dirty")
            await one.ready()
            one.stop()
        listed = subprocess.run(["ceph", "osd", "blocklist", "ls"], capture_output=True, text=True).stdout
        years = [int(year) for year in re.findall(r"\d+\.\d+\.\d+\.\d+:\d+/\d+ (\d{4})-", listed)]
        check(years and max(years) > time.gmtime().tm_year, f"the old owner is refused for a short time only: {listed}")
        return f"the second server was up in {took:.1f} s"

    async def snapshots(self):
        """A snapshot does not change, and its image's marks are not its own."""
        before = content()
        rbd("snap", "create", "--no-progress", "rbd/vm@s")
        self.one.configure("rbd:rbd/vm", "write-back")
        first = await self.one.start()
        await first.request(nbd.WRITE, 0, 8192, content_bytes(9, 16))
        await first.request(nbd.FLUSH, 0, 0)
        self.two.configure("rbd:rbd/vm@s", "write-through")
        second = await self.two.start()
        check(b"".join([await second.request(nbd.READ, at, MIB) for at in range(0, IMAGE_BYTES, MIB)]) == before,
              "a snapshot has other bytes")
        await refusal(second.request(nbd.WRITE, 0, 8192, content_bytes(9, 16)))
        self.one.stop()
        self.two.stop()
        check("only be read" in self.two.said() or "read-only" in self.two.said(), self.two.said())
        return "read while its image was written"

    async def growth(self):
        """An image that grows while it is served."""
        self.one.configure("rbd:rbd/vm", "write-back")
        connection = await self.one.start()
        rbd("resize", "--no-progress", "rbd/vm", "--size", f"{2 * IMAGE_BYTES >> 20}M")
        done = self.one.command("volume", "resize", "vm", "--control", self.one.control)
        check(done.returncode == 0, f"{done}")
        connection = await nbd.Connection.open(self.one.path("nbd.sock"), "vm")
        await connection.request(nbd.WRITE, 2 * IMAGE_BYTES - 8192, 8192, content_bytes(10, 16))
        self.one.stop()
        check(content()[-8192:] == content_bytes(10, 16), "the new end is not written")
        return "twice as large"

    async def hanging(self):
        """An OSD that is stopped is an error in time, and goes on where it was. Monitors that do not answer are an error at the start."""
        self.one.configure("rbd:rbd/vm", "write-through")
        connection = await self.one.start()
        await connection.request(nbd.READ, 0, 8192)
        osd, monitor = self.daemon("osd.0"), self.daemon("mon.a")
        os.kill(osd, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            await refusal(connection.request(nbd.READ, 4 * MIB, 8192))
            await refusal(connection.request(nbd.WRITE, 8 * MIB, 8192, content_bytes(11, 16)))
            check(time.monotonic() - begun < 20, "requests wait longer than origin_timeout")
            check(self.one.status()["origin_owes_seconds"] > 0, "the status answers nothing of the origin")
        finally:
            os.kill(osd, signal.SIGCONT)
        begun = time.monotonic()
        while True:
            with contextlib.suppress(nbd.Refused):
                await connection.request(nbd.WRITE, 8 * MIB, 8192, content_bytes(12, 16))
                break
            check(time.monotonic() - begun < PATIENCE_S, "writes do not go on")
        check(await connection.request(nbd.READ, 8 * MIB, 8192) == content_bytes(12, 16), "an older write came after a newer one")
        self.one.stop()
        os.kill(monitor, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            self.one.refused("the cluster", "ceph -s")
            took = time.monotonic() - begun
            check(took < 45, f"a start without monitors was refused after {took:.0f} s")
        finally:
            os.kill(monitor, signal.SIGCONT)
        await self.one.start()
        self.one.stop()
        return f"a start without monitors was refused after {took:.0f} s"

    async def wrong(self):
        """What is not there is named, with what helps."""
        rbd("create", "rbd/plain", "--size", "8M", "--image-feature", "layering")
        rbd("create", "rbd/empty", "--size", "0")
        for origin, *phrases in [
            ("rbd:pool/vm", 'the pool "pool"', "ceph osd pool ls"),
            ("rbd:rbd/other", 'the image "other"', "rbd ls rbd"),
            ("rbd:rbd/team/vm", 'the image "vm"', "rbd ls rbd/team"),
            ("rbd:rbd/vm@never", 'no snapshot "never"', "rbd snap ls rbd/vm"),
            ("rbd:rbd/plain", "feature exclusive-lock", "rbd feature enable rbd/plain exclusive-lock"),
            ("rbd:rbd/empty", "it is empty"),
            ("rbd:rbd/vm?conf=/nowhere/ceph.conf", "/nowhere/ceph.conf"),
            ("rbd:vm", "rbd:POOL/IMAGE"),
        ]:
            self.two.configure(origin, "write-through")
            self.two.refused(*phrases)
        self.two.configure("rbd:rbd/plain", "write-through", "read_only = true\n")
        await self.two.start()
        self.two.stop()
        return "8 of them"

    async def run(self):
        for name, part in [("kills", self.kills), ("two servers", self.two_servers),
                           ("fenced in write-through", lambda: self.fenced("write-through")),
                           ("fenced in write-back", lambda: self.fenced("write-back")), ("snapshot", self.snapshots),
                           ("growth", self.growth), ("hanging", self.hanging), ("wrong names", self.wrong)]:
            begun = time.monotonic()
            print(f"{name}: {await part()} ({time.monotonic() - begun:.0f} s)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--nitro", "--work", "--peer"):
        parser.add_argument(option, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, required=True)
    test = Test(parser.parse_args())
    try:
        asyncio.run(test.run())
    except (Failure, nbd.Refused, ConnectionError) as failure:
        logs = "\n".join(f"{host.work}: {host.said()[-2000:]}" for host in (test.one, test.two))
        sys.exit(f"{type(failure).__name__}: {failure}\nthe servers' last words:\n{logs}")
    finally:
        for host in (test.one, test.two):
            if host.server and host.server.poll() is None:
                host.server.kill()
                host.server.wait()
    print(f"{test.rounds} kills, two servers, a lock broken in both modes, a snapshot, growth, stopped daemons")


main()
