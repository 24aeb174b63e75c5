"""A process whose program has set OpenTelemetry up: one trace from the sender over endpoints, a delay and a log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import psycopg
import pytest
from opentelemetry.baggage import get_baggage, set_baggage
from opentelemetry.context import Context, attach, detach
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import TraceFlags, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now
from rowbus.running.telemetry import instruments
from rowbus.running.telemetry.spans import Spans, _fail, extracted
from tests.conformance.transport import eventually
from tests.endpoint.otlp import receiving_traces
from tests.fixtures.every import every
from tests.fixtures.strangers import REFUSED, stranger
from tests.sagas.shop import OrderSaga, PlaceOrder

pytestmark = pytest.mark.one_version

ONCE = rowbus.EndpointSettings(concurrency=1)


class Traces:
    """Spans and measurements that an SDK was given."""

    def __init__(self, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
        self.tracer = provider.get_tracer("test")
        self._exporter = exporter

    def all(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str, message_type: str = "") -> ReadableSpan:
        (span,) = [
            span
            for span in self.all(name)
            if not message_type or (span.attributes or {}).get("rowbus.message.type") == message_type
        ]
        return span


@pytest.fixture
def traces() -> Iterator[Traces]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instruments.use(provider)
    yield Traces(provider, exporter)
    instruments.use(None)
    provider.shutdown()


def trace_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def send(database: str, kind: str) -> None:
    with psycopg.connect(database) as connection:
        rowbus.Client(connection).send("Sales", {}, type=kind)


@pytest.fixture
def sales(database: str) -> rowbus.Endpoint:
    endpoint = rowbus.Endpoint("Sales", database=database, settings=ONCE)

    @endpoint.handler("Start")
    async def start(_message: dict[str, object], context: rowbus.Context) -> None:
        await context.send("Shipping", {}, type="Ship")
        await context.send_local({}, type="Remind", delay=timedelta(milliseconds=50))
        await context.append("orders", {"order": 1}, type="placed")

    @endpoint.handler("Remind")
    async def remind(_message: dict[str, object]) -> None: ...

    @endpoint.handler("Fail")
    async def fail(_message: dict[str, object]) -> None:
        raise ValueError("no")

    return endpoint


@pytest.fixture
def shipping(database: str) -> rowbus.Endpoint:
    endpoint = rowbus.Endpoint("Shipping", database=database, settings=ONCE)

    @endpoint.handler("Ship")
    def ship(_message: dict[str, object]) -> None: ...

    return endpoint


async def test_a_trace_goes_over_two_endpoints_a_delay_and_a_log(
    database: str, traces: Traces, sales: rowbus.Endpoint, shipping: rowbus.Endpoint
) -> None:
    with Database(database).session() as session:
        install_now(session)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("select pgq.create_queue('orders')")
    log = rowbus.AsyncLog(database, "orders")

    @log.consumer("audit")
    async def audit(_event: rowbus.Event) -> None: ...

    async with shipping, sales, log, rowbus.Ticker(database):
        with traces.tracer.start_as_current_span("request") as request:
            send(database, "Start")
        await eventually(lambda: len(traces.all("settle Sales")) == 2 and bool(traces.all("process orders")))
        await eventually(lambda: bool(traces.all("settle Shipping")))

    ours = request.get_span_context().trace_id
    sent, handled = traces.one("send Sales", "Start"), traces.one("process Sales", "Start")
    assert parent_of(sent) == request.get_span_context().span_id
    assert parent_of(handled) == id_of(sent)
    shipped = traces.one("send Shipping")
    assert parent_of(shipped) == id_of(handled)
    assert parent_of(traces.one("process Shipping")) == id_of(shipped)
    for name in (
        "receive Shipping",
        "settle Shipping",
        "append orders",
        "process orders",
        "process Shipping",
    ):
        assert trace_of(traces.one(name)) == ours, name

    reminded = traces.one("process Sales", "Remind")  # which begins a trace of its own, as with NServiceBus
    assert trace_of(reminded) != ours
    assert [link.context.span_id for link in reminded.links] == [id_of(traces.one("send Sales", "Remind"))]
    assert traces.all("move Sales.Delayed")


async def test_a_receiver_of_otlp_gets_the_trace_over_the_wire(
    database: str, sales: rowbus.Endpoint, shipping: rowbus.Endpoint
) -> None:
    with Database(database).session() as session:
        install_now(session)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("select pgq.create_queue('orders')")
    log = rowbus.AsyncLog(database, "orders")

    @log.consumer("audit")
    async def audit(_event: rowbus.Event) -> None: ...

    def has_come() -> bool:
        return len(receiver.all("settle Sales")) == 2 and bool(
            receiver.all("process orders") and receiver.all("settle Shipping")
        )

    with receiving_traces() as receiver:
        provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(1)))
        provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(endpoint=receiver.url), schedule_delay_millis=50)
        )
        instruments.use(provider)
        try:
            async with shipping, sales, log, rowbus.Ticker(database):
                with provider.get_tracer("test").start_as_current_span("request"):
                    send(database, "Start")
                await eventually(has_come)
        finally:
            instruments.use(None)
            provider.shutdown()

    request, handled = receiver.one("request"), receiver.one("process Sales", "Start")
    for parent, name, message_type in (
        (request, "send Sales", "Start"),
        (receiver.one("send Sales", "Start"), "process Sales", "Start"),
        (handled, "send Shipping", ""),
        (receiver.one("send Shipping"), "process Shipping", ""),
        (handled, "append orders", ""),
        (receiver.one("append orders"), "process orders", ""),
        (handled, "send Sales", "Remind"),
    ):
        child = receiver.one(name, message_type)
        assert (child.trace_id, child.parent_span_id) == (request.trace_id, parent.span_id), name
    delayed = receiver.one("send Sales", "Remind")
    (link,) = receiver.one(
        "process Sales", "Remind"
    ).links  # a delayed one begins a trace of its own, as in .NET
    assert (link.trace_id, link.span_id) == (request.trace_id, delayed.span_id)


async def test_a_failure_is_on_the_span_of_its_attempt(
    database: str, traces: Traces, sales: rowbus.Endpoint
) -> None:
    async with sales:
        with psycopg.connect(database) as connection:  # a stranger's message, of no conversation
            connection.execute("""
                insert into "Sales" (id, headers, body)
                values (gen_random_uuid(), '{"NServiceBus.EnclosedMessageTypes":"Fail"}', '{}')
            """)
        await eventually(lambda: len(traces.all("process Sales")) >= 2)

    (first, *_) = traces.all("process Sales")
    assert (first.attributes or {})["error.type"] == "builtins.ValueError"
    assert first.attributes is not None
    assert first.attributes["messaging.system"] == "rowbus"
    assert first.attributes["messaging.operation.type"] == "process"
    assert first.attributes["messaging.destination.name"] == "Sales"
    assert first.attributes["messaging.message.conversation_id"] == ""


async def test_a_span_tells_of_the_saga_that_handles_its_message(
    database: str, traces: Traces, sales: rowbus.Endpoint
) -> None:
    sales.add(OrderSaga)
    async with sales:
        await sales.send_local(PlaceOrder("R1"))
        await eventually(lambda: bool(traces.all("process Sales")))
    with psycopg.connect(database) as connection:
        row = connection.execute('select id::text from "Sales.OrderSaga"').fetchone()
    told = traces.one("process Sales").attributes or {}
    assert (told["rowbus.saga.id"], told["rowbus.saga.type"]) == (*(row or ()), "Shop.Sagas.OrderSaga")


async def test_a_batch_is_received_and_settled_in_spans_that_link_to_its_messages(
    database: str, traces: Traces, sales: rowbus.Endpoint
) -> None:
    sales.settings = rowbus.EndpointSettings(concurrency=1, batch_size=10)
    await sales.install()
    with psycopg.connect(database) as connection:
        for _ in range(3):
            rowbus.Client(connection).send("Sales", {}, type="Remind")

    async with sales:
        await eventually(lambda: bool(traces.all("settle Sales")))

    settled = traces.one("settle Sales")
    assert {link.context.span_id for link in settled.links} == {
        id_of(one) for one in traces.all("send Sales")
    }
    assert (settled.attributes or {})["messaging.batch.message_count"] == 3


async def test_headers_travel_on_though_nothing_is_sampled(database: str, sales: rowbus.Endpoint) -> None:
    instruments.use(TracerProvider(sampler=ALWAYS_OFF))
    try:
        await sales.install()
        send(database, "Remind")
    finally:
        instruments.use(None)

    with psycopg.connect(database) as connection:
        (headers,) = connection.execute('select headers from "Sales"').fetchone() or ("",)
    found = re.search(r'"traceparent":"00-\w{32}-\w{16}-(\w\w)"', headers)
    assert found
    assert not int(found[1], 16) & TraceFlags.SAMPLED


async def test_round_trips_of_a_message_whose_trace_is_not_sampled_have_no_span(
    database: str, traces: Traces, sales: rowbus.Endpoint
) -> None:
    await sales.install()
    with psycopg.connect(database) as connection:
        for digits, flags in (("02", "00"), ("01", "01")):
            headers = {"traceparent": f"00-{digits * 16}-{'ab' * 8}-{flags}"}
            rowbus.Client(connection).send("Sales", {}, type="Remind", headers=headers)

    async with sales:
        await eventually(lambda: len(traces.all("settle Sales")) == 1)

    assert trace_of(traces.one("settle Sales")) == int("01" * 16, 16)
    assert trace_of(traces.one("receive Sales")) == int("01" * 16, 16)


def test_a_span_that_is_not_sampled_has_its_attributes_not_made() -> None:
    spans = Spans(TracerProvider(sampler=ALWAYS_OFF))

    def never() -> dict[str, str | int]:
        raise AssertionError("nobody sees them")

    headers: dict[str, str | None] = {}
    spans.send(headers, "Sales", name="send", attributes=never)
    with spans.process(headers, "Sales", never) as span:
        assert f"{span.get_span_context().trace_id:032x}" in str(headers["traceparent"])


def test_what_other_propagators_write_is_continued_and_written() -> None:
    spans = Spans(TracerProvider())
    given = {
        "traceparent": f"00-{'12' * 16}-{'34' * 8}-01",
        "tracestate": "vendor=1",
        "baggage": "tenant=blue",
    }

    context = extracted(given)
    with spans.process(given, "Sales", dict):
        headers: dict[str, str | None] = {}
        token = attach(set_baggage("tenant", "blue"))
        spans.send(headers, "Shipping", name="send", attributes=dict)
        detach(token)

    assert get_baggage("tenant", context) == "blue"
    assert headers["tracestate"] == "vendor=1"
    assert headers["baggage"] == "tenant=blue"
    carrier = {name: value for name, value in headers.items() if value}
    assert TraceContextTextMapPropagator().extract(carrier) != Context()
    assert f"{'12' * 16}" in str(headers["traceparent"])


async def test_baggage_is_in_the_handler_and_goes_on_with_what_that_adds(
    database: str, sales: rowbus.Endpoint, traces: Traces
) -> None:
    seen: list[tuple[object, ...]] = []

    @sales.handler("Shop.Begin")
    async def begin(message: dict[str, str], context: rowbus.Context) -> None:
        seen.append((get_baggage("tenant"),))
        await context.send_local({}, type="Shop.Same")
        token = attach(set_baggage("step", "2"))
        await context.send_local({}, type="Shop.More")
        detach(token)

    @sales.handler("Shop.Same", "Shop.More")
    async def end(message: dict[str, str], context: rowbus.Context) -> None:
        seen.append((get_baggage("tenant"), get_baggage("step"), context.headers["baggage"]))
        if len(seen) == 3:
            raise rowbus.Unrecoverable("no more")

    @sales.handler("Shop.None")
    async def without(message: dict[str, str]) -> None:
        seen.append((get_baggage("tenant"),))

    async with sales:
        await sales.send_local({}, type="Shop.Begin", headers={"baggage": "tenant=blue, other=a%20b"})
        await eventually(lambda: len(seen) == 3)
        await sales.send_local({}, type="Shop.None")
        await eventually(lambda: len(seen) == 4)
    assert seen[0] == ("blue",)
    assert seen[1] == ("blue", None, "tenant=blue, other=a%20b")
    assert seen[2][:2] == ("blue", "2")
    assert seen[3] == (None,)
    failed = [span for span in traces.all("process Sales") if "error.type" in (span.attributes or {})]
    assert [str((span.attributes or {})["rowbus.handler"]).rpartition(".")[2] for span in failed] == ["end"]


async def test_a_program_without_a_set_up_makes_no_spans(database: str, sales: rowbus.Endpoint) -> None:
    await sales.install()
    send(database, "Remind")

    with psycopg.connect(database) as connection:
        (headers,) = connection.execute('select headers from "Sales"').fetchone() or ("",)
    assert "traceparent" not in headers


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    instruments.bridge(provider)
    yield reader
    instruments.turn_off()
    provider.shutdown()


def values(reader: InMemoryMetricReader) -> dict[str, float]:
    found: dict[str, float] = {}
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    found[metric.name] = float(getattr(point, "value", getattr(point, "count", 0)))
    return found


async def test_opentelemetrys_metrics_are_told_too(
    database: str, reader: InMemoryMetricReader, sales: rowbus.Endpoint
) -> None:
    measured = instruments.instruments()
    assert measured is not None
    handled: Callable[[], bool] = lambda: bool(measured.handled.values)  # noqa: E731 - a condition
    async with sales:
        send(database, "Remind")
        await eventually(handled)

    found = values(reader)
    assert found["messaging.client.consumed.messages"] == 1
    assert found["messaging.client.sent.messages"] == 1
    assert found["messaging.process.duration"] == 1


async def test_functions_of_batches_are_counted_in_their_threads_and_each_has_its_span(
    database: str, reader: InMemoryMetricReader, traces: Traces
) -> None:
    settings = rowbus.EndpointSettings(concurrency=3, batch_size=20)
    endpoint = rowbus.Endpoint("Sales", database=database, settings=settings)
    measured, spans = instruments.instruments(), list[int]()
    assert measured is not None

    @endpoint.handler("Count")
    def count(_message: dict[str, object]) -> None:
        spans.append(get_current_span().get_span_context().span_id)

    await endpoint.install()
    with psycopg.connect(database) as connection:
        rowbus.Client(connection).send_many("Sales", [{}] * 300, type="Count")
    async with endpoint:
        await eventually(lambda: sum(measured.handled.values.values()) == 300)

    assert sum(measured.in_hand.values.values()) == 0
    assert set(spans) == {id_of(span) for span in traces.all("process Sales")}
    assert len(set(spans)) == 300
    assert values(reader)["messaging.process.duration"] == 300


@every("refused", REFUSED)
def test_a_span_tells_of_an_exception_that_raises_when_it_is_looked_at(traces: Traces, refused: str) -> None:
    span = traces.tracer.start_span(f"fail {refused}")
    _fail(span, stranger(refused)("out of stock"))
    span.end()

    told = traces.one(f"fail {refused}")

    assert told.status.description == "out of stock"
    (event,) = told.events
    assert (event.attributes or {})["exception.type"] == "tests.fixtures.strangers.Stranger"
