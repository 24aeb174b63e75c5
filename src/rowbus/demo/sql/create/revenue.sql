-- What Bookkeeping keeps of the events: what was collected in each currency. Returns nothing.
create table rowbus_demo.revenue (
    currency text primary key,
    payments bigint not null,
    amount numeric not null
)
