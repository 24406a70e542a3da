"""What a page and the operations of its subject both need, below them."""
