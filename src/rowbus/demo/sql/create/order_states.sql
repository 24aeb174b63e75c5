-- What Bookkeeping keeps of the events: how many orders are in which state. Returns nothing.
create table rowbus_demo.order_states (
    state text primary key,
    orders bigint not null
)
