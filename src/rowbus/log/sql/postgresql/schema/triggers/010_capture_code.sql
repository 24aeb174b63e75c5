-- The code that maint_capture has generated: one row for each table, format and arguments of the triggers in this
-- database. cc_shape is the table's shape the code was made for, cc_function the function that holds it.
create table if not exists pgq.capture_code (
    cc_table oid not null,
    cc_format text not null,
    cc_args text[] not null,
    cc_shape text not null,
    cc_function text not null,
    constraint capture_code_pkey primary key (cc_table, cc_format, cc_args)
);
