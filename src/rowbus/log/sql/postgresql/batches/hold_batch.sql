-- Say whether a batch is still held: not finished, not taken over, its consumer not moved.
-- Locks nothing. Returns one boolean.
select exists(select from pgq.subscription as s where s.sub_batch = :'batch'::bigint) as held
