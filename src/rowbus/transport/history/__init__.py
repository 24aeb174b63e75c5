"""The past of queues, consumers and handlers: a row a minute for hours, a row an hour for weeks; a table of our own."""
