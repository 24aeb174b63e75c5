-- Create the positions inside batches: how far a batch too large for one transaction has been worked off.
-- A batch is shared among `bp_parts` workers by key; each has its own row, one worker alone is part 0 of 1.
-- Locks what is created; returns nothing.
create table if not exists pgq.batch_position (
    bp_batch bigint not null,
    bp_event bigint not null,
    bp_parts int4 not null default 1,
    bp_part int4 not null default 0,
    constraint batch_position_pkey primary key (bp_batch, bp_parts, bp_part)
);
