-- Note that a process of one version of an endpoint's contract is there, unless one was so many minutes ago; and forget the
-- other versions of which none was seen for so many days.
-- Locks the row that it writes, and waits for others that write the same; of those that it deletes it passes over what
-- others have locked. The row count says whether it was noted.
with old as (
    delete from :"schema".:"contracts" as gone
    where gone.ctid = any(array(
        select contract.ctid
        from :"schema".:"contracts" as contract
        where
            contract.seen < now() - make_interval(days => :'days'::integer)
            and (contract.endpoint, contract.version) <> (:'endpoint'::text, :'version'::text)
        for update skip locked
    ))
)

insert into :"schema".:"contracts" as contract (endpoint, version, document)
select
    :'endpoint'::text as endpoint,
    :'version'::text as version,
    :'document'::text as document
where
    not exists (
        select
        from :"schema".:"contracts" as known
        where
            known.endpoint = :'endpoint'::text
            and known.version = :'version'::text
            and known.seen > now() - make_interval(mins => :'minutes'::integer)
    )
on conflict (endpoint, version) do update
    set seen = now()
