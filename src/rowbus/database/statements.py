"""Statements made of SQL files, and the steps of operations that take several.

A file runs unchanged in psql: `:"name"` is an identifier, `:'name'` a value. Loading quotes the identifiers through
the driver and leaves the values to it as parameters. A table's method returns a `Statement`; a connection, sync or
async, runs it, so that each operation is written once.

Operations of several statements are generators, which yield statements that a session of either kind runs. A coroutine
waits only in what it awaits: given a synchronous session as a `BlockingSession`, whose methods block instead, it runs
from its beginning to its end in one go, without an event loop.

Invariants: this is the only place that vouches for SQL text, and nothing is ever formatted into it; steps decide and do
no I/O, the session runs, and an error of a statement ends them; a coroutine that is given a synchronous session never
gives control to an event loop, also where one runs in the thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from psycopg import sql

from rowbus.errors import ConnectionLostError
from rowbus.messages.address import refuse_nul

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Coroutine, Iterable
    from contextlib import AbstractAsyncContextManager, AbstractContextManager


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Row = tuple[Any, ...]  # columns have the types their decoder states; the driver cannot know them
Rows = Sequence[Row]
Decode = Callable[[Rows, int], T]

TEXTS_KEPT = 1024  # bound files that are remembered: some of an endpoint's, of a log's and of each queue's
_PLACEHOLDER = re.compile(r""":"(?P<identifier>\w+)"|:'(?P<value>\w+)'""")
# No SQL text holds it, quoted or not: it keeps values apart from what was quoted into the text.
_MARK = "\x00"
_VALUE = re.compile(rf"{_MARK}(?P<value>\w+){_MARK}(?P<cast>::text\[\])?")
_PARAMETER = re.compile(r"%\((\w+)\)s|%%")
_TOKEN = (
    re.compile(  # strings and comments, which may hold a semicolon, and the semicolon that ends a statement
        r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"[^"]*"|(?P<dollar>\$\w*\$).*?(?P=dollar)|;""", re.DOTALL
    )
)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_REPEATED = re.compile(r"/\* each \*/(.*?)/\* end \*/", re.DOTALL)

Pairs = tuple[tuple[str, T], ...]

Steps = Generator["Statement[Any]", Any, T]  # statements to run, each answered with what it decoded


class Text(NamedTuple):
    """The text of one SQL file with the driver's placeholders and with the server's, and the names of its values.

    `text_lists` are the values that the file casts to `text[]` in every place.
    """

    driver: bytes
    native: bytes
    names: tuple[str, ...]
    text_lists: frozenset[str] = frozenset()


Bind = Callable[[str, Pairs[str], Pairs[object]], Text]


class Query(NamedTuple):
    """The text of one SQL file, bound to its identifiers; ready for the driver.

    `text` has the driver's placeholders, `native` the server's, for the values called `names`, of which `text_lists`
    are lists of texts to the server.
    `failing` begins the message of any error ("Failed to send message to …"); `queue` names the table whose absence
    is a `QueueNotFoundError`, `log` the log whose absence is a `LogNotFoundError`, `remedy` says what to do when
    another table is missing; `prepare` keeps the parsed statement on the server, where the connection allows it;
    `adaptation` names the query for tables that lack a column this one needs; `by_index` has PostgreSQL plan it by an
    index where a session keeps plans or sends several statements together.
    """

    text: bytes
    native: bytes
    names: tuple[str, ...]
    failing: str
    queue: str | None = None
    prepare: bool = True
    log: str | None = None
    remedy: str | None = None
    adaptation: Adaptation | None = None
    by_index: bool = False
    text_lists: frozenset[str] = frozenset()


class Statement(NamedTuple, Generic[T_co]):
    """One execution of a query: its parameters and how its rows are read."""

    query: Query
    parameters: Mapping[str, object]
    decode: Decode[T_co]


class Adaptation(NamedTuple):
    """Columns that a query needs, how to ask for those of its table, and the query for tables that lack them."""

    table: str
    """The table's qualified name, under which its columns are remembered."""
    probe: Statement[frozenset[str]]
    """Asks for the names of the columns, in small letters."""
    needs: frozenset[str]
    otherwise: Query


class Loader:
    """Makes queries of SQL files in one database's dialect. A text is bound once and remembered."""

    def __init__(self, bind: Bind) -> None:
        """Bind files in this way: path, identifiers and literals become a text."""
        self._bind = bind
        self._remembered = lru_cache(TEXTS_KEPT)(bind)

    def __call__(
        self,
        path: str,
        *,
        identifiers: Mapping[str, str] | None = None,
        literals: Mapping[str, object] | None = None,
        failing: str = "The database refused",
        queue: str | None = None,
        log: str | None = None,
        remedy: str | None = None,
        prepare: bool = True,
    ) -> Query:
        """Read a file by its path below `rowbus` and bind its identifiers; values remain parameters.

        `literals` are values written into the text, quoted, for DDL, which takes no parameters. Raises KeyError for an
        identifier that the file asks for and the call lacks.
        """
        values = tuple((literals or {}).items())
        can_be_kept = [isinstance(value, Hashable) for _, value in values]
        bind = self._remembered if all(can_be_kept) else self._bind
        driver, native, names, text_lists = bind(path, tuple((identifiers or {}).items()), values)
        return Query(driver, native, names, failing, queue, prepare, log, remedy, text_lists=text_lists)


def _bind(path: str, identifiers: Pairs[str], literals: Pairs[object]) -> Text:
    """Quote what is bound through the driver; leave values to it as parameters."""
    return _text(_quoted(path, dict(identifiers), dict(literals)))


def _quoted(path: str, identifiers: Mapping[str, str], literals: Mapping[str, object]) -> str:
    """Return a file's text with what is bound quoted into it, and its values between marks."""
    return _quote(source(path), identifiers, literals)


def _quote(text: str, identifiers: Mapping[str, str], literals: Mapping[str, object]) -> str:
    return _PLACEHOLDER.sub(lambda match: _bound(match, identifiers, literals), text)


def _bound(match: re.Match[str], identifiers: Mapping[str, str], literals: Mapping[str, object]) -> str:
    """Quote an identifier or a literal through the driver; leave the other values as they are."""
    if (name := match["identifier"]) is not None:
        if "\0" in (given := identifiers[name]):
            refuse_nul(name, given)
        return sql.Identifier(given).as_string(None)
    if (name := match["value"]) in literals:
        return sql.Literal(literals[name]).as_string(None)
    return f"{_MARK}{name}{_MARK}"


def _text(text: str) -> Text:
    """Write the placeholders of the driver and of the server in place of the marked values."""
    places = list(_VALUE.finditer(text))
    names = tuple(dict.fromkeys([place["value"] for place in places]))
    native = _VALUE.sub(lambda place: f"${names.index(place['value']) + 1}{place['cast'] or ''}", text)
    driver = _VALUE.sub(r"%(\g<value>)s\g<cast>", text.replace("%", "%%"))
    text_lists = frozenset(names) - {place["value"] for place in places if place["cast"] is None}
    return Text(driver.encode(), native.encode(), names, text_lists)


load = Loader(_bind)
"""Loads PostgreSQL's files."""


def load_for_each(path: str, identifiers: Sequence[Mapping[str, str]], last: str, *, failing: str) -> Query:
    """Make one statement that runs a file for each of these identifiers, at least one, and then the file `last`.

    All are parts of one WITH, and so in no order among themselves. A value that several name is given once. Nothing is
    remembered here.
    """
    parts = (f"part{number} as (\n{_quoted(path, each, {})}\n)" for number, each in enumerate(identifiers))
    text = f"with {', '.join(parts)}\n{_quoted(last, {}, {})}"  # both files quoted as ever; the rest is ours
    driver, native, names, text_lists = _text(text)
    return Query(driver, native, names, failing, text_lists=text_lists)


def load_upon(
    path: str,
    last: str,
    identifiers: Mapping[str, str],
    literals: Mapping[str, object],
    *,
    failing: str,
    queue: str,
) -> Query:
    """Make one statement that runs a file, and then the file `last` on the rows of that, which are its table "queue".

    `literals` are written into the last file, which may begin with a WITH of its own. Nothing is remembered here.
    """
    rows, after = (
        _quoted(path, identifiers, {}),
        _quoted(last, {**identifiers, "queue": "received"}, literals),
    )
    joint = "," if after.startswith("with ") else ""
    text = f"with received as (\n{rows}\n){joint}\n{after.removeprefix('with ')}"
    driver, native, names, text_lists = _text(text)
    return Query(driver, native, names, failing, queue, text_lists=text_lists)


def load_repeating(path: str, identifiers: Sequence[Mapping[str, str]], *, failing: str) -> Query:
    """Make one statement of a file whose part between `/* each */` and `/* end */` is there for each of some tables.

    The parts are a list, with commas between them. Nothing is remembered here.
    """
    before, each, after = _REPEATED.split(source(path))
    listed = ", ".join([_quote(each, names, {}) for names in identifiers])
    driver, native, names, text_lists = _text(f"{_quote(before, {}, {})}{listed}{_quote(after, {}, {})}")
    return Query(driver, native, names, failing, prepare=False, text_lists=text_lists)


def no_answer(query: Query, seconds: float) -> ConnectionLostError:
    """Return the error of a statement that the server did not answer in time."""
    return ConnectionLostError(
        f"{query.failing}: the server has not answered for {seconds:.0f} s; the connection was given up.",
        sqlstate=None,
        transient=True,
    )


def control(text: bytes, failing: str) -> Statement[None]:
    """Return a statement of transaction control, which has no file, no names and no values."""
    return Statement(Query(text, text, (), failing), {}, no_rows)


def load_script(path: str, *, failing: str) -> list[Query]:
    """Read a file of definitions and return its statements one by one, each word for word: no placeholders.

    For DDL, whose bodies are full of `::`, `:=` and `%`. A semicolon ends a statement unless it is quoted, in a
    comment or between dollar signs.
    """
    return [
        Query(text.replace("%", "%%").encode(), text.encode(), (), failing, None, prepare=False)
        for text in split_script(raw_source(path))
    ]


def split_script(text: str) -> list[str]:
    """Split a script into its statements, without their semicolons; what is only comments is left out."""
    ends = [match.start() for match in _TOKEN.finditer(text) if match[0] == ";"]
    starts = [0, *(end + 1 for end in ends)]
    parts = [text[start:end].strip() for start, end in zip(starts, [*ends, len(text)], strict=True)]
    return [part for part in parts if _COMMENT.sub("", part + "\n").strip()]


@cache  # our own files, of which there is a finite number; nothing else is ever looked up
def source(path: str) -> str:
    """Return the text of a file below `rowbus`, without its comments."""
    text = files("rowbus").joinpath(path).read_text(encoding="utf-8")
    return _COMMENT.sub("", text).strip()


@cache  # as above
def raw_source(path: str) -> str:
    """Return the text of a file below `rowbus` as it is."""
    return files("rowbus").joinpath(path).read_text(encoding="utf-8")


@cache  # our own folders
def names_in(folder: str) -> tuple[str, ...]:
    """Return the names of the SQL files of a folder below `rowbus`, in order; none if there is no such folder."""
    found = files("rowbus").joinpath(folder)
    return (
        tuple(sorted(file.name for file in found.iterdir() if file.name.endswith(".sql")))
        if found.is_dir()
        else ()
    )


def script(statement: Statement[object]) -> str:
    """Return a statement as psql takes it, its parameters written into it as literals; for people to read and run."""

    def bind(match: re.Match[str]) -> str:
        return sql.Literal(statement.parameters[match[1]]).as_string(None) if match[1] else "%"

    return _PARAMETER.sub(bind, statement.query.text.decode()) + ";"


def no_rows(_rows: Rows, _count: int) -> None:
    """Decode a statement that answers nothing."""


def affected(_rows: Rows, count: int) -> int:
    """Decode a statement whose answer is how many rows it touched."""
    return count


def scalar(rows: Rows, _count: int) -> Any:  # noqa: ANN401 - the type of a column is known to the caller only
    """Decode a statement whose answer is one value."""
    return rows[0][0]


def each(make: Callable[[Row], T]) -> Decode[list[T]]:
    """Return what decodes a statement whose answer is a value for each row."""
    return lambda rows, _count: [make(row) for row in rows]


class UserSession(Protocol):
    """The part of an `AsyncSession` that sending on a user's connection needs."""

    @property
    def connection(self) -> Any:  # noqa: ANN401 - each driver's own
        """The driver's connection."""
        raise NotImplementedError

    async def run(
        self, statement: Statement[T], *, then: Callable[[T], Sequence[Statement[object]]] | None = None
    ) -> T:
        """Run one statement and decode its answer, and `then` what follows from it: see `Session.run`."""
        raise NotImplementedError

    async def run_all(self, statements: Sequence[Statement[object]]) -> None:
        """Run several statements, answers unread."""
        raise NotImplementedError

    async def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Stream rows into a table's `copy`; all or nothing."""
        raise NotImplementedError

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Make what runs inside one transaction; within the caller's transaction, a savepoint."""
        raise NotImplementedError


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, in this thread, and return its result."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError(f"{work!r} waits, and nothing would end the wait.")


class Blocking(Protocol):
    """A session whose verbs block, as far as sending needs them: a `Session`."""

    @property
    def connection(self) -> Any:  # noqa: ANN401 - each driver's own
        """The driver's connection."""
        raise NotImplementedError

    def run(
        self, statement: Statement[T], *, then: Callable[[T], Sequence[Statement[object]]] | None = None
    ) -> T:
        """Run one statement and decode its answer.

        And `then` what follows from the answer: all or none, in few round trips. In a transaction of its own, or in the
        caller's, which stays usable when this fails: see `transaction`.
        """
        raise NotImplementedError

    def run_all(self, statements: Sequence[Statement[object]]) -> None:
        """Run several statements, answers unread."""
        raise NotImplementedError

    def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Stream rows into a table's `copy`; all or nothing."""
        raise NotImplementedError

    def transaction(self) -> AbstractContextManager[None]:
        """Make what runs inside one transaction; within the caller's transaction, a savepoint."""
        raise NotImplementedError


class BlockingSession(UserSession):
    """A synchronous session where an asynchronous one is asked for: its methods block."""

    def __init__(self, session: Blocking) -> None:
        """Stand for a session. No I/O."""
        self._session = session

    @property
    def connection(self) -> Any:  # noqa: ANN401 - each driver's own
        """The driver's connection."""
        return self._session.connection

    async def run(
        self, statement: Statement[T], *, then: Callable[[T], Sequence[Statement[object]]] | None = None
    ) -> T:
        """Run one statement and decode its answer, and `then` what follows from it: see `Session.run`."""
        return self._session.run(statement, then=then)

    async def run_all(self, statements: Sequence[Statement[object]]) -> None:
        """Run several statements, answers unread."""
        self._session.run_all(statements)

    async def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Stream rows into a table's `copy`; all or nothing."""
        self._session.copy(query, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Make what runs inside one transaction; within the caller's transaction, a savepoint."""
        with self._session.transaction():
            yield


class Runs(Protocol):
    """A runner of statements, such as a session."""

    async def run(self, statement: Statement[T]) -> T:
        """Run one statement and decode its answer."""
        raise NotImplementedError


async def run_steps(session: Runs, steps: Steps[T]) -> T:
    """Run the statements one after the other, each in the transaction that the session is in; return the result."""
    return await answer_steps(session.run, steps)


async def answer_steps(ask: Callable[[Statement[Any]], Awaitable[Any]], steps: Steps[T]) -> T:
    """Have each of the statements answered, one after the other; return the result."""
    answer: object = None
    while True:
        try:
            statement = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = await ask(statement)


def run_steps_now(session: Blocking, steps: Steps[T]) -> T:
    """Do what `run_steps` does, on a synchronous session."""
    return run_now(answer_steps(BlockingSession(session).run, steps))


async def run_as_one(session: UserSession, statements: Sequence[Statement[object]]) -> None:
    """Run statements, answers unread, in the caller's transaction, or several of them in one of their own."""
    if len(statements) == 1:
        await session.run(statements[0])
        return
    async with session.transaction():
        await session.run_all(statements)
