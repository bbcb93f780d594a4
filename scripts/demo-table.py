"""Prints the demo's table from the results of its loads and the server's status, and draws it: demo-table.py DIRECTORY text|json [PICTURE.svg]."""
import json
import sys

COLUMNS = ("IOPS", "mean read", "99th pct", "hit ratio", "dedup", "compression", "SSD written/read")
ROWS = (("disks alone", "none", None), ("ordinary cache, cold", "ordinary-cold", None), ("ordinary cache, warm", "ordinary-warm", "ordinary-cold"),
        ("Nitro, cold", "nitro-cold", None), ("Nitro, warm", "nitro-warm", "nitro-cold"))


def load(path):
    with open(path) as file:
        return json.load(file)


def counts(status):
    """Hits, extents read, bytes written to the SSD."""
    cache, volume = status["caches"][0], status["volumes"][0]
    hits = volume["read_hit_extents"]
    written = sum(count for name, count in cache.items() if name.startswith("ssd_written"))
    return hits, hits + volume["read_miss_extents"] + volume["read_joined_extents"], written


def measured(directory):
    """The figures of each row by name."""
    found = {}
    for _, name, before in ROWS:
        row = found[name] = load(f"{directory}/{name}.json")
        if name == "none":
            continue
        status = load(f"{directory}/{name}.status")
        hits, extents, written = (now - then for now, then in
                                  zip(counts(status), counts(load(f"{directory}/{before}.status")) if before else (0, 0, 0)))
        cache = status["caches"][0]
        dropped = cache["fills_dropped"] / max(1, cache["fills_dropped"] + cache["insertions"])
        row.update(hits=hits / max(1, extents), written=written / row["reads"], dropped=dropped, cache=cache)
    return found


def table(found):
    print("  " + " " * 22 + "".join(f"{column:>17}" for column in COLUMNS))
    for label, name, _ in ROWS:
        row = found[name]
        cells = [f"{row['iops']:.0f}", f"{row['mean_ms']:.2f} ms", f"{row['p99_ms']:.1f} ms"]
        if cache := row.get("cache"):
            cells += [f"{row['hits']:.0%}", f"{cache['dedup_ratio']:.2f} x", f"{cache['compression_ratio']:.2f} x", f"{row['written'] / 1024:.2f} KiB"]
        else:
            cells += ["-"] * 4
        print(f"  {label:<22}" + "".join(f"{cell:>17}" for cell in cells))


def ratios(found):
    """The warm cache against an ordinary one of the same size, and against the disks alone."""
    alone, ordinary, nitro = found["none"], found["ordinary-warm"], found["nitro-warm"]
    return {"iops_over_ordinary": nitro["iops"] / ordinary["iops"], "response_over_ordinary": nitro["mean_ms"] / ordinary["mean_ms"],
            "ssd_bytes_over_ordinary": nitro["written"] / max(1, ordinary["written"]), "iops_over_disks": nitro["iops"] / alone["iops"],
            "response_over_disks": nitro["mean_ms"] / alone["mean_ms"]}


def conclusion(ratio):
    print(f"\n  warm, against an ordinary cache of the same size: {ratio['iops_over_ordinary']:.1f} x the IOPS, "
          f"{1 - ratio['response_over_ordinary']:.0%} less response time, "
          f"{1 - ratio['ssd_bytes_over_ordinary']:.0%} fewer bytes written to the SSD for each read")
    print(f"  warm, against the disks alone: {ratio['iops_over_disks']:.1f} x the IOPS, {1 / ratio['response_over_disks']:.1f} x faster reads")


def picture(found):
    """A bar for each row."""
    widest, bars = max(row["iops"] for row in found.values()), []
    for at, (label, name, _) in enumerate(ROWS):
        row, y = found[name], 46 + 38 * at
        width = max(2, 380 * row["iops"] / widest)
        colour = "#1f6feb" if name.startswith("nitro") else "#8a8f98"
        bars.append(f'<text x="16" y="{y + 17}" fill="#1f2328">{label}</text><rect x="180" y="{y}" width="{width:.0f}" height="24" rx="3" fill="{colour}"/>'
                    f'<text x="{188 + width:.0f}" y="{y + 17}" fill="#1f2328">{row["iops"]:.0f}  (mean {row["mean_ms"]:.1f} ms)</text>')
    head = "8 KiB reads a second of four clones, on four emulated 15,000 rpm disks; caches of a tenth"
    foot = "make demo on a 2-core VM: the same files are popular on each clone, Zipf 1.0, depth 16; ordinary: no deduplication, no compression"
    return "\n".join(['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 264" font-family="system-ui, sans-serif" font-size="14">',
                      '<rect width="760" height="264" fill="#ffffff"/>',
                      f'<text x="16" y="28" font-size="16" font-weight="600" fill="#1f2328">{head}</text>', *bars,
                      f'<text x="16" y="254" font-size="11" fill="#656d76">{foot}</text></svg>', ""])


def main():
    found = measured(sys.argv[1])
    if sys.argv[2] == "json":
        rows = {name: {key: value for key, value in row.items() if key != "cache"} for name, row in found.items()}
        print(json.dumps({"rows": rows, **ratios(found)}))
    else:
        table(found)
        conclusion(ratios(found))
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w") as out:
            out.write(picture(found))


main()
