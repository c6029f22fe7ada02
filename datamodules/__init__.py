"""Data sets: readers of the published formats, vocabularies, batching, one DataModule a task.

Nothing is imported here, so that asking for one part (a registry, a card) stays cheap.
"""
