"""A failing contract test says which trait of which variant it holds the variant to."""

from collections.abc import Generator

import pytest

from attnbench.models.attention import traits_of


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "trait(*names): the traits that a contract test is about")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the traits say to the report of a failure."""
    report = yield
    names = [name for marker in item.iter_markers("trait") for name in marker.args]
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if report.failed and names and "spec" in parameters:
        report.sections.append(("traits", explanation(parameters["spec"], names)))
    return report


def explanation(spec: str, names: list[str]) -> str:
    """What the traits of a spec say about the named traits, and what follows from a failure."""
    traits = traits_of(spec)
    said = []
    for name in names:
        if name == "geometry":
            said.append(f"geometry={', '.join(sorted(traits.geometry)) or 'none needed'}")
        elif name == "weights":
            said.append(f"weights={traits.weights}")
        elif name in traits.lacks:
            said.append(f"it lacks {name!r} ({traits.lacks[name]})")  # pyright: ignore
        else:
            said.append(f"it doesn't lack {name!r}")
    return f"the traits of {spec} say: {'; '.join(said)}. Make that true, or change its traits."
