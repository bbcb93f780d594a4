"""Runs scenarios in modes, one after the other, and tells how each went."""
import argparse
import asyncio
import importlib
import multiprocessing
import os
import pkgutil
import random
import shutil
import sys
import tempfile
import time
import traceback

import nbd

from . import scenarios
from .server import Failure
from .stage import DISK, MODES, NEIGHBOURS, Skip, Stage

QUICK_S, LONG_S = 1.5, 8
# Lines of the server's log that are shown of a run that failed.
LOG_LINES = 20
QUICK_JOBS = 3
SCENARIO_S = 600
RATIO_MAX = 3


def all_scenarios():
    names = sorted(module.name for module in pkgutil.iter_modules(scenarios.__path__))
    return {name.replace("_", "-"): importlib.import_module(f"{scenarios.__name__}.{name}") for name in names}


def figures(stage):
    """What is told of a run that passed: RAM, the time that its end took, and latencies in ms, median/99 %.

    Also the ratios of the slowest percentile with the fault to that before, by what was measured."""
    told = [f"{stage.figures['rss_mib']} MiB" + (f" of {stage.figures['need_mib']}" if "need_mib" in stage.figures else "")] \
        if "rss_mib" in stage.figures else []
    if "end_s" in stage.figures:
        told.append(f"ended in {stage.figures['end_s']:.1f} s")
    told += stage.figures.get("told", [])
    told += [f"{volume.name} refused " + ", ".join(f"{count} {error}" for error, count in sorted(volume.refused.items()))
             for volume in stage.modelled() if volume.refused]
    slowest_ratios = {}
    for what, (before, fault) in stage.probed_latencies().items():
        ratios = [now / was for now, was in zip(fault, before)]
        slowest_ratios[what] = ratios[1]
        told.append(f"{what} {before[0]:.1f}/{before[1]:.1f} ms, with the fault {fault[0]:.1f}/{fault[1]:.1f} ms, "
                    f"ratio {ratios[0]:.1f}/{ratios[1]:.1f}")
    if slowest := stage.slowest_ms():
        told.append(f"slowest neighbour {slowest:.0f} ms")
    return ", ".join(told), slowest_ratios


def run_one(arguments, name, mode, seed):
    """One scenario in one mode: `passed`, `FAILED` or `skipped`, and the ratios of `figures`."""
    module = all_scenarios()[name]
    work = tempfile.mkdtemp(prefix="nf.", dir=os.environ.get("TMPDIR", "/var/tmp"))
    seconds = LONG_S if arguments.long else QUICK_S
    stage = Stage(arguments.nitro, work, f"{seed}.{name}", mode, seconds, quick=not arguments.long)
    begun = time.monotonic()
    ratios = {}
    try:
        asyncio.run(asyncio.wait_for(module.run(stage), SCENARIO_S))
        told, ratios = figures(stage)
        verdict = "passed"
    except Skip as skip:
        verdict, told = "skipped", str(skip)
    except (Failure, nbd.Refused, asyncio.TimeoutError, OSError) as failure:
        where = "" if isinstance(failure, Failure) else f"\n{traceback.format_exc()}"
        verdict, told = "FAILED", f"{type(failure).__name__}: {failure}{where}"
    finally:
        stage.clear()
    print(f"{verdict:8} {name}, {mode}, {time.monotonic() - begun:.1f} s: {told}", flush=True)
    if verdict == "FAILED":
        said = stage.server.said().splitlines()[-LOG_LINES:]
        print("\n".join(["         the server's last lines:", *(f"           {line}" for line in said)]))
        print(f"         again: scripts/test-faults --seed {seed} --mode {mode}{' --long' if arguments.long else ''} {name}", flush=True)
        if arguments.keep:
            shutil.copytree(work, os.path.join(arguments.keep, f"{name}.{mode}.{seed}"), dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("*.sock"))
    shutil.rmtree(work, ignore_errors=True)
    return verdict, ratios


def main(root):
    found = all_scenarios()
    listing = "\n".join(f"  {name}: {module.__doc__.strip().splitlines()[0]}" for name, module in found.items())
    parser = argparse.ArgumentParser(
        prog="test-faults", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="The real server under faults: nothing that was flushed is lost, nothing stale is read, neighbours go on, the end is bounded.",
        epilog=f"scenarios:\n{listing}\nNITRO is the program to test (target/release/nitro).")
    parser.add_argument("scenario", nargs="*", help="all if not given")
    parser.add_argument("--long", action="store_true", help="each in every mode, with longer faults; tells the ratio of latencies")
    parser.add_argument("--minutes", type=float, help="goes on with new seeds for so long (implies --long)")
    parser.add_argument("--seed", type=int, help="what a run that failed named; replays its schedule")
    parser.add_argument("--mode", choices=MODES, help="all volumes in write-through, or in write-back, with or without a write log")
    parser.add_argument("--jobs", type=int, help=f"runs at a time (1 with --long, else {QUICK_JOBS})")
    parser.add_argument("--keep", metavar="FOLDER", help="keeps the files of what failed")
    arguments = parser.parse_args()
    arguments.nitro = os.environ.get("NITRO", os.path.join(root, "target/release/nitro"))
    arguments.long = arguments.long or arguments.minutes is not None
    for name in arguments.scenario:
        if name not in found:
            parser.error(f"no scenario {name}; see --help")
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    until = time.monotonic() + (arguments.minutes or 0) * 60
    count = {"passed": 0, "FAILED": 0, "skipped": 0}
    measured = []
    # Forked for each run, so that nothing of one is left for the next.
    jobs = arguments.jobs or (1 if arguments.long else QUICK_JOBS)
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        while True:
            runs = []
            for index, name in enumerate(arguments.scenario or found):
                if not (arguments.long or arguments.scenario) and getattr(found[name], "LONG_ONLY", False):
                    continue
                modes = getattr(found[name], "MODES", MODES)
                if arguments.mode:
                    chosen = [arguments.mode] if arguments.mode in modes else []
                else:
                    chosen = modes if arguments.long else [modes[(seed + index) % len(modes)]]
                runs += [pool.apply_async(run_one, (arguments, name, mode, seed)) for mode in chosen]
            for run in runs:
                verdict, ratios = run.get()
                count[verdict] += 1
                measured += [(ratios[NEIGHBOURS], ratios.get(DISK, 1))] if NEIGHBOURS in ratios else []
            if time.monotonic() >= until:
                break
            seed += 1
    if measured:
        above = [(neighbours, disk) for neighbours, disk in measured if neighbours > RATIO_MAX]
        print(f"the slowest percentile of the neighbours rose more than {RATIO_MAX} times in {len(above)} of {len(measured)} runs, "
              f"and more than {RATIO_MAX} times as much as the disk's own in {sum(neighbours > RATIO_MAX * disk for neighbours, disk in above)}")
    print(f"{count['passed']} passed, {count['FAILED']} failed, {count['skipped']} skipped")
    sys.exit(1 if count["FAILED"] else 0)
