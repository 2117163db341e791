"""Word count, the main job: `topology` counts the words, `tables` says what the Spark pipeline makes of the counts."""
