-- Have the statements of this transaction see one state of the database.
-- Must be the first of its transaction; locks nothing; returns nothing.
set local transaction_isolation = 'repeatable read'
