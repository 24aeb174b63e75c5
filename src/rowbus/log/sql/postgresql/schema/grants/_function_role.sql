-- Say which role may execute a function of schema pgq when privileges are split by role: the function's name decides.
-- Unnamed functions that run with their owner's rights are for pgq_admin; the rest can do no more than their caller.
-- Returns the role, or `public`; NULL for internal and generated functions, whose own files say who may call them, in
-- either style.
create or replace function pgq._function_role(i_name name, i_security_definer boolean)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when i_name in (
            'seq_getval', 'get_queue_info', 'get_consumer_info', 'quote_fqname', 'version',
            'notify_channel', 'get_queue_option'
        ) then 'public'
        when i_name in (
            'batch_event_sql', 'batch_event_tables', 'find_tick_helper', 'register_consumer',
            'register_consumer_at', 'unregister_consumer', 'next_batch', 'next_batch_info', 'next_batch_custom',
            'get_batch_events', 'get_batch_info', 'get_batch_cursor', 'event_retry', 'batch_retry', 'force_tick',
            'finish_batch', 'get_range_events', 'range_event_sql', 'find_tick_at', 'last_tick', 'events_retry',
            'events_dead', 'events_defer', 'waiting_retries', 'mark_batch', 'note_attempt', 'hold_marks',
            -- what batch_event_sql and batch_event_tables call with their caller's rights
            '_open_batch', '_find_batch', '_subscription_place', '_subscription_tail', '_range_sql', '_range_tables'
        ) then 'pgq_reader'
        when i_name in (
            'insert_event', 'insert_events', 'current_event_table', 'jsontriga', 'sqltriga', 'logutriga', 'tell_shape', 'note_release',
            '_await_rotation' -- which current_event_table calls
        ) then 'pgq_writer'
        when i_name in (
            '_grant_perms_from',
            '_companions_operations', '_is_trusted_owner', '_untrusted_owner' -- which maint_operations calls
        ) then 'pgq_admin'
        when i_name ~ '^(_|insert_event_[0-9]+$|captured_)' or i_name in (
            'capture_body', 'data_code', 'set_code', 'key_code', 'update_code', 'text_code', 'value_code', 'written_field',
            'differs_code', 'settings_code', 'concat_code', 'make_capture', 'make_captures', 'keep_capture', 'drop_captures', 'replace_generated_event',
            'append_change', 'tell_change', 'tell_shapes', 'tell_drop'
        ) then null
        when i_security_definer or i_name in (
            'ticker', 'maint_retry_events', 'maint_rotate_tables_step1', 'maint_rotate_tables_step2',
            'maint_tables_to_vacuum', 'maint_operations', 'upgrade_schema', 'grant_perms',
            'tune_storage', 'seq_setval', 'create_queue', 'drop_queue', 'set_queue_config', 'insert_event_raw',
            'event_retry_raw', 'set_grants'
        ) then 'pgq_admin'
        else 'public'
    end;
$$;
revoke execute on function pgq._function_role(name, boolean) from public;
