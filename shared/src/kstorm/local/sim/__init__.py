"""`./run sim`: schedules by the thousand, on all processors; what they met, and what of the code they rarely reached."""
