"""What two volumes are to be written with, and what they may hold after a crash.

clones.py commands SEED BYTES PIECE...: commands for qemu-io, in an order of no kind: writes that do not overlap, of odd
places and sizes: patterns, the beginnings of the files PIECE, zeroes.
clones.py either OLD NEW NOW: each byte of NOW must be that of OLD or of NEW. Tells how much of what differs is new."""
import random
import sys

SIZES = (1, 512, 700, 4096, 8192, 12345, 65536)
STEP = 4096


def commands(seed, size, pieces):
    draw = random.Random(seed)
    ranges, at = [], 0
    while True:
        at += int(draw.expovariate(1 / 24576))
        length = draw.choice(SIZES)
        if draw.random() < 0.5:
            at = -(-at // 512) * 512
        if at + length > size:
            break
        ranges.append((at, length))
        at += length
    draw.shuffle(ranges)
    for number, (at, length) in enumerate(ranges):
        how = draw.choice((f"write -P {draw.randrange(1, 256)}", f"aio_write -P {draw.randrange(1, 256)}",
                           f"write -s {draw.choice(pieces)}", f"write -s {draw.choice(pieces)}", "write -z", "write -z -u"))
        print(how, at, length)
        if number % 40 == 39:
            print("aio_flush\nflush")
    print("aio_flush\nflush")


def either(old, new, now):
    differing = arrived = 0
    for at in range(0, len(now), STEP):
        a, b, c = (content[at:at + STEP] for content in (old, new, now))
        if a != b:
            differing += 1
            arrived += c == b
        if c not in (a, b):
            wrong = next((i for i in range(len(c)) if c[i] not in (a[i], b[i])), None)
            assert wrong is None, f"byte {at + wrong} is neither what it was nor what was written"
    assert len(old) == len(new) == len(now), (len(old), len(new), len(now))
    print(f"{arrived} of {differing} written blocks arrived whole")


if sys.argv[1] == "commands":
    commands(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
else:
    either(*(open(path, "rb").read() for path in sys.argv[2:]))
