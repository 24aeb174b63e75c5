-- Carry out a maintenance operation on its argument, a log's name as a rule; what it locks is its own affair.
-- Returns its answer as text; `1` asks for another call.
select :"schema".:"function"(:'argument'::text)::text as answer
