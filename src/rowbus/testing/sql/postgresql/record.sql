-- Have a queue, or a table of delayed messages, note each message that is put into it, in the transaction that does.
-- Locks the table against writers while the trigger is made; returns nothing.
create or replace trigger rowbus_testing_note_sent after insert on :"schema".:"table"
for each row execute function rowbus_testing.note_sent(:'place')
