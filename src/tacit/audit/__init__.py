"""Is a number what it says? Checks of a method under a protocol that need no faith in either."""
