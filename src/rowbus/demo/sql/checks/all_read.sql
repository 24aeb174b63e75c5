-- Every line of the file was read. Checked: lines that the file has. Wrong: by how many we differ from that.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    :'lines'::bigint as checked,
    abs(:'lines'::bigint - count(*)) as wrong,
    case when count(*) <> :'lines'::bigint then format('%s were read', count(*)) end as example
from rowbus_demo.lines
