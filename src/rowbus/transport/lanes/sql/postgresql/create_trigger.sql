-- Have what is sent to a queue go to the lane that it names.
-- Takes an exclusive lock on the queue, for the length of the transaction; returns nothing.
create or replace trigger rowbus_lane
before insert on :"schema".:"queue"
for each row
execute function :"schema".rowbus_lane(:'kind', :'header', :'lanes')
