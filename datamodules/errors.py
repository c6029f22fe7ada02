"""The error that every reader in this package raises for bad input."""


class DataError(ValueError):
    """Data on disk that can't be used.

    The message is one sentence for the user: which file, what was expected or found, what to do.
    """
