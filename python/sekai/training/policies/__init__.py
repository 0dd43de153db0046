"""What decides: networks that read observations of any space and act in any space."""
