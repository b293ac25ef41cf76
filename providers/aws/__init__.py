"""AWS as a `Cloud`: what can be rented, renting it, following it, giving it back, and what it cost."""
