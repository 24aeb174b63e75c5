"""Write src/rowbus/demo/orders.ndjson, the orders of `make demo`.

    python examples/make_orders.py

Random, but from a seed: the same file, byte for byte, on every machine (a test compares). The odds below decide how
many orders go wrong, and how; three lines are not orders at all, as in files edited by hand.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import rowbus.demo
from rowbus.demo.sales import CURRENCIES, PRODUCTS

T = TypeVar("T")

SEED = 2026
ORDERS = 2000
FILE = Path(rowbus.demo.__file__).with_name("orders.ndjson")

# Country, its currency, and how many in a thousand customers live there.
COUNTRIES = [
    ("AT", "EUR", 60), ("BE", "EUR", 40), ("CH", "CHF", 70), ("DE", "EUR", 240), ("DK", "DKK", 40), ("ES", "EUR", 60),
    ("FI", "EUR", 30), ("FR", "EUR", 120), ("GB", "GBP", 90), ("IT", "EUR", 70), ("JP", "JPY", 20), ("NL", "EUR", 50),
    ("NO", "NOK", 30), ("PL", "PLN", 30), ("SE", "SEK", 30), ("US", "USD", 20),
]  # fmt: skip
GIVEN_NAMES = """
    Ada Agnes Akira Alma Anders Anna Aylin Björn Chiara Clara Daniel Dörte Elif Emil Eva Fatima Felix François Greta
    Hanna Hiroshi Ida Ines Jan José Jürgen Karin Lars Léa Linda Luca Łukasz Maja Marie Mehmet Mia Milan Nadia Noah
    Oskar Pía Rosa Søren Tom Ulla Viktor Yuki Zoë
"""
FAMILY_NAMES = """
    Andersen Bauer Bianchi Brown Dubois Fischer García Hansen Ivanova Jansen Johansson Kowalski Lindqvist Martin Meier
    Moreau Müller Murphy Nagy Nowak O'Brien Petrov Rossi Sato Schneider Silva Smith Suzuki Tanaka Virtanen Weber Öztürk
"""
PAYMENTS = [
    ("visa", 36),
    ("mastercard", 30),
    ("maestro", 8),
    ("amex", 6),
    ("apple-pay", 12),
    ("google-pay", 8),
]

# What goes wrong, in how many of a thousand orders; see rowbus/demo/partners.py and sales.py.
TROUBLES = [
    ("tok_insufficient_funds", 25), ("tok_expired_card", 12), ("tok_stolen_card", 4), ("tok_slow_bank", 12),
    ("tok_broken_bank", 3), ("antarctica", 3), ("quantity", 5), ("product", 6), ("currency", 3),
    ("tok_sleepy_bank", 6), ("none", 921),
]  # fmt: skip


def main() -> None:
    """Write the file."""
    arguments = argparse.ArgumentParser(description="Write a file of orders for `rowbus demo`.")
    arguments.add_argument("--orders", type=int, default=ORDERS, help="how many (default: %(default)s)")
    arguments.add_argument(
        "--seed", type=int, default=SEED, help="another seed, other orders (default: %(default)s)"
    )
    arguments.add_argument(
        "--output", type=Path, default=FILE, help="the file to write (default: %(default)s)"
    )
    chosen = arguments.parse_args()
    text = "".join(lines(chosen.orders, chosen.seed))
    chosen.output.write_text(text, encoding="utf-8", newline="\n")
    print(f"Wrote {text.count(chr(10)):,} lines to {chosen.output}.")


def lines(orders: int = ORDERS, seed: int = SEED) -> Iterator[str]:
    """Yield the lines of the file: so many orders, and after some of them a line that is none."""
    rng = random.Random(seed)
    for number in range(1, orders + 1):
        text = json.dumps(order(rng, number), ensure_ascii=False, separators=(",", ":"))
        yield f"{text}\n"
        if number == orders // 4:
            yield f"{text[: len(text) // 2]}\n"  # cut off in the middle
        if number == orders // 2:
            yield f"{text}\n"  # sent twice
        if number == orders * 3 // 4:
            yield '{"order_id":"A-0","customer":"nobody"}\n'  # half of it missing


def order(rng: random.Random, number: int) -> dict[str, object]:
    """Make one order; most of them are fine."""
    country, currency = pick(rng, [((country, currency), weight) for country, currency, weight in COUNTRIES])
    made: dict[str, object] = {
        "order_id": f"A-{100_000 + number}",
        "customer": f"{rng.choice(GIVEN_NAMES.split())} {rng.choice(FAMILY_NAMES.split())}",
        "country": country,
        "currency": currency,
        "items": items(rng, currency),
        "payment": {"method": pick(rng, PAYMENTS), "token": f"tok_{rng.getrandbits(48):012x}"},
        "express": pick(rng, [(True, 25), (False, 75)]),
    }
    return spoil(rng, made, pick(rng, TROUBLES))


def items(rng: random.Random, currency: str) -> list[dict[str, object]]:
    """Choose one to four products, mostly one piece of each."""
    count = pick(rng, [(1, 50), (2, 30), (3, 15), (4, 5)])
    return [item(rng, product, currency) for product in rng.sample(sorted(PRODUCTS), count)]


def item(rng: random.Random, product: str, currency: str) -> dict[str, object]:
    """Make one item, at the catalogue's price in the customer's currency."""
    price = (PRODUCTS[product][1] * CURRENCIES[currency]).quantize(Decimal("0.01"))
    return {"product": product, "quantity": pick(rng, [(1, 80), (2, 15), (3, 5)]), "unit_price": str(price)}


def spoil(rng: random.Random, made: dict[str, object], trouble: str) -> dict[str, object]:
    """Let one thing be wrong with an order."""
    wrong: dict[str, dict[str, object]] = {
        "antarctica": {"country": "AQ"},
        "currency": {"currency": "XTS"},
        "quantity": {"items": [{"product": "SOC-04", "quantity": -rng.randint(0, 3), "unit_price": "22.00"}]},
        "product": {"items": [{"product": "CAR-99", "quantity": 1, "unit_price": "39999.00"}]},
        "none": {},
    }
    card: dict[str, object] = {"payment": {"method": "visa", "token": trouble}}
    return {**made, **wrong.get(trouble, card)}


def pick(rng: random.Random, weighted: Sequence[tuple[T, int]]) -> T:
    """Choose one, by weight."""
    return rng.choices([choice for choice, _weight in weighted], [weight for _choice, weight in weighted])[0]


if __name__ == "__main__":
    main()
