-- Create the table of the values that unique messages for a queue have claimed: which message has a value, by the id of its
-- row; and until when, or null for as long as it waits.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07 or 23505.
create table if not exists :"schema".:"claims" (
    value text not null primary key,
    row_id uuid not null,
    message_id text not null,
    is_delayed boolean not null,
    free_at timestamptz,
    claimed_at timestamptz not null
) with (fillfactor = 50)
