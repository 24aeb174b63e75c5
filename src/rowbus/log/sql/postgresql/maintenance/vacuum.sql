-- Vacuum a table, and analyse it too if `analyze` says true. Not inside a transaction. Blocks no reader and no
-- writer. Returns nothing.
vacuum (analyze :'analyze') :"schema".:"table"
