"""Reads clones of a disk over NBD as their users would: the same files are popular on each of them.

    python3 clones-load.py SOCKET SKEW SEED seconds|requests N files|blocks IMAGE...

SOCKET is that of the export vm, which holds the ext4 IMAGEs one behind the other. With files, one is chosen by Zipf's law of exponent SKEW over the
files that all images have, then an image, then one of the file's extents of 8 KiB, each time all of them equally. With blocks, one of all extents of
the volume is chosen by Zipf's law: what is popular in one image is not in another. Sixteen reads are under way together. Prints JSON: reads a second,
and the milliseconds of a read, mean and 99th percentile.
"""
import bisect
import itertools
import json
import os
import random
import socket
import struct
import sys
import time

import ext4

EXTENT = 8192
DEPTH = 16
REQUEST = struct.Struct(">IHHQQI")
REPLY = struct.Struct(">IIQ")


def places(images):
    """For each file that all images have, and for each image, the extents of the file."""
    at, found = 0, []
    for image in images:
        files, block_bytes = ext4.files(image), ext4.block_bytes(image)
        paths = sorted(path for path, (_, size) in files.items() if size > 0)
        blocks = ext4.blocks(image, [files[path][0] for path in paths])
        extents = [sorted({(at + block * block_bytes) // EXTENT for block in of_file}) for of_file in blocks]
        found.append({path: of_file for path, of_file in zip(paths, extents) if of_file})
        at += os.path.getsize(image)
    common = sorted(set.intersection(*(set(of_image) for of_image in found)))
    if not common:
        raise SystemExit("clones-load: the images have no file in common")
    return [[of_image[path] for of_image in found] for path in common]


def chosen(ranked, skew, seed):
    """Elements without end, by Zipf's law over a list whose order is arbitrary."""
    # What is popular is the same for every seed.
    random.Random(1).shuffle(ranked)
    sums = list(itertools.accumulate((rank + 1) ** -skew for rank in range(len(ranked))))
    draw = random.Random(seed)
    while True:
        found = ranked[bisect.bisect(sums, draw.random() * sums[-1])]
        while isinstance(found, list):
            found = draw.choice(found)
        yield found


def connect(path):
    """Selects the export, without asking for anything that is not needed."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    stream = client.makefile("rb")
    magic, option, _ = struct.unpack(">QQH", stream.read(18))
    assert (magic, option) == (0x4E42444D41474943, 0x49484156454F5054)
    name = b"vm"
    client.sendall(struct.pack(">I", 3) + struct.pack(">QII", option, 7, 4 + len(name) + 2) + struct.pack(">I", len(name)) + name + b"\0\0")
    while True:
        _, _, kind, length = struct.unpack(">QIII", stream.read(20))
        stream.read(length)
        if kind == 1:
            return client, stream
        assert kind < 1 << 31, f"the server refused the export: {kind:#x}"


def run(path, extents, is_over):
    client, stream = connect(path)
    begun, times, sent = time.monotonic(), [], {}

    def send(tag):
        sent[tag] = time.monotonic()
        client.sendall(REQUEST.pack(0x25609513, 0, 0, tag, next(extents) * EXTENT, EXTENT))

    for tag in range(DEPTH):
        send(tag)
    while sent:
        magic, error, tag = REPLY.unpack(stream.read(16))
        assert magic == 0x67446698 and error == 0, f"error {error}"
        stream.read(EXTENT)
        now = time.monotonic()
        times.append(now - sent.pop(tag))
        if not is_over(now - begun, len(times) + len(sent)):
            send(tag)
    took = time.monotonic() - begun
    times.sort()
    return {"reads": len(times), "seconds": took, "iops": len(times) / took, "mean_ms": 1000 * sum(times) / len(times),
            "p99_ms": 1000 * times[len(times) * 99 // 100]}


def main():
    if len(sys.argv) < 8 or sys.argv[4] not in ("seconds", "requests") or sys.argv[6] not in ("files", "blocks"):
        raise SystemExit(__doc__.strip())
    path, skew, seed, unit, count, of, *images = sys.argv[1:]
    limit = float(count)
    is_over = (lambda seconds, _: seconds >= limit) if unit == "seconds" else (lambda _, reads: reads >= limit)
    ranked = places(images) if of == "files" else list(range(sum(map(os.path.getsize, images)) // EXTENT))
    try:
        print(json.dumps(run(path, chosen(ranked, float(skew), int(seed)), is_over)))
    except (OSError, struct.error) as error:
        raise SystemExit(f"clones-load: {path}: {error}")
    except KeyboardInterrupt:
        raise SystemExit(130)


main()
