-- Create the table that says which queues could not be rotated when it was time, since when and why; a row goes when its
-- queue rotates. Locks what is created; returns nothing.
create table if not exists pgq.rotation_block (
    rb_queue int4 not null,
    rb_since timestamptz not null default now(),
    rb_reason text not null,
    rb_detail text,
    constraint rotation_block_pkey primary key (rb_queue),
    constraint rotation_block_queue_fkey
    foreign key (rb_queue) references pgq.queue (queue_id) on delete cascade
);
