"""The documentation names nothing that is not there, and leaves out nothing that should be in it.

What its programs and commands do is tested in tests/repository; here it is only about words: links, commands, options,
settings, names, variables, files.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import rowbus
import rowbus.spark
from rowbus import cli, errors, servicecontrol, testing
from rowbus.messages.headers import Header
from rowbus.platform.forms import SAGA_UPDATED
from rowbus.spark import pipelines
from rowbus.spark.options import Option
from rowbus.spark.sink.writer import TARGETS
from rowbus.transport.pubsub.publication import EVERY_EVENT
from rowbus.transport.queues.reserved_names import SERVICECONTROL
from tests.fixtures.every import every
from tests.fixtures.places import ROOT
from tests.repository.pages import blocks, commands
from tools import docs_reference

DOCS = ROOT / "docs"
COMMAND = get_command(cli.app)
TOP = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES = [*TOP, *sorted(DOCS.rglob("*.md"))]
REFERENCE = {
    DOCS / "reference" / f"{name}.md" for name in docs_reference.SUBJECTS
}  # made when the site is built

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
INLINE_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FILE = re.compile(r"(?:src|tests|docs|examples|benchmarks|tools|requirements)/[\w./-]*\w/?")
OTHERS_WORDS = {
    "ParentBasedTraceIdRatio",  # of OpenTelemetry's SDK
    "encrypt",  # of Microsoft's driver
    "ProcessInline",  # of Wolverine
    "Respond",
    "ToSender",
    "RegisterInteropMessageAssembly",
    "trusted_owners",  # a setting of PostgreSQL's sessions
    "DateStyle",
    "IntervalStyle",
    "AsyncConnection",
    "EncryptedString",
    "FullName",
    "MaxRecordsToPeek",
    "ReceiveOnly",
    "SendsAtomicWithReceive",
    "TimeSpan",
    "TablePrefix",  # a setting of NServiceBus.Persistence.Sql
    "StartLimitBurst",  # of systemd
    "TransactionScope",
    "autovacuum_naptime",
    "default_pool_size",
    "pg_upgrade",
    "ev_data",  # and the rest: arguments of PgQ's triggers
    "ev_type",
    "pgq_coop_test",  # a test of PgQ's own
    "ignore",
    "mask",
    "passfile",  # and the next ones: of connection strings
    "safe",
    "server_certificate",
    "service",
    "sslmode",
    "sslrootcert",
    "op",  # a column of an example
    "pkey",
    "when",
    "client_connection_check_interval",
    "idle_in_transaction_session_timeout",
    "max_prepared_statements",
    "hours",
    "minutes",
    "nil",  # an attribute of XML
    "prepare_threshold",
    "serialize_by_alias",
    "max_standby_streaming_delay",
    "tcp_keepalives_idle",
    "application_name",
    "connect_timeout",
    "primary_conninfo",
    "synchronous_commit",
    "target_session_attrs",
    "pg_signal_backend",
    "StreamingQueryProgress",
    "lifespan",  # of web frameworks
    "with_for_update",  # of SQLAlchemy
    "after_commit",
    "after_rollback",
    "TestCase",  # and `durable`: of Django
    "days",
    "durable",
}
"""Names in code type of PostgreSQL, PgBouncer, psycopg, pydantic, Spark or .NET, and nowhere in our code."""

OTHERS_NAMES = {
    "rowbus.iceberg",  # a table in an example's catalogue
    "rowbus.trusted_owners",  # a setting of PostgreSQL's sessions, which `owners.sql` reads
    "rowbus.message_id",  # another, which a transaction's cause is said with
}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def inline(page: Path) -> list[str]:
    """Return what a page has in code type; where words are translated, not the others', in the first columns."""
    text = prose(page)
    if page.name.startswith("coming-from-"):
        text = re.sub(r"^\|[^|\n]*\|", "|", text, flags=re.MULTILINE)
    return INLINE_CODE.findall(text)


@cache
def reference() -> dict[str, str]:
    return docs_reference.pages()


each_page = every("page", PAGES, ids=name_of)


# ------------------------------------------------------------------------------------------------------------- links


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub and its like make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page

        assert file.exists() or file in REFERENCE, target
        assert not anchor or file in REFERENCE or anchor in anchors(file), (
            target
        )  # the site's build checks the rest


@every("page", TOP, ids=name_of)
def test_no_page_at_the_top_links_to_what_is_only_on_the_site(page: Path) -> None:
    assert [
        target
        for target in LINK.findall(prose(page))
        if target.startswith("docs/") and "reference" in target.split("/")
    ] == []


def test_the_table_of_contents_leads_to_every_page() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in LINK.findall(prose(index))}

    written = {page for page in DOCS.rglob("*.md") if page != index and page.parent not in linked}
    assert written | REFERENCE <= linked


# -------------------------------------------------------------------------------------------------------- what exists


@each_page
def test_every_file_named_exists(page: Path) -> None:
    named = {code for code in inline(page) if FILE.fullmatch(code)}

    assert {
        code for code in named if not (ROOT / code).exists() and not (ROOT / "src" / "rowbus" / code).exists()
    } == set()


@each_page
def test_every_make_target_named_exists(page: Path) -> None:
    targets = set(
        re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    typed = [*inline(page), *(line for line in command_lines(page))]
    named = {match[1] for code in typed if (match := re.match(r"make (?:[A-Z]+=\S+ )*([a-z0-9-]+)", code))}

    assert named <= targets


@each_page
def test_every_environment_variable_named_is_read(page: Path) -> None:
    named = set(re.findall(r"\bROWBUS_[A-Z_]+\b", page.read_text(encoding="utf-8")))

    assert named <= variables_read()


@cache
def variables_read() -> frozenset[str]:
    sources = [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
    ]
    return frozenset(
        name
        for source in sources
        for name in re.findall(r"\"(ROWBUS_[A-Z_]+)\"", source.read_text(encoding="utf-8"))
    )


@each_page
def test_every_header_named_exists(page: Path) -> None:
    known = {value for name, value in vars(Header).items() if name.isupper()} | {
        *EVERY_EVENT,
        *SERVICECONTROL,
        SAGA_UPDATED,
    }
    named = {code for code in inline(page) if re.fullmatch(r"(NServiceBus|ServiceControl)\.[\w.]+", code)}

    assert {code for code in named if not any(value.startswith(code) for value in known)} == set()


@each_page
def test_every_dotted_name_of_ours_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w./:-])rowbus(?:\.\w+)+", text))

    assert {name for name in named if not resolves(name)} == set()


def resolves(name: str) -> bool:
    """Say whether a dotted name is that of a module, something in it, or a logger, a file or a check of ours."""
    if (
        name in loggers() | check_ids()
        or name in OTHERS_NAMES
        or name.endswith((".py", ".lock", ".md", ".stamp"))
    ):
        return True
    found: Any = rowbus
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except (ImportError, AttributeError):
                return part in field_names(found)
        else:
            found = getattr(found, part)
    return True


def field_names(owner: object) -> set[str]:
    return set(getattr(owner, "__dataclass_fields__", ()))


@cache
def loggers() -> frozenset[str]:
    return frozenset(
        name
        for source in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"getLogger\(\"([\w.]+)\"\)", source.read_text(encoding="utf-8"))
    )


@cache
def check_ids() -> frozenset[str]:
    checks = (ROOT / "src/rowbus/django/checks.py").read_text(encoding="utf-8")
    return frozenset(re.findall(r'id="(rowbus\.[EW]\d+)"', checks))


@each_page
def test_every_name_in_code_type_is_in_the_code(page: Path) -> None:
    named = {code for code in inline(page) if re.fullmatch(r"[a-z]+(?:_[a-z]+)+|(?:[A-Z][a-z]+){2,}", code)}
    in_programs = {
        word for block in blocks(page.read_text(encoding="utf-8")) for word in re.findall(r"\w+", block.text)
    }

    assert named - words_in_code() - in_programs - OTHERS_WORDS == set()


@cache
def words_in_code() -> frozenset[str]:
    folders = [
        ("src", "*.py"),
        ("src", "*.sql"),
        ("tests", "*.py"),
        ("benchmarks", "*.py"),
        (".", "pyproject.toml"),
    ]
    files = [
        file
        for folder, pattern in folders
        for file in (ROOT / folder).glob(f"**/{pattern}")
        if file != Path(__file__)
    ]
    return frozenset(word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8")))


@each_page
def test_every_setting_and_parameter_that_is_given_a_value_exists(page: Path) -> None:
    given = {
        match[1] for code in inline(page) for match in re.finditer(r"(?<![-\w])([a-z]+(?:_[a-z]+)*)=", code)
    }

    assert given - public_words() - OTHERS_WORDS == set()


@cache
def public_words() -> frozenset[str]:
    """Return all names below our public ones: functions, their parameters, methods, attributes, settings."""
    found: set[str] = set()
    for module in (rowbus, errors, servicecontrol, rowbus.spark, pipelines, testing):
        for name in getattr(module, "__all__", dir(module)):
            found |= {name, *words_of(getattr(module, name))}
    return frozenset(found | spark_options())


def words_of(value: object) -> Iterator[str]:
    if inspect.isclass(value):
        yield from getattr(value, "__annotations__", ())
        for name, member in inspect.getmembers(value):
            yield name
            if callable(member):
                yield from parameters(member)
    if callable(value):
        yield from parameters(value)


def parameters(value: Any) -> Iterator[str]:  # noqa: ANN401 - whatever can be called
    try:
        yield from inspect.signature(value).parameters
    except (TypeError, ValueError):
        return


# ----------------------------------------------------------------------------------------------------- Spark's options


@cache
def spark_options() -> frozenset[str]:
    """Return the names of all options of `format("rowbus")`, as the modules declare them."""
    found: set[str] = set()
    files = (ROOT / "src" / "rowbus" / "spark").glob("*/options.py")
    for name in (*(f"rowbus.spark.{file.parent.name}.options" for file in files), *TARGETS.values()):
        module = importlib.import_module(name)
        tables = [value for value in vars(module).values() if isinstance(value, tuple)]
        found |= {one.name for table in tables for one in table if isinstance(one, Option)}
    return frozenset(found)


def test_every_spark_option_is_in_the_reference() -> None:
    text = reference()["spark-options"]

    assert {name for name in spark_options() if f"\n| `{name}` |" not in text} == set()
    assert len(spark_options()) > 20


SPARKS_OPTION = {"checkpointLocation", "mergeSchema", "path", "queryName"}


@each_page
def test_every_spark_option_given_in_a_program_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    given = set(re.findall(r"\.option\(\"(\w+)\"", text))

    assert given - spark_options() - SPARKS_OPTION == set()


# ---------------------------------------------------------------------------------------------------------- commands


def command_lines(page: Path) -> Iterator[str]:
    """Give what the blocks of a page have the reader type."""
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "console":
            yield from (command.line for command in commands(block.text))
        elif block.kind == "sh":
            yield from block.text.replace("\\\n", " ").splitlines()


@each_page
def test_every_command_named_exists_with_its_options(page: Path) -> None:
    typed = [line for line in (*command_lines(page), *inline(page)) if re.search(r"(?:^|\| )rowbus ", line)]

    for line in typed:
        check_command(re.sub(r"^.*?(?:^|\| )rowbus ", "", line, flags=re.DOTALL).split(" | ")[0])


def check_command(line: str) -> None:
    """Fail if a command line after `rowbus ` has a verb or an option that does not exist."""
    command: Any = COMMAND
    options = option_names(command)
    words = shlex.split(line.replace("…", ""), comments=True)
    for word, following in pairwise([*words, ""]):
        if isinstance(command, TyperGroup) and not word.startswith("-"):
            if f"{word} {following}" in command.commands:
                word = f"{word} {following}"  # noqa: PLW2901 - the second is then no option
            if word not in command.commands:
                pytest.fail(f"rowbus {line}: there is no command {word!r}")
            command = command.commands[word]
            options |= option_names(command)
        elif word.startswith("-") and word != "-":
            assert word.partition("=")[0] in options, f"rowbus {line}: there is no option {word}"


def option_names(command: Any) -> set[str]:  # noqa: ANN401 - typer brings its own click, or uses the one installed
    params = command.params
    names = {name for one in params for name in (*one.opts, *getattr(one, "secondary_opts", ()))}
    return names | {"--help", "-h"}


def test_a_command_that_does_not_exist_is_noticed() -> None:
    check_command("queue peek Sales --limit 3")

    for line in ("queue eat Sales", "queue peek Sales --colour=red", "drink"):
        with pytest.raises((pytest.fail.Exception, AssertionError)):
            check_command(line)


# ------------------------------------------------------------------------------------------------------- completeness


def test_every_setting_is_explained_somewhere_besides_the_reference() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)

    assert [field.name for field in fields(rowbus.EndpointSettings) if field.name not in text] == []


@every(
    "name",
    [
        f"{module.__name__}.{name}"
        for module in (rowbus, servicecontrol, rowbus.spark, pipelines, testing)
        for name in module.__all__
    ],
)
def test_every_exported_name_is_in_the_reference_once(name: str) -> None:
    """The build fails on an entry that mkdocstrings cannot describe."""
    entries = re.findall(r"^::: (.+)$", "\n".join(reference().values()), flags=re.MULTILINE)

    assert entries.count(name) == 1


def test_every_command_is_in_the_reference() -> None:
    headings = set(re.findall(r"^#+ `(.+)`$", reference()["cli"], flags=re.MULTILINE))

    assert set(command_paths(get_command(cli.app), "rowbus")) - {"rowbus"} == headings


def command_paths(command: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - as above
    yield path
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            if not child.hidden:
                yield from command_paths(child, f"{path} {name}")


@every("name", sorted(docs_reference.FOR_OTHER_FOLDERS))
def test_what_is_for_other_folders_alone_exists_and_is_on_no_page(name: str) -> None:
    members = docs_reference.FOR_OTHER_FOLDERS[name]
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES if "architecture" not in page.parts)

    assert [
        member for member in members if not hasattr(getattr(rowbus, name.partition(".")[2]), member)
    ] == []
    assert [member for member in members if f"{name}.{member}" in text] == []


def internal(file: Path) -> bool:
    """Say whether a file of SQL is for the schema, the demo or the tests themselves."""
    folder = file.relative_to(ROOT / "src" / "rowbus").parts[0]
    return file.name.startswith("_") or folder in {"demo", "testing"}


def test_the_long_pages_begin_with_contents_that_lead_to_every_section() -> None:
    for name, sections in (("api", r"^::: (rowbus\.\w+)$"), ("sql", r"^## (.+)$")):
        contents = reference()[name].partition("\n## ")[0]
        linked = set(re.findall(r"\]\(#([^)]+)\)", contents))
        found = re.findall(sections, reference()[name], flags=re.MULTILINE)

        assert linked == {section.replace("/", "") for section in found}


def test_every_sql_file_is_in_the_reference_with_its_header() -> None:
    sections = re.split(r"^## ", reference()["sql"], flags=re.MULTILINE)[1:]
    found = {
        (part.splitlines()[0], name)
        for part in sections
        for name in re.findall(r"^### (.+)$", part, re.MULTILINE)
    }
    files = [file for file in (ROOT / "src" / "rowbus").rglob("*.sql") if not internal(file)]

    assert found == {(str(file.parent.relative_to(ROOT / "src" / "rowbus")), file.name) for file in files}
    assert re.findall(r"^### .+\n\n(?:#|Takes)", reference()["sql"], flags=re.MULTILINE) == []


@every("name", sorted(docs_reference.SUBJECTS))
def test_a_reference_page_has_its_title_and_no_list_cut_short(name: str) -> None:
    page = reference()[name]

    assert page.startswith(f"# {docs_reference.SUBJECTS[name]}\n")
    assert re.findall(r"^\* `\w+`: .*\.\.\.$", page, flags=re.MULTILINE) == []


def test_the_reference_is_the_same_every_time() -> None:
    assert docs_reference.pages() == reference()


def test_every_environment_variable_in_the_reference_is_read() -> None:
    named = set(re.findall(r"\bROWBUS_[A-Z_]+\b", "\n".join(reference().values())))

    assert named <= variables_read()


@each_page
def test_nothing_is_left_to_do(page: Path) -> None:
    assert re.findall(r"\b(?:TODO|FIXME|TBD|XXX)\b", page.read_text(encoding="utf-8")) == []


DENIALS = {
    "visibility timeout": "visibility_timeout",
    "compaction": "compacted",
    "schema registry": "schema_registry",
    "stalled jobs": "heartbeat_interval",
    "TransactionScope": "transaction_scope_timeout",
}
"""Features that pages say Rowbus lacks, with the word of Python's that each would have."""

DENIAL = re.compile(r"\| none|\bnot yet\b|[Tt]here (?:is|are) none\b|; no `", re.IGNORECASE)
ADVISING = [DOCS / "faq.md", *sorted((DOCS / "how-to").glob("coming-from-*.md"))]


def test_what_pages_deny_is_not_there() -> None:
    """Pages that people read first who compare products."""
    there = (ROOT / "tests" / "approved" / "public_api.txt").read_text(encoding="utf-8")
    denied = [
        line
        for page in ADVISING
        for line in page.read_text(encoding="utf-8").splitlines()
        if DENIAL.search(line)
    ]

    unlisted = [line for line in denied if not any(what.lower() in line.lower() for what in DENIALS)]
    outdated = [what for what, word in DENIALS.items() if re.search(rf"\b{word}\b", there)]
    assert (unlisted, outdated) == ([], [])
    assert all(any(what.lower() in line.lower() for line in denied) for what in DENIALS)
