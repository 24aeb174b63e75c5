-- Count what else is worth telling: charges that worked when retried at once, later, and when put back; orders whose
-- payment was due, those reminded; questions asked, those answered in time.
-- Locks nothing; returns one row: retried, retried later, put back, due, reminded, asked, answered.
select
    (select count(*) from rowbus_demo.payments where attempts > 1) as retried,
    (select count(*) from rowbus_demo.payments where delayed_retries > 0) as retried_later,
    (select count(*) from rowbus_demo.put_back) as put_back,
    (select count(*) from rowbus_demo.reminders) as due,
    (select count(*) from rowbus_demo.reminders where sent) as reminded,
    (select count(*) from rowbus_demo.lines where express and problem is null) as asked,
    (select count(*) from rowbus_demo.estimates) as answered
