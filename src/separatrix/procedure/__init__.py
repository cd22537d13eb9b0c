"""What was asked for, what could ship, what each promises, and which one ships."""
