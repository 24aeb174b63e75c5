"""Failed messages in Django's admin: a list for those who may view them, and a retry for those who may do that.

Django imports this when `django.contrib.admin` is in INSTALLED_APPS.

Invariant: nothing is deleted or edited here. A retry needs its own permission and a POST with Django's CSRF token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path

from rowbus import RowbusError
from rowbus.django import failures
from rowbus.django.models import FailedMessage

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from rowbus.transport.recoverability.error_queue import Result

    Base = admin.ModelAdmin[FailedMessage]
else:
    Base = admin.ModelAdmin  # generic for type checkers alone

RETRY = "rowbus.retry_failedmessage"


@admin.register(FailedMessage)
class FailedMessages(Base):
    """The list of failed messages, one table for each error queue."""

    def get_urls(self) -> list[Any]:
        """Return the one page there is."""
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name="rowbus_failedmessage_changelist")]

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        """Messages are not made here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002 - as above
        """Messages are not edited here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002 - as above
        """Messages are not deleted here."""
        return False

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Say whether this user may send messages back to where they failed."""
        user: Any = request.user  # of the project's own class
        return bool(user.has_perm(RETRY))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list, or retry what was selected in it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            self._retry(request)
            return HttpResponseRedirect(request.get_full_path())
        context = {
            **self.admin_site.each_context(request),
            "title": "Failed messages",
            "opts": self.opts,
            "queues": [failures.look(place) for place in failures.places().values()],
            "may_retry": self.has_retry_permission(request),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "rowbus/failed_messages.html", context)

    def _retry(self, request: HttpRequest) -> None:
        place = failures.places().get(request.POST.get("queue", ""))
        if place is None or not self.has_retry_permission(request):
            raise PermissionDenied
        ids = request.POST.getlist("id")
        if not ids:
            self.message_user(request, "Choose the messages to retry.", messages.WARNING)
            return
        try:
            result = failures.retry(place, ids)
        except RowbusError as error:
            self.message_user(request, str(error), messages.ERROR)
            return
        self._report(request, place, result, len(ids))

    def _report(self, request: HttpRequest, place: failures.Place, result: Result, asked: int) -> None:
        """Say what went back and what stayed, to the user and in the admin's history."""
        moved = [f"Sent {_count(count)} back to {queue}." for queue, count in result.moved.items()]
        for text in moved:
            self.message_user(request, text, messages.SUCCESS)
            self.log_change(request, FailedMessage(queue=place.key), text)
        for reason, count in result.stayed.items():
            self.message_user(request, f"{_count(count)} stayed: {reason}.", messages.WARNING)
        if gone := asked - result.moved.total() - result.stayed.total():
            self.message_user(request, f"{_count(gone)} had left the error queue already.", messages.WARNING)


def _count(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
