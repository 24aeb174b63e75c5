-- Forget who has claimed a value: this transaction, which has locked it, claims it anew.
-- Locks the row; the row count is the answer.
delete from :"schema".:"claims" as held
where held.value = :'value'::text
