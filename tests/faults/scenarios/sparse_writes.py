"""Writes of up to 32 MiB of zeroes with one block of data."""
from ..besieged import besieged
from ..stage import MIB


async def run(stage):
    await besieged(stage, ("sparse", {"count": 10 if stage.is_quick else 120}), bytes_=256 * MIB)
