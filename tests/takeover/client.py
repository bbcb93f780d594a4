"""A client of a volume that hosts take over from one another: numbered writes, one after the other, each checked afterwards.

    python3 client.py nbd|iscsi HOST PORT EXPORT-OR-TARGET SLOT SLOTS FOLDER
    python3 client.py file PATH FOLDER      compares a file with what FOLDER/slots says, which the client leaves at its end

Write N fills slot N % SLOTS of 4096 bytes, behind the first SLOT slots of the volume. A write without an answer is sent again
over a new connection until it is acknowledged, as an operating system's client does it; now and then a slot is read. What was
acknowledged has to be there from then on: any older number is a failure. FOLDER/answers gets a line "TIME NUMBER" (CLOCK_MONOTONIC,
in seconds) for each acknowledged write. After SIGTERM, all slots are read and compared; the exit code is 0 if they are right.
"""
import os
import random
import signal
import socket
import struct
import sys
import time

sys.path.append(os.path.join(os.path.dirname(__file__), "../clients"))
from iscsi import Initiator  # noqa: E402

BYTES = 4096
# Seconds that a connection and an answer may take. Operating systems' defaults are longer: docs/guide/takeover.md.
CONNECT_S, ANSWER_S = 0.3, 1.0
PAUSE_S = 0.05


class Refused(Exception):
    """The server answers, with an error."""


class Nbd:
    """One connection with simple replies."""

    def __init__(self, host, port, export):
        self.socket = socket.create_connection((host, port), timeout=CONNECT_S)
        self.socket.settimeout(ANSWER_S)
        self.exactly(18)
        name = export.encode()
        self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, len(name)) + name)
        self.exactly(10)

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def request(self, kind, offset, length, data=b""):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, kind, 1, offset, length) + data)
        _, error, _ = struct.unpack(">IIQ", self.exactly(16))
        if error:
            raise Refused(f"NBD error {error}")
        return self.exactly(length) if kind == 0 else b""

    def read(self, offset):
        return self.request(0, offset, BYTES)

    def write(self, offset, data):
        self.request(1, offset, BYTES, data)

    def close(self):
        self.socket.close()


class Iscsi:
    """One session."""

    def __init__(self, host, port, target):
        name = f"iqn.2026-11.test:takeover-{os.getpid()}"
        self.initiator = Initiator(port, name, target, host, (CONNECT_S, ANSWER_S))

    def answered(self, send):
        # A new session hears of its begin first (unit attention).
        for _ in range(4):
            send()
            data = b""
            while True:
                header, part = self.initiator.receive()
                if header[0] == 0x25:
                    data += part
                if header[0] == 0x21 or header[1] & 1:
                    break
            if header[3] != 2:
                break
        if header[3]:
            raise Refused(f"SCSI status {header[3]}")
        return data

    def read(self, offset):
        cdb = struct.pack(">BBIBHB", 0x28, 0, offset // 512, 0, BYTES // 512, 0)
        return self.answered(lambda: self.initiator.command(cdb, 0xC0, BYTES))

    def write(self, offset, data):
        cdb = struct.pack(">BBIBHB", 0x2A, 0, offset // 512, 0, BYTES // 512, 0)
        self.answered(lambda: self.initiator.command(cdb, 0xA0, BYTES, data))

    def close(self):
        self.initiator.socket.close()


def content(number):
    return struct.pack(">Q", number) + random.Random(number).randbytes(BYTES - 8)


class Client:
    def __init__(self, kind, host, port, name, slot, slots, folder):
        self.open = lambda: {"nbd": Nbd, "iscsi": Iscsi}[kind](host, int(port), name)
        self.first, self.slots = int(slot), int(slots)
        self.answers = open(os.path.join(folder, "answers"), "w", buffering=1)
        self.slots_file = os.path.join(folder, "slots")
        self.acknowledged = {}
        self.connection, self.is_over = None, False
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "is_over", True))

    def persist(self, work):
        """Does something over as many connections as it takes."""
        while True:
            try:
                if self.connection is None:
                    self.connection = self.open()
                return work(self.connection)
            except (OSError, EOFError, AssertionError, struct.error, Refused) as error:
                if isinstance(error, Refused):
                    print(f"{time.monotonic():.3f} {error}", file=sys.stderr, flush=True)
                if self.connection is not None:
                    self.connection.close()
                self.connection = None
                time.sleep(PAUSE_S)

    def check(self, slot, least):
        found = self.persist(lambda connection: connection.read((self.first + slot) * BYTES))
        number, = struct.unpack(">Q", found[:8])
        if number != least or found != content(number):
            sys.exit(f"slot {slot}: write {least} was acknowledged, and there is {number}"
                     f"{'' if found == content(number) else ', damaged'}")

    def run(self):
        number = 0
        while not self.is_over:
            number += 1
            slot, data = number % self.slots, content(number)
            self.persist(lambda connection: connection.write((self.first + slot) * BYTES, data))
            self.acknowledged[slot] = number
            print(f"{time.monotonic():.4f} {number}", file=self.answers)
            if number % 8 == 0:
                slot = random.choice(list(self.acknowledged))
                self.check(slot, self.acknowledged[slot])
        for slot, least in self.acknowledged.items():
            self.check(slot, least)
        with open(self.slots_file, "w") as slots:
            slots.writelines(f"{self.first + slot} {number}\n" for slot, number in self.acknowledged.items())
        print(f"{number} writes, {len(self.acknowledged)} slots as acknowledged")


def compare(path, folder):
    """Compares a file with what a client of it left."""
    with open(path, "rb") as volume, open(os.path.join(folder, "slots")) as slots:
        for slot, number in (map(int, line.split()) for line in slots):
            volume.seek(slot * BYTES)
            if volume.read(BYTES) != content(number):
                sys.exit(f"{path}: slot {slot} has not what write {number} brought")


if __name__ == "__main__":
    if sys.argv[1] == "file":
        compare(*sys.argv[2:])
    else:
        Client(*sys.argv[1:]).run()
