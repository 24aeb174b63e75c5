-- List the versions of contracts that endpoints published, those of an endpoint together, the latest seen first.
-- Locks nothing; returns endpoint, version, document, and when it was published first and seen last.
select
    contract.endpoint,
    contract.version,
    contract.document,
    contract.published,
    contract.seen
from :"schema".:"contracts" as contract
order by contract.endpoint asc, contract.seen desc, contract.version asc
