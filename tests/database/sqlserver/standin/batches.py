"""A batch of T-SQL becomes a tree of statements: control flow is understood, queries stay tokens.

Statements end with a semicolon; after `if`, `else` and `while` comes one statement or a block.

Invariant: what is not understood is a query, and the rewriting complains of it; nothing is dropped.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

from tests.database.sqlserver.standin.tokens import Token, find, split, tokens


class Variable(NamedTuple):
    """A declared variable."""

    name: str
    type: list[Token]
    value: list[Token] | None


class Declare(NamedTuple):
    variables: list[Variable]


class Assign(NamedTuple):
    name: str
    value: list[Token]


class Option(NamedTuple):
    words: list[str]


class Block(NamedTuple):
    statements: list[Statement]


class If(NamedTuple):
    condition: list[Token]
    then: Statement
    otherwise: Statement | None


class Try(NamedTuple):
    body: Block
    catch: Block


class Transaction(NamedTuple):
    """`verb` is begin, commit, rollback or save."""

    verb: str
    name: str


class Execute(NamedTuple):
    """A procedure (or a text, without a name) with its arguments; `result` is the variable its answer goes to."""

    procedure: str
    arguments: list[list[Token]]
    result: str | None


class Other(NamedTuple):
    """throw, kill: the verb, and what follows."""

    verb: str
    rest: list[Token]


class Query(NamedTuple):
    parts: list[Token]


Statement: TypeAlias = Declare | Assign | Option | Block | If | Try | Transaction | Execute | Other | Query

_VERBS = (
    "declare set if begin exec execute throw commit rollback save select insert update delete create alter drop"
    " truncate grant kill"
)
_STARTS = frozenset(_VERBS.split())
_OTHER = frozenset({"throw", "kill"})


@lru_cache(maxsize=4096)
def parse(text: str) -> Block:
    """Understand a batch; raises SyntaxError where it cannot be. The same text is the same block: change none."""
    return _Parser(tokens(text)).batch()


class _Parser:
    def __init__(self, parts: list[Token]) -> None:
        self._parts = parts
        self._place = 0

    def batch(self) -> Block:
        found = self._statements(())
        if self._place < len(self._parts):
            raise SyntaxError(f"Incorrect syntax near '{self._parts[self._place].text}'.")
        return Block(found)

    # --- reading

    @property
    def _word(self) -> str:
        return self._ahead(0)

    def _ahead(self, count: int) -> str:
        place = self._place + count
        return self._parts[place].word if place < len(self._parts) else ""

    def _next(self) -> Token:
        if self._place >= len(self._parts):
            raise SyntaxError("Incorrect syntax at the end.")
        self._place += 1
        return self._parts[self._place - 1]

    def _take(self, *words: str) -> bool:
        if all(self._ahead(count) == word for count, word in enumerate(words)):
            self._place += len(words)
            return True
        return False

    def _until_end(self, *, before_statement: bool = False) -> list[Token]:
        """Take what belongs to this statement; with `before_statement`, to this condition."""
        start, depth, cases = self._place, 0, 0
        while self._place < len(self._parts):
            word = self._parts[self._place].word
            depth += (word == "(") - (word == ")")
            if (
                depth == 0
                and cases == 0
                and (word in {";", "end", "else"} or (before_statement and word in _STARTS))
            ):
                break
            cases += (word == "case") - (word == "end")
            self._place += 1
        return self._parts[start : self._place]

    # --- statements

    def _statements(self, end: tuple[str, ...]) -> list[Statement]:
        found = list[Statement]()
        while self._place < len(self._parts):
            if self._take(";"):
                continue
            if end and self._take(*end):
                self._take(";")
                break
            found.append(self._statement())
        return found

    def _statement(self) -> Statement:  # noqa: PLR0911 - one case for each kind
        match self._word:
            case "declare":
                return self._declare()
            case "set":
                return self._set()
            case "if":
                return self._if()
            case "begin":
                return self._begin()
            case "commit" | "rollback" | "save":
                return self._transaction()
            case "exec" | "execute":
                return self._execute()
            case word if word in _OTHER:
                self._next()
                return Other(word, self._until_end())
            case word if word in _STARTS:
                return Query(self._until_end())
        raise SyntaxError(f"Incorrect syntax near '{self._next().text}'.")

    def _declare(self) -> Declare:
        self._next()
        variables = list[Variable]()
        for piece in split(self._until_end()):
            name, rest = piece[0].text.lower(), piece[1:]
            rest = rest[1:] if rest[0].word == "as" else rest
            equals = find(rest, "=")
            value = None if equals is None else rest[equals + 1 :]
            variables.append(Variable(name, rest[:equals], value))
        return Declare(variables)

    def _set(self) -> Statement:
        self._next()
        if self._parts[self._place].kind != "variable":
            return Option([part.text.lower() for part in self._until_end()])
        name = self._next().text.lower()
        if not self._take("="):
            raise SyntaxError(f"Incorrect syntax near '{name}'.")
        return Assign(name, self._until_end())

    def _if(self) -> If:
        self._next()
        condition = self._until_end(before_statement=True)
        then = self._statement()
        place = self._place
        while self._take(";"):
            pass
        if self._take("else"):
            return If(condition, then, self._statement())
        self._place = place
        return If(condition, then, None)

    def _begin(self) -> Statement:
        self._next()
        if self._word in {"transaction", "tran"}:
            self._next()
            return Transaction("begin", self._name())
        if self._take("try"):
            body = Block(self._statements(("end", "try")))
            if not self._take("begin", "catch"):
                raise SyntaxError("Incorrect syntax near 'end try'.")
            return Try(body, Block(self._statements(("end", "catch"))))
        return Block(self._statements(("end",)))

    def _transaction(self) -> Transaction:
        verb = self._next().word
        _ = self._take("transaction") or self._take("tran") or self._take("work")
        return Transaction(verb, self._name())

    def _name(self) -> str:
        return "".join(part.text for part in self._until_end())

    def _execute(self) -> Execute:
        self._next()
        rest = self._until_end()
        result = None
        if len(rest) > 1 and rest[0].kind == "variable" and rest[1].word == "=":
            result, rest = rest[0].text.lower(), rest[2:]
        if rest[0].word == "(":
            return Execute("", [rest[1:-1]], result)
        return Execute(rest[0].text.lower(), split(rest[1:]), result)
