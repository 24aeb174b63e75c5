"""Settings of the page: who may come in and what they may do.

Invariant: the defaults let people in from this machine alone, and only with a ticket.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rowbus.errors import ConfigurationError
from rowbus.web.contents import parse_path
from rowbus.web.openid.settings import OpenIdConnect
from rowbus.web.visitors import LOOPBACK

SHORTEST_SECRET: Final = 32
SHORTEST_PERIOD: Final = 0.05  # seconds; tests look often


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """The page's ways to let people in. Raises ConfigurationError for what cannot be."""

    read_only: bool = False
    """The page only shows: no person may act."""

    hosts: tuple[str, ...] = LOOPBACK
    """Names that a request's `Host` may have; `*` allows any, for an application that checks it itself."""

    trusted_header: str = ""
    """The header in which a proxy names who is signed in. A client that reaches the page past the proxy can forge it,
    so it counts only on connections from `proxies`."""

    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    """Addresses of the proxies whose header is trusted."""

    operators: tuple[str, ...] = ()
    """Names that are operators, of those a trusted header brings; none given: all of them."""

    openid: OpenIdConnect | None = None
    """People sign in with the account of their company, instead of by ticket or trusted header."""

    mask: tuple[str, ...] = ()
    """Paths of what the page hides of bodies, such as `$.card.*`."""

    secret: str = field(default="", repr=False)
    """Seals cookies and forms; the same in every process that serves the page. None given: each makes its own."""

    history: bool = True
    """Whether the page notes once a minute how queues and logs stand, in the table `Rowbus.History`; a page that only
    shows never does."""

    period: float = 4.0
    """Seconds between two looks at the database."""

    prometheus: str = ""
    """Address of a Prometheus that keeps more than the page does; the overview links to it."""

    metrics_token: str = field(default="", repr=False)
    """The bearer token by which Prometheus reads `/metrics`, and nothing else; none given: it has none."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.secret and len(self.secret) < SHORTEST_SECRET:
            raise ConfigurationError(f"The page's secret must have {SHORTEST_SECRET} characters or more.")
        if self.openid is not None and self.trusted_header:
            raise ConfigurationError(
                "Either a trusted header says who is there, or OpenID Connect: take one out."
            )
        if self.metrics_token and len(self.metrics_token) < SHORTEST_SECRET:
            raise ConfigurationError(
                f"The token for /metrics must have {SHORTEST_SECRET} characters or more."
            )
        if self.period < SHORTEST_PERIOD:
            raise ConfigurationError(
                f"The page's period must be {SHORTEST_PERIOD} s or more, not {self.period}."
            )
        if self.prometheus and not self.prometheus.startswith(("http://", "https://")):
            raise ConfigurationError("The address of Prometheus must begin with http:// or https://.")
        for path in self.mask:
            parse_path(path)
