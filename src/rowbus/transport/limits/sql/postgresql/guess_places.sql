-- Take a place of each message's key for the transaction, as take_places.sql, as messages are received, where the key can
-- be guessed: their type is one of `names`, whose one of `fields` (empty: they have one key) a JSON body has. One of
-- `numbers` places is tried, in each session another. A guess never fails; who receives looks whether it is right.
-- Takes advisory locks until the transaction ends, one too many for a wrong guess, and waits for none.
-- Returns what was received of each, and the key of which there is a place, or null.
select
    received.*, -- noqa: AM04
    case
        when
            pg_try_advisory_xact_lock(
                hashtextextended('rowbus place ' || :'endpoint'::text || ' ' || guess.key, guess.number)
            )
            then guess.key
    end as place
from :"queue" as received
cross join lateral (
    with known as materialized (
        select
            array_position(
                :'names'::text[],
                split_part(
                    split_part(split_part(received.headers, 'EnclosedMessageTypes":"', 2), '"', 1), ';', 1
                )
            ) as place
    )

    select
        1 + pg_backend_pid() % (:'numbers'::integer[])[known.place] as number,
        (:'names'::text[])[known.place] || case (:'fields'::text[])[known.place]
            when '' then ''
            else '/' || btrim(
                split_part(
                    split_part(
                        split_part(
                            encode(substring(received.body from 1 for 4096), 'escape'),
                            (:'fields'::text[])[known.place],
                            2
                        ),
                        ',',
                        1
                    ),
                    '}',
                    1
                ),
                ' "'
            )
        end as key
    from known
) as guess
