-- Keep everybody from a queue or a lane until the transaction ends. Waits for those that use it.
lock table :"schema".:"queue" in access exclusive mode
