-- Close the cursor that ranges/open.sql opened.
-- Locks nothing; returns nothing.
close :"cursor"
