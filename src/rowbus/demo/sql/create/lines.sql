-- The file, line by line, as the web shop has read it. `problem` says why a line is no order; such a line was not sent.
-- `rush`: it came with hundreds of others at once; `token` is its card. Returns nothing.
create table rowbus_demo.lines (
    line integer primary key,
    order_id text,
    problem text,
    token text,
    express boolean not null,
    rush boolean not null,
    read_at timestamptz not null default now()
)
