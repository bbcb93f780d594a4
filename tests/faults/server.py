"""The server under test: its configuration, its process, and what it says of itself."""
import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import time

START_S = 60
END_S = 90
COMMAND_S = 60


class Failure(Exception):
    """A promise that was not kept."""


class Server:
    """`nitro serve` with a configuration in `work`; started, ended and started again."""

    def __init__(self, nitro, work):
        self.nitro, self.work = nitro, work
        self.process = None
        self.starts = 0
        self.limits = {}
        self.cgroup = None
        self.resident_max = 0

    def path(self, name):
        return os.path.join(self.work, name)

    @property
    def socket(self):
        return self.path("nbd.sock")

    def configure(self, server, cache, volumes):
        """Writes the configuration: keys and values of `[server]`, `[cache.c]` and each `[volume.NAME]`."""
        def table(name, entries):
            return f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entries.items())
        server = {"listen": [f"unix:{self.socket}"], "control": self.path("control.sock"), **server}
        text = table("server", server) + table("cache.c", cache)
        text += "".join(table(f"volume.{name}", entries) for name, entries in volumes.items())
        with open(self.path("nitro.toml"), "w") as file:
            file.write(text)

    def spawn(self):
        def prepare():
            for limit, value in self.limits.items():
                resource.setrlimit(limit, (value, value))
            if self.cgroup:
                with open(os.path.join(self.cgroup, "cgroup.procs"), "w") as file:
                    file.write(str(os.getpid()))
        self.starts += 1
        with open(self.log_path(), "wb") as log:
            self.process = subprocess.Popen(
                [self.nitro, "serve", "--config", self.path("nitro.toml")], stdout=log, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, preexec_fn=prepare, env={**os.environ, "STATE_DIRECTORY": self.work})

    async def ready(self):
        until = time.monotonic() + START_S
        while not re.search("^ready", self.said(), re.M):
            if self.process.poll() is not None:
                raise Failure(f"the server does not start (exit status {self.process.returncode}):\n{self.said()}")
            if time.monotonic() > until:
                raise Failure(f"the server is not ready after {START_S} s:\n{self.said()}")
            await asyncio.sleep(0.01)

    def log_path(self, start=None):
        return self.path(f"log.{start or self.starts}")

    def said(self, start=None):
        try:
            with open(self.log_path(start), errors="replace") as log:
                return log.read()
        except FileNotFoundError:
            return ""

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def must_run(self):
        if not self.is_running():
            raise Failure(f"the server has died (exit status {self.process.returncode}):\n{self.said()[-4000:]}")

    async def command(self, *words):
        """Runs `nitro WORDS... --control SOCKET`; its exit status and output."""
        process = await asyncio.create_subprocess_exec(
            self.nitro, *words, "--control", self.path("control.sock"),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, stdin=asyncio.subprocess.DEVNULL)
        try:
            output, _ = await asyncio.wait_for(process.communicate(), COMMAND_S)
        except asyncio.TimeoutError:
            process.kill()
            raise Failure(f"`nitro {' '.join(words)}` has not ended after {COMMAND_S} s") from None
        return process.returncode, output.decode(errors="replace")

    async def status(self):
        code, output = await self.command("status", "-o", "json")
        if code:
            raise Failure(f"`nitro status` fails: {output}")
        return json.loads(output)

    def resident_bytes(self):
        """The most RAM that the process has had, as far as it still runs; kept over restarts."""
        try:
            with open(f"/proc/{self.process.pid}/status") as file:
                found = re.search(r"VmHWM:\s+(\d+) kB", file.read())
        except OSError:
            found = None
        if found:
            self.resident_max = max(self.resident_max, int(found[1]) << 10)
        return self.resident_max

    def signal(self, *signals):
        self.resident_bytes()
        for number in signals:
            self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)

    async def wait(self, limit_s=END_S):
        """Waits for the end; the exit status and how long it took."""
        begun = time.monotonic()
        while self.process.poll() is None:
            if time.monotonic() - begun > limit_s:
                raise Failure(f"the server has not ended after {limit_s} s:\n{self.said()[-4000:]}")
            await asyncio.sleep(0.01)
        return self.process.returncode, time.monotonic() - begun
