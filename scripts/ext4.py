"""Where an ext4 image has the blocks of its files, by debugfs."""
import os
import re
import subprocess


def debugfs(image, commands):
    """What debugfs prints for each of some commands."""
    env = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
    told = subprocess.run(["debugfs", "-f", "-", image], input="\n".join(commands), check=True, capture_output=True, text=True, env=env)
    return [part.split("\n", 1)[1].strip() for part in told.stdout.split("debugfs: ")[1:] if "\n" in part]


def listed(image, folders):
    """The entries of each folder: name, inode, whether it is a folder, bytes."""
    for told in debugfs(image, [f'ls -p "{folder}"' for folder in folders]):
        # /inode/mode/uid/gid/name/bytes/
        fields = [line.split("/") for line in told.splitlines() if line.startswith("/")]
        yield [(f[5], f[1], f[2].startswith("04"), int(f[6] or 0)) for f in fields if f[5] not in (".", "..") and f[1] != "0"]


def files(image):
    """All regular files: their paths, inodes and bytes."""
    found, folders = {}, ["/"]
    while folders:
        deeper = []
        for folder, entries in zip(folders, listed(image, folders)):
            for name, inode, is_folder, size in entries:
                path = f"{folder.rstrip('/')}/{name}"
                if is_folder:
                    deeper.append(path)
                else:
                    found[path] = inode, size
        folders = deeper
    return found


def blocks_of(image, names):
    """The blocks of each file or folder, in their order; a name is "PATH" or <INODE>."""
    return [[int(block) for block in told.split()] for told in debugfs(image, [f"blocks {name}" for name in names])]


def blocks(image, inodes):
    """The blocks of each inode, in their order."""
    return blocks_of(image, [f"<{inode}>" for inode in inodes])


def block_bytes(image):
    """The bytes of a block."""
    return int(re.search(r"^Block size:\s+(\d+)", debugfs(image, ["stats -h"])[0], re.MULTILINE)[1])
