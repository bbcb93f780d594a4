"""How long requests of a healthy volume take, and what the machine does meanwhile: how long its disk takes to make a write
durable, and how late a thread wakes. A process of its own asks, so that the tester, which computes, is not in its figures:
`python3 -m faults.probe SOCKET EXPORT BYTES FILE`, until its standard input ends."""
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time

import nbd

from .server import Failure

BLOCK = 8192
PAUSE_S, WAKE_S = 0.01, 0.001
TENANTS = 2


class Probe:
    """Measures until `stop`; it connects anew while the server is away. Times are those of `time.monotonic`."""

    def __init__(self, socket, volume, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "faults.probe", socket, volume.name, str(volume.bytes), os.path.join(folder, "probe")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})

    def stop(self):
        """Lists of when something began and how long it took, in s: requests, fdatasync of the disk, wakes."""
        output, _ = self.process.communicate("", timeout=90)
        if self.process.returncode:
            raise Failure(f"the probe ended with status {self.process.returncode}")
        return json.loads(output)


class Measured:
    """What is measured, and whether to go on."""

    def __init__(self):
        self.requests, self.disk, self.wakes = [], [], []
        self.ended = threading.Event()


def machine(measured, path):
    block, number = os.urandom(BLOCK), 0
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    while not measured.ended.is_set():
        begun = time.monotonic()
        os.pwrite(file, block, number % 256 * BLOCK)
        os.fdatasync(file)
        durable = time.monotonic()
        time.sleep(WAKE_S)
        measured.disk.append((begun, durable - begun))
        measured.wakes.append((durable, time.monotonic() - durable - WAKE_S))
        number += 1
        time.sleep(PAUSE_S)
    os.close(file)
    os.unlink(path)


async def request(draw, connection, bytes_):
    kind, at = draw.random(), draw.randrange(bytes_ // BLOCK) * BLOCK
    if kind < 0.45:
        await connection.request(nbd.READ, at, BLOCK)
    elif kind < 0.52:
        await connection.request(nbd.FLUSH, 0, 0)
    else:
        await connection.request(nbd.WRITE, at, BLOCK, draw.randbytes(BLOCK), nbd.FUA if draw.random() < 0.06 else 0)


async def tenant(measured, number, socket, export, bytes_):
    draw, connection = random.Random(number), None
    while not measured.ended.is_set():
        try:
            connection = connection or await nbd.Connection.open(socket, export)
            begun = time.monotonic()
            # A refusal is an answer, too: whether it may be one is the tester's to judge.
            with contextlib.suppress(nbd.Refused):
                await request(draw, connection, bytes_)
            measured.requests.append((begun, time.monotonic() - begun))
        except nbd.Refused:
            # No export of this name.
            pass
        except (OSError, asyncio.IncompleteReadError):
            connection = None
        await asyncio.sleep(draw.uniform(0, PAUSE_S))


async def main(socket, export, bytes_, path):
    measured = Measured()
    beside = threading.Thread(target=machine, args=(measured, path))
    beside.start()
    tenants = [asyncio.create_task(tenant(measured, number, socket, export, int(bytes_))) for number in range(TENANTS)]
    await asyncio.to_thread(sys.stdin.read)
    measured.ended.set()
    # A request that is not answered is the tester's to judge.
    done, _ = await asyncio.wait(tenants, timeout=5)
    beside.join()
    for task in done:
        task.result()
    json.dump([measured.requests, measured.disk, measured.wakes], sys.stdout)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
