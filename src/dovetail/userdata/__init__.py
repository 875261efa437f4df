"""Files of the user: folders, private files and locks."""
