-- Puts the generated code back that loading generated_event.sql has put out of use.
do $$
begin
    perform pgq.maint_capture();
end
$$;
