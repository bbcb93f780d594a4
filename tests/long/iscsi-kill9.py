"""Kills the server with -9 while clients of libiscsi read and write, and checks every sector.

iscsi-kill9.py --nitro PROGRAM --work FOLDER [--rounds N] [--seed S]

Each client has two sessions to the target, as with multipath, and sends each request through either. libiscsi connects
again after a kill and repeats the commands that had no response. What was flushed must be there, and everything else be
a value that was written later.
"""
import argparse
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

from oracle import SECTOR, Oracle, content_bytes

MIB = 1 << 20
VOLUME_BYTES = 24 * MIB
SECTORS = VOLUME_BYTES // SECTOR
CLIENTS = 4
REQUEST_SECTORS_MAX = 64
PATIENCE_S = 120
TARGET = b"iqn.2026-11.nitro:vm"
NORMAL_SESSION = 2

lib = ctypes.CDLL("libiscsi.so.7")
pointer, number, wide = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64
for name, result, *arguments in (
    ("iscsi_create_context", pointer, ctypes.c_char_p),
    ("iscsi_set_isid_random", number, pointer, ctypes.c_uint32, ctypes.c_uint32),
    ("iscsi_set_targetname", number, pointer, ctypes.c_char_p),
    ("iscsi_set_session_type", number, pointer, number),
    ("iscsi_full_connect_sync", number, pointer, ctypes.c_char_p, number),
    ("iscsi_logout_sync", number, pointer),
    ("iscsi_destroy_context", number, pointer),
    ("iscsi_get_error", ctypes.c_char_p, pointer),
    ("iscsi_write16_sync", pointer, pointer, number, wide, pointer, ctypes.c_uint32, number, *[number] * 5),
    ("iscsi_read16_iov_sync", pointer, pointer, number, wide, ctypes.c_uint32, number, *[number] * 5, pointer, number),
    ("iscsi_synchronizecache16_sync", pointer, pointer, number, wide, ctypes.c_uint32, number, number),
    ("scsi_free_scsi_task", None, pointer),
):
    getattr(lib, name).restype, getattr(lib, name).argtypes = result, arguments


class Failure(Exception):
    """Something is not as promised."""


class Vector(ctypes.Structure):
    _fields_ = [("base", pointer), ("len", ctypes.c_size_t)]


class Session:
    """A session of libiscsi. A call returns when its command has a response, through any number of connections."""

    def __init__(self, portal, initiator, isid):
        self.context = lib.iscsi_create_context(initiator)
        lib.iscsi_set_isid_random(self.context, isid, 0)
        lib.iscsi_set_targetname(self.context, TARGET)
        lib.iscsi_set_session_type(self.context, NORMAL_SESSION)
        if lib.iscsi_full_connect_sync(self.context, portal, 0):
            raise Failure(f"no login: {self.error()}")

    def error(self):
        return lib.iscsi_get_error(self.context).decode()

    def done(self, what, task):
        if not task:
            raise Failure(f"{what}: {self.error()}")
        # The status is the first field of a task.
        status = ctypes.cast(task, ctypes.POINTER(number))[0]
        lib.scsi_free_scsi_task(task)
        if status:
            raise Failure(f"{what}: status {status:#x}: {self.error()}")

    def write(self, first, data, fua):
        buffer = ctypes.create_string_buffer(data, len(data))
        task = lib.iscsi_write16_sync(self.context, 0, first, buffer, len(data), SECTOR, 0, 0, int(fua), 0, 0)
        self.done(f"write of {len(data)} bytes at sector {first}", task)

    def read(self, first, sectors):
        buffer = ctypes.create_string_buffer(sectors * SECTOR)
        vector = Vector(ctypes.addressof(buffer), sectors * SECTOR)
        task = lib.iscsi_read16_iov_sync(self.context, 0, first, sectors * SECTOR, SECTOR, 0, 0, 0, 0, 0,
                                         ctypes.addressof(vector), 1)
        self.done(f"read of {sectors} sectors at {first}", task)
        return buffer.raw

    def flush(self):
        self.done("flush", lib.iscsi_synchronizecache16_sync(self.context, 0, 0, 0, 0, 0))

    def close(self):
        lib.iscsi_logout_sync(self.context)
        lib.iscsi_destroy_context(self.context)


def free_port():
    """A port below those of outgoing connections: while no server has one of these, a client may connect to itself."""
    while True:
        port = random.randrange(20000, 32000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            pass


class Place:
    """The server, and what its volume may hold."""

    def __init__(self, nitro, work, seed):
        self.nitro, self.work, self.seed = nitro, work, seed
        self.draw = random.Random(f"{seed}")
        self.port = free_port()
        self.lock = threading.Lock()
        self.oracle = Oracle(SECTORS, 1)
        with open(self.path("vm.img"), "wb") as origin:
            origin.write(content_bytes(1, SECTORS))
        # Kills so far, the last content, and the writes without a response, by client.
        self.kills, self.content, self.writing = 0, 1, {}
        self.answered, self.again = 0, 0
        self.is_over, self.failures = False, []
        self.server = None

    def path(self, name):
        return os.path.join(self.work, name)

    def start(self):
        with open(self.path("log"), "ab") as log:
            begun = log.tell()
            volume = ["--origin", self.path("vm.img"), "--name", "vm", "--mode", "write-back"]
            cache = ["--cache", self.path("cache.img"), "--cache-size", "64M", "--ram", "4M"]
            sockets = ["--control", self.path("control.sock"), "--listen", f"iscsi:127.0.0.1:{self.port}"]
            self.server = subprocess.Popen([self.nitro, "serve", *volume, *cache, *sockets], stdout=log,
                                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while "\nready" not in "\n" + self.said(begun):
            if self.server.poll() is not None or time.monotonic() > until:
                raise Failure("the server does not start")
            time.sleep(0.02)

    def said(self, begun=0):
        with open(self.path("log"), errors="replace") as log:
            log.seek(begun)
            return log.read()

    def kill(self):
        with self.lock:
            self.server.kill()
            self.server.wait()
            self.kills += 1
            self.oracle.crash()
            # libiscsi sends the commands without a response again.
            for client, (write, data) in self.writing.items():
                self.writing[client] = self.oracle.write(write.content, write.first, write.sectors), data
                self.again += 1

    def client(self, index):
        try:
            draw = random.Random(f"{self.seed}.{index}")
            initiator = f"iqn.2026-11.test:client-{index}".encode()
            paths = [Session(f"127.0.0.1:{self.port}".encode(), initiator, 2 * index + path) for path in (0, 1)]
            while not self.is_over:
                self.request(index, draw, draw.choice(paths))
                self.answered += 1
            for path in paths:
                path.close()
        except (Failure, OSError) as failure:
            self.failures.append(failure)

    def request(self, index, draw, path):
        sectors = draw.choice([1, 8, 16, 16, 16, draw.randint(1, REQUEST_SECTORS_MAX)])
        first = draw.randrange(SECTORS - sectors)
        first -= first % 16 if draw.random() < 0.5 else 0
        kind = draw.random()
        if kind < 0.3:
            with self.lock:
                kills, asked = self.kills, self.oracle.reading(first, sectors)
            data = path.read(first, sectors)
            with self.lock:
                if kills == self.kills:
                    self.judge(self.oracle.read(asked, data))
        elif kind < 0.35:
            with self.lock:
                kills, sent = self.kills, self.oracle.now()
            path.flush()
            with self.lock:
                if kills == self.kills:
                    self.oracle.flushed(sent)
        else:
            fua = draw.random() < 0.1
            with self.lock:
                self.content += 1
                data = content_bytes(self.content, sectors)
                self.writing[index] = self.oracle.write(self.content, first, sectors), data
                kills = self.kills
            path.write(first, data, fua)
            with self.lock:
                write, _ = self.writing.pop(index)
                if kills == self.kills:
                    self.oracle.written(write, fua)
                else:
                    # The response may be that of the server that was killed, which has lost the write.
                    self.oracle.failed(write)

    def judge(self, wrong):
        if wrong:
            lines = [f"  sector {sector} {what}" for sector, what in wrong[:8]]
            raise Failure("\n".join([f"{len(wrong)} sectors are wrong", *lines]))

    def verify(self):
        session = Session(f"127.0.0.1:{self.port}".encode(), b"iqn.2026-11.test:verifier", 1000)
        for first in range(0, SECTORS, 256):
            asked = self.oracle.reading(first, 256)
            self.judge(self.oracle.read(asked, session.read(first, 256)))
        session.close()

    def run(self, rounds):
        self.start()
        clients = [threading.Thread(target=self.client, args=(index,), daemon=True) for index in range(CLIENTS)]
        for client in clients:
            client.start()
        for _ in range(rounds):
            self.wait_for(self.answered + self.draw.randint(50, 800))
            self.kill()
            self.start()
        # All clients go on after the last kill.
        self.wait_for(self.answered + 400)
        self.is_over = True
        until = time.monotonic() + PATIENCE_S
        for client in clients:
            client.join(max(0.1, until - time.monotonic()))
        if self.failures or any(client.is_alive() for client in clients):
            raise Failure(self.failures[0] if self.failures else "a client waits for ever")
        self.verify()
        self.server.send_signal(signal.SIGTERM)
        if self.server.wait(PATIENCE_S):
            raise Failure("the server ended with an error")
        with open(self.path("vm.img"), "rb") as origin:
            self.judge(self.oracle.read(self.oracle.reading(0, SECTORS), origin.read()))
        complaints = [line for line in self.said().splitlines() if " ERROR " in line or "panicked" in line]
        if complaints:
            raise Failure("the server complained:\n" + "\n".join(complaints))

    def wait_for(self, answered):
        until = time.monotonic() + PATIENCE_S
        while self.answered < answered:
            if self.failures:
                raise Failure(self.failures[0])
            if time.monotonic() > until:
                raise Failure(f"the clients do not get on: {self.answered} of {answered} requests were answered")
            time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nitro", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    place = Place(arguments.nitro, arguments.work, arguments.seed)
    try:
        place.run(arguments.rounds)
    except Failure as failure:
        print(f"{failure}\nthe server's last words: {place.said()[-2000:]}", flush=True)
        sys.stdout.flush()
        place.server.kill()
        os._exit(1)
    requests = f"{place.answered} requests through {2 * CLIENTS} sessions"
    print(f"{arguments.rounds} kills, {requests}, {place.again} writes sent again")


main()
