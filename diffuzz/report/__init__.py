"""What a run came to, as data (``data``), for a terminal (``terminal``) and as finding files
(``files``). Everything is made from the same data, so that no two reports can disagree."""
