-- Pause something, or say anew why, and until when.
-- Locks the row it writes; the row count is the answer.
insert into :"schema".:"pauses" as pause (kind, name, person, why, until)
values (:'kind'::text, :'name'::text, :'person'::text, :'why'::text, :'until'::timestamptz)
on conflict (kind, name) do update
    set person = excluded.person, why = excluded.why, began = now(), until = excluded.until
