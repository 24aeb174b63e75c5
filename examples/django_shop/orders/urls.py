"""The shop's pages: an order's row and its message are in one transaction."""

from __future__ import annotations

import json

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

import rowbus.django
from orders.endpoints import PlaceOrder
from orders.models import Order, Stock


@csrf_exempt
def stock(request: HttpRequest, item: str) -> HttpResponse:
    """Say how many of an item there are, after a PUT as many as it has."""
    if request.method == "PUT":
        Stock.objects.update_or_create(item=item, defaults={"left": json.loads(request.body)})
    return JsonResponse(get_object_or_404(Stock, item=item).left, safe=False)


@csrf_exempt
def order(request: HttpRequest, order_id: str) -> HttpResponse:
    """Say how far an order is; a POST saves it and has it handled: both, or neither."""
    if request.method == "POST":
        with transaction.atomic():
            placed = Order.objects.create(id=order_id, lines=json.loads(request.body))
            rowbus.django.client().send("Sales", PlaceOrder(order_id))
            if sum(placed.lines.values()) > 100:  # noqa: PLR2004 - more than the shop can carry
                raise ValueError("That is too much.")
    return JsonResponse(get_object_or_404(Order, id=order_id).state, safe=False)


urlpatterns = [path("stock/<item>", stock), path("orders/<order_id>", order)]
