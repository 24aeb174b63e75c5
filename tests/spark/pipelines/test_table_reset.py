"""Tables of a project that are made anew: emptied whole, and never one that comes from a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowbus.errors import ConfigurationError
from rowbus.spark.pipelines.projects import checkpoints, empty, init_project, run_project

OF_LOG = (
    'v1\n{}\n{"v": 1, "orders": {"tick": 3, "snap": "778:778:", "seq": 4009, "ts": "2026-11-21T10:54:29Z"}}'
)
OF_FILES = 'v1\n{}\n{"logOffset": 3}'


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Give a project whose bronze and silver have run."""
    init_project(tmp_path / "shop", log="orders")
    for table, offsets in (("bronze", OF_LOG), ("silver", OF_FILES)):
        rows = tmp_path / "shop" / "spark-warehouse" / table
        (rows / "_spark_metadata").mkdir(parents=True)
        (rows / "part-0.parquet").touch()
        flow = tmp_path / "shop" / "pipeline-storage" / "_checkpoints" / "catalog" / "default" / table / table
        for folder in ("offsets", "commits"):
            (flow / "0" / folder).mkdir(parents=True)
            (flow / "0" / folder / "0").write_text(offsets)
    return tmp_path / "shop"


def test_a_table_made_anew_has_neither_rows_nor_progress_left(shop: Path) -> None:
    empty(shop, ["silver"])
    assert not list((shop / "spark-warehouse" / "silver").iterdir())
    assert [checkpoint.parent.name for checkpoint in checkpoints(shop / "pipeline-storage")] == ["bronze"]


@pytest.mark.parametrize(
    "tables, message",
    [
        (["silver", "bronze"], "bronze is read from a log"),
        (["silver", "gold_by_day"], "no streaming table gold_by_day"),
        (["silver", "../bronze"], "no streaming table ../bronze"),
    ],
)
def test_what_cannot_be_made_anew_is_refused_and_nothing_is_emptied(
    shop: Path, tables: list[str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run_project(shop, anew=tables)
    assert len(list((shop / "spark-warehouse").glob("*/part-0.parquet"))) == 2
    assert len(checkpoints(shop / "pipeline-storage")) == 2


@pytest.mark.parametrize("argument", ["--full-refresh-all", "--full-refresh=silver", "--full-refresh"])
def test_sparks_own_full_refresh_is_refused_for_it_leaves_out_rows(shop: Path, argument: str) -> None:
    with pytest.raises(ConfigurationError, match="--anew TABLE"):
        run_project(shop, arguments=[argument])
