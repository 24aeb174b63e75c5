-- Say whether a batch is still in somebody's hands: not finished, not taken over, its consumer not repositioned.
-- Locks nothing. Returns one boolean.
select exists(select from pgq.subscription as s where s.sub_batch = :'batch'::bigint) as held
