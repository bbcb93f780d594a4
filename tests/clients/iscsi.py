"""A small iSCSI initiator, for what other people's do not do: group numbers, and breaking the rules.

    python3 iscsi.py PORT groups            writes 64 KiB in each of groups 1 to 5
    python3 iscsi.py PORT hostile           tries what must harm the initiator alone
    python3 iscsi.py PORT reads TARGET LUN SECONDS DEPTH
                                            reads 8 KiB at random multiples of 8 KiB, of any target; prints
                                            their count and reads a second
    python3 iscsi.py PORT replay TARGET DEPTH
                                            reads what standard input lists, a line for each: block of 512
                                            bytes, blocks, group number; prints reads a second
"""

import itertools
import os
import random
import socket
import struct
import sys
import time

TARGET = "iqn.2026-11.nitro:vm"


class Initiator:
    def __init__(self, port, name="iqn.2026-11.test:raw", target=TARGET, host="127.0.0.1", patience=(30, 30), **keys):
        """`patience`: seconds that a connection may take, and that an answer may take."""
        self.socket = socket.create_connection((host, port), timeout=patience[0])
        self.socket.settimeout(patience[1])
        self.number, self.tag = 1, 0
        pairs = {"InitiatorName": name, "TargetName": target, "SessionType": "Normal", **keys}
        text = b"".join(f"{key}={value}\0".encode() for key, value in pairs.items())
        header = struct.pack(">BBBB4s6sHIHHIIQQ", 0x43, 0x87, 0, 0, length(text), b"\x80" + os.urandom(5), 0, 0, 0, 0, 1, 0, 0, 0)
        self.send(header, text)
        header, self.keys = self.receive()
        assert header[0] == 0x23 and header[36] == 0, f"login refused: {header[36]:#x} {header[37]:#x}"

    def send(self, header, data=b""):
        assert len(header) == 48, len(header)
        self.socket.sendall(header + data + bytes(-len(data) % 4))

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def receive(self):
        header = self.exactly(48)
        count = int.from_bytes(header[5:8], "big")
        return header, self.exactly(count + -count % 4)[:count]

    def command(self, cdb, flags, expected, data=b""):
        """Sends a command with immediate data; gives its tag."""
        self.tag += 1
        header = struct.pack(">BBH4sQIIII16s", 0x01, flags, 0, length(data), 0, self.tag, expected, self.number, 0, cdb.ljust(16, b"\0"))
        self.number += 1
        self.send(header, data)
        return self.tag

    def data_out(self, tag, transfer, number, offset, data, final=True):
        header = struct.pack(">BBH4sQIIIIIII", 0x05, 0x80 * final, 0, length(data), 0, tag, transfer, 0, 0, 0, number, offset)
        self.send(header + bytes(4), data)

    def write(self, block, data, group=0):
        """Writes with immediate data; gives the status."""
        cdb = struct.pack(">BBIBHB", 0x2A, 0, block, group, len(data) // 512, 0)
        self.command(cdb, 0xA0, len(data), data)
        return self.status()

    def status(self):
        header, _ = self.receive()
        assert header[0] == 0x21, f"opcode {header[0]:#x}"
        return header[3]


def length(data):
    return len(data).to_bytes(4, "big")


def groups(port):
    initiator = Initiator(port)
    for group in range(1, 6):
        for at in range(8):
            assert initiator.write(2048 * group + 16 * at, os.urandom(8192), group) == 0


def is_dropped(initiator):
    try:
        while True:
            initiator.receive()
    except (EOFError, ConnectionError):
        return True


def hostile(port):
    bystander = Initiator(port, "iqn.2026-11.test:bystander")
    write_64k = struct.pack(">BBIBHB", 0x2A, 0, 0, 0, 128, 0)
    # An R2T that is never answered, many times: the window ends it, others are served.
    silent = Initiator(port, "iqn.2026-11.test:silent")
    for _ in range(128):
        silent.command(write_64k, 0xA0, 65536)
    assert bystander.write(0, bytes(8192)) == 0
    # A command past the window is ignored.
    silent.command(write_64k, 0xA0, 65536)
    # Data past the end of what was asked for.
    greedy = Initiator(port, "iqn.2026-11.test:greedy")
    tag = greedy.command(write_64k, 0xA0, 65536)
    header, _ = greedy.receive()
    assert header[0] == 0x31, f"opcode {header[0]:#x}"
    greedy.data_out(tag, int.from_bytes(header[20:24], "big"), 0, 0, bytes(65536 + 512))
    assert greedy.status() == 2
    # More immediate data than was announced.
    liar = Initiator(port, "iqn.2026-11.test:liar")
    liar.command(write_64k, 0xA0, 512, bytes(1024))
    assert is_dropped(liar)
    # A data segment longer than the server takes.
    large = Initiator(port, "iqn.2026-11.test:large")
    large.send(struct.pack(">BBH4s", 0x01, 0xA0, 0, b"\0\xff\xff\xff") + bytes(40))
    assert is_dropped(large)
    # Noise.
    for _ in range(20):
        noisy = Initiator(port, "iqn.2026-11.test:noisy")
        try:
            noisy.socket.sendall(os.urandom(4096))
            noisy.socket.shutdown(socket.SHUT_WR)
            noisy.socket.recv(1)
        except ConnectionError:
            pass
    # Logins that say nothing make room for others.
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    assert Initiator(port, "iqn.2026-11.test:late").write(0, bytes(8192)) == 0
    assert bystander.write(0, bytes(8192)) == 0
    for one in idle:
        one.close()


READ_BYTES = 8192


class Reads:
    """Reads that are under way together: the responses of one receive are parsed together, and as many commands sent at once."""

    def __init__(self, port, target, lun=0):
        self.initiator = Initiator(port, target=target, MaxRecvDataSegmentLength=262144)
        self.lun, self.status = int(lun) << 48, 0
        # TEST UNIT READY some times, so that no unit attention condition is left; then READ CAPACITY (10).
        for cdb, expected in [(bytes(16), 0)] * 4 + [(b"\x25".ljust(16, b"\0"), 8)]:
            self.initiator.send(self.command(cdb, expected))
            header, data = self.initiator.receive()
            self.status = int.from_bytes(header[24:28], "big") + 1
        assert header[0] == 0x25, header.hex()
        self.blocks = int.from_bytes(data[:4], "big") + 1

    def command(self, cdb, expected):
        initiator = self.initiator
        initiator.tag = (initiator.tag + 1) & 0x7FFFFFFF
        number, initiator.number = initiator.number, (initiator.number + 1) & 0xFFFFFFFF
        flags = 0xC0 if expected else 0x80
        return struct.pack(">BBHIQIIII16s", 0x01, flags, 0, 0, self.lun, initiator.tag, expected, number, self.status, cdb)

    def read(self, block, blocks, group=0):
        return self.command(struct.pack(">BBIBH7x", 0x28, 0, block, group, blocks), blocks * 512)

    def run(self, requests, depth):
        """Sends what `requests` gives, (block, blocks, group), until it ends; gives the reads and their seconds."""
        recv_into, sendall, field = self.initiator.socket.recv_into, self.initiator.socket.sendall, struct.Struct(">I").unpack_from
        requests = iter(requests)

        def send(count):
            commands = [self.read(*request) for request in itertools.islice(requests, count)]
            sendall(b"".join(commands))
            return len(commands)

        begun, held, received = time.monotonic(), 0, 0
        waiting, window = send(depth), memoryview(bytearray(1 << 20))
        while waiting:
            count = recv_into(window[held:])
            assert count > 0, "the server hung up"
            held += count
            at, ended = 0, 0
            while held - at >= 48:
                size = 48 + (field(window, at + 4)[0] + 3 & ~3)
                if held - at < size:
                    break
                opcode, flags = window[at], window[at + 1]
                assert opcode in (0x20, 0x25) or opcode == 0x21 and window[at + 3] == 0, bytes(window[at:at + 80]).hex()
                if opcode == 0x21 or opcode == 0x25 and flags & 1:
                    self.status = field(window, at + 24)[0] + 1
                    ended += 1
                at += size
            window[:held - at] = bytes(window[at:held])
            held -= at
            received += ended
            waiting += send(ended) - ended
        return received, time.monotonic() - begun


def reads(port, target, lun, seconds, depth):
    """Reads for some seconds."""
    session = Reads(port, target, lun)
    draw, blocks, end = random.Random(1).randrange, READ_BYTES // 512, time.monotonic() + float(seconds)
    extents = session.blocks // blocks

    def drawn():
        while time.monotonic() < end:
            yield draw(extents) * blocks, blocks

    received, took = session.run(drawn(), int(depth))
    print(received, f"{received / took:.0f}")


def replay(port, target, depth):
    received, took = Reads(port, target).run([[int(word) for word in line.split()] for line in sys.stdin], int(depth))
    print(f"{received / took:.1f}")


if __name__ == "__main__":
    {"groups": groups, "hostile": hostile, "reads": reads, "replay": replay}[sys.argv[2]](int(sys.argv[1]), *sys.argv[3:])
