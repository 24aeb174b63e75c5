from __future__ import annotations
import psycopg, pytest
@pytest.mark.parametrize("n", range(50))
def test_a(database: str, n: int) -> None:
    with psycopg.connect(database) as c:
        for j in range(4):
            c.execute(f"create table q{j}(id uuid, a text, b text, c bytea, seq bigserial primary key); create index on q{j}(id)")

@pytest.mark.one_version
@pytest.mark.durable
def test_b(database: str) -> None: 
    with psycopg.connect(database) as c: print(c.execute("show fsync").fetchone())
def test_c(crashable_server) -> None:
    crashable_server.kill(); crashable_server.start()
    with psycopg.connect(crashable_server.dsn) as c: print(c.execute("show fsync").fetchone())
    crashable_server.stop(); crashable_server.start()
    for i in range(5): crashable_server.kill(); crashable_server.start()
