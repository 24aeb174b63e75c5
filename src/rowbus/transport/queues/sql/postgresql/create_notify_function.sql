-- Create the trigger function that tells receivers of inserts by senders that do not notify (NServiceBus, plain SQL).
-- Locks nothing; returns nothing. The channel is the trigger's argument.
create or replace function :"schema".rowbus_notify()
returns trigger
language plpgsql
as $function$
begin
    perform pg_catalog.pg_notify(tg_argv[0], '');
    return null;
end
$function$
