"""`tools/citations.py` fails on what is cited and does not exist, and on nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures.every import every
from tests.fixtures.places import ROOT
from tools.architecture import faults_of_tree, in_code_type
from tools.citations import faults_in, faults_in_code_type, files, python_comments
from tools.code_names import dead_names

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


@every("code", ["nowhere.sql", "log/nowhere.py", "log/consuming/", "nowhere/"])
def test_what_a_page_about_the_code_has_in_code_type_and_is_not_there_is_found(code: str) -> None:
    assert list(faults_in_code_type(code)) != []


@every("code", ["log/ticker/", "look.sql", "coop/next_batch.sql", "*.sql", "log/sql/postgresql/", "pgq.tick"])
def test_what_a_page_about_the_code_has_in_code_type_and_is_there_is_left_alone(code: str) -> None:
    assert list(faults_in_code_type(code)) == []


def test_code_type_is_read_outside_of_programs() -> None:
    text = "`first` and\n```\n`second`\n```\n`third`\n"

    assert list(in_code_type(text)) == [(1, "first"), (5, "third")]


def test_a_tree_shows_what_is_there_and_every_folder(tmp_path: Path) -> None:
    for folder in ("log", "log/ticker", "log/sql", "web"):
        (tmp_path / folder).mkdir()
    for module in ("log/__init__.py", "log/ticker/__init__.py", "web/__init__.py", "client.py"):
        (tmp_path / module).touch()
    tree = "├── log/       the log\n│   ├── ticking/   ticker\n├── client.py  clients\n└── servant.py\n"

    assert list(faults_of_tree(tree, tmp_path)) == [
        "the tree shows log/ticking/, which is not there",
        "the tree shows servant.py, which is not there",
        "the tree leaves out web/",
        "the tree leaves out log/ticker/",
    ]


CLIENT = ROOT / "src" / "rowbus" / "transport" / "client.py"


@every(
    "line",
    [
        "see `services`",
        "raises as `services.preparing`",
        "equal sends collapse (`model.dispatch`)",
        "see `dispatch.nowhere`",
        "as `Client.nowhere`",
    ],
)
def test_a_dead_name_of_code_is_found(line: str) -> None:
    assert list(dead_names(line, CLIENT)) != []


@every(
    "line",
    [
        "raises as `preparation.prepare`, see `installer`",
        "equal sends collapse (`messages.dispatch`, `dispatch.deduplicate`)",
        "as `Client.send` and `AsyncClient.send`",
        "see `transaction`, and `connection.cursor`",
        "`Shop.Sales`, `pgq.tick`, `time.monotonic()` and `store.sql` are none of our names",
    ],
)
def test_a_name_of_what_exists_or_is_not_ours_is_none_of_its_business(line: str) -> None:
    assert list(dead_names(line, CLIENT)) == []


def test_the_files_of_the_repository_are_found() -> None:
    assert {"Makefile", "docs/index.md", "tools/citations.py"} <= set(files())
