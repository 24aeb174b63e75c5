"""What Spark's checkpoints and the log of its file sink say; the files in `written` were written by Spark 4.3."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rowbus.errors import ConfigurationError
from rowbus.spark.pipelines.checkpoint import newest_committed, parse_offsets, query_id
from rowbus.spark.pipelines.file_sink_log import bins, live, merged, parse, render

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


@pytest.mark.parametrize("text", ["", "nonsense", '{"v":1}\nx', "v1"])
def test_what_is_no_file_of_offsets_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_offsets(text)


def test_only_a_batch_with_a_commit_is_durable() -> None:
    assert newest_committed(["0", "1", "2", ".2.crc"], ["0", "1", ".1.crc"]) == 1
    assert newest_committed(["2", "3"], ["0", "1"]) is None
    assert newest_committed(["9", "10"], ["9", "10", "11"]) == 10


def test_the_query_keeps_its_id() -> None:
    assert query_id(read("_checkpoint/metadata")) == "b3f0a571-98dc-443f-8dfc-32d1a854f2d6"


@pytest.mark.parametrize("name", ["3", "9.compact"])
def test_the_log_of_the_file_sink_is_written_as_spark_does(name: str) -> None:
    before = read(f"_spark_metadata/{name}")
    assert parse(render(parse(before))) == parse(before)
    assert [json.loads(line) for line in render(parse(before)).splitlines()[1:]] == [
        json.loads(line) for line in before.splitlines()[1:]
    ]


@pytest.mark.parametrize(
    "names, counting",
    [
        (["0", "1", ".1.crc", "_tmp"], ["0", "1"]),
        (["7", "8", "9.compact", "10", "11"], ["9.compact", "10", "11"]),
        (["9.compact", "18", "19.compact", "20"], ["19.compact", "20"]),
        ([], []),
    ],
)
def test_the_newest_compact_file_and_those_after_it_count(names: list[str], counting: list[str]) -> None:
    assert live(names) == counting


def test_files_are_put_together_within_a_folder_up_to_a_size() -> None:
    files = parse(read("_spark_metadata/9.compact"))
    found = bins(files, before=2**60, target=1500)
    assert all(file in files for together in found for file in together)
    for together in found:
        assert len(together) > 1
        assert len({file.folder for file in together}) == 1
        assert sum(file.size for file in together) <= 1500
    assert bins(files, before=2**60, target=10**9) == [
        [file for file in files if file.folder.endswith(folder)] for folder in ("log=0", "log=1")
    ]


def test_young_and_big_files_stay() -> None:
    files = parse(read("_spark_metadata/9.compact"))
    assert bins(files, before=min(file.modified for file in files), target=10**9) == []
    assert bins(files, before=2**60, target=400) == []


def test_a_merged_file_is_as_old_as_the_newest_of_those_it_replaces() -> None:
    files = parse(read("_spark_metadata/3"))[:1]
    assert merged(files, "new.parquet", 7).modified == max(file.modified for file in files)
