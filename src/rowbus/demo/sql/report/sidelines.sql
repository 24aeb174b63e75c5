-- Count what else is worth telling: charges that worked at a later attempt, questions asked, those answered in time.
-- Locks nothing; returns one row: retried, asked, answered.
select
    (select count(*) from rowbus_demo.payments where attempts > 1) as retried,
    (select count(*) from rowbus_demo.lines where express and problem is null) as asked,
    (select count(*) from rowbus_demo.estimates) as answered
