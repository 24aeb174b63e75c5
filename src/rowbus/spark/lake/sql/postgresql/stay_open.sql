-- Have this transaction last as long as files take to be written, whatever the role's settings say.
-- Locks nothing; returns nothing that matters.
select count(set_config(s.name, '0', true))
from pg_settings as s
where s.name in ('idle_in_transaction_session_timeout', 'statement_timeout', 'transaction_timeout')
