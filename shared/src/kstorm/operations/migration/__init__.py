"""Take over what runs on Storm: its offsets, and a comparison of both outputs."""
