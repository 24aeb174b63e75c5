"""Java: the user's own where it will do, else the one of the wheel, through a launcher of ours."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rowbus.spark
from rowbus.cli.spark.course import start_spark
from rowbus.errors import ConfigurationError, StorageError
from rowbus.spark import runtimes
from rowbus.spark.pipelines.policy import JAVA_ENDED
from tests.fixtures.every import every

ANSWERS = {
    8: 'openjdk version "1.8.0_392"',
    11: 'openjdk version "11.0.21" 2023-10-17',
    17: 'openjdk version "17.0.15" 2025-04-15',
    21: 'java version "21.0.8" 2025-07-15 LTS',
    25: 'openjdk version "25" 2025-09-16',
}


def make_java(folder: Path, version: int, *, fails: bool = False) -> Path:
    """Make a program that answers as a Java of some version does; return its JAVA_HOME."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{ANSWERS[version]}' >&2\nexit {int(fails)}\n", encoding="utf-8")
    program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide this machine's Java, and give the cache a place of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@every("version", ANSWERS)
def test_versions_are_read_old_style_and_new(version: int, tmp_path: Path) -> None:
    assert runtimes.java_version(make_java(tmp_path / str(version), version) / "bin" / "java") == version


def test_a_java_that_fails_or_is_not_there_has_no_version(tmp_path: Path) -> None:
    assert runtimes.java_version(make_java(tmp_path, 17, fails=True) / "bin" / "java") is None
    assert runtimes.java_version(tmp_path / "no" / "java") is None


def test_a_java_home_that_will_do_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = str(make_java(tmp_path / "jdk", 17))
    monkeypatch.setenv("JAVA_HOME", home)

    runtimes.provide_java()

    assert os.environ["JAVA_HOME"] == home


def test_a_java_on_the_path_that_will_do_is_left_to_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(make_java(tmp_path / "jdk", 21) / "bin"))

    runtimes.provide_java()

    assert "JAVA_HOME" not in os.environ


def test_an_old_java_home_gives_way_to_a_newer_java_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", 11)))
    monkeypatch.setenv("PATH", str(make_java(tmp_path / "new", 17) / "bin"))

    runtimes.provide_java()

    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("version", [None, 8, 11])
def test_without_a_java_that_will_do_the_wheels_is_taken(
    version: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if version is not None:
        monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", version)))

    runtimes.provide_java()

    home = Path(os.environ["JAVA_HOME"])
    assert home.is_relative_to(tmp_path / "cache")
    assert runtimes.java_version(home / "bin" / "java") == 21


def test_the_launcher_leaves_out_the_missing_module_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stand-in for the wheel's Java, in a folder whose name needs quoting, shows its arguments."""
    runtime = make_java(tmp_path / "it's here", 21)
    (runtime / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n', encoding="utf-8")
    (runtime / "lib").mkdir()
    monkeypatch.setattr(runtimes, "_runtime", lambda: runtime)

    home = runtimes.bundled_home()
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "", "it's"]
    shown = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)

    assert shown.stdout == "<-Xmx1g><-cp><a b:*><><it's>"
    assert (home / "lib").resolve() == runtime / "lib"


def test_several_processes_that_make_the_folder_at_once_all_find_it_whole(tmp_path: Path) -> None:
    program = (
        "from rowbus.spark.runtimes import *; home = bundled_home(); print(home); "
        "assert java_version(home / 'bin' / 'java')"
    )
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: run_python(program), range(4)))

    assert [answer.returncode for answer in answers] == [0] * 4, answers
    assert len({answer.stdout for answer in answers}) == 1
    assert len(list((tmp_path / "cache" / "rowbus").iterdir())) == 1


def test_it_is_made_once_and_found_again() -> None:
    first = runtimes.bundled_home()
    made = first.stat().st_ctime_ns

    assert runtimes.bundled_home() == first
    assert first.stat().st_ctime_ns == made


def test_a_draft_that_comes_second_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    home, runtime = runtimes.bundled_home(), runtimes._runtime()
    assert runtime is not None
    exists = Path.exists
    blind = iter([True])  # to the first look only
    monkeypatch.setattr(Path, "exists", lambda path: not next(blind, False) and exists(path))

    assert runtimes._made(home, lambda draft: runtimes._link_java(draft, runtime)) == home
    assert list(home.parent.iterdir()) == [home]


def test_where_the_cache_cannot_be_written_a_temporary_folder_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert runtimes.java_version(runtimes.bundled_home() / "bin" / "java") == 21


@every("given", [None, ""])
def test_the_cache_is_in_the_home_folder_unless_it_has_a_place(
    given: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if given is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert runtimes._cache() == tmp_path / ".cache" / "rowbus"


def test_the_cache_is_closed_to_others(tmp_path: Path) -> None:
    runtimes.bundled_home()

    assert stat.S_IMODE((tmp_path / "cache" / "rowbus").stat().st_mode) == 0o700


def test_without_the_wheel_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "_runtime", lambda: None)

    with pytest.raises(ConfigurationError, match=r"JAVA_HOME.*pip install .*\[spark\]"):
        runtimes.provide_java()


@every(
    "master, chosen",
    [
        ("local[2]", {}),
        ("local[2]", {"SPARK_HOME": "/opt/spark"}),
        ("local[2]", {"PYSPARK_PYTHON": "/x"}),
        ("yarn", {}),
    ],
)
def test_only_a_local_spark_with_nothing_chosen_does_without_pyspark_as_a_zip_file(
    master: str, chosen: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)

    runtimes.provide_python(master)

    home = os.environ.get("SPARK_HOME")
    assert os.environ["PYSPARK_PYTHON"] == chosen.get("PYSPARK_PYTHON", sys.executable)
    if chosen or master == "yarn":
        assert home == chosen.get("SPARK_HOME")
    else:
        assert Path(home or "", "bin", "spark-submit").exists()
        assert not Path(home or "", "python").exists()


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_a_java_that_ends_while_spark_starts_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*_given: object, **_settings: object) -> None:
        raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr(rowbus.spark, "session", session)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(StorageError) as raised:
        start_spark("lake", cores="1", memory="1g")
    assert str(raised.value) == JAVA_ENDED
    assert signal.getsignal(signal.SIGINT) is before
