package keyring

// Remembered returns how many tokens are remembered as verified.
func (r *Ring) Remembered() int {
	r.verified.mu.Lock()
	defer r.verified.mu.Unlock()
	return len(r.verified.newer) + len(r.verified.older)
}
