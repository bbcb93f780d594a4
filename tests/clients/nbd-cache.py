"""Sends one NBD_CMD_CACHE: nbd-cache.py SOCKET EXPORT OFFSET LENGTH. There is no other client with a command for it."""
import socket, struct, sys

path, export, offset, length = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])
s = socket.socket(socket.AF_UNIX)
s.connect(path)


def take(n):
    data = b""
    while len(data) < n:
        part = s.recv(n - len(data))
        assert part, "the server hung up"
        data += part
    return data


assert take(16) == b"NBDMAGICIHAVEOPT"
take(2)
s.sendall(struct.pack(">I", 3))
body = struct.pack(">I", len(export)) + export + struct.pack(">H", 0)
s.sendall(b"IHAVEOPT" + struct.pack(">II", 7, len(body)) + body)
while True:
    _, _, kind, size = struct.unpack(">QIII", take(20))
    take(size)
    if kind == 1:
        break
    assert kind == 3, f"option reply {kind:#x}"
s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 5, 1, offset, length))
magic, error, cookie = struct.unpack(">IIQ", take(16))
assert (magic, error, cookie) == (0x67446698, 0, 1), (hex(magic), error, cookie)
s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 2, 2, 0, 0))
