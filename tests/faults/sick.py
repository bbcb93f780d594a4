"""Storage that fails as storage does: filesystems that are full, frozen or read-only, devices that are gone, and NBD servers
that err, wait or hang. Each place is made, made sick, healed, and removed. All but `FullFolder` need root."""
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import time

from mounts import unmount

from .server import Failure
from .stage import MIB, Skip

LOOP_SET_STATUS64, LOOP_GET_STATUS64 = 0x4C04, 0x4C05
FILTER = os.path.join(os.path.dirname(__file__), "flush_error.c")


def run(*command, **settings):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, **settings).stdout.strip()


def needs(*programs):
    """Skips unless this is root on a machine with the programs."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise Skip(f"needs {', '.join(missing)}: run scripts/setup test")


def attempt(*command):
    """Runs what this kernel or container may refuse."""
    try:
        return run(*command)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        raise Skip(f"not possible here: {' '.join(command[:2])}: {str(said).strip()}") from None


class Filesystem:
    """A small ext4 on a loop device, or a tmpfs."""

    def __init__(self, stage, name, bytes_, tmpfs=False):
        self.image, self.folder, self.bytes, self.tmpfs = stage.path(f"{name}.fs"), stage.path(name), bytes_, tmpfs
        self.frozen = self.mounted = False

    def make(self):
        needs("mkfs.ext4", "losetup", "fsfreeze")
        os.mkdir(self.folder)
        if self.tmpfs:
            attempt("mount", "-t", "tmpfs", "-o", f"size={self.bytes}", "tmpfs", self.folder)
        else:
            with open(self.image, "wb") as file:
                file.truncate(self.bytes)
            run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", self.image)
            attempt("mount", "-o", "loop,errors=remount-ro", self.image, self.folder)
        self.mounted = True

    def path(self, name):
        return os.path.join(self.folder, name)

    def sparse(self, name, bytes_):
        """A file of which nothing is allocated."""
        with open(self.path(name), "wb") as file:
            file.truncate(bytes_)
        return self.path(name)

    def fill(self, leave=0):
        """Takes all room but `leave` bytes."""
        with open(self.path("filler"), "wb", buffering=0) as file:
            room = os.statvfs(self.folder)
            free = room.f_bavail * room.f_frsize - leave
            at = 0
            while free > 0:
                try:
                    at += file.write(bytes(min(free, MIB)))
                except OSError:
                    break
                free -= MIB
            if not leave:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass

    def heal(self):
        if self.frozen:
            run("fsfreeze", "-u", self.folder)
            self.frozen = False
        if self.mounted and os.path.exists(self.path("filler")):
            os.unlink(self.path("filler"))

    def freeze(self):
        attempt("fsfreeze", "-f", self.folder)
        self.frozen = True

    def make_read_only(self):
        """As the kernel does when it finds the filesystem damaged; only mounting it anew ends that."""
        device = os.path.basename(run("findmnt", "-no", "SOURCE", self.folder))
        try:
            with open(f"/sys/fs/ext4/{device}/trigger_fs_error", "w") as file:
                file.write("1")
        except OSError as error:
            raise Skip(f"not possible here: {error}") from None

    def mount_anew(self):
        unmount(self.folder)
        subprocess.run(["e2fsck", "-fy", self.image], capture_output=True, timeout=60, check=False)
        run("mount", "-o", "loop,errors=remount-ro", self.image, self.folder)

    def remove(self):
        if self.mounted:
            unmount(self.folder)


class LoopDevice:
    """A block device over a file."""

    def __init__(self, stage, name, bytes_):
        self.image, self.bytes, self.device = stage.path(f"{name}.loop"), bytes_, None

    def make(self):
        needs("losetup")
        with open(self.image, "wb") as file:
            file.truncate(self.bytes)
        self.device = attempt("losetup", "-f", "--show", self.image)

    def lose(self):
        """The device goes while it is open: it has no sector any more that could be read or written, but for the first."""
        self._limit(512)

    def heal(self):
        if self.device:
            self._limit(0)

    def _limit(self, bytes_):
        """Sets `lo_sizelimit` of `struct loop_info64`; 0: none."""
        with open(self.device, "rb", buffering=0) as device:
            info = bytearray(232)
            fcntl.ioctl(device, LOOP_GET_STATUS64, info)
            struct.pack_into("=Q", info, 32, bytes_)
            fcntl.ioctl(device, LOOP_SET_STATUS64, info)

    def remove(self):
        run("losetup", "-d", self.device)


class NbdkitFile:
    """A file that is an NBD server's, by way of nbdfuse and nbdkit's filters: kinds of calls can be made to fail, wait or hang."""

    KINDS = ("pread", "pwrite", "zero", "trim")

    def __init__(self, stage, name, bytes_, errors=None, filters=(), settings=()):
        self.stage, self.name, self.bytes = stage, name, bytes_
        self.backing, self.file = stage.path(f"{name}.backing"), stage.path(f"{name}.img")
        self.socket = stage.path(f"{name}.sock")
        self.errors, self.filters, self.settings = errors or {}, list(filters), list(settings)
        self.nbdkit = self.fuse = None
        self.stopped = False

    def make(self):
        needs("nbdkit", "nbdfuse", "cc")
        for path in (self.backing, self.file):
            with open(path, "wb") as file:
                file.truncate(self.bytes)
        self.start()

    def start(self):
        """Starts both servers, over what the backing file holds."""
        library = self.stage.path("flush_error.so")
        if not os.path.exists(library):
            attempt("cc", "-shared", "-fPIC", "-O", "-o", library, FILTER)
        words = ["--filter=error", f"--filter={library}", *(f"--filter={name}" for name in self.filters)]
        settings = [f"flush-error-file={self.trigger('flush')}", f"flush-error={self.errors.get('flush', 'EIO')}", *self.settings]
        for kind in self.KINDS:
            settings += [f"error-{kind}={self.errors.get(kind, 'EIO')}", f"error-{kind}-rate=100%",
                         f"error-{kind}-file={self.trigger(kind)}"]
        log = open(self.stage.path(f"{self.name}.nbdkit"), "ab")
        self.nbdkit = subprocess.Popen(["nbdkit", "-f", "-U", self.socket, *words, "file", self.backing, *settings],
                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.wait_for(lambda: os.path.exists(self.socket), "nbdkit does not start")
        before = os.stat(self.file).st_dev
        self.fuse = subprocess.Popen(["nbdfuse", self.file, "--unix", self.socket], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()
        self.wait_for(lambda: os.stat(self.file).st_dev != before, "nbdfuse does not start")

    def wait_for(self, condition, otherwise):
        until = time.monotonic() + 20
        while not condition():
            with open(self.stage.path(f"{self.name}.nbdkit")) as log:
                said = log.read()[-300:].strip()
            if self.nbdkit.poll() is not None or (self.fuse and self.fuse.poll() is not None):
                raise Skip(f"{otherwise}: {said}")
            if time.monotonic() > until:
                raise Failure(f"{otherwise} in time: {said}")
            time.sleep(0.02)

    def trigger(self, kind):
        return self.stage.path(f"{self.name}.fail.{kind}")

    def fail(self, *kinds):
        """Has every call of these kinds fail from now on: pread, pwrite, zero, trim, flush."""
        for kind in kinds:
            with open(self.trigger(kind), "wb"):
                pass

    def hang(self):
        """No call is answered any more."""
        self.nbdkit.send_signal(signal.SIGSTOP)
        self.stopped = True

    def vanish(self):
        """The file is gone while it is open."""
        self.fuse.kill()
        self.fuse.wait()

    def go_on(self):
        """Answers again."""
        if self.stopped:
            self.nbdkit.send_signal(signal.SIGCONT)
            self.stopped = False

    def heal(self):
        self.go_on()
        for kind in (*self.KINDS, "flush"):
            if os.path.exists(self.trigger(kind)):
                os.unlink(self.trigger(kind))

    def stop(self):
        subprocess.run(["umount", "-l", self.file], capture_output=True, timeout=60, check=False)
        for process in (self.fuse, self.nbdkit):
            if process and process.poll() is None:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self.nbdkit = self.fuse = None

    def remove(self):
        self.stop()


class MemoryLimit:
    """A control group whose RAM can be limited."""

    def __init__(self, stage):
        self.name = f"nitro-faults-{os.path.basename(stage.work)}"
        self.folder = self.limit = None

    def make(self):
        needs()
        try:
            if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
                with open("/sys/fs/cgroup/cgroup.subtree_control", "w") as file:
                    file.write("+memory")
                folder, self.limit = f"/sys/fs/cgroup/{self.name}", "memory.max"
            else:
                folder, self.limit = f"/sys/fs/cgroup/memory/{self.name}", "memory.limit_in_bytes"
            os.mkdir(folder)
            self.folder = folder
            self.set(1 << 40)
        except OSError as error:
            raise Skip(f"no control group with a limit of RAM can be made here: {error}") from None

    def set(self, bytes_):
        with open(os.path.join(self.folder, self.limit), "w") as file:
            file.write(str(bytes_))

    def heal(self):
        pass

    def remove(self):
        if self.folder:
            os.rmdir(self.folder)
