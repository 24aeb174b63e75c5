-- Say in which style the use of schema pgq is granted: `old`, everything to PUBLIC, or `new`, by role.
-- Locks nothing; returns one row with one text.
select
    case
        when has_function_privilege('public', 'pgq.insert_event(text, text, text)', 'execute') then 'old'
        else 'new'
    end as style
