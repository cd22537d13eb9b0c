"""What runs every day: files in, decisions out, and the monitor."""
