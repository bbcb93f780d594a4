"""Prints the demo's table from fio's results and the server's status: demo-table.py DIRECTORY."""
import json
import sys

directory = sys.argv[1]


def load(name):
    text = open(f"{directory}/{name}").read()
    return json.loads(text[text.index("{"):])


def row(label, fio, hits="-", dedup="-", compression="-", written="-"):
    read = load(fio)["jobs"][0]["read"]
    cells = [f"{read['iops']:.0f}", f"{read['clat_ns']['mean'] / 1e6:.2f} ms", hits, dedup, compression, written]
    print(f"  {label:<22}" + "".join(f"{c:>13}" for c in cells))


print("  " + " " * 22 + "".join(f"{h:>13}" for h in ("IOPS", "mean read", "hit ratio", "dedup", "compression", "SSD written")))
row("disk alone, 7200 rpm", "none.json")
before = (0, 0, 0)
for label, fio, status in (("Nitro, cold cache", "cold.json", "status-cold.json"), ("Nitro, warm cache", "warm.json", "status-warm.json")):
    s = load(status)
    cache, v = s["caches"][0], s["volumes"][0]
    written = sum(bytes for name, bytes in cache.items() if name.startswith("ssd_written"))
    hits, misses = v["read_hit_extents"], v["read_miss_extents"] + v["read_joined_extents"]
    share = (hits - before[0]) / max(1, hits - before[0] + misses - before[1])
    row(label, fio, f"{share:.0%}", f"{cache['dedup_ratio']:.2f} x", f"{cache['compression_ratio']:.2f} x", f"{(written - before[2]) / 2**20:.1f} MiB")
    before = (hits, misses, written)
alone, warm = (load(n)["jobs"][0]["read"] for n in ("none.json", "warm.json"))
print(f"\n  warm against disk alone: {warm['iops'] / alone['iops']:.1f} x the IOPS, "
      f"{alone['clat_ns']['mean'] / warm['clat_ns']['mean']:.1f} x faster reads")
