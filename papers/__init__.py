"""The three papers, line by line: what each shows, the command that does it here, and the figure that it gives."""
