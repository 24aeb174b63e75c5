"""Tables of all types change at random while the job of their lake and the server are killed: the lake is as they are.

`python -m tests.crashes.lake` does the same with twelve tables, for half an hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos.server import Server
from tests.crashes.lake.reading import with_duckdb, with_polars, with_spark
from tests.crashes.lake.scene import SETTINGS, VICTIMS, Plan, Scene
from tests.fixtures.database import MEMORY, run_directory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turns("kills with Spark", 3),
    pytest.mark.one_version,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]


@pytest.fixture(params=["delta", "iceberg", "ducklake", "delta in S3", "iceberg in S3", "ducklake in S3"])
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    form, _, in_store = request.param.partition(" in ")
    place = f"{request.getfixturevalue('s3')}/lake" if in_store else None
    monkeypatch.setenv("PYICEBERG_CATALOG__ROWBUS__URI", f"sqlite:///{tmp_path}/catalog.db")
    plan = Plan(seconds=40, kills=len(VICTIMS), tables=3, formats=(form,), place=place)
    with run_directory(MEMORY if MEMORY.exists() else Path("/tmp")) as folder:  # noqa: S108 - a folder within it
        server = Server(folder / "server", settings=SETTINGS)
        server.initialise()
        server.start()
        scene = Scene(folder, server, plan)
        yield scene
        scene.end()
        server.stop()


def test_a_lake_is_as_its_tables_are_whatever_was_written_and_killed(
    scene: Scene, spark: SparkSession
) -> None:
    scene.run()
    scene.finish()

    (form,), (job,) = scene.plan.formats, scene.jobs
    readers = {f"{form} by polars": with_polars(form)}
    if not scene.plan.place:  # without a jar Spark reads folders only
        readers[f"{form} by Spark"] = with_spark(form, spark)
    if form == "ducklake":
        readers = {f"{form} by DuckDB": with_duckdb(scene.dsn)}
    assert scene.wrong(readers) == []
    assert job.kills == dict.fromkeys(VICTIMS, 1)
