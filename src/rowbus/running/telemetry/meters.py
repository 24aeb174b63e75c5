"""Measurements for OpenTelemetry, where the program has set its metrics up: the same that Prometheus is shown.

Counters and gauges are read when the SDK collects; only histograms are told each value.

Invariant: the only module that imports OpenTelemetry's metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.metrics import Observation

from rowbus.running.telemetry.series import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider

    from rowbus.running.telemetry.series import Family

_NAMES: Final = {
    "rowbus_messages_handled": "messaging.client.consumed.messages",
    "rowbus_messages_sent": "messaging.client.sent.messages",
    "rowbus_processing_seconds": "messaging.process.duration",
}
"""Those that the conventions for messaging have."""

_LABELS: Final = {
    "endpoint": "messaging.destination.name",
    "log": "messaging.destination.name",
    "consumer": "messaging.consumer.group.name",
    "type": "rowbus.message.type",
}


def bridge(provider: MeterProvider, families: Iterable[Family]) -> None:
    """Have a provider of the program's hear of these families from now on."""
    meter = provider.get_meter("rowbus")
    for family in families:
        _instrument(meter, family)


def _instrument(meter: Meter, family: Family) -> None:
    name = _NAMES.get(family.name, family.name.replace("rowbus_", "rowbus.", 1))
    if isinstance(family, Histogram):
        recorder = meter.create_histogram(
            name, "s", family.help, explicit_bucket_boundaries_advisory=family.bounds
        )
        labels = [_LABELS.get(label, label) for label in family.labels]
        family.told = lambda value, values: recorder.record(value, dict(zip(labels, values, strict=True)))
        return
    if isinstance(family, Counter):
        meter.create_observable_counter(name, [_Reading(family)], description=family.help)
    elif isinstance(family, Gauge):
        meter.create_observable_gauge(name, [_Reading(family)], description=family.help)


class _Reading:
    """Reads a family when the SDK collects."""

    def __init__(self, family: Gauge) -> None:
        self._family = family

    def __call__(self, _options: CallbackOptions) -> Iterable[Observation]:
        for sample in self._family.samples():
            yield Observation(sample.value, {_LABELS.get(name, name): value for name, value in sample.labels})
