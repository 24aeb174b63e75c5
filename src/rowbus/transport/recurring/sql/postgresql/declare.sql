-- Note a schedule, or another text for one, with the tick that it waits for now; what is noted with this text stays.
-- Locks the row it writes, waiting for a transaction that sends its tick; the row count is the answer: 0 or 1.
insert into :"schema".:"recurring" as known (name, schedule, next_due)
values (:'name'::text, :'schedule'::text, :'next_due'::timestamptz)
on conflict (name) do update
set
    schedule = excluded.schedule,
    next_due = excluded.next_due
where known.schedule <> excluded.schedule
