"""A newcomer follows the README, the page on data and then the tutorial, on one server, as people do."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.fixtures.database import run_directory
from tests.fixtures.places import ROOT
from tests.repository.pages import Reader


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.timeout(900)  # some fifty commands, each of them an interpreter; one of them starts Spark
def test_the_readme_the_page_on_data_and_the_tutorial_happen_as_printed_on_one_server(tmp_path: Path) -> None:
    at_a_terminal = "1"  # is what the newcomer is, and this test is not
    with run_directory(Path(tempfile.gettempdir())) as directory:
        server = str(directory / "server")
        for page, folder in (("README.md", "readme"), ("docs/data.md", "data"), ("docs/tutorial.md", "shop")):
            (tmp_path / folder).mkdir()
            reader = Reader(
                tmp_path / folder, None, ROWBUS_EMBEDDED=at_a_terminal, ROWBUS_EMBEDDED_DIRECTORY=server
            )
            reader.follow(ROOT / page)
