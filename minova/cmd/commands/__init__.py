"""What minova-manage can do: one file for each of its nouns."""
