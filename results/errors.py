"""The error that users of the result files see."""


class StoreError(OSError):
    """A result file can't be written, read or understood; the message is one plain sentence."""
