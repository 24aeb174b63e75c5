"""`tools/citations.py` fails on what is cited and does not exist, and on nothing else."""

from __future__ import annotations

from tests.fixtures.every import every
from tools.citations import faults_in, files, python_comments

DEAD = [
    "see docs/nowhere.md",
    "see docs/index.md#nowhere",
    "docs/reference/api.md has it",
    "decision 9999 says why",
    "docs/decisions/0001-something-else.md",
    "Decisions/9999",
    "as reference §4.1 says",
    "rows are kept (§7)",
    "reference/pgq.md has the list",
    "the limits are those of shared/reference",
    "proved by tests/repository/test_docs.py::test_nothing_at_all",
    "proved by tests/nowhere/test_docs.py::test_nothing_is_left_to_do",
    "the columns of `nowhere.sql`",
    "as layers/nowhere.py does",
]

ALIVE = [
    "see docs/index.md#how-to, and docs/decisions",
    "decision 0001 says why; so does docs/decisions/0001-embedded-server.md",
    "proved by tests/repository/test_docs.py::test_nothing_is_left_to_do",
    "the statement transport/queues/peek.sql, and peek.sql for short",
    "tests/repository/test_docs.py and repository/test_docs.py",
    "https://www.postgresql.org/docs/18/nowhere.md",
    "`spark.sql.shuffle.partitions`",
    "[the options](../reference/spark-options.md)",
    "this decision of 2026 was taken in 0 ms",
    "every *.sql below",
]


@every("line", DEAD)
def test_a_dead_citation_is_found(line: str) -> None:
    assert list(faults_in(line, comment=True)) != []


@every("line", ALIVE)
def test_a_citation_of_what_exists_is_none_of_its_business(line: str) -> None:
    assert list(faults_in(line, comment=True)) == []


def test_paths_in_code_are_data() -> None:
    assert list(faults_in('write("made.sql")', comment=False)) == []


def test_comments_and_docstrings_are_read() -> None:
    text = '"""First.\n\nSecond."""\n\nNAME = "code"  # third\n"""Fourth."""\n'

    assert [line for _, line in sorted(python_comments(text))] == [
        '"""First.',
        "",
        'Second."""',
        "# third",
        '"""Fourth."""',
    ]


def test_the_files_of_the_repository_are_found() -> None:
    assert {"Makefile", "docs/index.md", "tools/citations.py"} <= set(files())
