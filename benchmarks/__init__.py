"""The runner: grids of (task x attention variant x seed) in, run records and tables out.

Nothing is imported here, so that the command line answers before anything heavy is loaded.
"""
