"""Tables, figures and pages of plain data; nothing is computed here."""
