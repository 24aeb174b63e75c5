-- Have a value find one saga at most, in a table as NServiceBus.Persistence.Sql has it.
-- Locks writers out of the table while it is built; it is empty then. Returns nothing.
create unique index if not exists :"correlation_index"
on :"schema".:"shared_saga" using btree (:"correlation_column")
