"""Kills the server with -9 over and over under guests that go on, and checks every sector and every answer.

vhost-kill9.py --nitro PROGRAM --work FOLDER [--rounds N] [--seed S]

Five volumes in two small caches: one in write-back, one in write-through, one whose mode is drawn at every start, an object of a
deduplicating store likewise, and one in write-back with a write log. After each kill, each guest connects to the next server with
the requests that it had in flight, and sends a FLUSH. Where acknowledged writes are lost, the FLUSH and all other requests must
fail until the guest resets its device; where none are lost, all must succeed. A FLUSH that succeeds means that every write
acknowledged before the kill is there. The same seed sends the same requests.
"""
import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import time

import vhost_user as vhost
from oracle import SECTOR, Oracle, content_bytes
from served import Failure, Served, judge

MIB = 1 << 20
VOLUME_BYTES = 20 * MIB
VOLUME_SECTORS = VOLUME_BYTES // SECTOR
WINDOW_SECTORS = 6 * MIB // SECTOR
DEPTH = 8
VERIFY_SECTORS = 256
SHARED_CONTENTS = range(4, 12)
PATIENCE_S = 120


class Volume:
    """A volume, its guest, and what the guest may find."""

    def __init__(self, name, content, socket, queues, indirect):
        self.name, self.oracle = name, Oracle(VOLUME_SECTORS, content)
        self.guest = vhost.Guest(socket, queues, indirect)
        self.mode = None
        # A kill of this server may lose acknowledged writes.
        self.is_volatile = False
        self.collected = []
        self.begin_anew()

    def begin_anew(self):
        """Nothing acknowledged is in doubt. Times are the oracle's."""
        self.change_seen = self.acked_change_sent = self.flush_sent = self.flush_seen = self.oracle.now()

    def expected(self, killed_at_once, ended_in_order):
        """Whether the guest can go on after the kill; None: the server alone knows whether its last flush came in time."""
        pending = self.guest.in_flight()
        if not self.is_volatile or ended_in_order:
            return True
        has_flush = any(request.kind == vhost.FLUSH for request in pending)
        has_change = any(request.kind not in (vhost.READ, vhost.FLUSH) for request in pending)
        if killed_at_once and not has_flush and self.acked_change_sent > self.flush_seen:
            return False
        if not has_change and self.change_seen <= self.flush_sent:
            return True
        return None

    def submit(self, kind, first, sectors, content, done):
        """Sends a request, and tells the oracle now and when it is completed."""
        oracle, data = self.oracle, b""
        if kind == vhost.READ:
            told = oracle.reading(first, sectors)
        elif kind == vhost.FLUSH:
            told = oracle.now()
        else:
            told = oracle.write(content, first, sectors, certain=kind != vhost.DISCARD)
            data = content_bytes(content, sectors) if kind == vhost.WRITE else b""

        def complete(request, status, read):
            if status != vhost.OK:
                raise Failure(f"volume {self.name}: request {kind} of {sectors} sectors at {first} fails with status {status}")
            self.note(request, read)
            done()
        self.guest.submit(kind, first, sectors, data, complete, told)

    def note(self, request, read):
        """A request was completed."""
        told = request.told
        if request.kind == vhost.READ:
            judge(self.name, self.oracle.read(told, read))
        elif request.kind == vhost.FLUSH:
            self.oracle.flushed(told)
            self.flush_sent, self.flush_seen = max(self.flush_sent, told), self.oracle.now()
        else:
            self.oracle.written(told, False)
            self.change_seen = self.oracle.now()
            self.acked_change_sent = max(self.acked_change_sent, told.issued)

    async def go_on(self, expected):
        """Connects to the next server. Returns whether the guest could go on without a reset."""
        pending = self.guest.in_flight()
        answers = asyncio.Queue()
        for request in pending:
            request.done = lambda request, status, read: answers.put_nowait((request, status, read))
        self.guest.connect()
        try:
            status, _ = await asyncio.wait_for(self.guest.request(vhost.FLUSH, 0, 0), PATIENCE_S)
            answered = [await asyncio.wait_for(answers.get(), PATIENCE_S) for _ in pending]
        except asyncio.TimeoutError:
            raise Failure(f"volume {self.name}: requests that were in flight are not completed") from None
        statuses = {status, *(status for _, status, _ in answered)}
        if statuses not in ({vhost.OK}, {vhost.IO_ERROR}):
            raise Failure(f"volume {self.name}: some requests succeed and others fail: {statuses}")
        goes_on = status == vhost.OK
        if expected is False and goes_on:
            raise Failure(f"volume {self.name}: a FLUSH succeeds although acknowledged writes were not flushed")
        if expected is True and not goes_on:
            raise Failure(f"volume {self.name}: the guest cannot go on although no acknowledged write is lost")
        if goes_on:
            self.oracle.flushed(self.oracle.now())
        self.oracle.crash()
        if not goes_on:
            self.guest.reset()
            self.begin_anew()
            return False
        # All were under way again at the same time.
        for request in pending:
            if request.kind == vhost.READ:
                request.told = self.oracle.reading(request.sector, request.sectors)
            elif request.kind == vhost.FLUSH:
                request.told = self.oracle.now()
            else:
                before = request.told
                request.told = self.oracle.write(before.content, before.first, before.sectors,
                                                 certain=request.kind != vhost.DISCARD)
        self.begin_anew()
        flushes = [answer for answer in answered if answer[0].kind == vhost.FLUSH]
        for request, _, read in [*flushes, *(answer for answer in answered if answer not in flushes)]:
            self.note(request, read)
        # They were sent before the last flush was answered.
        self.acked_change_sent = self.flush_seen
        return True

    async def verify(self, draw):
        """Reads every sector, in any order."""
        pieces = list(range(0, VOLUME_SECTORS, VERIFY_SECTORS))
        draw.shuffle(pieces)
        for first in pieces:
            asked = self.oracle.reading(first, VERIFY_SECTORS)
            status, data = await asyncio.wait_for(self.guest.request(vhost.READ, first, VERIFY_SECTORS), PATIENCE_S)
            if status != vhost.OK:
                raise Failure(f"volume {self.name}: sector {first} cannot be read: status {status}")
            judge(self.name, self.oracle.read(asked, data))


class Place(Served):
    """The server, its files and its guests."""

    def __init__(self, nitro, work, seed):
        super().__init__(nitro, work, PATIENCE_S)
        self.seed, self.random, self.contents = seed, random.Random(f"{seed}"), 100
        self.volumes = []
        os.makedirs(self.path("blk"))
        for content, name in enumerate(("back", "through", "either", "stored", "logged"), 1):
            image = self.path(f"{name}.img")
            with open(image, "wb") as origin:
                origin.write(content_bytes(content, VOLUME_SECTORS))
            queues, indirect = self.random.randint(1, 3), self.random.random() < 0.5
            self.volumes.append(Volume(name, content, self.path(f"blk/{name}.sock"), queues, indirect))
        self.run("cos", "init", self.path("store"), "--size", "1G")
        self.run("cos", "import", self.path("store"), "stored", self.path("stored.img"))

    def run(self, *command):
        done = subprocess.run([self.nitro, *command], capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"{' '.join(command)} fails:\n{done.stdout[-1500:]}{done.stderr}")

    def new_content(self):
        self.contents += 1
        return self.contents

    def configure(self):
        """Writes the configuration of the next start."""
        draw = self.random
        age, ram = draw.choice(["0s", "1s", "1h"]), draw.choice(["0", "2M"])
        log = self.path("log.img")
        text = (f'[server]\nlisten = ["vhost:{self.path("blk")}/"]\ncontrol = "{self.path("control.sock")}"\n'
                f'threads = {draw.randint(1, 2)}\nvhost_busy_poll_us = {draw.choice([0, 0, 50])}\n')
        for cache, more in (("small", f'size = "24M"\n'), ("logged", f'size = "16M"\nwrite_log = "{log}"\nwrite_log_size = "4M"\n')):
            text += (f'[cache.{cache}]\npath = "{self.path(cache)}.cache"\nweu_size = "512K"\nram = "{ram}"\ndirty_age = "{age}"\n'
                     + more)
        for volume in self.volumes:
            name = volume.name
            volume.mode = {"back": "write-back", "through": "write-through", "logged": "write-back"}.get(
                name, draw.choice(["write-back", "write-through"]))
            origin = f'cos:{self.path("store")}#stored' if name == "stored" else self.path(f"{name}.img")
            text += (f'[volume.{name}]\norigin = "{origin}"\nmode = "{volume.mode}"\n'
                     f'cache = "{"logged" if name == "logged" else "small"}"\n')
            volume.is_volatile = name == "stored" or volume.mode == "write-back" and name != "logged"
            volume.oracle.durable_at_once = not volume.is_volatile
        with open(self.path("nitro.toml"), "w") as file:
            file.write(text)
        drawn = ", ".join(f"{volume.name} in {volume.mode}" for volume in self.volumes if volume.name in ("either", "stored"))
        return f"{drawn}, dirty_age {age}, ram {ram}"


class Load:
    """Random requests of all guests until so many are completed, and the server is killed."""

    def __init__(self, place, number, requests):
        self.place, self.left = place, requests
        self.window = place.random.randrange(0, VOLUME_SECTORS - WINDOW_SECTORS, 128)
        self.enough = asyncio.Event()
        self.is_over = False
        for volume in place.volumes:
            for client in range(DEPTH):
                self.send(volume, random.Random(f"{place.seed}.{number}.{volume.name}.{client}"))

    def send(self, volume, draw):
        def done():
            self.left -= 1
            if self.left == 0:
                self.enough.set()
            if not self.is_over:
                self.send(volume, draw)
        kind = draw.random()
        first, sectors = self.extent(draw, kind < 0.15)
        if kind < 0.25:
            volume.submit(vhost.READ, first, sectors, None, done)
        elif kind < 0.33:
            volume.submit(vhost.FLUSH, 0, 0, None, done)
        elif kind < 0.36:
            volume.submit(vhost.WRITE_ZEROES, first, sectors, 0, done)
        elif kind < 0.38:
            volume.submit(vhost.DISCARD, first, sectors, 0, done)
        else:
            shared = draw.random() < 0.2 and first % 16 == 0
            content = draw.choice(SHARED_CONTENTS) if shared else self.place.new_content()
            volume.submit(vhost.WRITE, first, sectors, content, done)

    def extent(self, draw, everywhere):
        """First sector and number of sectors: whole extents, blocks, any sectors, long ones; some places are hot."""
        base, total = (0, VOLUME_SECTORS) if everywhere else (self.window, WINDOW_SECTORS)
        kind = draw.random()
        unit, length = ((16, draw.choice([1, 1, 1, 2, 4])) if kind < 0.5 else (8, draw.randint(1, 3)) if kind < 0.65
                        else (1, draw.randint(1, 15)) if kind < 0.9 else (1, draw.randint(16, 192)))
        within = total // 16 if draw.random() < 0.6 else total
        first = draw.randrange(within // unit) * unit
        return base + first, min(length * unit, total - first)


async def one_round(place, number, faults):
    """Load until a death, and the start of the next server. Returns what happened, in a few words."""
    requests = int(10 ** place.random.uniform(1.0, 3.5))
    load = Load(place, number, requests)
    waiting = asyncio.create_task(load.enough.wait())
    await asyncio.wait([waiting, faults], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
    if faults.done():
        raise faults.exception()
    if not load.enough.is_set():
        raise Failure(f"guests wait for {PATIENCE_S} s")
    how = "killed"
    if place.random.random() < 0.2:
        place.server.send_signal(signal.SIGTERM)
        await asyncio.sleep(place.random.choice([0, 0.05, 0.2, 2]))
        how = "killed while it stopped"
    # From here on, nothing is sent; what the server has completed counts.
    load.is_over = True
    ended_in_order = place.kill()
    for volume in place.volumes:
        volume.guest.hang_up()
        volume.guest.poll()
    expected = [volume.expected(how == "killed", ended_in_order) for volume in place.volumes]
    in_flight = sum(len(volume.guest.in_flight()) for volume in place.volumes)
    told = place.configure()
    place.spawn()
    if place.random.random() < 0.15:
        await asyncio.sleep(place.random.uniform(0, 0.08))
        place.kill()
        place.spawn()
        how += " and once more at its start"
    await place.ready()
    kept = [await volume.go_on(wanted) for volume, wanted in zip(place.volumes, expected)]
    if faults.done():
        raise faults.exception()
    if place.random.random() < 0.8:
        for volume in place.volumes:
            await volume.verify(place.random)
    outcome = ", ".join(f"{volume.name} {'goes on' if on else 'was reset'}" for volume, on in zip(place.volumes, kept))
    return f"{'ended in order' if ended_in_order else how} after {requests} requests, {in_flight} in flight; {outcome}; {told}"


async def run(place, rounds):
    faults = asyncio.get_running_loop().create_future()

    def caught(_, context):
        error = context.get("exception") or Failure(context["message"])
        if not faults.done():
            faults.set_exception(error)
    asyncio.get_running_loop().set_exception_handler(caught)
    place.configure()
    place.spawn()
    await place.ready()
    for volume in place.volumes:
        volume.guest.connect()
        if volume.guest.size_bytes != VOLUME_BYTES:
            raise Failure(f"volume {volume.name} has {volume.guest.size_bytes} bytes")
    for number in range(rounds):
        print(f"round {number}: {await one_round(place, number, faults)}", flush=True)
    for volume in place.volumes:
        await volume.verify(place.random)
        volume.guest.close()
    place.server.send_signal(signal.SIGTERM)
    if place.server.wait(PATIENCE_S):
        raise Failure("the server ended with an error")
    place.run("cos", "fsck", place.path("store"))
    place.run("cos", "export", place.path("store"), "stored", place.path("stored.img"), "--force")
    for volume in place.volumes:
        volume.oracle.ended()
        with open(place.path(f"{volume.name}.img"), "rb") as origin:
            judge(f"{volume.name} (its origin, after an orderly end)",
                  volume.oracle.read(volume.oracle.reading(0, VOLUME_SECTORS), origin.read()))
        if os.path.exists(place.path(f"{volume.name}.img.nitro-dirty")):
            raise Failure(f"volume {volume.name} is still marked as dirty after an orderly end")
    place.run("cache", "fsck", place.path("small.cache"))


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nitro", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    place = None
    try:
        place = Place(arguments.nitro, arguments.work, arguments.seed)
        await run(place, arguments.rounds)
    except (Failure, vhost.Refused, OSError) as failure:
        again = f"NITRO_SEED={arguments.seed} NITRO_ROUNDS={arguments.rounds} scripts/test-long vhost-kill9"
        said = place.said()[-2000:] if place else ""
        sys.exit(f"{type(failure).__name__}: {failure}\nthe server's last words: {said}\nagain: {again}")
    finally:
        if place and place.server and place.server.poll() is None:
            place.server.kill()
            place.server.wait()
    print(f"{arguments.rounds} kills under {len(place.volumes)} guests, {place.contents} contents written, seed {arguments.seed}")


asyncio.run(main())
