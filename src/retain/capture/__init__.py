"""What a session leaves behind: transcripts read, scored, and proposed as memories."""
