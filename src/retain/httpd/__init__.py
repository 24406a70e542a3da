"""What every door over HTTP shares: security, the address, the token and the process."""
