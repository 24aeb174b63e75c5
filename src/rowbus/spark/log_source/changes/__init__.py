"""The option `changes`: the changes of one captured table, with its columns typed by the catalogue."""
