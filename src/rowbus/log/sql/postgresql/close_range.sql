-- Close the cursor that open_range.sql opened.
-- Locks nothing; returns nothing.
close :"cursor"
