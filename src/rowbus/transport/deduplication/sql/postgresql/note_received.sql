-- Note that messages are being processed as they are received, as accept.sql does, where their id can be guessed: a text
-- in the headers that needs no digest. A guess never fails; who receives looks whether it is right.
-- Waits for transactions that have just noted the same and have not ended, in the order of ids, so that two that wait for
-- each other are few; locks the rows it writes.
-- Returns what was received of each, no place, the guess, and whether that was noted now: true for all equal ones.
with guessed as materialized (
    select
        received.*, -- noqa: AM04
        null as place,
        split_part(split_part(received.headers, '"NServiceBus.MessageId":', 2), '"', 2) as guess
    from :"queue" as received
),

noted as (
    insert into :"schema".:"inbox" (message_key)
    select guessed.guess
    from guessed
    where
        length(guessed.guess) between 1 and 200
        and strpos(guessed.guess, chr(92)) = 0
        and not starts_with(guessed.guess, 'sha256:')
    order by guessed.guess
    on conflict (message_key) do nothing
    returning message_key
)

select
    guessed.*, -- noqa: AM04
    guessed.guess in (select noted.message_key from noted) as is_noted
from guessed
