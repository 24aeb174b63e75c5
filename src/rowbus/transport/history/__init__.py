"""How queues, consumers and handlers stood: a row a minute for hours, a row an hour for weeks; a table of our own."""
