-- Carry out a maintenance operation on its argument, a log's name as a rule; its locks are those of the function
-- called.
-- Returns its answer as text; `1` asks for another call.
select :"schema".:"function"(:'argument'::text)::text as answer
