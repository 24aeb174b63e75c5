"""Every mutant can still be made: the texts that it replaces are in the product, and what they become is Python."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS
from tests.chaos.mutants import MUTANTS, SRC, Edit, Mutant
from tests.fixtures.every import every


@every("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made(mutant: Mutant, tmp_path: Path) -> None:
    for name in {edit.file for edit in mutant.edits}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SRC / name, tmp_path / name)

    for edit in mutant.edits:
        edit.apply(tmp_path)

    assert mutant.fault in FAULTS
    for edit in mutant.edits:
        if edit.file.endswith(".py"):
            ast.parse((tmp_path / edit.file).read_text("utf-8"))


def test_a_text_that_is_not_there_is_no_mutant(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("something else")

    with pytest.raises(ValueError, match="has 0 times"):
        Edit("a.py", "old", "new").apply(tmp_path)
