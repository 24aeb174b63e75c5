"""Tables of versions: of each row, from when until when it was so."""
