-- How far Bookkeeping is: a row for each batch that it has booked. Returns nothing.
create table rowbus_demo.books (
    batch bigint primary key,
    events bigint not null,
    behind interval not null
)
