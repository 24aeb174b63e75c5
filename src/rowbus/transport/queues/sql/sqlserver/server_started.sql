-- Say when the server was started, which is when it made tempdb: another time than before means that what was in hand
-- was lost with the server. Locks nothing; returns one row with one time.
select create_date
from sys.databases
where name = N'tempdb';
