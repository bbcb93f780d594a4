"""Unmounting what a killed or ended program had open."""
import subprocess
import time

PATIENCE_S = 30


def unmount(folder):
    """Unmounts `folder`. The kernel closes the files of an io_uring a little after its process has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run(["umount", folder], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0:
            return
        if "busy" not in done.stderr or time.monotonic() > deadline:
            raise OSError(f"umount {folder}: {done.stderr.strip()}")
        time.sleep(0.1)
