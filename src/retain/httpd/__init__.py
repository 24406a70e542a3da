"""What every door over HTTP shares: the wall, the address, the token and the process."""
