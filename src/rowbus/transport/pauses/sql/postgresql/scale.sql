-- Have so much of an endpoint run, or say anew how much, why, and until when.
-- Locks the row it writes; the row count is the answer.
insert into :"schema".:"pauses" as pause (kind, name, person, why, until, amount)
values (
    :'kind'::text,
    :'name'::text,
    :'person'::text,
    :'why'::text,
    :'until'::timestamptz,
    :'amount'::integer
)
on conflict (kind, name) do update
    set
        person = excluded.person,
        why = excluded.why,
        began = now(),
        until = excluded.until,
        amount = excluded.amount
