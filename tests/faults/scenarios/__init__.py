"""The scenarios: one fault each. `run(stage)` is the scenario, `MODES` the modes that it makes sense in."""
