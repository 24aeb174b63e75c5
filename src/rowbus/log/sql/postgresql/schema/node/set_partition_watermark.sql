-- Move a leaf that is merged into a branch to where the root of the combined queue says that its part is: that branch gets
-- the leaf's events from there, so that the leaf's own worker must not copy them once more.
-- Locks the worker's state until the transaction ends.
-- Returns 200, 201 if there is no such leaf, 401 if it has no worker.
create or replace function pgq_node.set_partition_watermark(
    in i_combined_queue_name text,
    in i_part_queue_name text,
    in i_watermark bigint,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    worker text;
begin
    select leaf.worker_name
    into worker
    from pgq_node.node_info as leaf
    join pgq_node.node_info as branch on branch.queue_name = leaf.combined_queue
    where leaf.queue_name = i_part_queue_name
        and leaf.node_type = 'leaf'
        and branch.queue_name = i_combined_queue_name
        and branch.node_type = 'branch';
    if not found then
        ret_code := 201;
        ret_note := 'Part-queue does not exist';
        return;
    end if;
    update pgq_node.local_state as s
    set last_tick_id = i_watermark
    where s.queue_name = i_part_queue_name and s.consumer_name = worker;
    if found then
        ret_code := 200;
        ret_note := 'Ok';
    else
        ret_code := 401;
        ret_note := 'Worker registration not found';
    end if;
end;
$$;
