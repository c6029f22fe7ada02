"""Grid files: the shipped ones hold, and a user's mistakes are named."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from attnbench.benchmarks.cell import Choice, make_cells
from attnbench.benchmarks.columns import column
from attnbench.benchmarks.errors import GridError, UsageError
from attnbench.benchmarks.grid import choose_rows, load_grid, shipped_grids
from attnbench.results import Published
from tests.benchmarks.tiny import PUBLISHED, ROWS, write_grid

SHIPPED = sorted(shipped_grids())
NOT_PRINTED = {"ngsan/which query+key": {"CIDEr-D", "SPICE"}}
"""Numbers that are missing where the others of a row were read."""

_SELF_ONLY = {"gsa(query)", "ngsa(query)", "relation", "deformable", "dynamic(groups=2)", "none"}
REFUSED = {
    ("mult/attention", preset): _SELF_ONLY
    for preset in ("paper", "public-code", "parity", "small", "smoke")
}
REFUSED["mult/attention", "parity"] = _SELF_ONLY | {
    "nsa",
    "nsa(affine=true)",
    "nsa(norm=batch)",
    "nsa(on=key)",
}
"""Rows that say why they can't be run, by grid and preset."""


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_grid_holds_for_every_preset(name: str) -> None:
    grid = load_grid(name)
    assert grid.grid == name
    assert {"paper", "small", "smoke"} <= set(grid.preset_names)
    for preset in grid.preset_names:
        cells = make_cells(grid, Choice(preset=preset))
        assert len(cells) == len(grid.runnable)
        assert {cell.row for cell in cells if cell.refusal} == REFUSED.get((name, preset), set())
        assert len({cell.config_hash for cell in cells}) == len(cells), "two rows are the same"
    for metric in [*grid.metrics, *(grid.published.metrics if grid.published else ())]:
        assert column(metric).name == metric


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_row_is_beside_the_number_of_its_own(name: str) -> None:
    """A row that names a published label must be the configuration that the label says."""
    grid = load_grid(name)
    if grid.published is None:
        pytest.skip("the paper printed no numbers for it")
    source = grid.published
    for row in grid.rows:
        if row.published is None:
            continue
        place = grid.published_place(row)
        assert place is not None
        values = Published.load().row(*place, row.published)
        lacking = set(source.metrics.values()) - set(values)
        known = lacking <= NOT_PRINTED.get(f"{name} {row.row}", set())
        assert known or (row.reference and values), f"{row.row} lacks {lacking}"
        alignment = place[2].rpartition("-")[2]
        assert row.row in (row.published, f"{alignment}: {row.published}")


def test_the_sixteen_and_the_fifteen_configurations_are_all_there() -> None:
    all_bits = {f"{number:04b}" for number in range(16)}
    own = {row.row: row.set for row in load_grid("spatial-attention/nmt-self").rows}
    assert set(own) == (all_bits - {"0000"}) | {"w/o"}
    cross = {row.row: row.set for row in load_grid("spatial-attention/nmt-cross").rows}
    assert set(cross) == all_bits - {"0000"}
    for bits in cross:
        spec = f"terms({bits})"
        assert own[bits] == {"encoder_self": spec, "decoder_self": spec}
        assert cross[bits] == {"cross": spec}


def test_presets_base_and_rows_are_stronger_in_this_order(tmp_path: Path) -> None:
    path = write_grid(tmp_path, [{"row": "r", "set": {"dim": 8}}], dim=4, heads=4)
    values = yaml.safe_load(path.read_text())
    values |= {"presets_from": "translation", "base": {"dim": 12, "heads": 2, "beam": 3}}
    values["presets"] = {"smoke": {"dim": 4, "heads": 4}}
    path.write_text(yaml.safe_dump(values))
    (cell,) = make_cells(load_grid(str(path)), Choice(preset="smoke", settings={"beam": "7"}))
    config: Any = cell.config
    assert (config.dim, config.heads, config.beam) == (8, 4, 7)
    assert config.subword == "none"  # the shared preset's


def test_the_hash_is_of_what_changes_a_result(tmp_path: Path) -> None:
    grid = load_grid(str(write_grid(tmp_path, ROWS[:1])))

    def hashed(**choice: Any) -> str:
        return make_cells(grid, Choice(preset="tiny", **choice))[0].config_hash

    first = hashed()
    assert hashed(seeds=(5,)) == hashed(root=tmp_path) == first
    assert hashed(machine={"threads": 3, "cache": tmp_path, "unknown to this task": 1}) == first
    assert hashed(settings={"dropout": "0.2"}) != first
    assert hashed(settings={"dropout": "0.1"}) == first  # the default, spelled out


def broken(tmp_path: Path, **changes: Any) -> str:
    """The error of a grid with some keys replaced (None: taken out)."""
    values = yaml.safe_load(write_grid(tmp_path).read_text()) | changes
    path = tmp_path / "broken.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in values.items() if v is not None}))
    with pytest.raises(GridError) as error:
        make_cells(load_grid(str(path)), Choice(preset="tiny"))
    text = str(error.value)
    assert text.startswith(str(path)) and "\n" not in text
    return text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "translatoin"}, "did you mean translation"),
        ({"task": None}, "the key task is missing"),
        ({"rowz": []}, "rowz isn't known; did you mean rows"),
        ({"rows": [{"row": "a"}, {"row": "a"}]}, "two rows are called 'a'"),
        ({"rows": [{"row": 1111}]}, "rows.0.row is 1111, not text; put it in quotes"),
        ({"rows": [{"row": "a", "sett": {}}]}, "rows.0.sett isn't known; did you mean set"),
        ({"rows": []}, "rows"),
        ({"rows": [{"row": "a", "reference": True}]}, "nothing to run"),
        (
            {"rows": [{"row": "a", "set": {"encoder_slef": "dot"}}]},
            "row 'a': no setting of translation is called 'encoder_slef'; did you mean encoder",
        ),
        ({"rows": [{"row": "a", "set": {"cross": "dott"}}]}, "did you mean dot"),
        ({"rows": [{"row": "a", "set": {"cross": "terms(012)"}}]}, "four bits"),
        ({"rows": [{"row": "a", "set": {"dim": "wide"}}]}, "row 'a', preset tiny: dim='wide'"),
        ({"rows": [{"row": "a", "published": "111"}]}, "no row '111'; did you mean 1111"),
        ({"base": {"lerning_rate": 1}}, "base: no setting of translation is called"),
        ({"presets": {"tiny": {"steps": 1}}}, "presets.tiny: no setting of translation is called"),
        ({"presets": {}}, "there is no preset"),
        ({"presets_from": "transaltion"}, "did you mean translation"),
        ({"published": PUBLISHED | {"table": "table9"}}, "no numbers of spatial_attention/table9"),
        ({"published": PUBLISHED | {"metrics": {"bleu": "BLUE"}}}, "no 'BLUE'"),
        (
            {"rows": [{"row": "a", "published": "1111", "published_split": "wmt15"}]},
            "row 'a': published_split: no numbers of spatial_attention/table2/wmt15",
        ),
    ],
)
def test_a_mistake_in_a_grid_is_named(tmp_path: Path, changes: dict, words: str) -> None:
    assert words in broken(tmp_path, **changes)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"grid: [", "isn't YAML"),
        (b"grid: a\ngrid: b\n", "line 2: the key 'grid' stands twice"),
        (b"rows:\n  - {row: a, set: {dim: 1, dim: 2}}\n", "the key 'dim' stands twice"),
        (b"- a\n- b\n", "must hold keys"),
        (b"", "must hold keys"),
        (b"grid: \xff\n", "isn't UTF-8 text (byte 6)"),
        (b"grid: !!python/object/apply:os.getcwd []\n", "isn't YAML"),
    ],
)
def test_a_file_that_is_no_grid_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "no.yaml"
    path.write_bytes(content)
    with pytest.raises(GridError, match="no.yaml") as error:
        load_grid(str(path))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_grids_rows_and_presets_are_looked_up_with_near_names(tmp_path: Path) -> None:
    with pytest.raises(GridError, match="did you mean spatial-attention/nmt-cross"):
        load_grid("spatial-attention/nmt-croos")
    with pytest.raises(GridError, match="there is no file"):
        load_grid(str(tmp_path / "missing.yaml"))
    grid = load_grid("ngsan/wmt14")
    with pytest.raises(UsageError, match="did you mean Transformer-Base"):
        choose_rows(grid, ["Transformer-Bas"])
    with pytest.raises(UsageError, match="a number of the paper"):
        choose_rows(grid, ["Transformer-Big (Vaswani)"])
    with pytest.raises(GridError, match="no preset 'papr'; it has paper, small, smoke"):
        make_cells(grid, Choice(preset="papr"))


def test_settings_of_the_command_line_may_not_undo_the_rows(tmp_path: Path) -> None:
    grid = load_grid(str(write_grid(tmp_path)))
    for settings, words in [
        ({"encoder_self": "dot"}, "rows of own/tiny differ in it"),
        ({"seed": "3"}, "use --seeds"),
        ({"droput": "0"}, "did you mean dropout"),
        ({"dropout": "2"}, "--set dropout='2'"),
    ]:
        with pytest.raises(UsageError, match=words) as error:
            make_cells(grid, Choice(preset="tiny", settings=settings))
        assert not isinstance(error.value, GridError)


def test_specs_are_stored_in_their_canonical_form(tmp_path: Path) -> None:
    hashes: set[str] = set()
    for spec in ("terms( 0100 , range=3 )", "terms(0100,range=3)"):
        grid = load_grid(str(write_grid(tmp_path, [{"row": "r", "set": {"cross": spec}}])))
        hashes.add(make_cells(grid, Choice(preset="tiny"))[0].config_hash)
    assert len(hashes) == 1
