"""Pauses and scales: what operators have paused, and how much of an endpoint is to run, why and until when.

Forms pause and scale, buttons end both.

Invariant: each says who made it and why; what is paused is shown on the overview, too.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError
from rowbus.transport.pauses.table import (
    MOST,
    PauseKind,
    ScaleKind,
    pause_now,
    paused,
    pauses_address,
    pauses_table,
    scale_now,
    scale_subject,
    scaled,
    subject_of,
)
from rowbus.transport.queues.catalog.looking import is_there
from rowbus.web.pages import Action, Page, Question, View, change

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses
    from rowbus.transport.pauses.table import PauseSubject
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

KINDS: Final = {
    "endpoint": "Sales",
    "queue": "Sales",
    "consumer": "LOG/CONSUMER",
    "recurring": "ENDPOINT/NAME",
    "type": "ENDPOINT/TYPE",
}
"""Kinds of things that can be paused, and how each is called."""


SCALES: Final = {
    "concurrency": "messages at a time in each process",
    "workers": "processes of each rowbus run --workers",
    "limit": "of ENDPOINT/TYPE in hand, everywhere",
}
"""Kinds of things that can be scaled, and what the number counts."""


def _ends(minutes: str) -> datetime | None:
    return datetime.now(UTC) + timedelta(minutes=int(minutes)) if minutes else None


def _pause(
    session: Session, addresses: Addresses, what: PauseSubject, *, person: str, why: str, minutes: str
) -> int:
    address = pauses_address(addresses)
    return pause_now(session, address, what, person=person, why=why, until=_ends(minutes))


def _scale(
    session: Session,
    addresses: Addresses,
    what: PauseSubject,
    *,
    amount: int,
    person: str,
    why: str,
    minutes: str,
) -> int:
    address = pauses_address(addresses)
    return scale_now(session, address, what, amount, person=person, why=why, until=_ends(minutes))


def _resume(session: Session, addresses: Addresses, what: PauseSubject) -> int:
    table = pauses_table(pauses_address(addresses))
    return session.run(table.resume(what)) if is_there(session, table) else 0


async def _show(visit: Visit) -> Response:
    addresses = visit.site.addresses
    found, scales = await visit.read(paused, addresses), await visit.read(scaled, addresses)
    may_change = visit.may_operate and await visit.read(_may_change, addresses)
    return visit.render(
        "pauses.html", pauses=found, scales=scales, may_change=may_change, kinds=KINDS, scale_kinds=SCALES
    )


def _may_change(session: Session, addresses: Addresses) -> bool:
    table = pauses_table(pauses_address(addresses)) if addresses.backend == "postgresql" else None
    return table is not None and session.run(table.can_be_changed())


def _meant(visit: Visit) -> PauseSubject:
    """Return what a form means; raises ConfigurationError, and InvalidAddressError for a queue that cannot be one."""
    kind, name = visit.form.get("kind", ""), visit.form.get("name", "").strip()
    if kind not in KINDS:
        raise ConfigurationError("Say what is meant, and its name.")
    return subject_of(PauseKind(kind), name, visit.site.addresses)


def _reason(visit: Visit) -> tuple[str, str]:
    """Return why, and for how many minutes; raises ConfigurationError."""
    why, minutes = visit.form.get("why", "").strip(), visit.form.get("minutes", "").strip()
    if not why or "\0" in why:
        raise ConfigurationError("Say why: others will ask.")
    if minutes and not (minutes.isascii() and minutes.isdigit() and len(minutes) < 6):  # noqa: PLR2004 - 69 days
        raise ConfigurationError("The minutes are a number, or nothing: until somebody resumes it.")
    return why, minutes


async def _ask_to_pause(visit: Visit) -> Question:
    what, (why, minutes) = _meant(visit), _reason(visit)
    return Question(
        title=f"Pause the {what.kind} {what.name}?",
        text="What is in hand is finished; nothing more is begun, in any process and also after a restart, until "
        + (f"{minutes} minutes have passed, or it is resumed." if minutes else "it is resumed."),
        button="Pause it",
        subject=f"{what.kind} {what.name}: {why}",
    )


async def _do_pause(visit: Visit, operation: Operation) -> str:
    what, (why, minutes), addresses = _meant(visit), _reason(visit), visit.site.addresses
    told, place = f"The {what.kind} {what.name} is paused.", str(pauses_address(addresses))
    named = {"person": operation.who, "why": why, "minutes": minutes}
    return await change(visit, operation, place, lambda _: told, _pause, addresses, what, **named)


def _meant_to_scale(visit: Visit) -> PauseSubject:
    """Return what a form scales; raises ConfigurationError, and InvalidNameError for what no endpoint can be called."""
    kind, name = visit.form.get("kind", ""), visit.form.get("name", "").strip()
    if kind not in SCALES:
        raise ConfigurationError("Say what is meant: concurrency, workers or limit.")
    return scale_subject(ScaleKind(kind), name, visit.site.addresses)


def _amount(visit: Visit) -> int:
    amount = visit.form.get("amount", "").strip()
    if not (
        amount.isascii() and amount.isdigit() and len(amount) <= len(str(MOST)) and 1 <= int(amount) <= MOST
    ):
        raise ConfigurationError(f"Say how many: a number from 1 to {MOST}.")
    return int(amount)


async def _ask_to_scale(visit: Visit) -> Question:
    what, amount, (why, minutes) = _meant_to_scale(visit), _amount(visit), _reason(visit)
    return Question(
        title=f"Scale {what.name}: {what.kind} {amount}?",
        text=f"{amount} {SCALES[what.kind]}, within two seconds and also after a restart, until "
        + (f"{minutes} minutes have passed, or it is ended. " if minutes else "it is ended. ")
        + "What is in hand is finished.",
        button="Scale it",
        subject=f"{what.kind} of {what.name}: {amount}, {why}",
    )


async def _do_scale(visit: Visit, operation: Operation) -> str:
    what, amount, (why, minutes) = _meant_to_scale(visit), _amount(visit), _reason(visit)
    told, addresses = f"Endpoint {what.name}: {what.kind} {amount}.", visit.site.addresses
    scale = partial(_scale, amount=amount, person=operation.who, why=why, minutes=minutes)
    place = str(pauses_address(addresses))
    return await change(visit, operation, place, lambda _: told, scale, addresses, what)


async def _ask_to_end_scale(visit: Visit) -> Question:
    what = _meant_to_scale(visit)
    return Question(
        title=f"End the scale of {what.name}?",
        text=f"In all processes: {what.kind} as the program says, within two seconds.",
        button="End it",
        subject=f"{what.kind} of {what.name}",
    )


async def _do_end_scale(visit: Visit, operation: Operation) -> str:
    what, addresses = _meant_to_scale(visit), visit.site.addresses

    def tell(count: int) -> str:
        return f"Endpoint {what.name}: {what.kind} {'' if count else 'already '}as its program says."

    return await change(visit, operation, str(pauses_address(addresses)), tell, _resume, addresses, what)


async def _ask_to_resume(visit: Visit) -> Question:
    what = _meant(visit)
    return Question(
        title=f"Resume the {what.kind} {what.name}?",
        text="All processes go on within two seconds.",
        button="Resume it",
        subject=f"{what.kind} {what.name}",
    )


async def _do_resume(visit: Visit, operation: Operation) -> str:
    what, addresses = _meant(visit), visit.site.addresses

    def tell(count: int) -> str:
        return f"The {what.kind} {what.name} is {'resumed' if count else 'not paused any more'}."

    return await change(visit, operation, str(pauses_address(addresses)), tell, _resume, addresses, what)


PAGE: Final = Page(
    "Pauses",
    (View("pauses", "/pauses", _show),),
    (
        Action("pauses.add", "/pauses/add", "pause", _ask_to_pause, _do_pause),
        Action("pauses.end", "/pauses/end", "resume", _ask_to_resume, _do_resume),
        Action("pauses.scale", "/pauses/scale", "scale", _ask_to_scale, _do_scale),
        Action("pauses.unscale", "/pauses/unscale", "end a scale", _ask_to_end_scale, _do_end_scale),
    ),
)
