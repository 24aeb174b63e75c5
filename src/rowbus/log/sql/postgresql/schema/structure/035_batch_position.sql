-- Create the positions inside batches: how far a batch too large for one transaction has been worked off.
-- A batch is shared among `bp_parts` workers by key; each has its own row, one worker alone is part 0 of 1.
-- A note beside a position says that the events up to `bp_tried` have been begun since, and how often they had been
-- lost before: with their connection, or with their process. It goes when they are done.
-- Locks what is created; returns nothing.
create table if not exists pgq.batch_position (
    bp_batch bigint not null,
    bp_event bigint not null,
    bp_parts int4 not null default 1,
    bp_part int4 not null default 0,
    constraint batch_position_pkey primary key (bp_batch, bp_parts, bp_part)
);
alter table pgq.batch_position add column if not exists bp_tried bigint;
alter table pgq.batch_position add column if not exists bp_losses int4;
