-- The error queue, readable: which message of which order failed where, when and why. Returns nothing.
create view rowbus_demo.failures as
select
    convert_from(error.body, 'UTF8')::json ->> 'order_id' as order_id,
    error.headers::json ->> 'NServiceBus.EnclosedMessageTypes' as message_type,
    error.headers::json ->> 'NServiceBus.ProcessingEndpoint' as endpoint,
    error.headers::json ->> 'NServiceBus.ExceptionInfo.ExceptionType' as exception,
    error.headers::json ->> 'NServiceBus.ExceptionInfo.Message' as explanation
from rowbus_demo.error
