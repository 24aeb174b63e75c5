-- Say as which role this session works.
-- Locks nothing; returns one row: its name.
select current_user::text as role
