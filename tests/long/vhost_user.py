"""A vhost-user-blk driver for tests, without a virtual machine, and on no code of Nitro's: memory, queues, requests.

A Guest outlives its server: its memory, its rings and the in-flight region stay, and connect() passes them to the next server,
as QEMU does. Each request has a callback, which gets the status and the bytes that were read.
"""
import array
import asyncio
import collections
import fcntl
import mmap
import os
import socket
import struct

READ, WRITE, FLUSH, DISCARD, WRITE_ZEROES = 0, 1, 4, 11, 13
OK, IO_ERROR = 0, 1
SECTOR = 512
REQUEST_BYTES_MAX = 128 << 10

_F_FLUSH, _F_INDIRECT, _F_PROTOCOL, _F_VERSION_1 = 1 << 9, 1 << 28, 1 << 30, 1 << 32
_F_DISCARD, _F_WRITE_ZEROES = 1 << 13, 1 << 14
_PROTOCOL_MQ, _PROTOCOL_REPLY_ACK, _PROTOCOL_CONFIG, _PROTOCOL_INFLIGHT = 1 << 0, 1 << 3, 1 << 9, 1 << 12
(_GET_FEATURES, _SET_FEATURES, _SET_OWNER, _SET_MEM_TABLE) = (1, 2, 3, 5)
(_SET_VRING_NUM, _SET_VRING_ADDR, _SET_VRING_BASE, _GET_VRING_BASE, _SET_VRING_KICK, _SET_VRING_CALL) = (8, 9, 10, 11, 12, 13)
(_GET_PROTOCOL_FEATURES, _SET_PROTOCOL_FEATURES, _SET_VRING_ENABLE, _GET_CONFIG) = (15, 16, 18, 24)
(_GET_INFLIGHT_FD, _SET_INFLIGHT_FD) = (31, 32)
_VERSION, _IS_REPLY, _NEEDS_REPLY = 1, 1 << 2, 1 << 3

_NEXT, _DEVICE_WRITES, _INDIRECT = 1, 2, 4
_DESCRIPTOR = struct.Struct("<QIHH")
_SLOTS = 16
_QUEUE_SIZE = 64
_TABLE, _AVAILABLE, _USED, _SLOT_AREA = 0, 4096, 8192, 12288
# Of each slot: the request's header, its status byte, and an indirect table; the data follow all of them.
_SLOT_BYTES = 4096
_DATA_AREA = _SLOT_AREA + _SLOTS * _SLOT_BYTES
_QUEUE_BYTES = _DATA_AREA + _SLOTS * REQUEST_BYTES_MAX
_USER_ADDRESS = 0x5000_0000_0000


class Refused(Exception):
    """The server does not do what the protocol requires."""


class Request:
    """A request that was submitted and not completed."""
    __slots__ = ("kind", "sector", "sectors", "done", "told", "slot")

    def __init__(self, kind, sector, sectors, done, told):
        self.kind, self.sector, self.sectors, self.done, self.told, self.slot = kind, sector, sectors, done, told, None


class _Queue:
    """Rings in the guest's memory. Indexes are stored whole: a memoryview of 16-bit numbers is not written byte by byte."""

    def __init__(self, memory, base, indirect):
        self.memory, self.base, self.indirect = memory, base, indirect
        view = memoryview(memory)[base:base + _QUEUE_BYTES]
        self.available = view[_AVAILABLE:_AVAILABLE + 4 + 2 * _QUEUE_SIZE].cast("H")
        self.used_index = view[_USED:_USED + 4].cast("H")
        self.used_ring = view[_USED + 4:_USED + 4 + 8 * _QUEUE_SIZE].cast("I")
        self.kick, self.call = os.eventfd(0, os.EFD_NONBLOCK), os.eventfd(0, os.EFD_NONBLOCK)
        self.clear()

    def clear(self):
        self.memory[self.base:self.base + _SLOT_AREA] = bytes(_SLOT_AREA)
        self.seen = 0
        self.requests = {}
        self.free = collections.deque(range(_SLOTS))

    def places(self):
        return [_USER_ADDRESS + self.base + at for at in (_TABLE, _USED, _AVAILABLE)]

    def submit(self, request, data):
        request.slot = slot = self.free.popleft()
        header = self.base + _SLOT_AREA + slot * _SLOT_BYTES
        at = self.base + _DATA_AREA + slot * REQUEST_BYTES_MAX
        length = request.sectors * SECTOR if request.kind == READ else len(data)
        struct.pack_into("<IIQ", self.memory, header, request.kind, 0, request.sector)
        self.memory[header + 16] = 0xFF
        self.memory[at:at + len(data)] = data
        parts = [(header, 16, 0), (header + 16, 1, _DEVICE_WRITES)]
        if length:
            flags = _DEVICE_WRITES if request.kind == READ else 0
            # In two parts, to be put together by the device.
            parts[1:1] = [(at, cut := length // 3, flags), (at + cut, length - cut, flags)]
        chained = [(address, size, flags | (_NEXT if index + 1 < len(parts) else 0), index + 1)
                   for index, (address, size, flags) in enumerate(parts)]
        head = slot * 4
        if self.indirect:
            table = header + 1024
            for index, part in enumerate(chained):
                _DESCRIPTOR.pack_into(self.memory, table + 16 * index, *part)
            _DESCRIPTOR.pack_into(self.memory, self.base + 16 * head, table, 16 * len(chained), _INDIRECT, 0)
        else:
            for index, (address, size, flags, following) in enumerate(chained):
                _DESCRIPTOR.pack_into(self.memory, self.base + 16 * (head + index), address, size, flags, head + following)
        self.requests[head] = request
        index = self.available[1]
        self.available[2 + index % _QUEUE_SIZE] = head
        self.available[1] = (index + 1) & 0xFFFF

    def completed(self):
        """The requests that the device has completed since the last call, with status and data."""
        while self.seen != self.used_index[1]:
            head = self.used_ring[2 * (self.seen % _QUEUE_SIZE)]
            self.seen = (self.seen + 1) & 0xFFFF
            request = self.requests.pop(head, None)
            if request is None:
                raise Refused(f"the device has completed descriptor {head}, which it did not have")
            slot = request.slot
            status = self.memory[self.base + _SLOT_AREA + slot * _SLOT_BYTES + 16]
            at = self.base + _DATA_AREA + slot * REQUEST_BYTES_MAX
            data = bytes(self.memory[at:at + request.sectors * SECTOR]) if request.kind == READ else b""
            self.free.append(slot)
            yield request, status, data


class Guest:
    """A driver of one device. Its methods are to be called within one event loop."""

    def __init__(self, path, queues=2, indirect=False):
        self.path = path
        self.size = queues * _QUEUE_BYTES
        self.file = os.memfd_create("guest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, self.size)
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.memory = mmap.mmap(self.file, self.size)
        self.queues = [_Queue(self.memory, index * _QUEUE_BYTES, indirect) for index in range(queues)]
        self.waiting = collections.deque()
        self.turn = 0
        self.socket = self.inflight = None
        self.size_bytes = 0
        loop = asyncio.get_running_loop()
        for queue in self.queues:
            loop.add_reader(queue.call, self.poll)

    def connect(self):
        """Connects to the server, or to the one that follows it."""
        self.hang_up()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(60)
        self.socket.connect(self.path)
        self._send(_SET_OWNER)
        offered = self._ask(_GET_FEATURES)
        wanted = _F_FLUSH | _F_INDIRECT | _F_PROTOCOL | _F_VERSION_1 | _F_DISCARD | _F_WRITE_ZEROES
        self.features = offered & wanted
        self._send(_SET_FEATURES, struct.pack("<Q", self.features))
        protocol = self._ask(_GET_PROTOCOL_FEATURES)
        needed = _PROTOCOL_MQ | _PROTOCOL_CONFIG | _PROTOCOL_INFLIGHT
        if protocol & needed != needed:
            raise Refused(f"the device lacks protocol features: {protocol:#x}")
        self._send(_SET_PROTOCOL_FEATURES, struct.pack("<Q", needed))
        config = self._exchange(_GET_CONFIG, struct.pack("<III", 0, 60, 0) + bytes(60))[0]
        self.size_bytes = struct.unpack_from("<Q", config, 12)[0] * SECTOR
        self._start()

    def hang_up(self):
        if self.socket:
            self.socket.close()
            self.socket = None

    def close(self):
        self.hang_up()
        for queue in self.queues:
            asyncio.get_running_loop().remove_reader(queue.call)
            os.close(queue.call)
            os.close(queue.kick)

    def reset(self):
        """Resets the device, as a guest that boots does. Requests that were not completed are dropped."""
        for index in range(len(self.queues)):
            self._exchange(_GET_VRING_BASE, struct.pack("<II", index, 0))
        os.close(self.inflight[1])
        self.inflight = None
        self.waiting.clear()
        for queue in self.queues:
            queue.clear()
        self._start()

    def _start(self):
        count = len(self.queues)
        if self.inflight is None:
            told, files = self._exchange(_GET_INFLIGHT_FD, struct.pack("<QQHH4x", 0, 0, count, _QUEUE_SIZE))
            self.inflight = told, files[0]
        self._send(_SET_INFLIGHT_FD, self.inflight[0], [self.inflight[1]])
        self._send(_SET_MEM_TABLE, struct.pack("<IIQQQQ", 1, 0, 0, self.size, _USER_ADDRESS, 0), [self.file])
        for index, queue in enumerate(self.queues):
            self._send(_SET_VRING_NUM, struct.pack("<II", index, _QUEUE_SIZE))
            self._send(_SET_VRING_ADDR, struct.pack("<IIQQQQ", index, 0, *queue.places(), 0))
            self._send(_SET_VRING_BASE, struct.pack("<II", index, queue.used_index[1]))
            self._send(_SET_VRING_CALL, struct.pack("<Q", index), [queue.call])
            self._send(_SET_VRING_KICK, struct.pack("<Q", index), [queue.kick])
            self._send(_SET_VRING_ENABLE, struct.pack("<II", index, 1))
        # The answer shows that the messages before were accepted.
        self._ask(_GET_FEATURES)
        for queue in self.queues:
            os.eventfd_write(queue.kick, 1)

    def in_flight(self):
        """The requests that the device has, in no order."""
        return [request for queue in self.queues for request in queue.requests.values()]

    def submit(self, kind, sector, sectors, data=b"", done=None, told=None):
        """Submits a request, or holds it back until there is room. `told` is kept with it for the caller."""
        request = Request(kind, sector, sectors, done, told)
        if kind in (DISCARD, WRITE_ZEROES):
            data = struct.pack("<QII", sector, sectors, 1 if kind == WRITE_ZEROES and sector % 2 else 0)
        self.waiting.append((request, data))
        self._pass_on()
        return request

    async def request(self, kind, sector, sectors, data=b""):
        """Submits a request, and waits for its status and data."""
        answer = asyncio.get_running_loop().create_future()
        self.submit(kind, sector, sectors, data, lambda _, status, read: answer.set_result((status, read)))
        return await answer

    def _pass_on(self):
        while self.waiting and any(queue.free for queue in self.queues):
            self.turn += 1
            queue = self.queues[self.turn % len(self.queues)]
            if queue.free:
                queue.submit(*self.waiting.popleft())
                os.eventfd_write(queue.kick, 1)

    def poll(self):
        """Calls back for each request that was completed."""
        for queue in self.queues:
            try:
                os.eventfd_read(queue.call)
            except BlockingIOError:
                pass
            for request, status, data in queue.completed():
                if request.done:
                    request.done(request, status, data)
        self._pass_on()

    def _send(self, code, payload=b"", files=()):
        header = struct.pack("<III", code, _VERSION, len(payload))
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        if self.socket.sendmsg([header, payload], control) != len(header) + len(payload):
            raise Refused("a message was sent in part")

    def _exchange(self, code, payload=b""):
        """Sends a message, and returns payload and files of the reply."""
        self._send(code, payload)
        files = array.array("i")
        header, ancillary, _, _ = self.socket.recvmsg(12, socket.CMSG_LEN(files.itemsize))
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                files.frombytes(data)
        if len(header) < 12:
            raise Refused(f"no reply to message {code}: the server has hung up")
        replied, flags, size = struct.unpack("<III", header)
        body = b""
        while len(body) < size:
            part = self.socket.recv(size - len(body))
            if not part:
                raise Refused(f"half a reply to message {code}")
            body += part
        if replied != code or not flags & _IS_REPLY:
            raise Refused(f"message {replied} with flags {flags:#x} as the reply to message {code}")
        return body, list(files)

    def _ask(self, code):
        return struct.unpack("<Q", self._exchange(code)[0])[0]
