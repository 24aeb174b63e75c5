-- Show that this session is a worker's of a member: so the next process of the member's name can end it, and so can a
-- member that takes its batch over.
-- Takes three shared session advisory locks, which no session takes alone; never waits. Returns true.
select
    pg_try_advisory_lock_shared(hashtextextended(:'lock_name'::text, 0))
    and pg_try_advisory_lock_shared(hashtextextended(:'members_lock'::text, 0))
    and pg_try_advisory_lock_shared(
        hashtextextended(
            jsonb_build_array(
                'rowbus member', :'log'::text, format('%s.%s', :'consumer'::text, :'subconsumer'::text)
            )::text,
            0
        )
    ) as shown
