-- Note that a batch is booked: its size, and how old its oldest event is by now.
-- A batch that came twice would violate the primary key. Locks no row that exists; returns nothing.
insert into rowbus_demo.books (batch, events, behind)
values (:'batch', :'events', clock_timestamp() - :'oldest'::timestamptz)
