-- Say whether one row is in the queue, also when it is in flight.
-- Locks nothing; returns one row with one boolean.
select
    exists(
        select from :"schema".:"queue" as message
        where message.id = :'row_id'::uuid
    )
