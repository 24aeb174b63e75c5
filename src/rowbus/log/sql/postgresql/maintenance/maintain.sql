-- Carry out a maintenance operation that takes no argument; its locks are those of the function called.
-- Returns its answer as text; `1` asks for another call.
select :"schema".:"function"()::text as answer
