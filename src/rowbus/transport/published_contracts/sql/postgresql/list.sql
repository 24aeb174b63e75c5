-- List the versions of contracts that run: of each endpoint the latest seen first, and those seen in so many minutes before
-- it. Documents of more than `largest` bytes are left out, and the last ones if all have more than `most_bytes` together;
-- how long one is, is known without reading it.
-- Locks nothing; returns endpoint, version, document, and when it was published first and seen last.
select
    contract.endpoint,
    contract.version,
    contract.document,
    contract.published,
    contract.seen
from (
    select
        running.*,
        sum(octet_length(running.document)) over (
            order by running.endpoint asc, running.seen desc, running.version asc
        ) as bytes
    from (
        select
            kept.*,
            max(kept.seen) over (partition by kept.endpoint) as latest
        from :"schema".:"contracts" as kept
        where octet_length(kept.document) <= :'largest'::integer
    ) as running
    where running.seen >= running.latest - make_interval(mins => :'minutes'::integer)
) as contract
where contract.bytes <= :'most_bytes'::bigint
order by contract.endpoint asc, contract.seen desc, contract.version asc
