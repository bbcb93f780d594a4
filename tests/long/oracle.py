"""What every sector of a disk may hold: the last durable value or one written later, through any number of crashes.

A sector's value is told by the content it belongs to and its place in it, so that one that is lost, stale, torn or that of
another sector is recognised as such.
"""
import random
import struct

SECTOR = 512
_POOL = random.Random(1).randbytes(1 << 16)
_ZEROES = bytes(SECTOR)
_HEAD = struct.Struct("<8sQQ8x")


def sector_bytes(content, index):
    """The bytes of a content's sector; content 0 is all zeroes, every fourth one compresses well."""
    if content == 0:
        return _ZEROES
    head = _HEAD.pack(b"NITROLNG", content, index)
    if content % 4 == 0:
        return head * (SECTOR // len(head))
    at = (content * 2654435761 + index * 40503) % (len(_POOL) - SECTOR)
    return head + _POOL[at:at + SECTOR - len(head)]


def content_bytes(content, sectors):
    return b"".join(sector_bytes(content, index) for index in range(sectors))


def describe(data):
    """What a sector's bytes say of themselves."""
    if data == _ZEROES:
        return "zeroes"
    magic, content, index = _HEAD.unpack(data[:_HEAD.size])
    if magic != b"NITROLNG":
        return f"no content that was ever written ({data[:16].hex()}...)"
    whole = "" if data == sector_bytes(content, index) else ", torn or damaged"
    return f"sector {index} of content {content}{whole}"


class Write:
    """A write, by the oracle's clock. One that may not have happened (trim, crash) outdates nothing that was before it."""
    __slots__ = ("content", "first", "sectors", "issued", "completed", "certain", "crashed")

    def __init__(self, content, first, sectors, issued, certain):
        self.content, self.first, self.sectors, self.issued, self.certain = content, first, sectors, issued, certain
        self.completed = None
        self.crashed = False

    def outdates(self, other, before):
        return (self.certain and self.completed is not None and self.completed < before
                and other.completed is not None and other.completed < self.issued)


class Read:
    """A read under way: what its sectors could hold when it was sent, and what was written since, settled or not."""
    __slots__ = ("sent", "first", "before", "meanwhile")

    def __init__(self, sent, first, before):
        self.sent, self.first, self.before, self.meanwhile = sent, first, before, []


class Oracle:
    """The histories of a disk's sectors: of each, every write whose value it may yet hold."""

    def __init__(self, sectors, content):
        self.clock = 0
        self.durable_at_once = False
        start = Write(content, 0, sectors, 0, True)
        start.completed = 0
        self.sectors = [[start] for _ in range(sectors)]
        self.undecided = set()
        self.reads = []

    def now(self):
        self.clock += 1
        return self.clock

    def write(self, content, first, sectors, certain=True):
        """A write is sent."""
        write = Write(content, first, sectors, self.now(), certain)
        for sector in range(first, first + sectors):
            self.sectors[sector].append(write)
        self.undecided.update(range(first, first + sectors))
        for read in self.reads:
            if first < read.first + len(read.before) and read.first < first + sectors:
                read.meanwhile.append(write)
        return write

    def written(self, write, durable):
        """A write is acknowledged, and durable if it was a FUA."""
        write.completed = self.now()
        if durable or self.durable_at_once:
            self._settle(range(write.first, write.first + write.sectors), [write], self.clock + 1)

    def failed(self, write):
        """A write is answered with an error: it may have happened or not, in parts, too."""
        write.certain, write.completed = False, self.now()

    def ended(self):
        """The server has ended in order: what it acknowledged is durable, what was under way may have happened or not."""
        now = self.now()
        self.reads.clear()
        for sector in self.undecided:
            for write in self.sectors[sector]:
                if write.completed is None:
                    write.certain, write.completed = False, now
        self.flushed(self.now())

    def flushed(self, sent):
        """A flush that was sent at `sent` is acknowledged."""
        self._settle(list(self.undecided), None, sent)

    def crash(self):
        """The server is gone: what is not durable may have happened or not."""
        now = self.now()
        self.reads.clear()
        for sector in self.undecided:
            for write in self.sectors[sector]:
                if write.completed is None:
                    write.completed = now
                write.certain, write.crashed = False, True

    def reading(self, first, sectors):
        """A read is sent."""
        read = Read(self.now(), first, self.sectors[first:first + sectors])
        self.reads.append(read)
        return read

    def read(self, read, data):
        """Bytes that a read returned; a list of what is wrong with them. Once read after a crash, a value stays."""
        self.reads.remove(read)
        wrong = []
        for at, history in enumerate(read.before):
            sector = read.first + at
            found = data[at * SECTOR:(at + 1) * SECTOR]
            if read.meanwhile:
                history = history + [w for w in read.meanwhile
                                     if w.first <= sector < w.first + w.sectors and w not in history]
            if len(history) == 1:
                if found != self._value(history[0], sector):
                    wrong.append((sector, self._complaint(sector, found, history)))
                continue
            legal = [w for w in history if not any(other.outdates(w, read.sent) for other in history)]
            matching = [w for w in legal if found == self._value(w, sector)]
            if not matching:
                wrong.append((sector, self._complaint(sector, found, legal)))
            elif all(w.crashed for w in matching):
                self.sectors[sector] = [w for w in self.sectors[sector] if w in matching or not w.crashed]
                self._decided(sector)
        return wrong

    @staticmethod
    def _value(write, sector):
        return sector_bytes(write.content, sector - write.first)

    def _complaint(self, sector, found, legal):
        may = "; ".join(f"{describe(self._value(w, sector))} ({'maybe ' if w.crashed else ''}written at {w.issued}"
                        f"{'' if w.completed is None else f', acknowledged at {w.completed}'})" for w in legal)
        return f"is {describe(found)}; may be {may}"

    def _settle(self, sectors, durable, before):
        for sector in sectors:
            history = self.sectors[sector]
            by = durable or history
            kept = [w for w in history if not any(other.outdates(w, before) for other in by)]
            if len(kept) < len(history):
                self.sectors[sector] = kept
            self._decided(sector)

    def _decided(self, sector):
        if len(self.sectors[sector]) == 1 and self.sectors[sector][0].completed is not None:
            self.undecided.discard(sector)
