-- Forget those of some claims, which this transaction has locked, whose time is over, or whose message waits no more. To run
-- after the lock, as a statement of its own: so it sees the message of a claim that was renewed just before.
-- Locks the rows it deletes; the row count is the answer.
delete from :"schema".:"claims" as held
where
    held.value = any(:'locked_values'::text[])
    and case
        when held.free_at is not null then held.free_at <= clock_timestamp()
        else
            not exists (
                select from :"schema".:"queue" as waiting
                where waiting.id = held.row_id
            )
            and not exists (
                select from :"schema".:"delayed" as waiting
                where waiting.id = held.row_id
            )
    end
