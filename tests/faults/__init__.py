"""The fault soak: the real server beside hostile tenants, sick origins and devices, and operators' mistakes.

`scripts/test-faults` runs it. `scenarios/` has a file for each fault, `stage.py` what they share: one server, its volumes
under models that check every read, and the checks at the end. `sick.py` makes storage that fails, `hostile.py` is the tenant.
"""
