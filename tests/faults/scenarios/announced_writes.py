"""Connections that announce writes of 32 MiB and send nothing, or half."""
from ..besieged import besieged
from ..stage import MIB


async def run(stage):
    stage.expect("refused a client")
    await besieged(stage, ("announce", {"connections": 40}), bytes_=48 * MIB, newcomers=3)
