-- Say whether one row is in the queue, be it in somebody's hands.
-- Locks nothing; returns one row with one boolean.
select
    exists(
        select from :"schema".:"queue" as message
        where message.id = :'row_id'::uuid
    )
