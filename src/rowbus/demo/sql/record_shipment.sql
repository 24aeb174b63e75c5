-- Record a parcel that the carrier has taken.
-- Locks no row that exists; returns nothing.
insert into rowbus_demo.shipments (order_id, country, tracking)
values (:'order_id', :'country', :'tracking')
