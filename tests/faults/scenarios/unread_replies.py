"""Many connections with requests whose replies nobody reads."""
from ..besieged import besieged
from ..stage import MIB


async def run(stage):
    await besieged(stage, ("unread", {"connections": 24}), bytes_=8192 * MIB, newcomers=3)
