"""Spark's checkpoints are read; the files in `written` were written by Spark 4.3."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rowbus.errors import ConfigurationError
from rowbus.spark.checkpoint import newest_committed, parse_offsets, query_id
from tests.fixtures.every import every

WRITTEN = Path(__file__).parent / "written"


def read(path: str) -> str:
    return (WRITTEN / path).read_text(encoding="utf-8")


def test_offsets_are_read_without_sparks_own_facts() -> None:
    assert parse_offsets(read("_checkpoint/offsets/3")) == ({"offset": 12, "timestamp": 4000},)


def test_a_source_that_has_no_offset_yet_says_nothing() -> None:
    assert parse_offsets('v1\n{"batchWatermarkMs":0}\n-\n{"v":1,"a":{}}') == ({"v": 1, "a": {}},)


def test_offsets_of_named_sources_are_found() -> None:
    named = json.dumps({"first": '{"v":1,"a":{}}', "second": '{"v":1,"b":{}}'})
    assert parse_offsets(f'v2\n{{"batchWatermarkMs":0}}\n{named}') == ({"v": 1, "a": {}}, {"v": 1, "b": {}})


@every("text", ["", "nonsense", '{"v":1}\nx', "v1"])
def test_what_is_no_file_of_offsets_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_offsets(text)


def test_only_a_batch_with_a_commit_is_durable() -> None:
    assert newest_committed(["0", "1", "2", ".2.crc"], ["0", "1", ".1.crc"]) == 1
    assert newest_committed(["2", "3"], ["0", "1"]) is None
    assert newest_committed(["9", "10"], ["9", "10", "11"]) == 10


def test_the_query_keeps_its_id() -> None:
    assert query_id(read("_checkpoint/metadata")) == "b3f0a571-98dc-443f-8dfc-32d1a854f2d6"
