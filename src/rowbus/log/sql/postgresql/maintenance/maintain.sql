-- Carry out a maintenance operation that takes no argument; what it locks is its own affair.
-- Returns its answer as text; `1` asks for another call.
select :"schema".:"function"()::text as answer
