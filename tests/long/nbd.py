"""An NBD client for tests: requests in flight side by side, simple replies, errors as exceptions."""
import asyncio
import errno
import itertools
import socket
import struct

READ, WRITE, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 3, 4, 6
FUA = 1
REQUEST, REPLY = 0x25609513, 0x67446698
CAN_MULTI_CONN = 1 << 8


class Refused(Exception):
    """The server answered a request with an error."""


class Connection:
    """One connection to one export. Raises ConnectionError from every request once the server is gone."""

    def __init__(self, reader, writer, flags):
        self.reader, self.writer, self.flags = reader, writer, flags
        self.waiting = {}
        self.cookies = itertools.count(1)
        self.receiver = asyncio.create_task(self._receive())

    @classmethod
    async def open(cls, path, export):
        # Blocking, in a thread: where the server's backlog is full, asyncio takes a unix socket for connected that is not.
        client = socket.socket(socket.AF_UNIX)
        await asyncio.to_thread(client.connect, path)
        client.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=client)
        if await reader.readexactly(16) != b"NBDMAGICIHAVEOPT":
            raise Refused("no NBD server")
        await reader.readexactly(2)
        name = export.encode()
        writer.write(struct.pack(">I8sIII", 3, b"IHAVEOPT", 7, 6 + len(name), len(name)) + name + b"\0\0")
        flags = 0
        while True:
            _, _, kind, size = struct.unpack(">QIII", await reader.readexactly(20))
            body = await reader.readexactly(size)
            if kind == 3 and body[:2] == b"\0\0":
                flags, = struct.unpack(">H", body[10:12])
            elif kind == 1:
                return cls(reader, writer, flags)
            elif kind != 3:
                raise Refused(f"export {export}: {body!r}")

    async def request(self, kind, offset, length, data=b"", flags=0):
        """Sends a request and waits for its answer; the bytes, if it is a read."""
        cookie = next(self.cookies)
        answer = asyncio.get_running_loop().create_future()
        if self.receiver.done() or self.writer.transport.is_closing():
            raise ConnectionResetError
        self.waiting[cookie] = (answer, length if kind == READ else 0)
        self.writer.write(struct.pack(">IHHQQI", REQUEST, flags, kind, cookie, offset, length) + data)
        await self.writer.drain()
        error, answered = await answer
        if error:
            raise Refused(f"request {kind} of {length} bytes at {offset}: {errno.errorcode.get(error, error)}")
        return answered

    async def _receive(self):
        try:
            while True:
                magic, error, cookie = struct.unpack(">IIQ", await self.reader.readexactly(16))
                if magic != REPLY:
                    raise ConnectionResetError(f"a reply begins with {magic:#x}")
                # It is waiting until all of its reply is there: the connection may break in the middle.
                answer, length = self.waiting[cookie]
                data = b"" if error else await self.reader.readexactly(length)
                del self.waiting[cookie]
                if not answer.done():
                    answer.set_result((error, data))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            for answer, _ in self.waiting.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError())
                    answer.exception()
            self.writer.close()

    async def close(self):
        self.writer.close()
        await self.receiver
