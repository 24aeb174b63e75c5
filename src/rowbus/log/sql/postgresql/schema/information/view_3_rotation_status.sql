-- Show for each queue when its tables were rotated last, how often they should be, and what blocks rotation since when:
-- the reason that step 1 has noted, or a step 2 of the last rotation that is still missing when the next is due. Locks
-- nothing.
create or replace view pgq.rotation_status as
select
    q.queue_name,
    q.queue_rotation_period as rotation_period,
    q.queue_switch_time as switched_at,
    q.queue_cur_table as current_table,
    q.queue_switch_step2 is null as between_steps,
    coalesce(b.rb_since, halted.since) as blocked_since,
    coalesce(b.rb_reason, halted.reason) as reason,
    coalesce(b.rb_detail, halted.detail) as detail
from pgq.queue as q
left join pgq.rotation_block as b on q.queue_id = b.rb_queue
left join lateral (
    select
        q.queue_switch_time + q.queue_rotation_period as since,
        'step 2 of the last rotation is outstanding' as reason,
        'pgq.maint_rotate_tables_step2() does it, which the ticker''s maintenance calls' as detail
    where q.queue_switch_step2 is null and q.queue_switch_time + q.queue_rotation_period < now()
) as halted on true;
