"""Where cells run; each launcher takes the same cells and reports the same events."""
