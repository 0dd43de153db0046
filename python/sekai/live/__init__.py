"""Run an agent on a stream: feeds, brokers, a journal, a monitor."""
