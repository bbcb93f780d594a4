"""The cache is a sparse file on a filesystem that has no room left for it."""
from .. import sick, sick_cache
from ..stage import MIB


async def run(stage):
    place = stage.use(sick.Filesystem(stage, "ssd", 40 * MIB, tmpfs=stage.random.random() < 0.5))
    await sick_cache.outlive(stage, place, place.sparse("cache.img", 32 * MIB), place.fill, stage.seconds / 3)
