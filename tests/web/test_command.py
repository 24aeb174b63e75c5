"""`rowbus web`, as the process that it is."""

from __future__ import annotations

import signal

import httpx
import pytest

from tests.fixtures.command_line import CommandLine, Running

pytestmark = pytest.mark.one_version

TICKET = r"at (http://127\.0\.0\.1:\d+)(/enter\?ticket=\S+)"


def served(rowbus: CommandLine, *options: str) -> tuple[Running, str, str]:
    running = rowbus.start("web", "--port", "0", *options)
    found = running.wait_for(TICKET)[0]
    return running, found[1], found[2]


def test_it_says_where_it_is_and_ends_by_a_signal(rowbus: CommandLine) -> None:
    running, address, path = served(rowbus)

    with httpx.Client(base_url=address) as client:
        assert client.get("/").status_code == 401
        assert client.get(path).status_code == 200
        assert "There is no queue" in client.get("/").text
        assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    running.wait_for(TICKET, times=2)
    running.tell(signal.SIGTERM)

    assert running.wait() == 0


def test_a_forwarded_address_makes_nobody_a_proxy(rowbus: CommandLine) -> None:
    running = rowbus.start("web", "--port", "0", "--trusted-header", "X-Remote-User", "--proxy", "10.9.8.7")
    address = running.wait_for(r"at (http://\S+) ")[0][1]

    told = {"x-remote-user": "ada", "x-forwarded-for": "10.9.8.7", "forwarded": "for=10.9.8.7"}
    assert httpx.get(f"{address}/", headers=told).status_code == 401


def test_a_port_in_use_is_said(rowbus: CommandLine) -> None:
    _, address, _ = served(rowbus)

    done = rowbus("web", "--port", address.rpartition(":")[2])

    assert done.returncode == 2
    assert "--port" in done.stderr


@pytest.mark.parametrize("option", [("--mask", "card"), ("--prometheus", "javascript:alert(1)")])
def test_a_setting_that_cannot_be_is_refused(rowbus: CommandLine, option: tuple[str, str]) -> None:
    done = rowbus("web", *option)

    assert done.returncode == 2
    assert "rowbus: " in done.stderr
