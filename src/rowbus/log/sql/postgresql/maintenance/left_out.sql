-- List the functions that maintenance leaves out because it does not trust their owners with its rights (see
-- pgq._untrusted_owner), and these owners.
-- Locks nothing; returns a row a function: name, owners.
select distinct
    f.name,
    pgq._untrusted_owner(f.name) as owners
from (
    select unnest(q.queue_extra_maint) as name
    from pgq.queue as q
    union all
    select o.name
    from (
        values ('pgq_node.maint_watermark'), ('londiste.root_check_seqs'), ('londiste.periodic_maintenance')
    ) as o (name)
) as f
where pgq._untrusted_owner(f.name) is not null
order by f.name
