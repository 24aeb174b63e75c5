-- Say for each queue when its tables were rotated last, how often they should be, and what has kept them from it since
-- when. Locks nothing.
create or replace view pgq.rotation_status as
select
    q.queue_name,
    q.queue_rotation_period as rotation_period,
    q.queue_switch_time as switched_at,
    q.queue_cur_table as current_table,
    q.queue_switch_step2 is null as between_steps,
    b.rb_since as blocked_since,
    b.rb_reason as reason,
    b.rb_detail as detail
from pgq.queue as q
left join pgq.rotation_block as b on q.queue_id = b.rb_queue;
