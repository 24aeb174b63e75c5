"""Spans of messages and events, by OpenTelemetry's semantic conventions for messaging (version 1.44, development).

Source: opentelemetry.io, "Semantic conventions for messaging spans"; for what travels, W3C's "Trace Context" and
docs/wire-format.md#tracing.

Most spans are not sampled, so what only a sampled one needs is made for it alone: `attributes` is called when a span
records. Its sampler sees the system, the operation and the destination. A message's round trips have spans where its
sender's trace is sampled.

Invariant: the only module that imports OpenTelemetry's traces; what cannot be read in a header begins a new trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.baggage import get_all
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.span import TraceState

from rowbus.errors.strangers import is_a, text_of, type_name

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from opentelemetry.trace import Span, TracerProvider

SYSTEM: Final = "rowbus"
MOST_LINKS: Final = 128  # what SDKs keep of a span by default

_TRACEPARENT: Final = "traceparent"  # these names are W3C's
_TRACESTATE: Final = "tracestate"
_BAGGAGE: Final = "baggage"
_BAGGAGES: Final = W3CBaggagePropagator()
_NOWHERE: Final = Context()
_CONSUMER: Final = SpanKind.CONSUMER
_PARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_IN_TEXT: Final = re.compile(
    r'"traceparent"\s*:\s*"(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf])"'
)  # sampled

Attributes = dict[str, str | int]
Facts = Callable[[], Attributes]


class Current:
    """A span that is the current one inside a `with`, and ends with it; an exception makes it a failed one.

    It is a class because a generator costs more: most of the cost of an unsampled span is code that the processor loads
    again, since the round trip to the server came in between.
    """

    __slots__ = ("_context", "_span", "_token")

    def __init__(self, span: Span, context: Context | None = None) -> None:
        """Take a span that has begun, and what is current beside it; None: as it is."""
        self._span = span
        self._context = context

    def __enter__(self) -> Span:
        """Make it the current one."""
        self._token = attach(trace.set_span_in_context(self._span, self._context))
        return self._span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """End it."""
        if error is not None:
            _fail(self._span, error)
        detach(self._token)
        self._span.end()


class Spans:
    """Makes spans with one provider."""

    def __init__(self, provider: TracerProvider) -> None:
        """Ask the provider for our tracer."""
        self._tracer = provider.get_tracer("rowbus")

    def send(
        self, headers: MutableMapping[str, str | None], destination: str, *, name: str, attributes: Facts
    ) -> None:
        """Make the span of a message that is composed, and have its headers carry it on.

        The span is a child of the one that is current: of the handler's, or of the request that is served.
        """
        span = self._tracer.start_span(
            f"{name} {destination}",
            kind=SpanKind.PRODUCER,
            attributes=_attributes("send", name, destination),
        )
        if span.is_recording():
            span.set_attributes(attributes())
        _inject(span.get_span_context(), headers)
        span.end()

    def process(
        self,
        carrier: Mapping[str, str | None],
        destination: str,
        attributes: Facts,
        *,
        anew: bool = False,
    ) -> Current:
        """Make the span of what handles a message, a child of its sender's; `anew`: in a trace of its own.

        It is the current span inside a `with` of what is returned, and ends with it.
        """
        context, links = extracted(carrier), None
        if anew:
            parent = trace.get_current_span(context).get_span_context()
            links = [Link(parent)] if parent.is_valid else None
            context = _detached(context)
        name, always = _processing(destination)
        span = self._tracer.start_span(name, context, _CONSUMER, always, links)
        if span.is_recording():
            span.set_attributes(attributes())
        return Current(span, _with_baggage(carrier.get(_BAGGAGE)))

    def tell(self, attributes: Attributes) -> None:
        """Add to the span that is current, if it records."""
        span = trace.get_current_span()
        if span.is_recording():
            span.set_attributes(attributes)

    def batch(
        self,
        operation: str,
        destination: str,
        texts: Sequence[str],
        started: int,
        *,
        error: BaseException | None = None,
        name: str = "",
    ) -> None:
        """Make the span of what was done with messages together, from `started` (ns since 1970) to now.

        `texts` are the messages' header texts: the span is a child of a single one's sender, and links to several.
        Messages of senders that do not trace, or whose trace is not sampled, have none: nothing would lead to it.
        """
        parents = [parent for text in texts if (parent := _parent_in(text)) is not None]
        if not parents:
            return
        attributes = dict(_attributes(operation, name or operation, destination))
        if len(texts) > 1:
            attributes["messaging.batch.message_count"] = len(texts)
        alone = len(texts) == 1 and bool(parents)
        span = self._tracer.start_span(
            f"{name or operation} {destination}",
            context=_context_of(parents[0]) if alone else Context(),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=[] if alone else [Link(parent) for parent in parents[:MOST_LINKS]],
            start_time=started,
        )
        if error is not None:
            _fail(span, error)
        span.end()

    @contextmanager
    def events(
        self, operation: str, log: str, parents: Iterable[str | None], attributes: Attributes
    ) -> Generator[Span]:
        """Make the current span of what handles events, with links to those that appended them."""
        found = [parent for text in parents if (parent := _parent(text)) is not None]
        alone = len(found) == 1 and operation == "process"
        with self._tracer.start_as_current_span(
            f"{operation} {log}",
            context=_context_of(found[0]) if alone else Context(),
            kind=SpanKind.CONSUMER if operation == "process" else SpanKind.CLIENT,
            attributes={**_attributes(operation, operation, log), **attributes},
            links=[] if alone else [Link(parent) for parent in found[:MOST_LINKS]],
        ) as span:
            yield span

    def work(self, name: str, started: int, attributes: Attributes) -> None:
        """Make the span of a service's own work, from `started` (ns since 1970) to now, in a trace of its own."""
        given: Attributes = {"messaging.system": SYSTEM, **attributes}
        self._tracer.start_span(name, context=Context(), attributes=given, start_time=started).end()

    def past(
        self,
        operation: str,
        destination: str,
        attributes: Attributes,
        period: tuple[int, int],
        parts: Mapping[str, tuple[int, int]],
    ) -> None:
        """Make the span of what is over, in a trace of its own, and those of its parts, by their operations.

        Periods are nanoseconds since 1970.
        """
        span = self._past(operation, destination, period, Context())
        if span.is_recording():
            span.set_attributes(attributes)
            context = trace.set_span_in_context(span, Context())
            for part, times in parts.items():
                self._past(part, destination, times, context).end(times[1])
        span.end(period[1])

    def _past(self, operation: str, destination: str, period: tuple[int, int], context: Context) -> Span:
        return self._tracer.start_span(
            f"{operation} {destination}",
            context=context,
            kind=SpanKind.CONSUMER if operation == "process" else SpanKind.CLIENT,
            attributes=_attributes(operation, operation, destination),
            start_time=period[0],
        )

    def append(self, log: str, event_type: str) -> str | None:
        """Make the span of an event that is appended, and return it as the event is to carry it."""
        headers: dict[str, str | None] = {}
        self.send(headers, log, name="append", attributes=lambda: {"rowbus.event.type": event_type})
        return headers.get(_TRACEPARENT)


def extracted(carrier: Mapping[str, str | None]) -> Context:
    """Return the trace that headers carry on, an empty one where they carry none."""
    text, baggage = carrier.get(_TRACEPARENT), carrier.get(_BAGGAGE)
    context = _NOWHERE
    if text and (parent := _parent(text, carrier.get(_TRACESTATE))) is not None:
        context = _context_of(parent)
    return _BAGGAGES.extract({_BAGGAGE: baggage}, context) if baggage else context


def _inject(span: SpanContext, headers: MutableMapping[str, str | None]) -> None:
    """Have headers carry a span on, with the current baggage; what did not change keeps its text."""
    if span.is_valid:
        headers[_TRACEPARENT] = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
        if span.trace_state:
            headers[_TRACESTATE] = span.trace_state.to_header()
    current = get_all()
    if current and current != get_all(_with_baggage(headers.get(_BAGGAGE), _NOWHERE)):
        carrier: dict[str, str] = {}
        _BAGGAGES.inject(carrier)
        headers.update(carrier)


def _with_baggage(text: str | None, context: Context | None = None) -> Context | None:
    """Return a context, None for the current one, with the baggage that a message brings."""
    return _BAGGAGES.extract({_BAGGAGE: text}, context) if text else context


def _detached(context: Context) -> Context:
    """Return a context with the baggage of another, and without its span."""
    return trace.set_span_in_context(trace.INVALID_SPAN, context)


def _parent_in(text: str) -> SpanContext | None:
    """Find the trace's parent in the text of a message's headers, which is not decoded for it."""
    found = _IN_TEXT.search(text)
    return None if found is None else _parent(found[1])


def _parent(text: str | None, state: str | None = None) -> SpanContext | None:
    found = _PARENT.fullmatch(text or "")
    if found is None:
        return None
    flags = trace.TraceFlags(int(found[3], 16))
    held = TraceState.from_header([state]) if state else None
    context = SpanContext(
        int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=flags, trace_state=held
    )
    return context if context.is_valid else None


def _context_of(parent: SpanContext) -> Context:
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), _NOWHERE)


@lru_cache(1024)
def _attributes(operation: str, name: str, destination: str) -> Mapping[str, str | int]:
    """Return what all spans of one operation have, one object for all of them: SDKs copy it."""
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.type": operation,
        "messaging.operation.name": name,
        "messaging.destination.name": destination,
    }


@lru_cache(1024)
def _processing(destination: str) -> tuple[str, Mapping[str, str | int]]:
    """Return the name of the spans of a queue's messages, and what all of them have."""
    return f"process {destination}", _attributes("process", "process", destination)


def _fail(span: Span, error: BaseException) -> None:
    kind = type(error)
    if is_a(error, Exception):
        _record(span, error)
    span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}")
    span.set_status(Status(StatusCode.ERROR, text_of(error)[:200]))


def _record(span: Span, error: BaseException) -> None:
    """Record an exception; one of which Python can make no traceback, by what it says."""
    try:
        span.record_exception(error)
    except BaseException:  # noqa: BLE001 - code of the user's
        span.add_event("exception", {"exception.type": type_name(error), "exception.message": text_of(error)})
