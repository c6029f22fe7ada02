"""attnbench: a benchmark suite for attention mechanisms.

The sub-packages are imported on demand; importing `attnbench` alone loads nothing heavy.
"""

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """Look the version of the installed distribution up when it is first asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("attnbench")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
