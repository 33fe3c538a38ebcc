"""What an audit says, numbers to words; pages, consoles and papers show it and add nothing."""
