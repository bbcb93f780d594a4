"""What the tests that kill a server have in common."""
import asyncio
import os
import re
import subprocess
import time

from oracle import SECTOR


class Failure(Exception):
    """Something is not as promised."""


def judge(name, wrong):
    """Fails if sectors of a volume are wrong."""
    if wrong:
        lines = [f"volume {name}: {len(wrong)} sectors are wrong"]
        lines += [f"  sector {sector} (at {sector * SECTOR}) {what}" for sector, what in wrong[:8]]
        raise Failure("\n".join(lines))


class Served:
    """A server with the configuration nitro.toml in a folder, and a log for each of its starts."""

    def __init__(self, nitro, work, patience_s):
        self.nitro, self.work, self.patience_s = nitro, work, patience_s
        self.server, self.starts = None, 0

    def path(self, name):
        return os.path.join(self.work, name)

    def spawn(self):
        self.starts += 1
        with open(self.path(f"log.{self.starts}"), "wb") as log:
            self.server = subprocess.Popen([self.nitro, "serve", "--config", self.path("nitro.toml")], stdout=log,
                                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def said(self):
        """The log of the last start."""
        if not self.starts:
            return ""
        with open(self.path(f"log.{self.starts}"), errors="replace") as log:
            return log.read()

    async def ready(self):
        until = time.monotonic() + self.patience_s
        while not re.search("^ready", self.said(), re.M):
            if self.server.poll() is not None:
                raise Failure(f"the server does not start (exit code {self.server.returncode})")
            if time.monotonic() > until:
                raise Failure(f"the server is not ready after {self.patience_s} s")
            await asyncio.sleep(0.005)

    def kill(self):
        """Returns whether the server had ended in order before."""
        self.server.kill()
        code = self.server.wait()
        complaints = [line for line in self.said().splitlines() if " ERROR " in line or "panicked" in line]
        if complaints:
            raise Failure("the server complained:\n" + "\n".join(complaints))
        return code == 0
