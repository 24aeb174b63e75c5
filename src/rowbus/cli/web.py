"""`rowbus web`: the operator's page.

Invariant: nothing of the page is loaded unless it is asked for. What lets a person in is an
address with a ticket, a proxy that says who is there, or an OpenID provider. The secret that this page shares
with a provider is never an option: other users of a machine see what commands were given.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.embedded import Embedded, require_consent
from rowbus.cli.options import Database, Verbose
from rowbus.cli.output import say, show_logs
from rowbus.errors import ConfigurationError
from rowbus.errors.extras import require
from rowbus.web.openid.settings import OpenIdConnect
from rowbus.web.settings import WebSettings
from rowbus.web.visitors import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PORT = 8642
DEFAULT = WebSettings()
SECRET_VARIABLE = "ROWBUS_OIDC_SECRET"  # noqa: S105 - the name of what has it

Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host", metavar="NAME", help="A name by which browsers reach the page, beside loopback's."
    ),
]
Header = Annotated[
    str,
    typer.Option(
        "--trusted-header",
        metavar="HEADER",
        help="The header in which a proxy says who is signed in: X-Remote-User.",
    ),
]
Proxies = Annotated[
    list[str] | None,
    typer.Option("--proxy", metavar="ADDRESS", help="A proxy whose header is trusted.  [default: loopback]"),
]
Operators = Annotated[
    list[str] | None,
    typer.Option(
        "--operator", metavar="NAME", help="A person who may act; others whom the proxy names may look."
    ),
]
Masks = Annotated[
    list[str] | None,
    typer.Option("--mask", metavar="PATH", help="What the page hides of bodies, such as '$.card.*'."),
]
Issuer = Annotated[
    str, typer.Option("--oidc-issuer", metavar="URL", help="People sign in here, by OpenID Connect.")
]
Client = Annotated[
    str, typer.Option("--oidc-client-id", metavar="ID", help="What the provider calls this page.")
]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--oidc-secret-file",
        metavar="PATH",
        help=f"Has the secret of this client.  [default: {SECRET_VARIABLE} in the environment]",
    ),
]
Claim = Annotated[
    str, typer.Option("--oidc-claim", metavar="NAME", help="Has the groups: realm_access.roles.")
]
OperatorGroups = Annotated[
    list[str] | None,
    typer.Option("--oidc-operator", metavar="GROUP", help="A group that may act; '*' is all who sign in."),
]
ViewerGroups = Annotated[
    list[str] | None,
    typer.Option("--oidc-viewer", metavar="GROUP", help="A group that may look; '*' is all who sign in."),
]
Scopes = Annotated[
    list[str] | None,
    typer.Option("--oidc-scope", metavar="SCOPE", help="To ask for beside openid, profile and email."),
]
PublicAddress = Annotated[
    str, typer.Option("--public-url", metavar="URL", help="Where browsers open the page, for the way back.")
]
Prometheus = Annotated[str, typer.Option("--prometheus", metavar="URL", help="Link to this one.")]
History = Annotated[
    bool, typer.Option("--history/--no-history", help="Note once a minute how queues and logs stand.")
]
MetricsToken = Annotated[
    str,
    typer.Option(
        "--metrics-token",
        metavar="TOKEN",
        envvar="ROWBUS_METRICS_TOKEN",
        show_envvar=True,
        help="What lets Prometheus read /metrics; better in the environment, which others do not see.",
    ),
]


def web(  # noqa: PLR0913 - options, each by keyword
    *,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = PORT,
    viewer: Annotated[bool, typer.Option("--viewer", help="Show, and change nothing.")] = False,
    mask: Masks = None,
    allow_host: Hosts = None,
    trusted_header: Header = "",
    proxy: Proxies = None,
    operator: Operators = None,
    oidc_issuer: Issuer = "",
    oidc_client_id: Client = "",
    oidc_secret_file: SecretFile = None,
    oidc_claim: Claim = "groups",
    oidc_operator: OperatorGroups = None,
    oidc_viewer: ViewerGroups = None,
    oidc_scope: Scopes = None,
    public_url: PublicAddress = "",
    history: History = True,
    prometheus: Prometheus = "",
    metrics_token: MetricsToken = "",
    embedded: Embedded = False,
    database: Database = None,
    verbose: Verbose = False,
) -> None:
    """Serve the operator's page, until SIGTERM or Ctrl-C.

    Prints an address with a ticket, which lets one browser in, and the next one when it has been used. Behind a proxy,
    --trusted-header takes the place of tickets; so does --oidc-issuer, with the account of a company. Needs the extra
    web, and for OpenID Connect oidc. Exit code 1: it could not listen.
    """
    require("web", "starlette", "uvicorn", "jinja2", what="rowbus web")
    settings = WebSettings(
        read_only=viewer,
        hosts=(*DEFAULT.hosts, host, *(allow_host or ())),
        trusted_header=trusted_header,
        proxies=tuple(proxy or DEFAULT.proxies),
        operators=tuple(operator or ()),
        openid=_openid(
            issuer=oidc_issuer,
            client_id=oidc_client_id,
            address=lambda: public_url or _own_address(host, port),
            secret_file=oidc_secret_file,
            claim=oidc_claim,
            operators=oidc_operator or (),
            viewers=oidc_viewer or (),
            scopes=oidc_scope or (),
        ),
        mask=tuple(mask or ()),
        history=history,
        prometheus=prometheus,
        metrics_token=metrics_token,
    )
    require_consent(database, given=embedded)
    show_logs(logging.DEBUG if verbose else logging.INFO)
    raise typer.Exit(_serve(database, settings, host, port))


def _serve(database: str | None, settings: WebSettings, host: str, port: int) -> int:
    from rowbus.web.serving import serve

    return serve(database, settings, host=host, port=port, say=say)


def _openid(
    *,
    issuer: str,
    client_id: str,
    address: Callable[[], str],
    secret_file: Path | None,
    claim: str,
    operators: Iterable[str],
    viewers: Iterable[str],
    scopes: Iterable[str],
) -> OpenIdConnect | None:
    """Return how people sign in with a company's account; None if nothing says so."""
    if not (issuer or client_id or operators or viewers):
        return None
    require("oidc", "authlib", "httpx2", what="OpenID Connect")
    return OpenIdConnect(
        issuer=issuer,
        client_id=client_id,
        address=address(),
        secret=_secret(secret_file),
        scopes=("openid", "profile", "email", *scopes),
        claim=claim,
        operators=tuple(operators),
        viewers=tuple(viewers),
    )


def _own_address(host: str, port: int) -> str:
    """Return where browsers on this machine open the page; other addresses must be given."""
    if host not in LOOPBACK or not port:
        raise ConfigurationError(
            "OpenID Connect needs --public-url: where browsers open the page, and the provider sends them back to."
        )
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _secret(file: Path | None) -> str:
    """Return the secret of the client at the provider; none for a public client."""
    if file is None:
        return os.environ.get(SECRET_VARIABLE, "")
    try:
        found = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The secret of OpenID Connect cannot be read: {error}") from error
    if not found:
        raise ConfigurationError(f"The secret of OpenID Connect is missing: {file} is empty.")
    return found
