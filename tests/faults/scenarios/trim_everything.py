"""TRIM, WRITE_ZEROES and CACHE of a whole large volume at once."""
from ..besieged import besieged
from ..stage import MIB


async def run(stage):
    await besieged(stage, ("trim", {"count": 100 if stage.is_quick else 800}), bytes_=8192 * MIB, size="16M")
