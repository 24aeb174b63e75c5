-- Say whether this session's role may read a table of events, and which role it is.
-- Locks nothing. Returns one row.
select
    has_table_privilege(:'name'::text, 'select') as may_read,
    current_user::text as role_name
