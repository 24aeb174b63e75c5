-- Take a place of each key for the transaction: the first of so many advisory locks that no other transaction has. `keys`
-- are lines of one text.
-- Takes advisory locks until the transaction ends, and waits for none. Returns the keys all of whose places are taken.
select given.key
from unnest(string_to_array(:'keys'::text, chr(10)), :'numbers'::integer[]) as given (key, most)
where
    not exists (
        select place.number
        from generate_series(1, given.most) as place (number)
        where
            pg_try_advisory_xact_lock(
                hashtextextended('rowbus place ' || :'queue'::text || ' ' || given.key, place.number)
            )
    )
