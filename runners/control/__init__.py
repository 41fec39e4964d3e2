"""Control: validates commands against the books and appends them, and answers reads. It never decides a fire."""
