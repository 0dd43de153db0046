"""Who is told while an agent learns."""
