"""What scenarios of a failing cache device share: volumes in write-through go on, flushed data of the others is there later."""


async def outlive(stage, place, path, strike, before=None):
    """Serves with the cache at `path` in `place`; `strike` begins the fault, after `before` seconds (the stage's own, if None)."""
    stage.cache_path, stage.cache_is_sick = path, True
    for volume in stage.neighbours():
        volume.healthy = volume.neighbour = volume.settings["mode"] == "write-through"
    stage.expect("")
    await stage.start(size=None)
    await stage.load(*stage.modelled())
    await stage.pass_time("before", before)
    strike()
    await stage.pass_time("fault", stage.seconds * 2)
    if stage.random.random() < 0.3:
        await stage.end()
    else:
        await stage.crash()
    place.heal()
    for volume in stage.modelled():
        volume.healthy = True
    await stage.restart()
    await stage.finish()
