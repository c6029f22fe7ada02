"""A variant whose traits are wrong fails its contract with a message that names the trait."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LIAR = """
from attnbench.models.attention.nsa import NormalisedAttention
from attnbench.models.attention.registry import register_attention
from attnbench.models.attention.traits import Traits


@register_attention("liar", examples=("liar",))
class Liar(NormalisedAttention):
    "Says that it can be causal, although its norm looks at the whole sequence."

    def __init__(self, dim, heads=8, *, dropout=0.0):
        super().__init__(dim, heads, dropout=dropout)

    @classmethod
    def traits(cls, **options):
        return Traits("energy", WEIGHTS)
"""


@pytest.mark.parametrize(
    ("weights", "test", "message"),
    [
        ("dense", "test_decoding.py", "the traits of liar say: it doesn't lack 'causal'"),
        ("none", "test_calls.py", "the traits of liar say: weights=none"),
    ],
)
def test_the_trait_is_named(weights: str, test: str, message: str, tmp_path: Path) -> None:
    plugin = LIAR.replace("WEIGHTS", repr(weights))
    (tmp_path / "liar_plugin.py").write_text(plugin, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "liar_plugin", "-k", "liar"]
    found = subprocess.run(
        [*command, "-p", "no:cacheprovider", f"tests/contract/{test}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 1, found.stdout + found.stderr
    assert message in found.stdout and "change its traits" in found.stdout
