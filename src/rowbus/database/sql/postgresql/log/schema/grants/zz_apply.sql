-- Grant the use of what was just installed, in the style that is in force here; at first that is the old one.
-- Locks catalogue rows; returns nothing.
do $$
begin
    perform pgq.set_grants(
        case
            when has_function_privilege('public', 'pgq.insert_event(text, text, text)', 'execute') then 'old'
            else 'new'
        end
    );
end;
$$;
