"""Image features: one packed store, importers of the public layouts, and an extractor.

Nothing is imported here; each layout loads its own library when it is read.
"""
