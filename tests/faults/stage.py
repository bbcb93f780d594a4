"""What a scenario works with: a server, healthy volumes and a sick or hostile one, and the checks that every scenario ends with."""
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

from oracle import SECTOR, content_bytes

from .probe import Probe
from .server import Failure, Server
from .tenants import Load, Volume, judge, look

MIB = 1 << 20
MODES = ("through", "back", "log")
#: What the probe measures, and the least number of latencies of which a percentile tells something.
NEIGHBOURS, DISK = "neighbours", "fdatasync beside them"
LATENCIES_MIN = 20
HEALTHY_BYTES = 12 * MIB
#: Complaints that no scenario may cause.
NEVER = (r"panicked", r"a reactor thread has ended", r"the export returned")
#: Complaints of the cache device: only where the scenario makes it fail.
HARDWARE = (r"cache device", r"its structures", r"pass(ing)?.through")
#: What is expected of an orderly end, whatever the fault.
HARMLESS = (r"some clients did not disconnect", r"io_uring is not available", r"may need up to .* of RAM")


class Skip(Exception):
    """The scenario cannot run here, and why."""


class Stage:
    """One run of a scenario."""

    def __init__(self, nitro, work, seed, mode, seconds, quick=True):
        self.work, self.seed, self.mode, self.seconds = work, seed, mode, seconds
        self.is_quick = quick
        self.random = random.Random(f"{seed}.{mode}")
        self.server = Server(nitro, work)
        self.volumes = {}
        self.sick_places = []
        self.loads = []
        self.hostile = []
        self.phase = "starting"
        self.probe = None
        self.phases = []
        self.expected = list(HARMLESS)
        self.server_settings = {}
        self.cache_settings = {}
        self.cache_path = os.path.join(work, "cache.img")
        self.log_path = os.path.join(work, "log.img")
        self.cache_is_sick = False
        self.cache_is_damaged = False
        self.need_bytes = 0
        self.figures = {}
        self.load_number = 0

    # -- what there is

    def path(self, name):
        return os.path.join(self.work, name)

    def use(self, place):
        """Takes a sick place: it is healed and removed at the end, whatever happens."""
        self.sick_places.append(place)
        place.make()
        return place

    def volume(self, name, origin=None, bytes_=HEALTHY_BYTES, mode=None, healthy=True, modelled=True, content=None):
        """Adds a volume in the stage's mode, or `mode`, whose origin is a file of its own, or `origin`.

        The origin is filled with the volume's first content (0: it is left as it is). Requests to a volume that is not
        `healthy` may fail; one that is not `modelled` is written to by hostile tenants alone, and empty at first."""
        number = len(self.volumes) + 1
        content = 0 if not modelled else number if content is None else content
        volume = Volume(name, origin or self.path(f"{name}.img"), bytes_, self.seed, content, number * 10_000_000, healthy, modelled)
        with open(volume.origin, "r+b" if os.path.exists(volume.origin) else "wb") as file:
            if content:
                file.write(content_bytes(content, bytes_ // SECTOR))
                file.flush()
                os.fsync(file.fileno())
            elif not origin:
                file.truncate(bytes_)
        if not os.path.isfile(volume.origin):
            volume.mark = None
        volume.settings = {"origin": volume.origin,
                           "mode": mode or ("write-through" if self.mode == "through" else "write-back")}
        volume.oracle.durable_at_once = volume.settings["mode"] == "write-through" or self.mode == "log"
        self.volumes[name] = volume
        return volume

    def neighbours(self):
        """Two healthy volumes: one in the stage's mode, one in write-through. In long runs a third is measured by a process of its own."""
        if not self.is_quick:
            self.volume("probed", modelled=False)
        return self.volume("first"), self.volume("second", mode="write-through")

    def modelled(self):
        return [volume for volume in self.volumes.values() if volume.modelled]

    def expect(self, *patterns):
        """Complaints that the fault is to cause."""
        self.expected += patterns

    def next_load(self):
        self.load_number += 1
        return self.load_number

    # -- the server

    async def start(self, **cache):
        """Starts the server with a small cache; `cache` overrides its settings."""
        settings = {"path": self.cache_path, "size": "32M", "weu_size": "512K", "ram": "2M", "dirty_age": "1s", **cache}
        if self.mode == "log":
            settings |= {"write_log": self.log_path, "write_log_size": "16M"}
        self.cache_settings = {key: value for key, value in settings.items() if value is not None}
        await self.restart()

    async def restart(self):
        self.server.configure(self.server_settings, self.cache_settings,
                              {name: volume.settings for name, volume in self.volumes.items()})
        self.server.spawn()
        await self.server.ready()
        status = await self.server.status()
        self.need_bytes = max(status["ram"]["need_bytes"], self.need_bytes)

    async def crash(self, before_wait=lambda: None):
        """kill -9, whatever is under way. A process that waits for a device in the kernel ends only with `before_wait`."""
        for load in self.loads:
            load.ended = True
        self.server.kill()
        before_wait()
        await self.server.wait()
        await self._clear_loads()
        for volume in self.volumes.values():
            volume.oracle.crash()
        self.check_log()

    async def end(self, *signals, limit_s=None):
        """Has the server end in order: SIGTERM, or `signals`. The exit status."""
        for load in self.loads:
            load.ended = True
        self.server.signal(*(signals or [signal.SIGTERM]))
        code, seconds = await self.server.wait(*([limit_s] if limit_s else []))
        self.figures["end_s"] = max(seconds, self.figures.get("end_s", 0))
        await self._clear_loads()
        for volume in self.volumes.values():
            # Of a cache device or filesystem that failed, an end that tells so has kept what was flushed and no more.
            volume.oracle.crash() if code and (self.cache_is_sick or volume.origin_forgets) else volume.oracle.ended()
        self.check_log()
        return code

    async def _clear_loads(self):
        loads, self.loads = self.loads, []
        for load in loads:
            await load.stop()

    # -- load and time

    async def load(self, *volumes, **settings):
        """Starts tenants of all healthy volumes, or of `volumes`."""
        for volume in volumes or [v for v in self.modelled() if v.healthy]:
            load = Load(self, volume, **settings)
            await load.start()
            self.loads.append(load)

    async def stop_load(self):
        """Ends the tenants; every request that is under way must be answered."""
        await self._clear_loads()

    def check(self):
        self.server.must_run()
        for load in self.loads:
            load.check()
        self.server.resident_bytes()

    async def pass_time(self, phase, seconds=None):
        """Lets tenants work for a phase of `seconds`, by default those of the run."""
        self.phase = phase
        if "probed" in self.volumes and not self.probe:
            self.probe = Probe(self.server.socket, self.volumes["probed"], self.work)
        begun = time.monotonic()
        until = begun + (seconds if seconds is not None else self.seconds)
        while (now := time.monotonic()) < until:
            self.check()
            await asyncio.sleep(0.05)
        self.phases.append((phase, begun, now))
        self.check()

    async def until(self, condition, what, limit_s=60):
        """Waits for `condition`, which may be a coroutine function."""
        until = time.monotonic() + limit_s
        while True:
            holds = condition()
            if asyncio.iscoroutine(holds):
                holds = await holds
            if holds:
                return
            self.check()
            if time.monotonic() > until:
                raise Failure(f"after {limit_s} s: {what}")
            await asyncio.sleep(0.1)

    def attack(self, export, kind, **settings):
        """Starts a hostile tenant as a process of its own."""
        words = [f"--{key.replace('_', '-')}={value}" for key, value in settings.items()]
        process = subprocess.Popen(
            [sys.executable, "-m", "faults.hostile", kind, "--socket", self.server.socket, "--export", export,
             "--seed", str(self.random.randrange(1 << 32)), *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.hostile.append(process)
        return process

    async def attack_ends(self, process, limit_s=120):
        """Waits for a hostile tenant that ends by itself: what it says."""
        until = time.monotonic() + limit_s
        while process.poll() is None:
            self.check()
            if time.monotonic() > until:
                raise Failure(f"a hostile tenant waits for an answer, still after {limit_s} s")
            await asyncio.sleep(0.05)
        output = process.stdout.read()
        if process.returncode:
            raise Failure(f"a hostile tenant failed:\n{output[-3000:]}")
        return json.loads(output.splitlines()[-1])

    @staticmethod
    def leave(process):
        """A hostile tenant disappears."""
        process.kill()
        process.wait()
        process.stdout.close()

    # -- what must hold

    def check_log(self):
        """The log of this start has no complaint that was not expected."""
        forbidden = () if self.cache_is_sick else HARDWARE
        for line in self.server.said().splitlines():
            if any(re.search(pattern, line) for pattern in NEVER):
                raise Failure(f"the server complained: {line}")
            if not re.search(r"\b(WARN|ERROR)\b", line):
                continue
            if any(re.search(pattern, line) for pattern in forbidden) or not any(re.search(p, line) for p in self.expected):
                raise Failure(f"the server complained: {line}")

    def check_ram(self):
        resident = self.server.resident_bytes()
        self.figures["rss_mib"] = resident >> 20
        self.figures["need_mib"] = self.need_bytes >> 20
        if resident > self.need_bytes:
            raise Failure(f"the server took {resident >> 20} MiB of RAM and says that it needs {self.need_bytes >> 20} MiB")

    async def look(self, *volumes):
        """Reads every sector of the volumes, by default of all."""
        for volume in volumes or self.modelled():
            await look(self, volume)

    def check_origins(self):
        """After an orderly end that left nothing dirty: each origin holds what its volume held, and bears no mark."""
        for volume in self.volumes.values():
            if volume.modelled:
                with open(volume.origin, "rb") as file:
                    data = file.read(volume.bytes)
                oracle = volume.oracle
                judge(f"{volume.name} (its origin, after an orderly end)",
                      oracle.read(oracle.reading(0, volume.bytes // SECTOR), data))
            if volume.mark and os.path.exists(volume.mark):
                raise Failure(f"volume {volume.name} is still marked as dirty after an orderly end")

    async def fsck(self):
        process = await asyncio.create_subprocess_exec(
            self.server.nitro, "cache", "fsck", self.cache_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        output, _ = await asyncio.wait_for(process.communicate(), 120)
        if process.returncode:
            raise Failure(f"nitro cache fsck finds damage:\n{output.decode()[-2000:]}")

    async def reopen(self):
        """Once a fault is over: the server ends, in order or by kill -9, and starts anew. From then on every volume is healthy."""
        if self.random.random() < 0.5:
            await self.crash()
        else:
            code = await self.end()
            if code < 0:
                raise Failure(f"signal {-code} killed the server while it ended in order")
        for volume in self.volumes.values():
            volume.healthy = True
        await self.restart()

    async def end_beside(self, sick):
        """Has the server end while an origin is sick: the exit status must tell of dirty data that stay behind."""
        code = await self.end()
        if code < 0:
            raise Failure(f"signal {-code} killed the server while it ended in order")
        marked = sick.mark and os.path.exists(sick.mark)
        if marked and code == 0:
            raise Failure(f"the server ended with status 0 and left dirty data of volume {sick.name} behind")

    async def finish(self):
        """The end of a scenario whose fault is over: nothing is lost over kill -9, the origins come up to date, the end is in order."""
        await self.stop_load()
        self.phase = "after the fault"
        await self.look()
        self.check_ram()
        if self.random.random() < 0.5:
            await self.load()
            await self.pass_time("before kill -9", self.random.uniform(0.2, 0.6))
            await self.crash()
            await self.restart()
            self.phase = "after kill -9"
            await self.look()
        if code := await self.end():
            raise Failure(f"the server ended with status {code} though every origin is well:\n{self.server.said()[-2000:]}")
        self.check_origins()
        if not self.cache_is_damaged:
            await self.fsck()
        self.check_ram()

    def slowest_ms(self):
        """The slowest of the modelled neighbours' requests with the fault, in ms; the tester's own time is in it."""
        return max((t for v in self.modelled() if v.neighbour for t in v.latencies.get("fault", [])), default=0) * 1000

    def probed_latencies(self):
        """Median and 99th percentile in ms, before and with the fault, of the probe's requests and of the machine beside them."""
        if not self.probe:
            return {}
        probe, self.probe = self.probe, None
        found = {}
        for name, measured in zip((NEIGHBOURS, DISK, "wakes"), probe.stop()):
            phases = [sorted(seconds for at, seconds in measured
                             if any(called == phase and begun <= at < end for called, begun, end in self.phases))
                      for phase in ("before", "fault")]
            before, fault = map(len, phases)
            # Fewer with the fault are few because they wait: that must not go unnoticed.
            if name == NEIGHBOURS and before >= LATENCIES_MIN > fault and any(called == "fault" for called, *_ in self.phases):
                raise Failure(f"{name}: {before} requests ended before the fault, and {fault} with it")
            if min(before, fault) >= LATENCIES_MIN:
                found[name] = [[times[int(len(times) * share)] * 1000 for share in (0.5, 0.99)] for times in phases]
        return found

    # -- the end of all

    def clear(self):
        """Ends and removes everything, also after a failure."""
        if self.probe:
            self.probe.process.kill()
            self.probe.process.wait()
        for process in self.hostile:
            if process.poll() is None:
                self.leave(process)
        if self.server.is_running():
            self.server.process.kill()
        for place in reversed(self.sick_places):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                place.heal()
        if self.server.process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.server.process.wait(60)
        for place in reversed(self.sick_places):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                place.remove()
