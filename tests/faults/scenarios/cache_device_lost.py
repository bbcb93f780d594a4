"""One of two cache devices fails under load and comes back later: volumes in write-through hear nothing of it, those in write-back
lose what was dirty there, are told so, and go on; the device that came back is not used."""
import nbd

from .. import sick, tenants
from ..server import Failure
from ..stage import MIB

MODES = ("through", "back")
EXTENT_BYTES = 8192


async def check_devices(stage, when):
    """The cache is degraded: the sick device is lost, and the other one is in use."""
    cache = (await stage.server.status())["caches"][0]
    health = {device["path"]: device["health"] for device in cache["devices"]}
    expected = {path: "lost" if path == stage.sick_path else "caching" for path in stage.device_paths}
    if cache["health"] != "degraded" or health != expected:
        raise Failure(f"{when}, the cache is {cache['health']}, its devices are {health}")


async def goes_on(stage, volume):
    """Whole extents of a volume can be written, flushed and read, wherever they were before."""
    connection = await tenants.connect(stage.server.socket, volume.name)
    for number in range(32):
        write = volume.oracle.write(number + 1, number * EXTENT_BYTES // 512, EXTENT_BYTES // 512, certain=True)
        data = tenants.content_bytes(number + 1, EXTENT_BYTES // 512)
        await connection.request(nbd.WRITE, number * EXTENT_BYTES, EXTENT_BYTES, data, 0)
        volume.oracle.written(write, False)
    sent = volume.oracle.now()
    try:
        await connection.request(nbd.FLUSH, 0, 0)
    except nbd.Refused:
        # This one tells of what was lost; the next one is for these writes.
        await connection.request(nbd.FLUSH, 0, 0)
    volume.oracle.flushed(sent)
    for number in range(32):
        found = await connection.request(nbd.READ, number * EXTENT_BYTES, EXTENT_BYTES)
        if found != tenants.content_bytes(number + 1, EXTENT_BYTES // 512):
            raise Failure(f"volume {volume.name}: extent {number} is not what was written")
    await connection.close()


async def run(stage):
    place = stage.use(sick.NbdkitFile(stage, "ssd", 32 * MIB))
    stage.cache_is_sick = stage.cache_is_damaged = True
    stage.sick_path, stage.device_paths = place.file, [stage.path("cache.img"), place.file]
    stage.random.shuffle(stage.device_paths)
    volumes = stage.neighbours()
    for volume in volumes:
        volume.healthy = volume.neighbour = volume.settings["mode"] == "write-through"
    stage.expect("")
    await stage.start(path=stage.device_paths, size="64M")
    await stage.load(*stage.modelled())
    await stage.pass_time("before")
    place.fail(*place.KINDS, "flush")
    await stage.pass_time("fault", stage.seconds * 2)
    await check_devices(stage, "after its failure")
    await stage.stop_load()
    for volume in volumes[:2]:
        await goes_on(stage, volume)
    await stage.load(*stage.modelled())
    await stage.pass_time("after the failure", stage.seconds / 2)
    if stage.random.random() < 0.3:
        await stage.end()
    else:
        await stage.crash()
    place.heal()
    stage.device_paths.reverse()
    await stage.restart()
    await check_devices(stage, "after it has come back")
    if stage.mode == "through":
        return await stage.finish()
    await stage.load(*stage.modelled())
    await stage.pass_time("with the other device", stage.seconds / 2)
    await stage.stop_load()
    for volume in volumes[:2]:
        await goes_on(stage, volume)
    # What can be read is right, and of the volume in write-through everything can be read.
    await stage.look()
    await stage.end()
