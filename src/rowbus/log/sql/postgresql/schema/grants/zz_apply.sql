-- Grant the use of what was just installed: by role where the schema is new, else in the style that is in force here.
-- structure/010_roles.sql has noted which it is.
-- Locks catalogue rows; returns nothing.
do $$
begin
    perform pgq.set_grants(
        case
            when current_setting('rowbus.log_is_new', true) = 'true' then 'new'
            when has_function_privilege('public', 'pgq.insert_event(text, text, text)', 'execute') then 'old'
            else 'new'
        end
    );
    perform set_config('rowbus.log_is_new', '', false);
end;
$$;
