-- Return the id of a consumer's name, creating it if it is new; safe while another session creates it.
-- Locks the name until the transaction ends, against its removal.
create or replace function pgq_coop._consumer_id(i_name text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    consumer_id int4;
begin
    loop
        select c.co_id into consumer_id from pgq.consumer as c where c.co_name = i_name for update;
        if found then
            return consumer_id;
        end if;
        insert into pgq.consumer (co_name) values (i_name) on conflict (co_name) do nothing;
    end loop;
end;
$$;
