"""Overwrites round and round of content that shrinks, without a FLUSH."""
from ..besieged import besieged
from ..stage import MIB


async def run(stage):
    # No other reason to commit: no flush, no open region, and less dirty data than starts a destage.
    await besieged(stage, ("overwrite", {"count": 400 if stage.is_quick else 3000}), writes=False, bytes_=8 * MIB,
                   size="64M", dirty_age="1h")
