"""`rowbus spark init`: a log's name is any text, and comes back from the project's YAML as it was."""

from __future__ import annotations

import shlex
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from rowbus.spark.pipelines.projects import init_project
from rowbus.spark.pipelines.templates import for_shell, quoted, unquoted
from tests.fixtures.every import every

NAMES = [
    "orders",
    "a: b",
    "yes",
    "null",
    "12",
    '"x',
    "it's # no comment",
    "- a\n- b",
    "x\n  spark.rowbus.consumer: mallory",
    "{a}",
    "&anchor",
    "tab\t, nul-free \x1b[0m, \x85 \u2028 \ufeff",
    "back\\slash",
    "日本 🚀",
    " ",
    "$(rm -rf ~)",
]


@every("log", NAMES)
def test_a_logs_name_comes_back_from_the_projects_settings(tmp_path: Path, log: str) -> None:
    folder = tmp_path / str(NAMES.index(log)) / "shop"
    init_project(folder, log=log)

    settings = yaml.safe_load((folder / "spark-pipeline.yml").read_text(encoding="utf-8"))

    assert settings["configuration"] == {"spark.rowbus.log": log, "spark.rowbus.consumer": "shop_bronze"}
    assert settings["name"] == "shop"


@every("name", ["yes", "null", "on"])
def test_a_projects_name_is_a_text_whatever_yaml_thinks_of_the_word(tmp_path: Path, name: str) -> None:
    init_project(tmp_path / name, log="orders")

    settings = yaml.safe_load((tmp_path / name / "spark-pipeline.yml").read_text(encoding="utf-8"))

    assert settings["name"] == name


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_comes_back(text: str) -> None:
    assert yaml.safe_load(quoted(text)) == text
    assert unquoted(quoted(text)) == text


def test_what_a_user_has_put_in_its_place_is_read_too() -> None:
    assert [unquoted(scalar) for scalar in ("plain", "'it''s'", '"a"')] == ["plain", "it's", "a"]


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_name_is_one_argument_of_a_command(text: str) -> None:
    if text.isprintable():
        assert shlex.split(for_shell(text)) == [text]
    assert "\n" not in for_shell(text)
