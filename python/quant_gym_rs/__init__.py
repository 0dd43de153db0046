"""The Rust core of sekai."""
