"""Handshakes that stall in every state, garbage, connections that break off."""
from ..besieged import besieged
from ..stage import MIB


async def run(stage):
    stage.expect("refused a client", "handshake")
    await besieged(stage, ("stall", {"connections": 400}), ("garbage", {"connections": 6}), bytes_=16 * MIB, newcomers=5)
