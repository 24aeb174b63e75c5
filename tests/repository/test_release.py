"""A release: a wheel and an sdist with the version of their tag, the same byte for byte each time, and their bill."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.fixtures.every import every
from tests.fixtures.places import ROOT
from tools import sbom
from tools.version import UNRELEASED, version_of

EPOCH = "1700000000"
GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")


@every(
    "described, version",
    [
        ("v1.2.3-0-gabcdef0", "1.2.3"),
        ("v1.2.3-5-gabcdef0", "1.2.4.dev5"),
        ("v1.3.0rc1-0-gabcdef0", "1.3.0rc1"),
        ("v1.3.0rc1-2-gabcdef0", "1.3.0rc2.dev2"),
        ("", UNRELEASED),
        ("version-of-somebody-else-3-gabcdef0", UNRELEASED),
    ],
)
def test_a_version_is_that_of_its_tag_or_of_a_development_after_it(described: str, version: str) -> None:
    assert version_of(described) == version


# ------------------------------------------------------------------------------------------------------------- builds


def run(*command: str, where: Path, umask: int = 0o022, timeout: float = 240, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=where,
        env={**os.environ, **environment},
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checkout(folder: Path, tag: str) -> Path:
    """Copy what git has of this repository, changes too, to a repository of its own with a tag."""
    files = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", where=ROOT)
    for name in files.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)  # with the time of now
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", tag), ("tag", tag)):
        run(*GIT, *command, where=folder)
    return folder


def build(folder: Path, umask: int) -> dict[str, bytes]:
    """Build a wheel and an sdist as CONTRIBUTING.md does, and give their bytes by their names."""
    run(
        *(sys.executable, "-m", "build", "--no-isolation"),
        where=folder,
        umask=umask,
        SOURCE_DATE_EPOCH=EPOCH,
    )
    return {file.name: file.read_bytes() for file in (folder / "dist").iterdir()}


def release(folder: Path) -> dict[str, bytes]:
    """Have `make release` build everything, in this environment as it is."""
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / ".git/info/exclude").write_text(".venv\n", encoding="utf-8")
    as_installed = ("-o", ".venv/dev.stamp")  # nothing is installed into it
    run("make", "release", *as_installed, where=folder, timeout=500, SOURCE_DATE_EPOCH=EPOCH)
    return {file.name: file.read_bytes() for file in (folder / "dist").iterdir()}


def test_what_is_no_tag_is_no_release(tmp_path: Path) -> None:
    shutil.copyfile(ROOT / "Makefile", tmp_path / "Makefile")
    for command in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("commit", "--quiet", "-m", "x"),
        ("tag", "v9.8.7"),
    ):
        run(*GIT, *command, where=tmp_path)
    run("make", "is-tagged", where=tmp_path)

    (tmp_path / "more").touch()
    with pytest.raises(AssertionError, match="A release is made of a tag, without changes beside it"):
        run("make", "is-tagged", where=tmp_path)


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.timeout(900)  # two builds, each of an sdist and of a wheel from that
def test_two_builds_of_a_tag_are_equal_pass_twines_check_and_can_be_installed(tmp_path: Path) -> None:
    here, there = checkout(tmp_path / "here", "v9.8.7"), checkout(tmp_path / "there" / "below", "v9.8.7")

    made = release(here)

    beside = {"Containerfile", "rowbus-9.8.7.cdx.json", "rowbus-chart.tgz", "rowbus-site.tar.gz"}
    built = {name: content for name, content in made.items() if name not in beside}
    assert sorted(built) == ["rowbus-9.8.7-py3-none-any.whl", "rowbus-9.8.7.tar.gz"]
    assert made.keys() == built.keys() | beside
    assert build(there, umask=0o077) == built
    with tarfile.open(fileobj=io.BytesIO(made["rowbus-chart.tgz"])) as chart:
        (about,) = (chart.extractfile(each) for each in chart if each.name == "rowbus/Chart.yaml")
        assert about is not None
        assert about.read().count(b"ersion: 9.8.7\n") == 2
    files = [str(here / "dist" / name) for name in built]
    run(sys.executable, "-m", "twine", "check", "--strict", *files, where=here)

    target = tmp_path / "installed"
    quiet = ("-m", "pip", "--disable-pip-version-check", "--quiet")
    run(
        sys.executable,
        *quiet,
        "install",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
        files[0],
        where=here,
    )
    ask = "import rowbus; print(rowbus.__version__, rowbus.__file__)"
    printed = run(sys.executable, "-c", ask, where=tmp_path, PYTHONPATH=str(target)).split()

    assert printed == ["9.8.7", str(target / "rowbus" / "__init__.py")]


# --------------------------------------------------------------------------------------------- the bill of materials


def test_the_bill_names_the_wheel_and_every_package_it_was_tested_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    wheel = tmp_path / "rowbus-9.8.7-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")

    bill = sbom.bill(wheel)

    asked = {re.match(r"[\w-]+", line)[0] for line in requirements()}  # type: ignore[index]  # begins with its name
    named = {component["name"]: component for component in bill["components"]}
    product = bill["metadata"]["component"]
    assert asked <= named.keys()
    assert "hatchling" not in named
    assert all(component["hashes"] for component in named.values())
    assert (product["purl"], product["hashes"][0]["content"]) == (
        "pkg:pypi/rowbus@9.8.7",
        hashlib.sha256(b"a wheel").hexdigest(),
    )
    assert bill["dependencies"][0]["dependsOn"] == sorted(one["purl"] for one in named.values())
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert json.dumps(sbom.bill(wheel)) == json.dumps(bill)


def requirements() -> list[str]:
    """Return what the wheel asks for, with its extras embedded and spark."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *extras["embedded"], *extras["spark"]]
