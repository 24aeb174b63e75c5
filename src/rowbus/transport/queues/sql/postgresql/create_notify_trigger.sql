-- Make every inserting statement on the queue wake its receivers when it commits.
-- Takes a short exclusive lock on the table; returns nothing. Duplicates within a transaction are sent once by the server.
create or replace trigger rowbus_notify
after insert on :"schema".:"queue"
for each statement
execute function :"schema".rowbus_notify(:'channel')
