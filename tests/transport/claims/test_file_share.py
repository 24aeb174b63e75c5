"""The file share: values in folders of hours, nothing outside of them, and a purge by age."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

import rowbus
from rowbus.errors import ClaimNotFoundError, Unrecoverable
from rowbus.transport.claims.file_share import FileShare
from tests.fixtures.every import every

DAY = 86_400


def made(share: FileShare, path: str, days: float) -> Path:
    """Write a file that is so many days old, as its folder is."""
    file = share.folder / path
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"1")
    for aged in (file, file.parent):
        os.utime(aged, times=(time.time() - days * DAY,) * 2)
    return file


def test_a_value_comes_back_by_its_key_and_each_has_its_own(share: FileShare) -> None:
    keys = [share.put(b"1"), share.put(b"1"), share.put(b"2")]
    assert len(set(keys)) == 3
    assert [share.get(key) for key in keys] == [b"1", b"1", b"2"]


@every(
    "key",
    [
        "",
        "..",
        "../secret",
        "..\\secret",
        "a/../../secret",
        "/etc/passwd",
        "\\\\host\\file",
        "c:\\file",
        "a//b",
        "a\0",
    ],
)
def test_a_key_leads_to_nothing_outside_of_the_folder(tmp_path: Path, key: str) -> None:
    (tmp_path / "secret").write_bytes(b"1")
    (tmp_path / "share" / "a").mkdir(parents=True, exist_ok=True)
    with pytest.raises(Unrecoverable, match="leads out"):
        FileShare(tmp_path / "share").get(key)


def test_a_link_leads_to_nothing_outside_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"1")
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(Unrecoverable, match="leads out"):
        FileShare(tmp_path / "share").get("link")


def test_a_missing_value_says_where_it_was_looked_for(share: FileShare) -> None:
    with pytest.raises(ClaimNotFoundError, match=str(share.folder / "a" / "b")) as missing:
        share.get("a\\b")
    assert missing.value.key == "a\\b"


def test_old_values_are_purged_and_nothing_else(share: FileShare) -> None:
    old = made(share, "2026-11-01_07/old", days=9)
    others = [
        made(share, "2026-11-02_07/a", days=9),
        made(share, "other/old", days=9),
        made(share, "2026-11-23_07/new", days=1),
    ]
    others[0].unlink()

    assert share.purge(older_than=timedelta(days=7)) == 1

    assert not old.exists()
    assert [other.exists() for other in others] == [False, True, True]
    assert share.purge(older_than=timedelta(days=7)) == 0


def test_nothing_is_purged_that_a_link_leads_to(share: FileShare, tmp_path: Path) -> None:
    other = FileShare(tmp_path / "others")
    other.folder.mkdir()
    kept = [made(other, "other/old", days=9), made(other, "elsewhere", days=9)]
    (share.folder / "2026-11-01_07").symlink_to(kept[0].parent, target_is_directory=True)
    link = made(share, "2026-11-02_07/old", days=9).with_name("link")
    link.symlink_to(kept[1])
    share.purge(older_than=timedelta(days=7))
    assert [file.exists() for file in kept] == [True, True]


def test_the_folder_of_an_hour_goes_when_it_is_empty_and_old(share: FileShare) -> None:
    folder = made(share, "2026-11-01_07/old", days=9).parent
    share.purge(older_than=timedelta(days=7))
    assert folder.exists()  # its file went just now
    os.utime(folder, times=(time.time() - 9 * DAY,) * 2)
    share.purge(older_than=timedelta(days=7))
    assert not folder.exists()


def test_a_share_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        rowbus.FileShare(tmp_path / "nowhere").put(b"1")
